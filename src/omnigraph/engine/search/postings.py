"""Which texts contain which terms, and their BM25 scores.

`Postings` cover some texts of a table: those of one fragment, or the rows that an index found. A
`Collection` joins postings with the totals of the whole table. The score is BM25 over the whole
table, whichever rows the query asks for and however they were found.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.search.analysis import analyse, edit_distances

K1: Final = 1.2
"""BM25: how fast further occurrences of a term lose weight."""

B: Final = 0.75
"""BM25: how much the length of a text lowers its score."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of texts, and the number of terms in all of them."""

    texts: int
    terms: int

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.texts + other.texts, self.terms + other.terms)


NONE: Final = Totals(0, 0)


@dataclass(frozen=True, slots=True)
class Postings:
    ids: "pa.Array[Any]"
    """The ids of the rows that have a text."""
    lengths: npt.NDArray[np.int64]
    places: Mapping[str, int]
    """Maps a term to its index in `starts`."""
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    """The rows of each term, from `starts[place]` to `starts[place + 1]`."""
    counts: npt.NDArray[np.int32]
    """How often the term occurs in each row."""

    @property
    def totals(self) -> Totals:
        return Totals(len(self.ids), int(self.lengths.sum()))

    @property
    def size_bytes(self) -> int:
        arrays = (self.lengths, self.starts, self.rows, self.counts)
        # A dictionary entry of a term takes about 120 bytes.
        return self.ids.nbytes + sum(each.nbytes for each in arrays) + 120 * len(self.places)

    def span(self, term: str) -> slice:
        place = self.places.get(term)
        return slice(0) if place is None else slice(self.starts[place], self.starts[place + 1])

    def holding(self, terms: Sequence[str]) -> "pa.Array[Any]":
        """The ids of the texts that contain one of these terms."""
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        for term in terms:
            mask[self.rows[self.span(term)]] = True
        return self.ids.filter(pa.array(mask))

    def alike(self, terms: Sequence[str], edits_max: int) -> tuple[str, ...]:
        """The terms of these postings within `edits_max` edits of one of the given terms."""
        vocabulary = tuple(self.places)
        near = np.zeros(len(vocabulary), dtype=np.bool_)
        for term in terms:
            near |= edit_distances(vocabulary, term) <= edits_max
        return tuple(vocabulary[place] for place in np.flatnonzero(near))


def build_postings(ids: "pa.Array[Any]", texts: "pa.Array[Any]") -> Postings:
    """Postings of rows without null texts."""
    found = analyse(texts)
    count = len(texts)
    # One number per pair of term and text, so that one sort groups the texts of a term.
    pairs, counts = np.unique(found.terms * max(1, count) + found.texts, return_counts=True)
    terms, rows = np.divmod(pairs, max(1, count))
    starts = np.searchsorted(terms, np.arange(len(found.vocabulary) + 1))
    return Postings(
        ids=ids,
        lengths=np.bincount(found.texts, minlength=count),
        places={term: place for place, term in enumerate(found.vocabulary)},
        starts=starts,
        rows=rows.astype(np.int32),
        counts=counts.astype(np.int32),
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
        frequencies = [sum(_width(part.span(term)) for part in self.parts) for term in terms]
        mean = self.totals.terms / max(1, self.totals.texts)
        ids, scores = [], []
        for part in self.parts:
            found = np.zeros(len(part.ids))
            for term, frequency in zip(terms, frequencies, strict=True):
                rarity = math.log(1 + (self.totals.texts - frequency + 0.5) / (frequency + 0.5))
                span = part.span(term)
                rows, counts = part.rows[span], part.counts[span]
                damping = K1 * (1 - B + B * part.lengths[rows] / mean) if mean else 0.0
                found[rows] += rarity * counts * (K1 + 1) / (counts + damping)
            matched = np.flatnonzero(found)
            ids.append(part.ids.take(matched))
            scores.append(pa.array(found[matched]))
        return _chain(ids), _chain(scores, pa.float64())


def _width(span: slice) -> int:
    return int(span.stop - (span.start or 0))


def _chain(arrays: "Sequence[pa.Array[Any]]", type_: pa.DataType | None = None) -> "pa.Array[Any]":
    return pa.concat_arrays(arrays) if arrays else pa.array([], type_ or pa.string())
