"""A file of arrays that a process maps and checks in blocks, as far as it reads them (ADR 68).

The arrays come first, each at a multiple of eight bytes. A footer follows: a directory of the
arrays with some facts, and the CRC-32 of every block of the body. Then come the size of the
directory, the CRC-32 of the footer and a mark. So opening a file reads its footer only, and a
reader of a few values reads and checks the blocks of these values.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import IO, Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.jsontext import read_json

Numbers: TypeAlias = "npt.NDArray[Any]"

BLOCK: Final = 1 << 16
MARK: Final = b"omnigraph-blk-1\n"

_ALIGNMENT: Final = 8
_TAIL: Final = struct.Struct("<QI")
"""The size of the directory, and the CRC-32 of the footer."""
_TAIL_BYTES: Final = _TAIL.size + len(MARK)


class BlockDamaged(Exception):
    """A block does not have its checksum. Its reader derives the values in another way."""

    def __init__(self, file: "BlockFile") -> None:
        super().__init__("a block does not have its checksum")
        self.file = file


class NumberArray(Protocol):
    """Numbers in memory, or in a mapped file: `numpy.ndarray` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any, /) -> Any: ...


class BlockFile:
    """A mapped file whose footer is in order. Safe to share among threads."""

    def __init__(self, whole: pa.Buffer) -> None:
        """Raises ValueError if the file is cut, or its footer damaged."""
        data = np.frombuffer(memoryview(whole), np.uint8)
        tail = data[-_TAIL_BYTES:].tobytes()
        if len(tail) < _TAIL_BYTES or not tail.endswith(MARK):
            raise ValueError("no mark")
        size, checksum = _TAIL.unpack_from(tail)
        body = _body_bytes(len(data) - _TAIL_BYTES - size)
        footer = data[body:-_TAIL_BYTES].tobytes()
        if zlib.crc32(footer) != checksum:
            raise ValueError("the footer is damaged")
        directory = read_json(footer[:size])
        self.facts: Final[Mapping[str, str]] = directory["facts"]
        self._arrays: Final[Mapping[str, tuple[str, int, int]]] = directory["arrays"]
        self._data = data[:body]
        self._sums = np.frombuffer(footer[size:], "<u4")
        self.checked: Final = bytearray(len(self._sums))
        """For each block, whether it was found to have its checksum."""
        self._is_checked = np.frombuffer(self.checked, np.bool_)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def array(self, name: str) -> "MappedNumbers":
        kind, start, count = self._arrays[name]
        values = self._data[start : start + count * np.dtype(kind).itemsize].view(kind)
        return MappedNumbers(self, start, values)

    def is_whole(self) -> bool:
        """Does every block have its checksum?"""
        try:
            self.check(0, len(self._data))
        except BlockDamaged:
            return False
        return True

    def check(self, start: int, stop: int) -> None:
        """Check the blocks of these bytes. Raises BlockDamaged."""
        last = -(-stop // BLOCK)
        place = self.checked.find(0, start // BLOCK, last)
        while place >= 0:
            self._check_block(place)
            place = self.checked.find(0, place, last)

    def check_at(self, places: Numbers) -> None:
        """Check the blocks of the bytes at these places. Raises BlockDamaged."""
        wanted = np.zeros(len(self._sums), np.bool_)
        wanted[places // BLOCK] = True
        for place in np.flatnonzero(wanted & ~self._is_checked):
            self._check_block(int(place))

    def _check_block(self, place: int) -> None:
        block = self._data[place * BLOCK : (place + 1) * BLOCK]
        if zlib.crc32(block.data) != self._sums[place]:
            raise BlockDamaged(self)
        self.checked[place] = True


class MappedNumbers:
    """Numbers in a mapped file, checked when they are read."""

    def __init__(self, file: BlockFile, start: int, values: Numbers) -> None:
        self._file = file
        self._start = start
        self._values = values
        self._view = values.astype(values.dtype.newbyteorder("="), copy=False).data

    def __len__(self) -> int:
        return len(self._values)

    def at(self, place: int) -> int:
        """One number, in a fraction of the time of a slice. Raises BlockDamaged."""
        start = self._start + place * self._values.itemsize
        if not self._file.checked[start // BLOCK]:
            self._file.check(start, start + 1)
        return int(self._view[place])

    def cut(self, start: int, stop: int) -> bytes:
        """Some bytes, in a fraction of the time of a slice. Raises BlockDamaged."""
        self._file.check(self._start + start, self._start + stop)
        return bytes(self._view[start:stop])

    def __getitem__(self, at: Any, /) -> Numbers:
        """A slice, or the numbers at the places of an array. Raises BlockDamaged."""
        size = self._values.itemsize
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            self._file.check(self._start + start * size, self._start + max(start, stop) * size)
        else:
            self._file.check_at(self._start + np.asarray(at, np.int64) * size)
        found: Numbers = self._values[at]
        return found


class MappedTexts:
    """Texts in a mapped file: where each begins, and their bytes."""

    def __init__(self, starts: MappedNumbers, data: MappedNumbers) -> None:
        self._starts = starts
        self._data = data

    def __len__(self) -> int:
        return len(self._starts) - 1

    def at(self, place: int) -> bytes:
        """Raises BlockDamaged."""
        return self._data.cut(self._starts.at(place), self._starts.at(place + 1))

    def all(self) -> "pa.Array[Any]":
        """Raises BlockDamaged."""
        return self._build(self._starts[:], self._data[:])

    def take(self, places: Numbers) -> "pa.Array[Any]":
        """The texts at these places. Raises BlockDamaged."""
        starts = self._starts[places].astype(np.int64)
        lengths = self._starts[places + 1] - starts
        ends = np.cumsum(lengths)
        # The bytes of all texts, one after the other: each text shifts its bytes by a constant.
        shift = np.repeat(starts - (ends - lengths), lengths)
        data = self._data[np.arange(len(shift)) + shift]
        return self._build(np.concatenate([[0], ends]), data)

    def _build(self, starts: Numbers, data: Numbers) -> "pa.Array[Any]":
        offsets, held = np.ascontiguousarray(starts, np.int32), np.ascontiguousarray(data)
        return pa.StringArray.from_buffers(
            len(starts) - 1, pa.py_buffer(offsets.data), pa.py_buffer(held.data)
        )


class BlockWriter:
    """Writes one file, array after array, so that memory holds one of them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._arrays: dict[str, tuple[str, int, int]] = {}
        self._size = 0
        self._sums: list[int] = []
        self._sum = 0

    def add(self, name: str, numbers: Numbers) -> None:
        """Integers, in the fewest bytes that hold each of them."""
        narrow = np.ascontiguousarray(numbers, _narrowest(numbers))
        self._put(bytes(-self._size % _ALIGNMENT))
        self._arrays[name] = (narrow.dtype.str, self._size, len(narrow))
        self._put(narrow.tobytes())

    def add_texts(self, name: str, texts: "pa.Array[Any]") -> None:
        """Texts without nulls."""
        encoded = [str(each).encode() for each in texts.to_pylist()]
        self.add(f"{name} starts", np.cumsum([0, *map(len, encoded)]))
        self.add(name, np.frombuffer(b"".join(encoded), np.uint8))

    def end(self, facts: Mapping[str, str]) -> None:
        """Write what makes the file whole."""
        if self._size % BLOCK:
            self._sums.append(self._sum)
        directory = json.dumps({"facts": dict(facts), "arrays": self._arrays}).encode()
        footer = directory + np.array(self._sums, "<u4").tobytes()
        self._file.write(footer + _TAIL.pack(len(directory), zlib.crc32(footer)) + MARK)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        rest = memoryview(data)
        while rest:
            piece = rest[: BLOCK - self._size % BLOCK]
            self._sum = zlib.crc32(piece, self._sum)
            self._size += len(piece)
            rest = rest[len(piece) :]
            if self._size % BLOCK == 0:
                self._sums.append(self._sum)
                self._sum = 0


def texts_of(file: BlockFile, name: str) -> MappedTexts:
    return MappedTexts(file.array(f"{name} starts"), file.array(name))


def _narrowest(numbers: Numbers) -> np.dtype[Any]:
    return np.min_scalar_type(int(numbers.max()) if len(numbers) else 0)


def _body_bytes(rest: int) -> int:
    """The bytes of the body, of those that it shares with its checksums of four bytes each."""
    blocks = -(-rest // (BLOCK + 4)) if rest > 0 else 0
    return max(0, rest - 4 * blocks)
