"""The keys that a load has to do with, as Spark sees them: what comes in, and what is there.

1. Where an id may be given twice, only the last row that has it takes part.
2. A committed row whose id comes in is replaced.
3. Tables that are overwritten begin empty.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import starmap
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as f

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import LoadMode, RecordPlace, Rejects
from omnigraph.engine.load.incoming import is_keyed
from omnigraph.engine.write.base_rows import Type, uniques_of
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.prefilter import CommittedLookup
from omnigraph.pipeline.stage.buckets import BucketColumn, BucketPairs, BucketTexts
from omnigraph.pipeline.stage.keys import (
    ADDRESS_KEY,
    ORDINAL_KEY,
    ROW_ID_KEY,
    KeyFiles,
    bucket_columns,
    text_columns,
    unique_name,
)

BROADCAST_ROWS: Final = 1_000_000
"""So many ids are sent to every task, where looking one up costs next to nothing."""


@dataclass(frozen=True, slots=True)
class LoadKeys:
    """All there is to know about a load whose rows are not at hand."""

    catalog: Catalog
    mode: LoadMode
    key_files: Mapping[TableKey, KeyFiles]
    """The keys of the input, for each table that has rows in it."""
    bucket_count: int
    lookup_ratio: float
    """A table so many times as large as the input is asked, and not read."""
    counts: Mapping[TableKey, int]
    given_ids: Mapping[TableKey, int]
    errors_max: int
    rejects: Rejects | None
    place_of: Callable[[int], RecordPlace]


@dataclass(frozen=True, slots=True)
class KeySets:
    spark: SparkSession
    question: LoadKeys
    source: CommittedKeys
    pins: Mapping[TableKey, Pin]
    """The committed tables, as they are."""
    _frames: dict[tuple[str, str, int], DataFrame] = field(default_factory=dict)
    """Opening files costs Spark a look at each of them."""

    def _read(
        self, type_: Type, files: Sequence[str], places: Sequence[str] = ()
    ) -> DataFrame | None:
        """Keys as they were written; None where there are none."""
        if not files:
            return None
        place = (type_.table_key, files[0], len(places))
        if place not in self._frames:
            self._frames[place] = self._open(type_, files, places)
        return self._frames[place]

    def _open(self, type_: Type, files: Sequence[str], places: Sequence[str]) -> DataFrame:
        texts = ", ".join(f"{name} string" for name in text_columns(type_))
        numbers = ", ".join(f"{name} bigint" for name in (ORDINAL_KEY, *places))
        return self.spark.read.schema(f"{texts}, {numbers}").parquet(*files)

    def incoming(self, type_: Type) -> DataFrame:
        rows = self._read(type_, self.question.key_files[type_.table_key].rows)
        assert rows is not None, "a table that is touched has rows"
        return rows

    def winners(self, type_: Type) -> DataFrame:
        """(1) The rows that count."""
        rows = self.incoming(type_)
        if not self.is_last_wins(type_) or not self.has_given_ids(type_):
            return rows
        whole = f.struct(*(f.col(name) for name in rows.columns))
        last = rows.groupBy("id").agg(f.max_by(whole, f.col(ORDINAL_KEY)).alias("row"))
        return last.select("row.*")

    def committed(self, type_: Type) -> DataFrame | None:
        """(3) What is there before the load, and stays unless it is replaced."""
        if self.is_replaced(type_):
            return None
        return self._read(type_, self._rows_of(type_))

    def _rows_of(self, type_: Type) -> tuple[str, ...]:
        pin = self.pins.get(type_.table_key)
        return () if pin is None else self.source.find_rows([pin])[pin.key]

    def _count_committed(self, type_: Type) -> int:
        pin = self.pins.get(type_.table_key)
        return 0 if pin is None or self.is_replaced(type_) else pin.row_count

    def places(self, type_: Type) -> DataFrame | None:
        """Where the rows are that are there before a merge."""
        return self._read(type_, self._rows_of(type_), (ROW_ID_KEY, ADDRESS_KEY))

    def kept(self, type_: Type) -> DataFrame | None:
        """(2) Committed rows that the load does not replace."""
        rows = self.committed(type_)
        if rows is None or not self.has_given_ids(type_):
            return rows
        return rows.join(self.incoming(type_).select("id"), "id", "left_anti")

    def known_ids(self, node: NodeType) -> DataFrame | None:
        """Every node there will be; None if there will be none."""
        is_touched = node.table_key in self.question.key_files
        found = [self.incoming(node) if is_touched else None, self.committed(node)]
        return union(each.select("id") for each in found if each is not None)

    def find_absent(self, wanted: DataFrame, node: NodeType) -> DataFrame:
        """Those of the wanted ids that no node of a type will have."""
        known = self.known_ids(node)
        if known is None:
            return wanted
        if self._count_known(node) <= BROADCAST_ROWS:
            return wanted.join(f.broadcast(known), "id", "left_anti")
        return _count_both(wanted, known).where("theirs = 0").select("id")

    def find_common(self, type_: Type) -> DataFrame:
        """The ids that come in and are there."""
        committed = self.committed(type_)
        assert committed is not None, "something is there"
        incoming, there = self.incoming(type_).select("id"), committed.select("id")
        if self.question.counts[type_.table_key] <= BROADCAST_ROWS:
            return there.join(f.broadcast(incoming), "id", "left_semi")
        return _count_both(incoming, there).where("ours > 0 and theirs > 0").select("id")

    def _count_known(self, node: NodeType) -> int:
        key = node.table_key
        return self.question.counts.get(key, 0) + self._count_committed(node)

    def is_replaced(self, type_: Type) -> bool:
        is_touched = type_.table_key in self.question.key_files
        return is_touched and self.question.mode is LoadMode.OVERWRITE

    def is_last_wins(self, type_: Type) -> bool:
        return self.question.mode is LoadMode.MERGE and not is_keyed(type_)

    def has_given_ids(self, type_: Type) -> bool:
        """Ids that were made up are new, and all different."""
        return bool(self.question.given_ids.get(type_.table_key))

    # the same as texts

    def incoming_texts(self, type_: Type, name: str) -> tuple[BucketTexts, ...]:
        return self._incoming_column(type_, BucketColumn(name, name))

    def _incoming_column(self, type_: Type, column: BucketColumn) -> tuple[BucketTexts, ...]:
        key = type_.table_key
        files = self.question.key_files.get(key, KeyFiles()).buckets
        return self._as_texts(files, type_, column, self.question.counts.get(key, 0))

    def committed_texts(self, type_: Type, name: str) -> tuple[BucketTexts, ...]:
        """Of all rows that are there, and stay unless they are replaced."""
        return self._committed_column(type_, BucketColumn(name, name))

    def _committed_column(self, type_: Type, column: BucketColumn) -> tuple[BucketTexts, ...]:
        count = self._count_committed(type_)
        if not count:
            return ()
        pin = self.pins[type_.table_key]
        return self._as_texts(self.source.find_buckets([pin])[pin.key], type_, column, count)

    def _as_texts(
        self, files: tuple[str, ...], type_: Type, column: BucketColumn, row_count: int
    ) -> tuple[BucketTexts, ...]:
        if not files:
            return ()
        is_merge = self.question.mode is LoadMode.MERGE
        columns = bucket_columns(type_, with_partners=is_merge)
        return (BucketTexts(files, columns, column, row_count),)

    def texts_or_lookup(
        self, type_: Type, name: str
    ) -> tuple[tuple[BucketTexts, ...], tuple[CommittedLookup, ...]]:
        """The same; or, where there is much of it, whom to ask about the little that matters."""
        if not self.uses_lookup(type_):
            return self.committed_texts(type_, name), ()
        return (), (self._stored(type_, name, "id"),)

    def incoming_pairs(self, type_: Type, name: str, partner: str) -> tuple[BucketPairs, ...]:
        texts = self.incoming_texts(type_, name)
        partners = self._incoming_column(type_, BucketColumn(partner, name))
        return tuple(starmap(BucketPairs, zip(texts, partners, strict=True)))

    def pairs_or_lookup(
        self, type_: Type, name: str, partner: str
    ) -> tuple[tuple[BucketPairs, ...], tuple[CommittedLookup, ...]]:
        """Committed texts, each with its partner; or whom to ask about them."""
        if self.uses_lookup(type_):
            return (), (self._stored(type_, name, partner),)
        texts = self.committed_texts(type_, name)
        partners = self._committed_column(type_, BucketColumn(partner, name))
        return tuple(starmap(BucketPairs, zip(texts, partners, strict=True))), ()

    def _stored(self, type_: Type, name: str, partner: str) -> CommittedLookup:
        pin = self.pins[type_.table_key]
        groups = {unique_name(number): group for number, group in enumerate(uniques_of(type_))}
        if name not in groups:
            return self.source.stored(pin, name, is_unique=False, partner=partner)
        (column,) = groups[name]
        return self.source.stored(pin, column, is_unique=True, partner=partner)

    def uses_lookup(self, type_: Type) -> bool:
        """Is it cheaper to look up what comes in than to read what is there?"""
        count = self._count_committed(type_)
        incoming = sum(self.question.counts.values())
        if not count or count < self.question.lookup_ratio * incoming:
            return False
        columns = {"id", "src"} if isinstance(type_, EdgeType) else {"id"}
        if type_.table_key in self.question.key_files:
            groups = uniques_of(type_)
            if any(len(group) > 1 for group in groups):
                # One value of several may be in every row, and then an index is of no help.
                return False
            columns |= {name for group in groups for name in group}
        return self.source.is_indexed(self.pins[type_.table_key], columns)

    def has_committed(self, type_: Type) -> bool:
        return bool(self._count_committed(type_))


def _count_both(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """How often each id is in the one and in the other, in one shuffle."""
    weighed = [
        frame.select("id", f.lit(is_ours).alias("ours"), f.lit(1 - is_ours).alias("theirs"))
        for frame, is_ours in ((ours, 1), (theirs, 0))
    ]
    both = weighed[0].unionByName(weighed[1]).groupBy("id")
    return both.agg(f.max("ours").alias("ours"), f.max("theirs").alias("theirs"))


def union(parts: Iterable[DataFrame]) -> DataFrame | None:
    """All of them, one under the other; None for none."""
    listed = list(parts)
    return reduce(DataFrame.unionByName, listed) if listed else None
