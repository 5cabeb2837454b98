"""What the small files hold that this process wrote.

Until upkeep covers it with an index, every fragment has to be scanned by whoever looks a row up,
and the fragments of single writes are many and tiny. The writer knew what it put into each of
them. A data file never changes and its name is never used again, so what was true when it was
written is true of every version and branch that shows it; deletions only take away.

Hashes stand for values: two that collide cost a scan that finds nothing.
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
"""Fragments of more rows are few, and not worth the memory."""

Hashes = frozenset[int]
Known = TypeVar("Known")


class ByFile(Generic[Known]):
    """Something that is known of data files, of those last noted. Safe to share among threads."""

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
    """The text columns of files."""

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
        # A second file may say otherwise of a column than the first one did.
        known = self._files.find(name_of(fragment.files[0])) if len(fragment.files) == 1 else None
        if known is None:
            return True
        return any(
            number not in known or not known[number].isdisjoint(values)
            for number, values in wanted.items()
        )


def _field_numbers(dataset: LanceDataset) -> dict[str, int]:
    """Columns by number: names change hands, numbers do not."""
    return {field.name(): field.id() for field in dataset.lance_schema.fields()}
