"""`Objects` in a local folder, safe among processes.

A put writes `name#digits` beside its target, flushes it, then moves it into place: by link(2),
which fails if the target exists, or by rename(2), which replaces it. Both are atomic.

rename(2) cannot compare the object that it replaces. So a process that replaces or deletes an
object holds an exclusive flock(2) on the folder of the object. The kernel releases the lock of a
dead process, and a lock on the folder needs no lock file. `put_new` needs no lock, because it
succeeds only if there is no object. A suspended process keeps its lock, so waiting for a lock has a
limit.

With relaxed durability a small object is compared and replaced by one write to its file, under that
lock; readers take the lock shared, so they never see a part. The two swaps of a lease as new files
and renames would take a tenth of the time of a small write: ext4 writes out a file that is renamed
over another one, and is slow to reuse the inode of a file that was just deleted.
"""

import fcntl
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Final

from omnigraph.effects import REAL
from omnigraph.errors import ObjectChanged, ObjectExists
from omnigraph.storage.durability import Disk, RelaxedDisk
from omnigraph.storage.objects import UNFINISHED_NAME, Listed, StoredObject, Tag, check_key
from omnigraph.storage.translate import translating_objects

LOCK_WAIT_MS: Final = 30_000
"""No running process holds a lock for this long."""
_EAGER_TRIES: Final = 50

_FOLDER_RACES_MAX: Final = 16
"""How often a put may find that `delete_prefix` has removed its folder, before it fails."""

_WRITTEN_AT_ONCE_BYTES_MAX: Final = 4096
"""A write within one page is complete or absent, even if its process is killed."""


