"""The lines of a block, grouped by their first bytes, without parsing each line.

Most lines begin with one of a few envelopes, such as `{"type":"Person"`. The first line without a
group gives an envelope, all lines with the same first bytes are found at once, and so on. Lines
with other beginnings, or with one envelope too many, are read one by one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]

_ENVELOPE: Final = re.compile(rb'\{"(type|edge)":\s?"([^"\\\x00-\x1f]+)"')
"""How most programs begin a record."""

_ODD_MAX: Final = 16
_KINDS_MAX: Final = 512
"""So often a block is searched; what is left then is not worth another search."""

_NEWLINE, _RETURN, _BRACE = b"\n\r}"
_WORD: Final = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that begin with the same envelope."""

    kind: bytes
    name: bytes
    numbers: Numbers
    """The numbers of the lines, ascending."""
    text: pa.Buffer
    """The text of the lines, each with its newline."""


class Lines:
    """A block, cut at its newlines."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._bytes = np.frombuffer(block, dtype=np.uint8)
        self._ends: Numbers = np.flatnonzero(self._bytes == _NEWLINE)
        if block and not block.endswith(b"\n"):
            self._ends = np.append(self._ends, len(block))
        self._starts: Numbers = np.zeros(len(self._ends), dtype=np.int64)
        self._starts[1:] = self._ends[:-1] + 1

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        return self._block[self._starts[number] : self._ends[number]]

    def sort(self) -> tuple[list[Group], Numbers]:
        """The groups, and the lines that belong to none."""
        is_object = self._find_objects()
        left: Numbers = np.flatnonzero(is_object)
        odd = [np.flatnonzero(~is_object)]
        groups: list[Group] = []
        odd_count = 0
        while len(left) and odd_count < _ODD_MAX and len(groups) < _KINDS_MAX:
            found = _ENVELOPE.match(self[int(left[0])])
            if found is None:
                odd.append(left[:1])
                left = left[1:]
                odd_count += 1
                continue
            matches = self._begin_with(left, found[0])
            numbers = left[matches]
            groups.append(Group(found[1], found[2], numbers, self._gather(numbers)))
            left = left[~matches]
        return groups, np.sort(np.concatenate([*odd, left]))

    def _find_objects(self) -> Truths:
        """Lines that end as an object does.

        A line that begins with the brace of an object and ends with one cannot share an object with
        the next line that does, so as many rows as lines means one row for each line.
        """
        if not len(self._ends):
            return np.zeros(0, dtype=np.bool_)
        sizes = self._ends - self._starts
        last = self._bytes[np.maximum(self._ends - 1, 0)]
        before = self._bytes[np.maximum(self._ends - 2, 0)]
        is_closed: Truths = (last == _BRACE) | ((last == _RETURN) & (before == _BRACE))
        is_closed &= sizes > 1
        return is_closed

    def _begin_with(self, numbers: Numbers, prefix: bytes) -> Truths:
        """Which of some lines do; compared eight bytes at a time, wherever in memory they are."""
        starts = self._starts[numbers]
        matches = self._ends[numbers] - starts >= len(prefix)
        words = np.ndarray(
            (max(0, len(self._block) - _WORD + 1),), dtype="<u8", buffer=self._block, strides=(1,)
        )
        whole = len(prefix) - _WORD
        for offset in (*range(0, whole, _WORD), whole):
            (wanted,) = np.frombuffer(prefix, dtype="<u8", count=1, offset=offset)
            # A line that is too short may be the last of the block; what follows it is not read.
            at = np.minimum(starts + offset, len(words) - 1)
            matches &= words[at] == wanted
        return matches

    def _gather(self, numbers: Numbers) -> pa.Buffer:
        whole = pa.py_buffer(self._block)
        if len(numbers) == len(self):
            return whole
        offsets = np.append(self._starts, len(self._block))
        lines = pa.Array.from_buffers(
            pa.large_binary(), len(self), [None, pa.py_buffer(offsets.data), whole]
        )
        text = lines.take(numbers).buffers()[2]
        assert text is not None, "a group has lines"
        return text.slice(0, int((offsets[numbers + 1] - offsets[numbers]).sum()))

    def pick(self, numbers: Numbers) -> Iterator[tuple[int, bytes]]:
        """Some lines, numbered, one by one."""
        for number in numbers.tolist():
            yield number, self[number]
