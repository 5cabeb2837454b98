"""The texts of one column, ready to be searched.

Without an index, each fragment is read once per process and its postings are cached. A fragment
never changes, so after a write only new fragments are read. If an index covers many rows that were
never read, the index names the rows that may match. Those rows are read and scored like all others.
So an index never changes an answer or a score, even if rows were updated since it was built.

A score needs the totals of all texts. An index build stores the totals of each fragment
(`engine.maintain.indexes`). A fragment that lost rows since then is read.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.engine.search.postings import NONE, Collection, Postings, Totals, build_postings
from omnigraph.engine.tables.metered import Metered
from omnigraph.jsontext import read_json
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    Fragment,
    ScanRequest,
    TableStats,
    TextQuery,
)

SCAN_ROWS_MAX: Final = 20_000
"""Up to this many rows are read although an index covers them: as fast, and cached."""

ROWS_READ_TOGETHER: Final = 100_000

KEPT_BYTES_MAX: Final = 256 * 1024 * 1024

FUZZINESS_MAX: Final = 2
"""The most edits that the index supports."""

FULL_TEXT: Final = "Inverted"

EXPANSIONS_MAX: Final = 1 << 20

CUTTING: Final = 8
"""The memory that analysis needs for a moment, as a multiple of the size of the texts."""


class KeptTexts:
    """A cache of postings, of fragments and of index results, shared by threads.

    A key is the identity of immutable data, so an entry never becomes stale. The least recently
    used entry is evicted first.
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str], Postings] = OrderedDict()
        self._lock = Lock()

    def find(self, identity: str, column: str) -> Postings | None:
        key = (identity, column)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, identity: str, column: str, postings: Postings) -> None:
        key = (identity, column)
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = postings
            self._bytes += postings.size_bytes
            while self._bytes > self._bytes_max and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.size_bytes