class LocalObjects:
    """Objects below one folder."""

    def __init__(self, root: Path, disk: Disk, *, lock_wait_ms: int = LOCK_WAIT_MS) -> None:
        self._root = root
        self._disk = disk
        self._lock_wait_ms = lock_wait_ms
        self._numbers = itertools.count()

    @contextmanager
    def _locked(self, folder: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(descriptor, kind, self._lock_wait_ms)
            yield
        finally:
            os.close(descriptor)

    def read(self, key: str) -> StoredObject:
        path = self._path(key)
        with translating_objects("read", key), self._locked(path.parent, fcntl.LOCK_SH):
            return _read(path)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        with translating_objects("read", key), self._path(key).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def put_over(self, key: str, data: bytes) -> Tag:
        with translating_objects("write", key):
            self._replace(self._path(key), lambda: [data])
        return _tag(data)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        unread = [parts]

        def read() -> Iterable[bytes]:
            if not unread:
                raise FileNotFoundError("its folder was removed meanwhile")  # parts are read once
            return unread.pop()

        with translating_objects("write", key):
            self._replace(self._path(key), read)

    def _replace(self, target: Path, parts: Callable[[], Iterable[bytes]]) -> None:
        def move(temporary: Path) -> None:
            with self._locked(target.parent):
                temporary.replace(target)

        self._put(target, parts, move)

    def put_new(self, key: str, data: bytes) -> Tag:
        target = self._path(key)

        def move(temporary: Path) -> None:
            try:
                os.link(temporary, target)
            except FileExistsError:
                raise ObjectExists(key) from None
            temporary.unlink()

        with translating_objects("create", key):
            self._put(target, lambda: [data], move)
        return _tag(data)

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        target = self._path(key)

        def move(temporary: Path) -> None:
            with self._locked(target.parent):
                try:
                    current = _read(target).tag
                except FileNotFoundError:
                    raise ObjectChanged(key) from None
                if current != tag:
                    raise ObjectChanged(key)
                temporary.replace(target)

        with translating_objects("replace", key):
            if not self._overwrite(target, data, tag, key=key):
                self._put(target, lambda: [data], move)
        return _tag(data)

    def delete(self, key: str, *, is_flushed: bool = True) -> None:
        path = self._path(key)
        with translating_objects("delete", key):
            try:
                with self._locked(path.parent):
                    path.unlink()
            except FileNotFoundError:
                return
            if is_flushed:
                self._disk.flush_folder(path.parent)

    def delete_prefix(self, prefix: str) -> None:
        folder = self._path(prefix)
        with translating_objects("delete everything below", prefix):
            if not folder.is_dir():
                return
            shutil.rmtree(folder, onerror=_ignore_what_is_gone)
            self._disk.flush_folder(folder.parent)

    def exists(self, key: str) -> bool:
        path = self._path(key)
        with translating_objects("look for", key):
            try:
                is_folder = stat.S_ISDIR(path.stat().st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return not is_folder or any(True for _ in _walk(path))

    def list(self, prefix: str) -> Sequence[Listed]:
        folder = self._path(prefix)
        with translating_objects("list", prefix):
            found = [self._listed(file, facts) for file, facts in _walk(folder)]
        return sorted(found, key=lambda each: each.key)

    def _listed(self, file: str, facts: os.stat_result) -> Listed:
        # By cutting the text: a Path takes ten times as long, and waiting writers list often.
        key = file[len(str(self._root)) + 1 :]
        return Listed(key, facts.st_size, modified_ms=facts.st_mtime_ns // 1_000_000)

    def find_unfinished(self) -> Sequence[Listed]:
        with translating_objects("look for unfinished puts in", "."):
            return [self._listed(*found) for found in _walk(self._root, unfinished=True)]

    def remove_unfinished(self, listed: Listed) -> None:
        assert UNFINISHED_NAME.search(listed.key), "finished objects are deleted"
        with translating_objects("delete", listed.key):
            (self._root / listed.key).unlink(missing_ok=True)

    def clock_ms(self) -> int:
        # The times of a file come from the clock of the file system, which on a network mount is
        # not the clock of this machine.
        with translating_objects("ask the time of", str(self._root)):
            self._make_folder(self._root)
            with tempfile.TemporaryFile(dir=self._root) as probe:
                return os.fstat(probe.fileno()).st_mtime_ns // 1_000_000

    def _path(self, key: str) -> Path:
        return _path_of(self._root, key)

    def _put(
        self, target: Path, parts: Callable[[], Iterable[bytes]], move: Callable[[Path], None]
    ) -> None:
        for races_left in reversed(range(_FOLDER_RACES_MAX)):
            try:
                self._make_folder(target.parent)
                temporary = self._write_temporary(target, parts)
                try:
                    move(temporary)
                finally:
                    temporary.unlink(missing_ok=True)
                self._disk.flush_folder(target.parent)
            except FileNotFoundError:
                if not races_left:
                    raise
            else:
                return

    def _write_temporary(self, target: Path, parts: Callable[[], Iterable[bytes]]) -> Path:
        while True:
            number = f"{os.getpid()}{next(self._numbers):06}"
            temporary = target.with_name(f"{target.name}#{number}")
            try:
                file = temporary.open("xb")
            except FileExistsError:
                # A process with this number died here before, or runs on another host.
                continue
            try:
                with file:
                    file.writelines(parts())
                self._disk.flush_file(temporary)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            return temporary

    def _overwrite(self, target: Path, data: bytes, tag: Tag, *, key: str) -> bool:
        """Replace an object by one write to its file; False if that is impossible."""
        if not isinstance(self._disk, RelaxedDisk) or len(data) > _WRITTEN_AT_ONCE_BYTES_MAX:
            return False
        try:
            with self._locked(target.parent), target.open("rb+", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != len(data):
                    return False
                if _tag(file.read()) != tag:
                    raise ObjectChanged(key)
                os.pwrite(file.fileno(), data, 0)
        except FileNotFoundError:
            raise ObjectChanged(key) from None
        return True

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self._disk.flush_folder(folder.parent)


@lru_cache(maxsize=1_024)
def _path_of(root: Path, key: str) -> Path:
    """Raises StoreKeyInvalid. A write uses the same few keys as the one before it."""
    check_key(key)
    return root / key


def _read(path: Path) -> StoredObject:
    """The caller holds the lock of the folder."""
    with path.open("rb", buffering=0) as file:
        data = file.read()
        facts = os.fstat(file.fileno())
    return StoredObject(data, _tag(data), facts.st_mtime_ns // 1_000_000)


def _tag(data: bytes) -> Tag:
    """A hash of the bytes: inode numbers and file times repeat within one clock tick."""
    return Tag(hashlib.sha256(data).hexdigest())


def _lock(descriptor: int, kind: int, wait_ms_max: int) -> None:
    """Wait for a lock up to a limit: a suspended process keeps its locks."""
    give_up_ms = REAL.monotonic_ms() + wait_ms_max
    for tries in itertools.count():
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if REAL.monotonic_ms() > give_up_ms:
            raise TimeoutError(
                f"its folder was locked for {wait_ms_max} ms; a stopped process may hold it"
            )
        # The other process mostly releases it in less time than a sleep takes.
        if tries < _EAGER_TRIES:
            os.sched_yield()
        else:
            REAL.sleep_ms(1)
    raise AssertionError("there are always more tries")


def _walk(folder: Path | str, *, unfinished: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """The finished objects below a folder, or only the unfinished ones. Files that are deleted
    during the walk are left out; every other failure raises.
    """
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir():
            yield from _walk(entry.path, unfinished=unfinished)
        elif bool(UNFINISHED_NAME.search(entry.name)) is unfinished:
            try:
                facts = entry.stat()
            except FileNotFoundError:
                continue
            yield entry.path, facts


def _ignore_what_is_gone(
    _function: object,
    _path: object,
    failure: tuple[type[BaseException], BaseException, TracebackType],
) -> None:
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]
