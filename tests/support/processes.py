"""Run functions in processes of their own, to race them and to kill them.

Each child is a fresh interpreter, never a fork: the table format keeps threads, and a forked child
inherits their locks without the threads that would release them. A child imports everything first,
reports that it is ready, and waits at a gate, so that all runners of a race start together.

The function is named by its module, which may be a test file that no import statement reaches.
Arguments and results travel as pickles; a child that fails sends the text of its exception.
"""

import importlib
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Final, Generic, ParamSpec, TypeVar, cast

from omnigraph.effects import REAL
from omnigraph.pandas_guard import OWN_PROCESS

READY: Final = b"ready\n"
GO: Final = b"go\n"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised. `kind` is the name of the error's class."""

    kind: str
    report: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended without an answer: killed, or it could not even start."""

    exit_code: int
    report: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    report: str


Result = Returned[T] | Raised | Died | TimedOut


class Process(Generic[T]):
    """One child, running or about to. Make one with `launch`."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    def await_ready(self) -> None:
        """Wait until the child stands at the gate, or is dead."""
        _pipe(self._child.stdout).readline()

    def begin(self) -> None:
        """Open the gate."""
        try:
            _pipe(self._child.stdin).write(GO)
            _pipe(self._child.stdin).flush()
        except BrokenPipeError:
            """It died at the gate; `finish` tells."""

    def kill(self) -> None:
        """As a power cut would: no handler runs, nothing is flushed."""
        self._child.kill()

    def finish(self, timeout_s: float) -> Result[T]:
        """What came of it. A child that takes longer is killed."""
        try:
            answer, said = self._child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            _, said = self._child.communicate()
            return TimedOut(said.decode(errors="replace"))
        if not answer:
            return Died(self._child.returncode, said.decode(errors="replace"))
        return cast("Result[T]", pickle.loads(answer))


def launch(function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> Process[T]:
    """Start a child that will call a module's function, and waits at the gate until `begin`."""
    module = inspect.getmodule(function)
    assert module is not None, "a function of a module, so that the child can find it"
    request = pickle.dumps((function.__qualname__, arguments, keywords))
    path = os.pathsep.join(each for each in sys.path if each)
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, module.__name__, inspect.getfile(function)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A process of ours, as that of a command is: it starts in two thirds of the time.
        env={
            **os.environ,
            OWN_PROCESS: "1",
            "PYTHONPATH": path,
            "PYTHONWARNINGS": "default",
        },
    )
    _pipe(child.stdin).write(len(request).to_bytes(8, "big") + request)
    _pipe(child.stdin).flush()
    return Process(child)


def race(runners: Sequence[Process[T]], *, timeout_s: float = 300) -> list[Result[T]]:
    """Open all gates at once, when the last runner is there; what came of each."""
    for runner in runners:
        runner.await_ready()
    for runner in runners:
        runner.begin()
    # All at once: a child with much to say blocks until somebody listens.
    with ThreadPoolExecutor(max(1, len(runners))) as listeners:
        return list(listeners.map(lambda runner: runner.finish(timeout_s), runners))


def values_of(results: Sequence[Result[T]]) -> list[T]:
    """What every one of them returned. Raises AssertionError with each that did not."""
    failures = [each for each in results if not isinstance(each, Returned)]
    assert not failures, "\n".join(f"{type(each).__name__}: {each.report}" for each in failures)
    return [each.value for each in results if isinstance(each, Returned)]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


# ── inside the child ─────────────────────────────────────────────────────────────────────────────


def serve(module_name: str, file: str) -> None:
    """What a child does: read the request, stand at the gate, answer."""
    # Whatever is printed must not mix with the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests = sys.stdin.buffer
    size = int.from_bytes(requests.read(8), "big")
    packed = requests.read(size)
    found: object = _load(module_name, file)
    name, arguments, keywords = pickle.loads(packed)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
    answers.write(READY)
    answers.flush()
    if requests.readline() != GO:
        return
    result: Result[object]
    try:
        result = Returned(found(*arguments, **keywords))
    except Exception as error:  # noqa: BLE001 - reported, whatever it is
        result = Raised(type(error).__name__, traceback.format_exc())
    answers.write(pickle.dumps(result))
    answers.flush()


def _load(name: str, file: str) -> ModuleType:
    """The module under the name its parent knows it by, so that pickles of its classes fit.

    A script is `__main__` to its parent, which here is somebody else; its classes cannot travel.
    """
    if name == "__main__":
        name = "__launched__"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


if __name__ == "__main__":
    # Under its importable name, or the classes of the answer would belong to `__main__`.
    importlib.import_module("support.processes").serve(*sys.argv[1:])


# ── watching processes that are not ours ─────────────────────────────────────────────────────────

PATIENCE_MS: Final = 120_000


def wait_until(is_so: Callable[[], object], what: str = "that") -> None:
    """Other processes have to do it."""
    until_ms = REAL.monotonic_ms() + PATIENCE_MS
    while not is_so():
        assert REAL.monotonic_ms() < until_ms, f"{what} did not come about"
        REAL.sleep_ms(50)


def find_below(pid: int) -> list[int]:
    """The processes a process started, and those that these started."""
    listed = subprocess.run(
        ["/bin/ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found: list[int] = []
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        some = [child for child, parent in pairs if parent == above]
        found += some
        waiting += some
    return found


def find_sparks(pid: int) -> list[int]:
    """The Java machines below a process that run Spark, and not the program that launches it."""
    return [
        each for each in find_below(pid) if b"org.apache.spark.deploy.SparkSubmit" in _said(each)
    ]


def find_workers(pid: int) -> list[int]:
    """The processes below one that run tasks of Spark."""
    return [each for each in find_below(pid) if b"pyspark.daemon" in _said(each)]


def _said(pid: int) -> list[bytes]:
    """The words of a process' command; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
