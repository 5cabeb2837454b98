"""The text values in data files of moderate size: those that this process wrote or looked into.

Until upkeep covers a fragment with an index, a lookup scans it, and single writes make many small
fragments. This process knows the values that it wrote. Of a file that lookups come back to it reads
the column once, which takes about as long as three lookups. A data file never changes and its name
is never used twice, so the values hold for every version and branch that shows the file. Deletions
only remove values; so a file is read only while none of its rows is deleted.

The cache stores hashes of values. A collision costs a scan that finds nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import Final, Generic, TypeVar

import pyarrow as pa
from lance import LanceDataset
from lance.fragment import FragmentMetadata, LanceFragment

from omnigraph.storage.lance.table_files import name_of

FILES_KEPT_MAX: Final = 4_096
ROWS_MAX: Final = 256
"""Of larger fragments that this process writes, the values are not kept: loads write most."""

LEARNED_ROWS_MAX: Final = 16_384
"""Larger fragments are left to the index."""

VALUES_KEPT_MAX: Final = 200_000
"""About 80 bytes each."""

Hashes = frozenset[int]
Known = TypeVar("Known")


class ByFile(Generic[Known]):
    """Facts about the data files noted last, by file name. Safe to share among threads."""

    def __init__(
        self, size_max: int = FILES_KEPT_MAX, size_of: Callable[[Known], int] = lambda _: 1
    ) -> None:
        self._size_max = size_max
        self._size_of = size_of
        self._size = 0
        self._files: OrderedDict[str, Known] = OrderedDict()
        self._lock = Lock()

    def keep(self, file: str, known: Known) -> None:
        with self._lock:
            if (before := self._files.pop(file, None)) is not None:
                self._size -= self._size_of(before)
            self._files[file] = known
            self._size += self._size_of(known)
            while self._size > self._size_max and len(self._files) > 1:
                _, dropped = self._files.popitem(last=False)
                self._size -= self._size_of(dropped)

    def find(self, file: str) -> Known | None:
        with self._lock:
            return self._files.get(file)


class Contents:
    """The hashed values of text columns, by data file and number of the column."""

    def __init__(self) -> None:
        self._files: ByFile[Mapping[int, Hashes]] = ByFile(VALUES_KEPT_MAX, _count_values)
        self._asked: ByFile[Hashes] = ByFile()
        """The columns of unknown files in which values were looked up once."""

    def remember(
        self, dataset: LanceDataset, fragments: Sequence[FragmentMetadata], rows: pa.Table
    ) -> None:
        """Note that these rows, and no others, were just written to these fragments."""
        if len(fragments) != 1 or len(fragments[0].files) != 1 or rows.num_rows > ROWS_MAX:
            return
        numbers = field_numbers(dataset)
        held = {
            numbers[field.name]: frozenset(map(hash, rows[field.name].to_pylist()))
            for field in rows.schema
            if pa.types.is_string(field.type)
        }
        self._files.keep(name_of(fragments[0].files[0]), held)

    def candidates(
        self, dataset: LanceDataset, among: Mapping[str, Collection[str]], *, learns: bool = False
    ) -> list[LanceFragment]:
        """The fragments that may hold one of these values in one of these columns.

        One that `learns` reads the columns of files that were asked about before.
        """
        numbers = field_numbers(dataset)
        wanted = {numbers[column]: frozenset(map(hash, values)) for column, values in among.items()}
        learned = {numbers[column]: column for column in among} if learns else {}
        fragments = dataset.get_fragments()
        return [each for each in fragments if self._may_hold(each, wanted, learned)]

    def _may_hold(
        self, fragment: LanceFragment, wanted: Mapping[int, Hashes], learned: Mapping[int, str]
    ) -> bool:
        told = fragment.metadata
        if len(told.files) != 1:
            return True  # A second file may replace a column of the first one.
        known = self._files.find(name_of(told.files[0])) or {}
        if not known.keys() >= learned.keys():
            known = self._learn(fragment, told, known, learned)
        return any(
            number not in known or not known[number].isdisjoint(values)
            for number, values in wanted.items()
        )

    def _learn(
        self,
        fragment: LanceFragment,
        told: FragmentMetadata,
        known: Mapping[int, Hashes],
        columns: Mapping[int, str],
    ) -> Mapping[int, Hashes]:
        """Read these columns of a file, the second time that they are asked for."""
        if told.deletion_file is not None or told.physical_rows > LEARNED_ROWS_MAX:
            return known
        file = name_of(told.files[0])
        asked = self._asked.find(file) or frozenset()
        if not asked.issuperset(columns):
            self._asked.keep(file, asked.union(columns))
            return known
        rows = fragment.to_table(columns=[*columns.values()])
        read = {
            number: frozenset(map(hash, rows[name].to_pylist())) for number, name in columns.items()
        }
        known = {**known, **read}
        self._files.keep(file, known)
        return known


def _count_values(known: Mapping[int, Hashes]) -> int:
    return sum(map(len, known.values()))


def field_numbers(dataset: LanceDataset) -> dict[str, int]:
    """The numbers of the columns. A name may move to another column, a number does not."""
    return {field.name(): field.id() for field in dataset.lance_schema.fields()}
