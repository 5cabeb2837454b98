"""Postings in files beside a table, which later processes map (ADR 68).

A file belongs to the rows of one fragment as they were written, and to one column. Fragments never
change, so a write makes no file stale: readers of a newer version map the files of the fragments
that are left, and read the new ones. Rows that were deleted since a file was written are masked.

A file has several parts, so that its writer holds one part in memory. Each part has the arrays of
`Postings`, its terms in the order of their bytes, and the place of each row in the fragment.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.search.analysis import ANALYSIS
from omnigraph.engine.search.postings import Postings, Totals
from omnigraph.storage.block_file import (
    BlockDamaged,
    BlockFile,
    BlockWriter,
    MappedTexts,
    texts_of,
)
from omnigraph.storage.mapped import MappedFiles
from omnigraph.storage.tables import Fragment

Places: TypeAlias = "npt.NDArray[Any]"
"""Places of rows in their fragment, of those that are deleted too."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a fragment: their postings, and where the rows are."""

    postings: Postings
    texts: Places
    """The places of the rows that have a text, in the order of the postings."""
    rows: Places
    """The places of all rows."""


@dataclass(frozen=True, slots=True)
class MappedPostings:
    """What a file has for a fragment."""

    parts: tuple[Postings, ...]
    file: BlockFile


@dataclass(frozen=True, slots=True)
class PostingFiles:
    """The files of one column of a table."""

    mapped: MappedFiles
    table: str
    column: str

    def find(self, fragment: Fragment, read_places: Callable[[], Places]) -> MappedPostings | None:
        """The postings of a fragment, whose rows are read if others were deleted since.

        None if there is no file, or none for these rows.
        """
        file = self.mapped.map_blocks(self._folder(fragment), self._name)
        if file is None:
            return None
        try:
            if file.facts["identity"] == fragment.identity:
                return MappedPostings(tuple(each for each, _ in _parts_of(file)), file)
            is_gone = np.ones(fragment.row_count + fragment.deleted_count, np.bool_)
            is_gone[read_places()] = False
            if not is_gone[file.array("gone")[:]].all():
                return None  # An older version shows rows that were gone when this was written.
            parts = tuple(each.without(is_gone[places[:]]) for each, places in _parts_of(file))
        except BlockDamaged:
            return None
        return MappedPostings(parts, file)

    def is_kept(self, fragment: Fragment) -> bool:
        """Is there an undamaged file for exactly these rows?"""
        file = self.mapped.map_blocks(self._folder(fragment), self._name)
        return file is not None and file.facts["identity"] == fragment.identity and file.is_whole()

    def write(self, fragment: Fragment, parts: Iterable[Part]) -> None:
        def fill(writer: BlockWriter) -> Mapping[str, str]:
            is_gone = np.ones(fragment.row_count + fragment.deleted_count, np.bool_)
            for number, part in enumerate(parts):
                is_gone[part.rows] = False
                _add(writer, number, part)
            writer.add("gone", np.flatnonzero(is_gone))
            return {"identity": fragment.identity}

        self.mapped.write_blocks(self._folder(fragment), self._name, fill)

    @property
    def _name(self) -> str:
        return f"postings {ANALYSIS} {self.column}"

    def _folder(self, fragment: Fragment) -> str:
        return folder_of(self.mapped, self.table, fragment)


def folder_of(mapped: MappedFiles, table: str, fragment: Fragment) -> str:
    return mapped.folder_of_rows(table, fragment.written)


def _add(writer: BlockWriter, number: int, part: Part) -> None:
    postings = part.postings
    terms = [each.encode() for each in postings.places]
    order = np.array(sorted(range(len(terms)), key=terms.__getitem__), np.int64)
    starts: npt.NDArray[np.int64] = postings.starts[:]
    widths = np.diff(starts)[order]
    ends = np.concatenate([[0], np.cumsum(widths)])
    moved = np.repeat(starts[:-1][order] - ends[:-1], widths) + np.arange(ends[-1])
    spelled = pa.array([terms[each].decode() for each in order.tolist()], pa.string())
    writer.add(f"{number} totals", np.array([postings.totals.texts, postings.totals.terms]))
    writer.add_texts(f"{number} ids", postings.ids.take(np.arange(len(postings.ids))))
    writer.add(f"{number} lengths", postings.lengths[:])
    writer.add_texts(f"{number} terms", spelled)
    writer.add(f"{number} starts", ends)
    writer.add(f"{number} rows", postings.rows[:][moved])
    writer.add(f"{number} counts", postings.counts[:][moved])
    writer.add(f"{number} places", part.texts)


def _parts_of(file: BlockFile) -> Iterator[tuple[Postings, Any]]:
    """Each part, and the places of its rows. Raises BlockDamaged."""
    number = 0
    while f"{number} totals" in file:
        texts, terms = file.array(f"{number} totals")[:].tolist()
        postings = Postings(
            ids=texts_of(file, f"{number} ids"),
            lengths=file.array(f"{number} lengths"),
            places=MappedTerms(texts_of(file, f"{number} terms")),
            starts=file.array(f"{number} starts"),
            rows=file.array(f"{number} rows"),
            counts=file.array(f"{number} counts"),
            totals=Totals(texts, terms),
            size_bytes=0,
        )
        yield postings, file.array(f"{number} places")
        number += 1


@dataclass(frozen=True, slots=True)
class MappedTerms:
    """The terms of a mapped file, in the order of their bytes: found by halving."""

    texts: MappedTexts

    def get(self, term: str, /) -> int | None:
        """Raises BlockDamaged."""
        wanted = term.encode()
        low, high = 0, len(self.texts)
        while low < high:
            middle = (low + high) // 2
            found = self.texts.at(middle)
            if found == wanted:
                return middle
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return None

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, self.texts.all().to_pylist()))

    def __len__(self) -> int:
        return len(self.texts)
