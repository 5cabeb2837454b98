"""The keys of committed tables, read by tasks into buckets, or into Parquet for the joins of Spark.

They have the same columns as the keys of the input, and are read at the versions that a manifest
pins. A version never changes, so keys that were read once serve every later check of the version.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.model import Pin
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import type_of
from omnigraph.engine.load.incoming import key_columns
from omnigraph.ids import TableKey, lance_branch
from omnigraph.pipeline.checks.prefilter import CommittedLookup
from omnigraph.pipeline.stage.buckets import BucketWriter
from omnigraph.pipeline.stage.fragments import KeyParquetWriter, Storage
from omnigraph.pipeline.stage.keys import (
    BUCKETS,
    ROWS_OF_KEYS,
    KeyFiles,
    bucket_columns,
    keys_of,
    places_of,
)
from omnigraph.pipeline.tasks import RunTasks
from omnigraph.storage.tables import Index, IndexKind, ScanRequest, TableRef, TableStats

UNINDEXED_ROWS_MAX: Final = 100_000
"""A lookup may read so many rows that no index covers."""
ROWS_PER_TASK: Final = 1_000_000
ROWS_PER_BATCH: Final = 65_536
"""Each batch becomes a row group of its file, and small row groups cost too much."""


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """Some fragments of one table."""

    key: TableKey
    ref: TableRef
    version: int
    fragment_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """The work of reading keys; task n reads piece n."""

    pieces: tuple[KeyPiece, ...]
    catalog: Catalog
    storage: Storage
    scratch: str
    replaces: bool
    bucket_count: int | None
    """None for Parquet that Spark reads."""

    def __call__(self, number: int) -> dict[str, Any]:
        stem = Path(self.scratch) / f"committed-{number:06}-{REAL.new_id()}"
        if self.bucket_count is None:
            rows = KeyParquetWriter(stem.with_suffix(".parquet"))
            for keys in self._read(self.pieces[number], with_places=self.replaces):
                rows.write(keys)
            return {ROWS_OF_KEYS: rows.close()}
        type_ = type_of(self.catalog, self.pieces[number].key)
        columns = bucket_columns(type_, with_partners=self.replaces)
        buckets = BucketWriter(stem.with_suffix(".arrow"), columns, self.bucket_count)
        for keys in self._read(self.pieces[number], with_places=False):
            buckets.write(keys)
        return {BUCKETS: buckets.close()}

    def _read(self, piece: KeyPiece, *, with_places: bool) -> Iterator[pa.Table]:
        type_ = type_of(self.catalog, piece.key)
        tables = self.storage.open().tables
        handle = tables.open_at(piece.ref, piece.version)
        request = ScanRequest(
            columns=key_columns(type_),
            fragment_ids=piece.fragment_ids,
            with_row_id=with_places,
            with_row_address=with_places,
            batch_rows_max=ROWS_PER_BATCH,
        )
        with tables.scan(handle, request) as batches:
            for batch in batches:
                rows = pa.Table.from_batches([batch])
                keys = keys_of(type_, rows, None)
                if with_places:
                    for column in (places := places_of(rows)).column_names:
                        keys = keys.append_column(column, places[column])
                yield keys


@dataclass
class CommittedKeys:
    """Reads the keys of tables on demand, and remembers their files."""

    run: RunTasks
    catalog: Catalog
    storage: Storage
    scratch: Path
    replaces: bool
    """May the load replace rows? Then keys have partners and row addresses."""
    bucket_count: int
    _files: dict[tuple[Pin, bool], tuple[str, ...]] = field(default_factory=dict)

    def find_buckets(self, pins: Collection[Pin]) -> Mapping[TableKey, tuple[str, ...]]:
        """The files with the keys of these tables in buckets; none for an empty table."""
        return self._find(pins, in_buckets=True)

    def find_rows(self, pins: Collection[Pin]) -> Mapping[TableKey, tuple[str, ...]]:
        """The same as Parquet, for joins."""
        return self._find(pins, in_buckets=False)

    def _find(
        self, pins: Collection[Pin], *, in_buckets: bool
    ) -> Mapping[TableKey, tuple[str, ...]]:
        wanted = [pin for pin in pins if pin.row_count and (pin, in_buckets) not in self._files]
        pieces = [piece for pin in wanted for piece in self._cut(pin)]
        if pieces:
            work = ReadKeys(
                tuple(pieces),
                self.catalog,
                self.storage,
                str(self.scratch),
                self.replaces,
                self.bucket_count if in_buckets else None,
            )
            answers = self.run(work, len(pieces), "reading committed keys")
            for pin in wanted:
                mine = [
                    answer
                    for piece, answer in zip(pieces, answers, strict=True)
                    if piece.key == pin.key
                ]
                found = KeyFiles.gather(mine)
                self._files[pin, in_buckets] = found.buckets if in_buckets else found.rows
        return {pin.key: self._files.get((pin, in_buckets), ()) for pin in pins}

    def is_indexed(self, pin: Pin, columns: Collection[str]) -> bool:
        """Do indexes cover these columns, except for a bounded number of rows?"""
        stats = self._inspect(pin)
        known = {each.column: each.covered for each in stats.indices if _is_btree(each)}
        return all(
            sum(
                each.row_count
                for each in stats.fragments
                if each.fragment_id not in known.get(column, frozenset())
            )
            <= UNINDEXED_ROWS_MAX
            for column in columns
        )

    def stored(self, pin: Pin, column: str, *, is_unique: bool, partner: str) -> CommittedLookup:
        type_ = type_of(self.catalog, pin.key)
        return CommittedLookup(
            self.storage, _ref(pin), pin.version, type_, column, is_unique, partner
        )

    def _inspect(self, pin: Pin) -> TableStats:
        tables = self.storage.open().tables
        return tables.inspect(tables.open_at(_ref(pin), pin.version))

    def _cut(self, pin: Pin) -> list[KeyPiece]:
        ref, fragments = _ref(pin), self._inspect(pin).fragments
        pieces: list[KeyPiece] = []
        some: list[int] = []
        rows = 0
        for fragment in fragments:
            some.append(fragment.fragment_id)
            rows += fragment.row_count
            if rows >= ROWS_PER_TASK:
                pieces.append(KeyPiece(pin.key, ref, pin.version, tuple(some)))
                some, rows = [], 0
        if some:
            pieces.append(KeyPiece(pin.key, ref, pin.version, tuple(some)))
        return pieces


def _is_btree(index: Index) -> bool:
    return index.kind.upper() == IndexKind.BTREE.value


def _ref(pin: Pin) -> TableRef:
    return TableRef(pin.path, lance_branch(pin.owner))
