"""Every change of a folder by one process, as the kernel saw it: bytes, names and flushes.

strace records the system calls of all threads, those of Lance included. A call takes effect between
its begin and its end; here an operation counts from its end on. A flush covers what had ended when
the flush began, and counts from its end on. Whatever is printed counts from its begin on.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 300

_TRACED: Final = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,"
    "unlink,unlinkat,rmdir,write,pwrite64,writev,pwritev,pwritev2,truncate,ftruncate,fallocate,"
    "copy_file_range,sendfile,splice,fsync,fdatasync,sync,syncfs,sync_file_range,lseek,dup,dup2,"
    "dup3,fcntl,io_uring_setup"
)

Number = int
"""Of an inode. Names change, and one file may have two."""

ROOT: Final[Number] = 0


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of a file, from an offset on."""

    inode: Number
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file gets this length."""

    inode: Number
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Names of one folder change together: a name gets an inode, or is removed (None)."""

    folder: Number
    changes: tuple[tuple[str, Number | None], ...]
    replaces: bool = False
    """Did the name stand for another file before?"""


@dataclass(frozen=True, slots=True)
class Flush:
    """All operations of an inode before `began` are on the disk."""

    inode: Number
    began: int


@dataclass(frozen=True, slots=True)
class Say:
    """The process acknowledged a step."""

    text: str


Operation = Bytes | Cut | Entry | Flush | Say


@dataclass
class Recording:
    """What was there, and what happened to it. Inodes that are folders are in `folders`."""

    folders: set[Number] = field(default_factory=lambda: {ROOT})
    names: dict[Number, dict[str, Number]] = field(default_factory=lambda: {ROOT: {}})
    """The names of each folder before the first operation."""
    contents: dict[Number, bytes] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)


def why_untraceable() -> str | None:
    """Why no process can be traced here; None if one can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed: apt-get install strace"
    tried = subprocess.run([strace, "-o", "/dev/null", "true"], check=False, capture_output=True)
    return None if tried.returncode == 0 else f"strace may not trace: {tried.stderr.decode()}"


def record(root: Path, log: Path, module: str, *arguments: str) -> Recording:
    """Run a module as a process of its own, and record what it does below a folder."""
    strace = shutil.which("strace")
    assert strace is not None
    watching = [strace, "-f", "--seccomp-bpf", "-y", "-xx", "-s", "1000000000", "-e", "signal=none"]
    running = [*watching, "-e", f"trace={_TRACED}", "-o", str(log), sys.executable, "-m", module]
    reader = _Reader(root)
    subprocess.run([*running, *arguments], check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE)
    with log.open() as lines:
        return reader.read(lines)


# ── the text of strace ───────────────────────────────────────────────────────────────────────────

_LINE: Final = re.compile(r"(?P<pid>\d+) +(?P<said>.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>")
_UNFINISHED: Final = " <unfinished ...>"
_CALL: Final = re.compile(r"(?P<name>\w+)\((?P<given>.*)\) += (?P<result>-?\d+)")
_WORD: Final = re.compile(
    r'"(?P<text>(?:\\x[0-9a-f]{2})*)"(?:\.\.\.)?'
    r"|(?P<descriptor>\d+|AT_FDCWD)<(?P<opened>[^>]*)>"
    r"|(?P<plain>[^\s,\[\]{}\"<>]+)"
)
_DELETED: Final = b" (deleted)"


@dataclass(frozen=True, slots=True)
class _Call:
    begin: int
    end: int
    name: str
    texts: Sequence[bytes]
    descriptors: Sequence[tuple[str, bytes]]
    plain: Sequence[str]
    result: int


def _calls(lines: Iterable[str]) -> Iterator[_Call]:
    """Successful calls, by their ends. A call that another thread interrupted is put together."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        matched = _LINE.match(line.rstrip("\n"))
        if matched is None:
            continue
        pid, said, begin = matched["pid"], matched["said"], number
        if said.endswith(_UNFINISHED):
            begun[pid] = number, said.removesuffix(_UNFINISHED)
            continue
        if _RESUMED.match(said):
            begin, head = begun.pop(pid)
            said = head + _RESUMED.sub("", said)
        call = _CALL.match(said)
        if call is not None and int(call["result"]) >= 0:
            yield _parse(begin, number, call)


def _parse(begin: int, end: int, call: "re.Match[str]") -> _Call:
    texts, descriptors, plain = [], [], []
    for word in _WORD.finditer(call["given"]):
        if word["text"] is not None:
            texts.append(_unhex(word["text"]))
        elif word["descriptor"] is not None:
            descriptors.append((word["descriptor"], _unhex(word["opened"])))
        else:
            plain.append(word["plain"])
    return _Call(begin, end, call["name"], texts, descriptors, plain, int(call["result"]))


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if "\\x" in text else text.encode()


# ── the folder that the calls change ─────────────────────────────────────────────────────────────


