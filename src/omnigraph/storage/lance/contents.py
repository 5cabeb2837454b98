"""The text values in small data files that this process wrote.

Until upkeep covers a fragment with an index, a lookup scans it, and single writes make many small
fragments. This process knows the values that it wrote. A data file never changes and its name is
never used twice, so the values hold for every version and branch that shows the file. Deletions
only remove values.

The cache stores hashes of values. A collision costs a scan that finds nothing.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Final, Generic, TypeVar

import pyarrow as pa
from lance import LanceDataset
from lance.fragment import FragmentMetadata, LanceFragment

from omnigraph.storage.lance.table_files import name_of

FILES_KEPT_MAX: Final = 4_096
ROWS_MAX: Final = 32
"""Larger fragments are few, and their values would take more memory."""

Hashes = frozenset[int]
Known = TypeVar("Known")


class ByFile(Generic[Known]):
    """Facts about the data files noted last, by file name. Safe to share among threads."""

    def __init__(self, files_max: int = FILES_KEPT_MAX) -> None:
        self._files_max = files_max
        self._files: OrderedDict[str, Known] = OrderedDict()
        self._lock = Lock()

    def keep(self, file: str, known: Known) -> None:
        with self._lock:
            self._files[file] = known
            if len(self._files) > self._files_max:
                self._files.popitem(last=False)

    def find(self, file: str) -> Known | None:
        with self._lock:
            return self._files.get(file)


class Contents:
    """The hashed values of text columns, by data file."""

    def __init__(self) -> None:
        self._files: ByFile[Mapping[int, Hashes]] = ByFile()

    def remember(
        self, dataset: LanceDataset, fragments: Sequence[FragmentMetadata], rows: pa.Table
    ) -> None:
        """Note that these rows, and no others, were just written to these fragments."""
        if len(fragments) != 1 or len(fragments[0].files) != 1 or rows.num_rows > ROWS_MAX:
            return
        numbers = _field_numbers(dataset)
        held = {
            numbers[field.name]: frozenset(map(hash, rows[field.name].to_pylist()))
            for field in rows.schema
            if pa.types.is_string(field.type)
        }
        self._files.keep(name_of(fragments[0].files[0]), held)

    def candidates(
        self, dataset: LanceDataset, among: Mapping[str, Collection[str]]
    ) -> list[LanceFragment]:
        """The fragments that may hold one of these values in one of these columns."""
        numbers = _field_numbers(dataset)
        wanted = {numbers[column]: frozenset(map(hash, values)) for column, values in among.items()}
        fragments = dataset.get_fragments()
        return [each for each in fragments if self._may_hold(each.metadata, wanted)]

    def _may_hold(self, fragment: FragmentMetadata, wanted: Mapping[int, Hashes]) -> bool:
        # A second file may replace a column of the first one.
        known = self._files.find(name_of(fragment.files[0])) if len(fragment.files) == 1 else None
        if known is None:
            return True
        return any(
            number not in known or not known[number].isdisjoint(values)
            for number, values in wanted.items()
        )


def _field_numbers(dataset: LanceDataset) -> dict[str, int]:
    """The numbers of the columns. A name may move to another column, a number does not."""
    return {field.name(): field.id() for field in dataset.lance_schema.fields()}
