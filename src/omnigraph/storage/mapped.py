"""Arrays in files beside the tables of a local graph, for a process to map (ADR 58).

A file holds named arrays, then their checksum and a mark. Its folder is named by the state of a
table, which never changes; the name covers the file of that version, its size and its time, so a
table or a branch that was dropped and made again has other folders.

Nothing here is ever needed: a file that is missing, cut or damaged is passed over, and a failure to
write one is too. A file gets its name last, so that no process maps half of it.
"""

import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa

from omnigraph.ids import spell
from omnigraph.storage.block_file import BlockFile, BlockWriter
from omnigraph.storage.layout import MAPPED, branch_folder, version_file

Array: TypeAlias = "pa.Array[Any]"

MARK: Final = b"omnigraph-map-1\n"
OF_GRAPH: Final = "graph"
"""The folder of what belongs to no state of a table. It never goes stale."""

BYTES_MAX: Final = 1 << 30
"""Larger arrays are not kept: the checksum reads the whole file."""

_TRAILER: Final = 4 + len(MARK)


@dataclass(frozen=True, slots=True)
class MappedFiles:
    """The mapped files of one local graph."""

    root: Path

    def folder_of(self, table: str, branch: str | None, version: int) -> str:
        """The folder of a table state; empty if the table has no such version here."""
        inside = "/".join(filter(None, (table, branch_folder(branch), version_file(version))))
        try:
            found = (self.root / inside).stat()
        except OSError:
            return ""
        state = (table, branch, version, found.st_size, found.st_mtime_ns)
        return hashlib.sha256(repr(state).encode()).hexdigest()[:32]

    def has(self, folder: str, name: str) -> bool:
        return bool(folder) and os.path.exists(self._path(folder, name))  # noqa: PTH110 - any name

    def stamp(self, folder: str, name: str) -> object:
        """Tells one file from a later one of the same name; None if there is none."""
        try:
            found = self._path(folder, name).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self, folder: str, name: str) -> Mapping[str, Array] | None:
        """The arrays of a file, without a copy; None if there is no such file, or a bad one."""
        if not folder:
            return None
        try:
            with pa.memory_map(str(self._path(folder, name))) as file:
                whole = file.read_buffer()
            body, trailer = whole[:-_TRAILER], whole[-_TRAILER:].to_pybytes()
            if trailer != _trailer(body):
                return None
            table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
        except (OSError, pa.ArrowInvalid):
            return None
        columns: Any = zip(table.column_names, table.columns, strict=True)
        return {each: column.chunk(0).values for each, column in columns}

    def write(self, folder: str, name: str, arrays: Mapping[str, Array]) -> None:
        """Keep arrays; nothing happens if that is impossible."""
        if not folder or sum(each.nbytes for each in arrays.values()) > BYTES_MAX:
            return
        lists: list[Any] = [
            pa.LargeListArray.from_arrays(pa.array([0, len(each)], pa.int64()), each)
            for each in arrays.values()
        ]
        batch = pa.RecordBatch.from_arrays(lists, list(arrays))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        body = sink.getvalue()
        with suppress(OSError), _whole(self._path(folder, name)) as file:
            file.write(body)
            file.write(_trailer(body))

    # files that are checked in blocks

    def folder_of_rows(self, table: str, rows: str) -> str:
        """The folder of files over rows that never change, whichever versions show them."""
        return hashlib.sha256(repr((table, rows)).encode()).hexdigest()[:32]

    def map_blocks(self, folder: str, name: str) -> BlockFile | None:
        """None if there is no such file, or a bad one."""
        try:
            with pa.memory_map(str(self._path(folder, name, ".blocks"))) as file:
                return BlockFile(file.read_buffer())
        except (OSError, ValueError):
            return None

    def write_blocks(
        self, folder: str, name: str, fill: Callable[[BlockWriter], Mapping[str, str]]
    ) -> None:
        """Keep what `fill` adds, with the facts that it returns; nothing if that is impossible."""
        with suppress(OSError), _whole(self._path(folder, name, ".blocks")) as file:
            writer = BlockWriter(file)
            writer.end(fill(writer))

    def find_stale(self, folders: Collection[str]) -> Mapping[str, int]:
        """The other folders, and their bytes."""
        found: dict[str, int] = {}
        with suppress(OSError):
            for folder in os.scandir(self.root / MAPPED):
                if folder.name not in folders and folder.name != OF_GRAPH:
                    files = Path(folder.path).glob("*")
                    found[folder.name] = sum(each.stat().st_size for each in files)
        return found

    def remove(self, folders: Collection[str]) -> None:
        """A process that has mapped a file keeps it."""
        for each in folders:
            shutil.rmtree(self.root / MAPPED / each, ignore_errors=True)

    def _path(self, folder: str, name: str, ending: str = ".arrow") -> Path:
        return self.root / MAPPED / folder / f"{spell(name)}{ending}"


@contextmanager
def _whole(target: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when everything is written. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        begun = Path(file.name)
        try:
            yield file.file
            file.close()
            begun.replace(target)
        finally:
            begun.unlink(missing_ok=True)


def _trailer(body: pa.Buffer) -> bytes:
    return zlib.crc32(body).to_bytes(4, "little") + MARK
