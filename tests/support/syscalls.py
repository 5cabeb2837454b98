"""What a process asked of the disk, call by call, and what a power cut would have left of it.

Two recorders give the same account. `trace` sees the system calls themselves, of every thread and
of the table format too; it needs strace. `list_and_flush` works anywhere: the process counts
its own flushes, and before each of them it lists what changed in the folder since the last one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TextIO

from omnigraph.cli.app import main as command

TIMEOUT_S: Final = 300


class Deed(StrEnum):
    WRITE = "write"
    NAME = "name"
    """A file or folder is there, by a name it did not have."""
    REMOVE = "remove"
    FLUSH = "flush"
    SAY = "say"
    """Something is printed: whoever waits believes that the write is done."""


@dataclass(frozen=True, slots=True)
class Call:
    deed: Deed
    path: Path
    source: Path | None = None
    """What was moved or linked here."""


# ── what lasts ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class Medium:
    """Below a root, the content that was not flushed since it was written, and the names that their
    folders were not flushed since. Of files that were there before nothing is known, so they count
    as never flushed.
    """

    root: Path
    files: set[Path] = field(default_factory=set)
    adrift: set[Path] = field(default_factory=set)
    unnamed: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.files = {each for each in self.root.rglob("*") if each.is_file()}
        self.adrift = set(self.files)
        self.unnamed = set(self.files)

    def take(self, call: Call) -> None:
        path = call.path
        match call.deed:
            case Deed.WRITE:
                self.adrift.add(path)
            case Deed.NAME:
                self.files.add(path)
                self.unnamed.add(path)
                if call.source is not None:
                    self.adrift.discard(path)
                    self.adrift |= {path} if call.source in self.adrift else set()
            case Deed.REMOVE:
                for known in (self.files, self.adrift, self.unnamed):
                    known.discard(path)
            case Deed.FLUSH:
                self.adrift.discard(path)
                self.unnamed = {each for each in self.unnamed if each.parent != path}
            case Deed.SAY:
                """Nothing happens to the disk."""

    def lasting(self) -> set[Path]:
        """What a power cut would leave now, whole and by its name."""
        return {
            each
            for each in self.files - self.adrift
            if self.unnamed.isdisjoint([each, *each.parents])
        }


# ── by the system calls ──────────────────────────────────────────────────────────────────────────

_TRACED: Final = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,"
    "write,pwrite64,writev,pwritev,ftruncate,copy_file_range,fsync,fdatasync"
)
_LINE: Final = re.compile(r"(?P<pid>\d+) +(?P<said>.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>")
_UNFINISHED: Final = " <unfinished ...>"
_CALL: Final = re.compile(r"(?P<name>\w+)\((?P<given>.*)\) += (?P<result>-?\d+)")
_PATH: Final = re.compile(r'"(/[^"]*)"')
_DESCRIPTOR: Final = re.compile(r"\d+<(?P<path>[^>]*)>")


class _Traced(NamedTuple):
    begin: int
    end: int
    said: str


def can_trace() -> bool:
    """Is strace here, and is it allowed to look at a process?"""
    strace = shutil.which("strace")
    if strace is None:
        return False
    return subprocess.run([strace, "-o", "/dev/null", "true"], check=False).returncode == 0


def trace(root: Path, log: Path, arguments: Sequence[str]) -> list[Call]:
    """Run a command of ours as it is, and have the kernel tell what it did below a root."""
    strace = shutil.which("strace")
    assert strace is not None
    watched = [strace, "-f", "-y", "-s", "0", "-e", f"trace={_TRACED}", "-o", str(log)]
    started = [*watched, sys.executable, "-m", "omnigraph", *arguments]
    subprocess.run(started, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE)
    with log.open() as lines:
        return _parse(root, lines)


def _parse(root: Path, lines: Iterable[str]) -> list[Call]:
    """A flush or a write counts when it is over, a name from when it may be there."""
    found = []
    for traced in _whole_calls(lines):
        for call in _calls_of(traced.said, root):
            is_over = call.deed in (Deed.FLUSH, Deed.WRITE)
            found.append((traced.end if is_over else traced.begin, call))
    return [call for _, call in sorted(found, key=lambda each: each[0])]


def _whole_calls(lines: Iterable[str]) -> Iterator[_Traced]:
    """Calls that were cut in two because another thread had something to say."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        matched = _LINE.match(line)
        if matched is None:
            continue
        pid, said = matched["pid"], matched["said"]
        if said.endswith(_UNFINISHED):
            begun[pid] = number, said.removesuffix(_UNFINISHED)
        elif _RESUMED.match(said) and pid in begun:
            begin, head = begun.pop(pid)
            yield _Traced(begin, number, head + _RESUMED.sub("", said))
        else:
            yield _Traced(number, number, said)


