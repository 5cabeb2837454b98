"""A command that the helper runs behaves as a fresh process does; without a helper it runs anyway.

Every test talks to real processes. Where a test says «warm», the helper's own count proves it.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.warm.control import HelperStatus, find_helper
from omnigraph.cli.warm.place import find_socket

COMMAND = [sys.executable, "-m", "omnigraph"]
QUERY = "query q() { match { $p: P } return { $p.name } order { $p.name } }"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A graph, and a private folder for sockets; paths of sockets have to be short."""
    with tempfile.TemporaryDirectory(prefix="og", dir="/tmp") as name:
        path = Path(name)
        (path / "run").mkdir(mode=0o700)
        graph = omnigraph.init(str(path / "g"), "node P { name: String @key }")
        graph.insert("P", [{"name": "ada"}])
        yield path


@pytest.fixture(autouse=True)
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder / "home"))
    monkeypatch.delenv("OMNIGRAPH_WARM", raising=False)
    monkeypatch.chdir(folder)


@pytest.fixture
def helper(folder: Path) -> HelperStatus:
    """A helper; the tests share it as long as it lives."""
    assert (folder / "run").is_dir()
    done = run("up", "--json")
    assert done.returncode == 0, done.stderr
    found = find_helper()
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the pipes of the commands that a test started."""
    yield
    while _started:
        process = _started.pop()
        for each in (process.stdin, process.stdout, process.stderr):
            if each is not None:
                with suppress(BrokenPipeError):
                    each.close()
        process.wait(PATIENCE_S)


_started: "list[subprocess.Popen[str]]" = []


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Commands inherit what is ignored, and who runs tests in the background ignores some."""
    ignored = [
        each for each in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_IGN
    ]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)


@pytest.fixture(scope="module", autouse=True)
def _ended(folder: Path) -> Iterator[None]:
    yield
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder / "run")}
    subprocess.run([*COMMAND, "down"], check=True, env=environment, capture_output=True)


def run(
    *words: str, through: Sequence[str] = (), **options: object
) -> "subprocess.CompletedProcess[str]":
    """A command to its end; `through` is a program that starts it."""
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*through, *COMMAND, *words], capture_output=True, text=True, check=False, **options
    )


