"""The keys of a load as data frames, for joins.

1. Where an id may be given twice, only the last row that has it takes part.
2. A committed row whose id comes in is replaced.
3. Tables that are overwritten begin empty.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as f

from omnigraph.catalog.model import NodeType
from omnigraph.engine.write.base_rows import Type
from omnigraph.pipeline.checks.key_texts import KeyTexts
from omnigraph.pipeline.stage.keys import (
    ADDRESS_KEY,
    ORDINAL_KEY,
    ROW_ID_KEY,
    text_columns,
)

BROADCAST_ROWS: Final = 1_000_000
"""Up to so many ids are sent to every task as a hash table."""


@dataclass(frozen=True, slots=True)
class KeyFrames:
    spark: SparkSession
    keys: KeyTexts
    _frames: dict[tuple[str, str, int], DataFrame] = field(default_factory=dict)
    """Frames are kept, because Spark looks at every file to open one."""

    def _read(
        self, type_: Type, files: Sequence[str], places: Sequence[str] = ()
    ) -> DataFrame | None:
        """Keys as tasks wrote them; None if there are none."""
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
        rows = self._read(type_, self.keys.load.key_files[type_.table_key].rows)
        assert rows is not None, "a table that is touched has rows"
        return rows

    def winners(self, type_: Type) -> DataFrame:
        """(1) The rows that take part."""
        rows = self.incoming(type_)
        if not self.keys.is_last_wins(type_) or not self.keys.has_given_ids(type_):
            return rows
        whole = f.struct(*(f.col(name) for name in rows.columns))
        last = rows.groupBy("id").agg(f.max_by(whole, f.col(ORDINAL_KEY)).alias("row"))
        return last.select("row.*")

    def committed(self, type_: Type) -> DataFrame | None:
        """(3) Committed rows; none of a table that the load overwrites."""
        if self.keys.is_replaced(type_):
            return None
        return self._read(type_, self._rows_of(type_))

    def _rows_of(self, type_: Type) -> tuple[str, ...]:
        pin = self.keys.pins.get(type_.table_key)
        return () if pin is None else self.keys.source.find_rows([pin])[pin.key]

    def places(self, type_: Type) -> DataFrame | None:
        """The row ids and addresses of committed rows, for a merge."""
        return self._read(type_, self._rows_of(type_), (ROW_ID_KEY, ADDRESS_KEY))

    def kept(self, type_: Type) -> DataFrame | None:
        """(2) Committed rows that the load does not replace."""
        rows = self.committed(type_)
        if rows is None or not self.keys.has_given_ids(type_):
            return rows
        return rows.join(self.incoming(type_).select("id"), "id", "left_anti")

    def known_ids(self, node: NodeType) -> DataFrame | None:
        """The ids of all nodes after the load; None if there are none."""
        is_touched = node.table_key in self.keys.load.key_files
        found = [self.incoming(node) if is_touched else None, self.committed(node)]
        return union(each.select("id") for each in found if each is not None)

    def find_absent(self, wanted: DataFrame, node: NodeType) -> DataFrame:
        """The wanted ids that no node of the type has after the load."""
        known = self.known_ids(node)
        if known is None:
            return wanted
        if self._count_known(node) <= BROADCAST_ROWS:
            return wanted.join(f.broadcast(known), "id", "left_anti")
        return _count_both(wanted, known).where("theirs = 0").select("id")

    def find_common(self, type_: Type) -> DataFrame:
        """The ids that both the input and the table have."""
        committed = self.committed(type_)
        assert committed is not None, "something is there"
        incoming, there = self.incoming(type_).select("id"), committed.select("id")
        if self.keys.load.counts[type_.table_key] <= BROADCAST_ROWS:
            return there.join(f.broadcast(incoming), "id", "left_semi")
        return _count_both(incoming, there).where("ours > 0 and theirs > 0").select("id")

    def _count_known(self, node: NodeType) -> int:
        key = node.table_key
        return self.keys.load.counts.get(key, 0) + self.keys.count_committed(node)


def _count_both(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """How often each id is in the one and in the other, in one shuffle."""
    weighed = [
        frame.select("id", f.lit(is_ours).alias("ours"), f.lit(1 - is_ours).alias("theirs"))
        for frame, is_ours in ((ours, 1), (theirs, 0))
    ]
    both = weighed[0].unionByName(weighed[1]).groupBy("id")
    return both.agg(f.max("ours").alias("ours"), f.max("theirs").alias("theirs"))


def union(parts: Iterable[DataFrame]) -> DataFrame | None:
    """The rows of all parts; None if there is no part."""
    listed = list(parts)
    return reduce(DataFrame.unionByName, listed) if listed else None
