"""Which texts contain which terms, and their BM25 scores.

`Postings` cover some texts of a table: those of one fragment, or the rows that an index found. They
are in memory or in a mapped file. A `Collection` joins postings with the totals of the whole table.
The score is BM25 over the whole table, whichever rows the query asks for and however they were
found.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.search.analysis import analyse, edit_distances
from omnigraph.storage.block_file import NumberArray

K1: Final = 1.2
"""BM25: how fast further occurrences of a term lose weight."""

B: Final = 0.75
"""BM25: how much the length of a text lowers its score."""


TERM_BYTES: Final = 120
"""About what the entry of a term takes in a dictionary."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of texts, and the number of terms in all of them."""

    texts: int
    terms: int

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.texts + other.texts, self.terms + other.terms)


NONE: Final = Totals(0, 0)


class Vocabulary(Protocol):
    """Maps a term to its index in the postings: a `dict`, or the terms of a mapped file."""

    def get(self, term: str, /) -> int | None: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


class TextArray(Protocol):
    """Texts in memory, or in a mapped file: a `pyarrow.Array` of strings is one."""

    def __len__(self) -> int: ...

    def take(self, places: Any, /) -> "pa.Array[Any]": ...


@dataclass(frozen=True, slots=True)
class Postings:
    ids: TextArray
    """The ids of the rows that have a text."""
    lengths: NumberArray
    places: Vocabulary
    starts: NumberArray
    rows: NumberArray
    """The rows of each term, from `starts[place]` to `starts[place + 1]`."""
    counts: NumberArray
    """How often the term occurs in each row."""
    totals: Totals
    size_bytes: int
    """In memory; a mapped file takes none."""
    is_gone: npt.NDArray[np.bool_] | None = None
    """Which rows were deleted since; None if none was."""

    def find(self, term: str) -> "Found":
        """The rows that contain a term, and how often each does."""
        place = self.places.get(term)
        if place is None:
            return _NOWHERE
        start, stop = self.starts[place : place + 2].tolist()
        rows, counts = self.rows[start:stop].astype(np.intp), self.counts[start:stop]
        if self.is_gone is None:
            return rows, counts
        is_left = ~self.is_gone[rows]
        return rows[is_left], counts[is_left]

    def holding(self, terms: Sequence[str]) -> "pa.Array[Any]":
        """The ids of the texts that contain one of these terms."""
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        for term in terms:
            mask[self.find(term)[0]] = True
        return self.ids.take(np.flatnonzero(mask))

    def alike(self, terms: Sequence[str], edits_max: int) -> tuple[str, ...]:
        """The terms of these postings within `edits_max` edits of one of the given terms."""
        vocabulary = tuple(self.places)
        near = np.zeros(len(vocabulary), dtype=np.bool_)
        for term in terms:
            near |= edit_distances(vocabulary, term) <= edits_max
        return tuple(vocabulary[place] for place in np.flatnonzero(near))

    def without(self, is_gone: npt.NDArray[np.bool_]) -> "Postings":
        """These postings, of a table from which more rows were deleted."""
        gone = Totals(int(is_gone.sum()), int(self.lengths[np.flatnonzero(is_gone)].sum()))
        left = Totals(self.totals.texts - gone.texts, self.totals.terms - gone.terms)
        return replace(
            self, totals=left, size_bytes=self.size_bytes + is_gone.nbytes, is_gone=is_gone
        )


Found: TypeAlias = "tuple[npt.NDArray[np.intp], npt.NDArray[Any]]"

_NOWHERE: Final = (np.empty(0, np.intp), np.empty(0, np.int32))


def build_postings(ids: "pa.Array[Any]", texts: "pa.Array[Any]") -> Postings:
    """Postings of rows without null texts."""
    found = analyse(texts)
    count = len(texts)
    # One number per pair of term and text, so that one sort groups the texts of a term.
    pairs, counts = np.unique(found.terms * max(1, count) + found.texts, return_counts=True)
    terms, rows = np.divmod(pairs, max(1, count))
    starts = np.searchsorted(terms, np.arange(len(found.vocabulary) + 1))
    lengths = np.bincount(found.texts, minlength=count)
    arrays = (lengths, starts, rows.astype(np.int32), counts.astype(np.int32))
    return Postings(
        ids=ids,
        lengths=lengths,
        places={term: place for place, term in enumerate(found.vocabulary)},
        starts=starts,
        rows=arrays[2],
        counts=arrays[3],
        totals=Totals(count, int(lengths.sum())),
        size_bytes=ids.nbytes
        + sum(each.nbytes for each in arrays)
        + TERM_BYTES * len(found.vocabulary),
    )


@dataclass(frozen=True, slots=True)
class Collection:
    """The texts of a table that may match a query, and the totals of all texts."""

    parts: tuple[Postings, ...]
    totals: Totals = NONE

    def holding(self, terms: Sequence[str]) -> "pa.Array[Any]":
        return _chain([part.holding(terms) for part in self.parts])

    def alike(self, terms: Sequence[str], edits_max: int) -> "pa.Array[Any]":
        return _chain([part.holding(part.alike(terms, edits_max)) for part in self.parts])

    def score(self, terms: Sequence[str]) -> "tuple[pa.Array[Any], pa.Array[Any]]":
        """The ids of the texts that contain one of the terms, and their scores, unordered."""
        places = [[part.find(term) for term in terms] for part in self.parts]
        frequencies = [sum(len(rows) for rows, _ in each) for each in zip(*places, strict=True)]
        mean = self.totals.terms / max(1, self.totals.texts)
        ids, scores = [], []
        for part, of_terms in zip(self.parts, places, strict=True):
            found = np.zeros(len(part.ids))
            for (rows, counts), frequency in zip(of_terms, frequencies, strict=True):
                rarity = math.log(1 + (self.totals.texts - frequency + 0.5) / (frequency + 0.5))
                # Files hold narrow integers; one type of number gives one score.
                lengths = part.lengths[rows].astype(np.int64)
                damping = K1 * (1 - B + B * lengths / mean) if mean else 0.0
                times = counts.astype(np.int64)
                found[rows] += rarity * times * (K1 + 1) / (times + damping)
            matched = np.flatnonzero(found)
            ids.append(part.ids.take(matched))
            scores.append(pa.array(found[matched]))
        return _chain(ids), _chain(scores, pa.float64())


def _chain(arrays: "Sequence[pa.Array[Any]]", type_: pa.DataType | None = None) -> "pa.Array[Any]":
    return pa.concat_arrays(arrays) if arrays else pa.array([], type_ or pa.string())