def _calls_of(said: str, root: Path) -> Iterator[Call]:
    matched = _CALL.match(said)
    if matched is None or int(matched["result"]) < 0:
        return
    name, given = matched["name"], matched["given"]
    paths = [Path(each) for each in _PATH.findall(given)]
    descriptor = _DESCRIPTOR.match(given)
    opened = Path(descriptor["path"]) if descriptor else None
    match name:
        case "fsync" | "fdatasync" if opened is not None:
            calls = [Call(Deed.FLUSH, opened)]
        case "write" | "writev" if given.startswith("1<"):
            calls = [Call(Deed.SAY, root)]
        case "write" | "pwrite64" | "writev" | "pwritev" | "ftruncate" | "copy_file_range":
            assert opened is not None
            calls = [Call(Deed.WRITE, opened)]
        case "rename" | "renameat" | "renameat2":
            calls = [Call(Deed.NAME, paths[1], paths[0]), Call(Deed.REMOVE, paths[0])]
        case "link" | "linkat":
            calls = [Call(Deed.NAME, paths[1], paths[0])]
        case "unlink" | "unlinkat" | "rmdir":
            calls = [Call(Deed.REMOVE, paths[0])]
        case "mkdir" | "mkdirat" | "creat":
            calls = [Call(Deed.NAME, paths[0])]
        case _:
            calls = [Call(Deed.NAME, paths[0])] if "O_CREAT" in given else []
    yield from (each for each in calls if each.path.is_relative_to(root))


# ── by looking at the folder ─────────────────────────────────────────────────────────────────────


def list_and_flush(root: Path, log: Path, arguments: Sequence[str]) -> list[Call]:
    """Run a command of ours that writes down its own flushes, and what it finds before each."""
    started = [sys.executable, "-m", __name__, str(root), str(log), *arguments]
    subprocess.run(started, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE)
    told = (json.loads(line) for line in log.read_text().splitlines())
    return [
        Call(Deed(deed), Path(path), None if source is None else Path(source))
        for deed, path, source in told
    ]


class _Facts(NamedTuple):
    number: int
    size: int
    changed_ns: int


class _Recorder:
    """Inside the command."""

    def __init__(self, root: Path, log: TextIO) -> None:
        self._root = root
        self._log = log
        self._known = dict(_list(root))
        self._lock = Lock()

    def flushing(self, flush: Callable[[int], None]) -> Callable[[int], None]:
        def recorded(descriptor: int) -> None:
            with self._lock:
                self._look()
            flush(descriptor)
            with self._lock:
                self._tell(Deed.FLUSH, Path(f"/proc/self/fd/{descriptor}").readlink())

        return recorded

    def saying(self, write: Callable[[str], int]) -> Callable[[str], int]:
        def recorded(text: str) -> int:
            with self._lock:
                self._look()
                self._tell(Deed.SAY, self._root)
            return write(text)

        return recorded

    def _look(self) -> None:
        now = dict(_list(self._root))
        same = {facts: path for path, facts in self._known.items()}
        for path, facts in now.items():
            if self._known.get(path) != facts:
                source = same.get(facts)
                self._tell(Deed.NAME, path, source)
                if source is None:
                    self._tell(Deed.WRITE, path)
        for path in self._known.keys() - now.keys():
            self._tell(Deed.REMOVE, path)
        self._known = now

    def _tell(self, deed: Deed, path: Path, source: Path | None = None) -> None:
        told = (deed, str(path), None if source is None else str(source))
        self._log.write(json.dumps(told) + "\n")


def _list(root: Path) -> Iterator[tuple[Path, _Facts]]:
    for path in root.rglob("*"):
        facts = path.stat()
        changed_ns = 0 if path.is_dir() else facts.st_mtime_ns
        yield path, _Facts(facts.st_ino, 0 if path.is_dir() else facts.st_size, changed_ns)


def main(root: str, log: str, *arguments: str) -> None:
    with Path(log).open("w") as lines:
        recorder = _Recorder(Path(root), lines)
        os.fsync = recorder.flushing(os.fsync)  # type: ignore[assignment]
        os.fdatasync = recorder.flushing(os.fdatasync)  # type: ignore[assignment]
        sys.stdout.write = recorder.saying(sys.stdout.write)  # type: ignore[method-assign]
        sys.argv = ["omnigraph", *arguments]
        command()


if __name__ == "__main__":
    main(*sys.argv[1:])
