"""The texts of one column, ready to be searched.

Postings are kept per fragment, which never changes: out of its mapped file, or cut from its texts,
once per process. So after a write only new fragments are read. If an index covers many rows that
were never read, the index names the rows that may match. Those rows are read and scored like all
others. So neither a file nor an index ever changes an answer or a score, even if rows were updated
since it was built. Queries that had more rows read by the index than the texts are worth let the
next one read them all.

A score needs the totals of all texts. An index build stores the totals of each fragment
(`engine.maintain.indexes`). A fragment that lost rows since then is read.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.engine.search.kept_texts import KEPT_TEXTS, KeptTexts, Parts
from omnigraph.engine.search.posting_files import Part, Places, PostingFiles
from omnigraph.engine.search.postings import (
    NONE,
    TERM_BYTES,
    Collection,
    Postings,
    Totals,
    build_postings,
)
from omnigraph.engine.tables.metered import Metered
from omnigraph.jsontext import read_json
from omnigraph.storage.block_file import BlockDamaged
from omnigraph.storage.mapped import MappedFiles
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    Fragment,
    ScanRequest,
    TableStats,
    TextQuery,
)

BATCH_ROWS: Final = 8_192

SCAN_ROWS_MAX: Final = 20_000
"""Up to this many rows are read although an index covers them: as fast, and cached."""

ROWS_READ_TOGETHER: Final = 100_000

PART_ROWS: Final = 7 * BATCH_ROWS
"""With one more batch, the rows of a part are numbered in 16 bits."""

PART_BYTES: Final = 32 << 20

INDEX_ROW_COST: Final = 3
"""A row that the index names takes as long as so many that are read one after the other."""

FUZZINESS_MAX: Final = 2
"""The most edits that the index supports."""

FULL_TEXT: Final = "Inverted"

EXPANSIONS_MAX: Final = 1 << 20

CUTTING: Final = 8
"""The memory that analysis needs for a moment, as a multiple of the size of the texts."""


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The texts of one column of a table."""

    table: Metered
    column: str
    scan_rows_max: int = SCAN_ROWS_MAX
    kept: KeptTexts = KEPT_TEXTS
    mapped: MappedFiles | None = None
    index_row_cost: int = INDEX_ROW_COST
    """0: rows that an index names cost nothing, so the index is always asked."""

    def holding(self, query: str, terms: Sequence[str]) -> "pa.Array[Any]":
        """The ids of the texts that contain a term of the query."""
        return self._trusting(lambda: self._collect(query, 0).holding(terms))

    def alike(self, query: str, terms: Sequence[str], edits_max: int) -> "pa.Array[Any]":
        """The ids of the texts with a term within `edits_max` edits of one of the query."""
        return self._trusting(lambda: self._collect(query, edits_max).alike(terms, edits_max))

    def score(self, query: str, terms: Sequence[str]) -> "tuple[pa.Array[Any], pa.Array[Any]]":
        """The ids of the texts that contain a term of the query, and their scores."""
        return self._trusting(lambda: self.collection(query).score(terms))

    def collection(self, query: str) -> Collection:
        """The postings of a query, with the totals of the whole column."""
        return self._collect(query, 0, with_totals=True)

    def count(self, fragments: Iterable[Fragment]) -> Mapping[str, Totals]:
        """The totals of fragments, by identity; reads fragments without cached postings."""
        counted: dict[str, Totals] = {}
        for group in _groups(fragments):
            # One group at a time: all fragments together may not fit in memory.
            with self.table.meanwhile():
                read = self._read(tuple(group))
            counted.update({key: _totals_of(each) for key, each in read.items()})
        return counted

    def parts(self, fragment: Fragment) -> Iterator[Part]:
        """The postings of a fragment, a part after the other: memory holds the texts of one."""
        request = ScanRequest(
            columns=("id", self.column),
            fragment_ids=(fragment.fragment_id,),
            with_row_address=True,
            batch_rows_max=BATCH_ROWS,
        )
        for rows in _parts(self.table.scan(request)):
            places = _places_in(rows)
            has_text = rows[self.column].is_valid().to_numpy()
            yield Part(self._cut(rows), places[has_text], places)
            self.table.memory.release(rows.nbytes)

    # finding texts

    def _trusting(self, answer: Callable[[], Answer]) -> Answer:
        """Answer again without a mapped file, as often as one turns out to be damaged."""
        while True:
            try:
                return answer()
            except BlockDamaged as damage:
                self.kept.distrust(damage.file)

    def _collect(self, query: str, edits_max: int, *, with_totals: bool = False) -> Collection:
        stats = self.table.inspect()
        at_hand = self._find_at_hand(stats.fragments)
        covered, others = self._divide(stats, at_hand, query, edits_max)
        read = {**at_hand, **self._read(others)}
        asked = {each.identity for each in covered}
        parts = [part for key, each in read.items() if key not in asked for part in each]
        totals = NONE
        if with_totals:
            totals = sum((each.totals for each in parts), self._totals(covered))
        if covered:
            parts.append(self._ask_index(covered, query, edits_max))
        return Collection(tuple(parts), totals)

    def _find_at_hand(self, fragments: tuple[Fragment, ...]) -> dict[str, Parts]:
        """The postings that were read before, or are in a mapped file, by identity."""
        found: dict[str, Parts] = {}
        for fragment in fragments:
            parts = self.kept.find(fragment.identity, self.column)
            if parts is None:
                parts = self._map(fragment)
            if parts is not None:
                found[fragment.identity] = parts
        return found

    def _map(self, fragment: Fragment) -> Parts | None:
        if self.mapped is None:
            return None
        files = PostingFiles(self.mapped, self.table.handle.ref.path, self.column)
        found = files.find(fragment, lambda: self._read_places(fragment))
        if found is None or not self.kept.trusts(found.file):
            return None
        self.kept.keep(fragment.identity, self.column, found.parts, found.file)
        return found.parts

    def _read_places(self, fragment: Fragment) -> Places:
        request = ScanRequest(
            columns=(), fragment_ids=(fragment.fragment_id,), with_row_address=True
        )
        with self.table.meanwhile():
            return _places_in(self.table.read(request))

    def _divide(
        self, stats: TableStats, at_hand: Mapping[str, Parts], query: str, edits_max: int
    ) -> tuple[tuple[Fragment, ...], tuple[Fragment, ...]]:
        """The fragments that the index answers for, and those that are read."""
        missing = tuple(each for each in stats.fragments if each.identity not in at_hand)
        covered = find_covered(stats, self.column)
        left = {each.fragment_id for each in covered}
        row_count = sum(each.row_count for each in missing if each.fragment_id in left)
        is_read = edits_max > FUZZINESS_MAX or row_count <= self.scan_rows_max
        if not is_read and not self._is_known(covered, query, edits_max):
            is_read = self._pays_off(covered, row_count)
        if is_read:
            return (), missing
        return covered, tuple(each for each in missing if each.fragment_id not in left)

    def _is_known(self, covered: tuple[Fragment, ...], query: str, edits_max: int) -> bool:
        return self.kept.find(_identity_of(covered, query, edits_max), self.column) is not None

    def _pays_off(self, covered: tuple[Fragment, ...], row_count: int) -> bool:
        """Is it time to read these rows, and is there room for their postings?"""
        asked = self.kept.charged(_identity_of(covered), self.column)
        if self.index_row_cost * asked < row_count:
            return False
        stored = read_totals(self.table.handle.config, self.column)
        totals = sum((stored.get(each.identity, NONE) for each in covered), NONE)
        nbytes = 2 * TERM_BYTES * totals.texts + 8 * totals.terms
        return nbytes <= self.kept.bytes_max and self.table.has_room(nbytes + CUTTING * PART_BYTES)

    def _ask_index(self, covered: tuple[Fragment, ...], query: str, edits_max: int) -> Postings:
        identity = _identity_of(covered, query, edits_max)
        known = self.kept.find(identity, self.column)
        if known is not None:
            return known[0]
        asked = TextQuery(self.column, query, fuzziness=edits_max, expansions_max=EXPANSIONS_MAX)
        request = ScanRequest(columns=("id", self.column), text=asked, indexed_only=True)
        with self.table.meanwhile():
            found = self._cut(self.table.read(request))
        self.table.hold(found.size_bytes)
        self.kept.keep(identity, self.column, (found,))
        self.kept.charge(_identity_of(covered), self.column, found.totals.texts)
        return found

    def _read(self, fragments: tuple[Fragment, ...]) -> dict[str, Parts]:
        """The postings of these fragments, by identity."""
        read: dict[str, Parts] = {}
        for group in _groups(fragments):
            with self.table.meanwhile():
                made = self._cut_each(group)
            for fragment, parts in zip(group, made, strict=True):
                self.table.hold(sum(each.size_bytes for each in parts))
                self.kept.keep(fragment.identity, self.column, parts)
                read[fragment.identity] = parts
        return read

    def _cut_each(self, group: Sequence[Fragment]) -> list[Parts]:
        if len(group) == 1:
            parts = []
            for part in self.parts(group[0]):
                self.table.hold(part.postings.size_bytes)
                parts.append(part.postings)
            return [tuple(parts)]
        request = ScanRequest(
            columns=("id", self.column),
            fragment_ids=tuple(each.fragment_id for each in group),
            with_row_address=True,
        )
        rows = self.table.read(request)
        owners = rows[ROW_ADDRESS].to_numpy() >> 32
        return [
            (self._cut(rows.filter(pa.array(owners == np.uint64(each.fragment_id)))),)
            for each in group
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


def _totals_of(parts: Iterable[Postings]) -> Totals:
    return sum((each.totals for each in parts), NONE)


def _places_in(rows: pa.Table) -> Places:
    """The places of rows in their fragment."""
    addresses: Places = rows[ROW_ADDRESS].to_numpy()
    return (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches, joined to parts of moderate size."""
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        held.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if rows > PART_ROWS or nbytes > PART_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, nbytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _groups(fragments: Iterable[Fragment]) -> Iterator[list[Fragment]]:
    """Groups of fragments to read together: small ones share a read, a large one is alone."""
    group: list[Fragment] = []
    rows = 0
    for fragment in fragments:
        if group and rows + fragment.row_count > ROWS_READ_TOGETHER:
            yield group
            group, rows = [], 0
        group.append(fragment)
        rows += fragment.row_count
    if group:
        yield group


def _identity_of(fragments: Iterable[Fragment], *asked: object) -> str:
    """Identifies the result of an index query over immutable fragments."""
    facts = repr(([each.identity for each in fragments], asked))
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