def start(*words: str, through: Sequence[str] = (), **options: object) -> "subprocess.Popen[str]":
    """A command in a process group of its own: a group without a parent in its session, as that of
    tests without a terminal may be, cannot be stopped by SIGTSTP.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(  # type: ignore[call-overload]
        [*through, *COMMAND, *words], text=True, process_group=0, **pipes | options
    )
    _started.append(process)
    return process  # type: ignore[no-any-return]


def count() -> int:
    found = find_helper()
    assert found is not None, "the helper has ended"
    return found.commands


def wait_for(what: str, fact: object) -> None:
    assert callable(fact)
    end = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.02)  # noqa: TID251 - real processes take real time


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def begin_load(
    helper: HelperStatus, through: Sequence[str] = ()
) -> "tuple[subprocess.Popen[str], int]":
    """A warm command that waits for its standard input, and the process that runs it."""
    before = set(children_of(helper.pid))
    words = ("load", "--store", "g", "--data", "-", "--mode", "merge", "--quiet")
    process = start(*words, through=through)
    return process, await_child(helper, before)


def await_child(helper: HelperStatus, before: set[int]) -> int:
    """The process of a new command, as soon as it has opened the graph."""
    wait_for("the child", lambda: set(children_of(helper.pid)) - before)
    (child,) = set(children_of(helper.pid)) - before
    wait_for("the command", lambda: "lance_backgroun" in threads_of(child))
    return child


def threads_of(pid: int) -> set[str]:
    return {each.read_text().strip() for each in Path(f"/proc/{pid}/task").glob("*/comm")}


SAME = [
    ["version"],
    ["--version"],
    ["query", "--store", "g", "-e", QUERY],
    ["query", "--store", "g", "-e", QUERY, "--format", "csv"],
    ["query", "--store", "g", "-e", "query q() { match { $p: X } return { $p.name } }"],
    ["query", "--store", "g", "-e", "query", "--json"],
    ["query", "--store", "nowhere", "-e", QUERY],
    ["query", "--no-such-flag"],
    ["no-such-command"],
    ["mutate", "--help"],
]


@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words)[:40])
@pytest.mark.usefixtures("helper")
def test_a_warm_command_prints_and_exits_as_a_cold_one(words: list[str]) -> None:
    before = count()
    warm = run(*words)
    assert count() == before + 1, "the helper did not run it"
    cold = run(*words, env=os.environ | {"OMNIGRAPH_WARM": "0"})
    assert count() == before + 1, "the helper ran it all the same"
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout)
    assert warm.stderr == cold.stderr


@pytest.mark.usefixtures("helper")
def test_folder_environment_and_umask_are_those_of_the_client(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("profiles: {here: {store: graph}}\n")
    (tmp_path / "s.pg").write_text("node P { name: String @key }")
    before, mask = count(), os.umask(0o077)
    try:
        environment = os.environ | {"OMNIGRAPH_HOME": str(home)}
        made = run("init", "graph", "--schema", "s.pg", cwd=tmp_path, env=environment)
        words = ("query", "--profile", "here", "-e", QUERY, "--json")
        asked = run(*words, cwd=tmp_path, env=environment)
    finally:
        os.umask(mask)
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(asked.stdout)["rows"] == []
    assert count() == before + 2
    assert (tmp_path / "graph").stat().st_mode & 0o777 == 0o700
    again = run("query", "--profile", "here", "-e", QUERY, cwd=tmp_path)
    assert again.returncode != 0, "the variable of one command does not reach the next"


@pytest.mark.usefixtures("helper")
def test_standard_input_of_a_pipe_reaches_the_command() -> None:
    before = count()
    words = ("load", "--store", "g", "--data", "-", "--mode", "merge", "--json")
    done = run(*words, input='{"type": "P", "data": {"name": "bob"}}\n')
    assert done.returncode == 0, done.stderr
    assert count() == before + 1
    assert "bob" in run("query", "--store", "g", "-e", QUERY).stdout


def leave_early(warm: str) -> tuple[int, str]:
    """The exit code and the errors of a command whose reader has gone."""
    environment = os.environ | {"OMNIGRAPH_WARM": warm}
    reader, writer = os.pipe()
    os.close(reader)
    process = start("query", "--store", "g", "-e", QUERY, stdout=writer, env=environment)
    os.close(writer)
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


@pytest.mark.usefixtures("helper")
def test_a_reader_that_leaves_has_the_same_effect() -> None:
    before = count()
    assert leave_early("") == leave_early("0")
    assert count() == before + 1


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_signal_to_the_client_ends_the_command(
    helper: HelperStatus, number: signal.Signals, code: int
) -> None:
    process, child = begin_load(helper)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == code
    wait_for("the end of the child", lambda: child not in children_of(helper.pid))


def test_a_signal_that_kills_the_command_shows_in_the_exit_code(helper: HelperStatus) -> None:
    process, child = begin_load(helper)
    os.kill(child, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


def test_an_ignored_signal_stays_ignored(helper: HelperStatus) -> None:
    process, child = begin_load(helper, through=["sh", "-c", 'trap "" INT; exec "$@"', "sh"])
    process.send_signal(signal.SIGINT)
    os.killpg(child, signal.SIGINT)
    _, said = process.communicate('{"type": "P", "data": {"name": "ida"}}\n', PATIENCE_S)
    assert process.returncode == 0, said


SHELL = """
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, lambda *_: None)
print("ended with", subprocess.call(sys.argv[1:]), flush=True)
input()
"""


def open_terminal(words: Sequence[str]) -> "tuple[subprocess.Popen[bytes], int]":
    """A command on a terminal of its own, below a process that stands for the shell."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, *COMMAND, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def read_to(terminal: int, text: bytes) -> None:
    shown = b""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, f"the terminal shows {shown!r}"
        shown += os.read(terminal, 4096)


def test_a_terminal_shows_the_output_and_its_keys_interrupt(helper: HelperStatus) -> None:
    before = set(children_of(helper.pid))
    words = ("load", "--store", "g", "--data", "-", "--mode", "merge")
    process, terminal = open_terminal(words)
    await_child(helper, before)
    read_to(terminal, b"omnigraph load")
    os.write(terminal, b"\x03")
    read_to(terminal, b"ended with 130")
    os.write(terminal, b"\n")
    assert process.wait(PATIENCE_S) == 0
    os.close(terminal)


def test_a_command_that_is_stopped_and_continued_reads_on(helper: HelperStatus) -> None:
    process, child = begin_load(helper)
    process.send_signal(signal.SIGTSTP)
    wait_for("both stop", lambda: state_of(process.pid) == state_of(child) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for("the child runs", lambda: state_of(child) != "T")
    _, said = process.communicate('{"type": "P", "data": {"name": "eve"}}\n', PATIENCE_S)
    assert process.returncode == 0, said


@pytest.mark.usefixtures("helper")
def test_twenty_commands_at_once_are_twenty_processes() -> None:
    before = count()
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda _: run("query", "--store", "g", "-e", QUERY), range(20)))
    assert [each.returncode for each in done] == [0] * 20, [each.stderr for each in done]
    assert len({each.stdout for each in done}) == 1
    assert count() == before + 20


@pytest.mark.usefixtures("helper")
def test_other_limits_and_other_variables_of_the_interpreter_run_cold() -> None:
    before = count()
    cold = run("version", env=os.environ | {"OMP_NUM_THREADS": "1"})
    other = run("version", through=["nice", "-n", "1"])
    assert (cold.returncode, other.returncode) == (0, 0)
    assert count() == before