class _Reader:
    """Follows the names of a folder through the calls of one process."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._recording = Recording()
        self._names: dict[Number, dict[str, Number]] = {}
        self._count = 1
        self._contents: dict[Number, bytearray] = {}
        self._open: dict[int, tuple[Number, int]] = {}
        """By descriptor: the inode, and the position of the next write."""
        self._look(root, ROOT)
        self._names = {number: dict(each) for number, each in self._recording.names.items()}
        self._contents = {n: bytearray(data) for n, data in self._recording.contents.items()}

    def _look(self, folder: Path, number: Number) -> None:
        for each in sorted(folder.iterdir()):
            child = self._count
            self._count += 1
            self._recording.names[number][each.name] = child
            if each.is_dir():
                self._recording.folders.add(child)
                self._recording.names[child] = {}
                self._look(each, child)
            else:
                self._recording.contents[child] = each.read_bytes()

    def read(self, lines: Iterable[str]) -> Recording:
        timed: list[tuple[int, Operation]] = []
        for call in _calls(lines):
            timed += ((at, each) for at, each in self._understand(call))
        timed.sort(key=lambda each: each[0])
        # A flush names the line at which it began; from here on, the operation.
        ends = [at for at, _ in timed]
        for _, operation in timed:
            if isinstance(operation, Flush):
                began = sum(1 for at in ends if at < operation.began)
                operation = Flush(operation.inode, began)  # noqa: PLW2901
            self._recording.operations.append(operation)
        return self._recording

    def _understand(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        match call.name:
            case "fsync" | "fdatasync":
                number = self._by_descriptor(call)
                if number is not None:
                    yield call.end, Flush(number, call.begin)
            case "write" | "writev" if call.descriptors and call.descriptors[0][0] == "1":
                yield call.begin, Say(b"".join(call.texts).decode())
            case "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2":
                yield from self._write(call)
            case "copy_file_range":
                yield from self._copy(call)
            case "ftruncate":
                number = self._by_descriptor(call)
                if number is not None:
                    yield call.end, self._cut(number, int(call.plain[-1]))
            case "lseek":
                self._seek(call)
            case "dup" | "dup2" | "dup3" | "fcntl":
                is_copy = call.name != "fcntl" or "F_DUPFD" in " ".join(call.plain)
                if is_copy and int(call.descriptors[0][0]) in self._open:
                    self._open[call.result] = self._open[int(call.descriptors[0][0])]
            case "open" | "openat" | "creat":
                yield from self._open_file(call)
            case "mkdir" | "mkdirat":
                yield from self._make_folder(call)
            case "rename" | "renameat" | "renameat2":
                yield from self._rename(call)
            case "link" | "linkat":
                yield from self._link(call)
            case "unlink" | "unlinkat" | "rmdir":
                yield from self._remove(call)
            case "sync" | "syncfs" | "sync_file_range":
                """Nothing is taken for granted because of these."""
            case _:
                touched = [each for each in call.texts if each.startswith(self._root)]
                touched += [each for _, each in call.descriptors if each.startswith(self._root)]
                assert not touched, f"{call.name} of {touched} is not understood"

    # ── names ──

    def _paths(self, call: _Call) -> list[bytes]:
        """Absolute, whatever folder a call takes as the start."""
        folders = [path for _, path in call.descriptors]
        found = []
        for at, text in enumerate(call.texts):
            start = folders[at] if at < len(folders) else b""
            found.append(text if text.startswith(b"/") else start + b"/" + text)
        return found

    def _split(self, path: bytes) -> tuple[Number, str] | None:
        """The folder and the name of a path below the root; None for any other path."""
        path = os.path.normpath(path)
        if not path.startswith(self._root + b"/"):
            return None
        *folders, name = os.fsdecode(path[len(self._root) + 1 :]).split("/")
        number = ROOT
        for each in folders:
            number = self._names[number][each]
        return number, name

    def _find(self, path: bytes) -> Number | None:
        if path == self._root:
            return ROOT
        place = self._split(path)
        return None if place is None else self._names[place[0]].get(place[1])

    def _by_descriptor(self, call: _Call) -> Number | None:
        descriptor, path = call.descriptors[0]
        if not path.startswith(self._root):
            return None
        if path.endswith(_DELETED):
            found = self._open.get(int(descriptor))
            return None if found is None else found[0]
        return self._find(path)

    def _change(self, folder: Number, *changes: tuple[str, Number | None]) -> Entry:
        names = self._names[folder]
        replaces = any(target is not None and name in names for name, target in changes)
        for name, target in changes:
            if target is None:
                names.pop(name, None)
            else:
                names[name] = target
        return Entry(folder, changes, replaces)

    def _open_file(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        (path, *_) = self._paths(call)
        flags = next((each for each in call.plain if each.startswith("O_")), "")
        if "O_TMPFILE" in flags or not path.startswith(self._root + b"/"):
            self._open.pop(call.result, None)
            return
        number = self._find(path)
        if number is None:
            assert "O_CREAT" in flags or call.name == "creat", path
            place = self._split(path)
            assert place is not None
            number = self._count
            self._count += 1
            self._contents[number] = bytearray()
            yield call.end, self._change(place[0], (place[1], number))
        elif "O_TRUNC" in flags:
            yield call.end, self._cut(number, 0)
        at_end = "O_APPEND" in flags
        self._open[call.result] = number, len(self._contents[number]) if at_end else 0

    def _make_folder(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        place = self._split(self._paths(call)[0])
        if place is None:
            return
        number = self._count
        self._count += 1
        self._recording.folders.add(number)
        self._names[number] = {}
        yield call.end, self._change(place[0], (place[1], number))

    def _rename(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        before, after = (self._split(each) for each in self._paths(call))
        if before is None and after is None:
            return
        assert before is not None, "nothing is moved into the graph"
        assert after is not None, "nothing is moved out of the graph"
        number = self._names[before[0]][before[1]]
        assert before[0] == after[0], "a name moves within its folder, and so at once"
        yield call.end, self._change(before[0], (before[1], None), (after[1], number))

    def _link(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        source, target = self._paths(call)
        place = self._split(target)
        if place is not None:
            number = self._find(source)
            assert number is not None
            yield call.end, self._change(place[0], (place[1], number))

    def _remove(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        place = self._split(self._paths(call)[0])
        if place is not None:
            yield call.end, self._change(place[0], (place[1], None))

    # ── bytes ──

    def _write(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        number = self._by_descriptor(call)
        if number is None:
            return
        data = b"".join(call.texts)[: call.result]
        assert len(data) == call.result, "strace cut the data short"
        descriptor = int(call.descriptors[0][0])
        if call.name in ("pwrite64", "pwritev", "pwritev2"):
            offset = int(call.plain[-1])
        else:
            _, offset = self._open[descriptor]
            self._open[descriptor] = number, offset + len(data)
        yield call.end, self._put(number, offset, data)

    def _copy(self, call: _Call) -> Iterator[tuple[int, Operation]]:
        (source, _), (target, path) = call.descriptors[:2]
        if not path.startswith(self._root) or not call.result:
            return
        from_, at = self._open[int(source)]
        to, offset = self._open[int(target)]
        assert call.plain[:2] == ["NULL", "NULL"], "a copy goes on where the last one ended"
        data = bytes(self._contents[from_][at : at + call.result])
        self._open[int(source)] = from_, at + call.result
        self._open[int(target)] = to, offset + call.result
        yield call.end, self._put(to, offset, data)

    def _seek(self, call: _Call) -> None:
        descriptor = int(call.descriptors[0][0])
        if descriptor in self._open and call.descriptors[0][1].startswith(self._root):
            self._open[descriptor] = self._open[descriptor][0], call.result

    def _put(self, number: Number, offset: int, data: bytes) -> Bytes:
        content = self._contents[number]
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data
        return Bytes(number, offset, data)

    def _cut(self, number: Number, size: int) -> Cut:
        content = self._contents[number]
        del content[size:]
        content.extend(bytes(size - len(content)))
        return Cut(number, size)


def apply_bytes(content: bytes, operations: Iterable[Bytes | Cut]) -> bytes:
    """A file after these operations."""
    changed = bytearray(content)
    for each in operations:
        match each:
            case Bytes(_, offset, data):
                changed.extend(bytes(max(0, offset - len(changed))))
                changed[offset : offset + len(data)] = data
            case Cut(_, size):
                del changed[size:]
                changed.extend(bytes(size - len(changed)))
    return bytes(changed)


Tree = Mapping[str, bytes | None]
"""The files of a folder by their paths, and the folders (None)."""


def tree_of(
    recording: Recording, entries: Iterable[Entry], contents: Mapping[Number, bytes]
) -> dict[str, bytes | None]:
    """The folder after some changes of names, with these contents of the files that changed."""
    names = {number: dict(each) for number, each in recording.names.items()}
    for entry in entries:
        folder = names.setdefault(entry.folder, {})
        for name, target in entry.changes:
            if target is None:
                folder.pop(name, None)
            else:
                folder[name] = target
    found: dict[str, bytes | None] = {}
    _walk(recording, names, contents, ROOT, "", found)
    return found


def _walk(
    recording: Recording,
    names: Mapping[Number, Mapping[str, Number]],
    contents: Mapping[Number, bytes],
    number: Number,
    prefix: str,
    found: dict[str, bytes | None],
) -> None:
    for name, child in names.get(number, {}).items():
        path = f"{prefix}{name}"
        if child in recording.folders:
            found[path] = None
            _walk(recording, names, contents, child, f"{path}/", found)
        else:
            data = contents.get(child)
            found[path] = recording.contents.get(child, b"") if data is None else data