KEPT_TEXTS: Final = KeptTexts()


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The texts of one column of a table."""

    table: Metered
    column: str
    scan_rows_max: int = SCAN_ROWS_MAX
    kept: KeptTexts = KEPT_TEXTS

    def matching(self, query: str, *, edits_max: int = 0) -> tuple[Postings, ...]:
        """Postings of every text with a term of the query, or a term within `edits_max` edits."""
        covered, others = self._divide(edits_max)
        found = self._ask_index(covered, query, edits_max) if covered else ()
        return (*found, *self._read(others).values())

    def collection(self, query: str) -> Collection:
        """The postings of a query, with the totals of the whole column."""
        covered, others = self._divide(0)
        read = self._read(others).values()
        totals = sum((each.totals for each in read), self._totals(covered))
        found = self._ask_index(covered, query, 0) if covered else ()
        return Collection((*found, *read), totals)

    def count(self, fragments: Iterable[Fragment]) -> Mapping[str, Totals]:
        """The totals of fragments, by identity; reads fragments without cached postings."""
        counted: dict[str, Totals] = {}
        for group in _groups(fragments):
            # One group at a time: all fragments together may not fit in memory.
            with self.table.meanwhile():
                read = self._read(tuple(group))
            counted.update({key: each.totals for key, each in read.items()})
        return counted

    # finding texts

    def _divide(self, edits_max: int) -> tuple[tuple[Fragment, ...], tuple[Fragment, ...]]:
        """The fragments that the index answers for, and those that are read."""
        stats = self.table.inspect()
        covered = find_covered(stats, self.column)
        is_read = (
            edits_max > FUZZINESS_MAX
            or sum(each.row_count for each in covered) <= self.scan_rows_max
            or all(self.kept.find(each.identity, self.column) for each in covered)
        )
        if is_read:
            return (), stats.fragments
        left = {each.fragment_id for each in covered}
        return covered, tuple(each for each in stats.fragments if each.fragment_id not in left)

    def _ask_index(
        self, covered: tuple[Fragment, ...], query: str, edits_max: int
    ) -> tuple[Postings, ...]:
        identity = _identity_of(covered, query, edits_max)
        known = self.kept.find(identity, self.column)
        if known is not None:
            return (known,)
        asked = TextQuery(self.column, query, fuzziness=edits_max, expansions_max=EXPANSIONS_MAX)
        request = ScanRequest(columns=("id", self.column), text=asked, indexed_only=True)
        with self.table.meanwhile():
            found = self._cut(self.table.read(request))
        self.table.hold(found.size_bytes)
        self.kept.keep(identity, self.column, found)
        return (found,)

    def _read(self, fragments: tuple[Fragment, ...]) -> dict[str, Postings]:
        """The postings of these fragments, by identity."""
        known = {each.identity: self.kept.find(each.identity, self.column) for each in fragments}
        for group in _groups(each for each in fragments if known[each.identity] is None):
            request = ScanRequest(
                columns=("id", self.column),
                fragment_ids=tuple(each.fragment_id for each in group),
                with_row_address=True,
            )
            with self.table.meanwhile():
                made = self._cut_each(group, self.table.read(request))
            for fragment, postings in zip(group, made, strict=True):
                self.table.hold(postings.size_bytes)
                self.kept.keep(fragment.identity, self.column, postings)
                known[fragment.identity] = postings
        return {key: each for key, each in known.items() if each is not None}

    def _cut_each(self, group: Iterable[Fragment], rows: pa.Table) -> list[Postings]:
        places = rows[ROW_ADDRESS].to_numpy() >> 32
        return [
            self._cut(rows.filter(pa.array(places == np.uint64(fragment.fragment_id))))
            for fragment in group
        ]

    def _cut(self, rows: pa.Table) -> Postings:
        self.table.check(CUTTING * rows[self.column].nbytes)
        present = rows.filter(rows[self.column].is_valid())
        return build_postings(
            present["id"].combine_chunks().cast(pa.string()),
            present[self.column].combine_chunks(),
        )

    def _totals(self, fragments: tuple[Fragment, ...]) -> Totals:
        stored = read_totals(self.table.handle.config, self.column)
        missing = tuple(each for each in fragments if each.identity not in stored)
        counted = {**stored, **self.count(missing)}
        return sum((counted[each.identity] for each in fragments), NONE)


def _groups(fragments: Iterable[Fragment]) -> Iterator[list[Fragment]]:
    """Groups of fragments to read together: small ones share a read, a large one is alone."""
    group: list[Fragment] = []
    for fragment in fragments:
        group.append(fragment)
        if sum(each.row_count for each in group) >= ROWS_READ_TOGETHER:
            yield group
            group = []
    if group:
        yield group


def _identity_of(fragments: Iterable[Fragment], query: str, edits_max: int) -> str:
    """Identifies the result of an index query over immutable fragments."""
    facts = repr(([each.identity for each in fragments], query, edits_max))
    return hashlib.sha256(facts.encode()).hexdigest()


def find_covered(stats: TableStats, column: str) -> tuple[Fragment, ...]:
    """The fragments that a full-text index of the column covers."""
    known: frozenset[int] = frozenset().union(
        *(
            each.covered
            for each in stats.indices
            if each.column == column and each.kind == FULL_TEXT
        )
    )
    return tuple(each for each in stats.fragments if each.fragment_id in known)


# ── stored totals ────────────────────────────────────────────────────────────────────────────────


def totals_key(column: str) -> str:
    """The config key under which a table stores the totals of a column."""
    return f"omnigraph:text:{column}"


def spell_totals(totals: Mapping[str, Totals]) -> str:
    stored = {key: [each.texts, each.terms] for key, each in sorted(totals.items())}
    return json.dumps(stored, separators=(",", ":"))


def read_totals(config: Mapping[str, str], column: str) -> dict[str, Totals]:
    """The stored totals by fragment identity. Text that cannot be read counts as absent."""
    try:
        stored = read_json(config.get(totals_key(column), "{}"))
        return {key: Totals(int(texts), int(terms)) for key, (texts, terms) in stored.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