@pytest.mark.usefixtures("helper")
def test_a_command_that_serves_never_asks_the_helper() -> None:
    before = count()
    assert run("serve", "--help").returncode == 0
    assert count() == before


@pytest.mark.usefixtures("helper")
def test_a_folder_that_others_may_open_is_not_trusted() -> None:
    private = Path(find_socket()).parent
    before = count()
    private.chmod(0o755)
    try:
        assert run("version").returncode == 0
        refused = run("up")
        assert refused.returncode == 1
        assert "chmod 700" in refused.stderr
    finally:
        private.chmod(0o700)
    assert count() == before


def test_starting_twice_gives_one_helper(helper: HelperStatus) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: run("up", "--json"), range(3)))
    assert {json.loads(each.stdout)["pid"] for each in done} == {helper.pid}


def test_another_version_of_a_file_makes_the_helper_stale(helper: HelperStatus) -> None:
    marker = Path(omnigraph.__file__).with_name("py.typed")
    found = marker.stat()
    os.utime(marker, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000_000))
    try:
        assert run("version").stdout.startswith("omnigraph ")
        wait_for("the end of the stale helper", lambda: find_helper() is None)
    finally:
        os.utime(marker, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert not Path(f"/proc/{helper.pid}").exists() or state_of(helper.pid) == "Z"


def test_a_command_outlives_its_helper_and_reports_its_exit_code(helper: HelperStatus) -> None:
    good, _ = begin_load(helper)
    bad, _ = begin_load(helper)
    os.kill(helper.pid, signal.SIGKILL)
    _, said = good.communicate('{"type": "P", "data": {"name": "zoe"}}\n', PATIENCE_S)
    assert good.returncode == 0, said
    _, said = bad.communicate('{"type": "P", "data": {"nom": 1}}\n', PATIENCE_S)
    assert bad.returncode == 1
    assert "nom" in said
    assert find_helper() is None
    assert "zoe" in run("query", "--store", "g", "-e", QUERY).stdout, "cold again"


def test_helper_and_command_killed_together_is_no_success(helper: HelperStatus) -> None:
    process, child = begin_load(helper)
    os.kill(helper.pid, signal.SIGSTOP)
    os.kill(child, signal.SIGKILL)
    os.kill(helper.pid, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_a_helper_ends_when_it_is_told_to_and_when_it_is_idle(helper: HelperStatus) -> None:
    process, _ = begin_load(helper)
    assert run("down").stdout == "stopped\n"
    assert run("down").stdout == "there was none\n"
    assert run("up", "--status").stdout == "down\n"
    _, said = process.communicate('{"type": "P", "data": {"name": "kim"}}\n', PATIENCE_S)
    assert process.returncode == 0, said
    assert run("up", "--idle", "0.3").returncode == 0
    wait_for("the idle helper ends", lambda: find_helper() is None)
    assert run("up", "--idle", "0").returncode == 2


def test_a_variable_starts_a_helper_for_the_commands_that_follow() -> None:
    done = run("version", env=os.environ | {"OMNIGRAPH_WARM": "1"})
    assert done.returncode == 0
    assert done.stderr == ""
    wait_for("the helper", lambda: find_helper() is not None)
    variables = Path(f"/proc/{find_helper().pid}/environ").read_bytes()  # type: ignore[union-attr]
    assert b"OMNIGRAPH_HOME" not in variables, "a helper gets only what libraries read at start"


LAST = """
import atexit, sys, threading
atexit.register(print, "last")
threading.Timer(0.7, print, ["late"]).start()
from omnigraph.cli.warm.client import main
main()
"""


def test_a_cold_command_ends_without_teardown_but_waits_for_threads_and_exit_functions() -> None:
    words = [sys.executable, "-c", LAST, "version"]
    environment = os.environ | {"OMNIGRAPH_WARM": "0"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert "late" in done.stdout.splitlines()
    assert done.stdout.endswith("last\n")


@pytest.mark.usefixtures("helper")
def test_a_command_without_standard_output_does_its_work_cold() -> None:
    before = count()
    for warm in ("", "0"):
        words = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "init", f"closed{warm}"]
        environment = os.environ | {"OMNIGRAPH_WARM": warm}
        Path("s.pg").write_text("node P { name: String @key }")
        subprocess.run(
            [*words, "--schema", "s.pg"], env=environment, check=False, stderr=subprocess.DEVNULL
        )
        assert Path(f"closed{warm}").is_dir()
    assert count() == before


LOOK = """
import sys, omnigraph
from omnigraph.cli.warm.helper import find_runtime, load_commands
load_commands()
assert not find_runtime()
omnigraph.open(sys.argv[1], read_only=True).query(sys.argv[2]).arrow()
assert find_runtime()
"""


def test_what_a_helper_imports_starts_no_thread_of_lance_and_a_read_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, "g", QUERY], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
