"""The rules of a load as Spark joins over keys: which rows break a rule, and their faults.

1. `find` returns a frame that is empty if and only if the rule holds. `report` reads the broken
   rows again and turns them into faults. Only keys of faulty rows reach the driver, and no more of
   them than the load reports.
2. A committed row whose id comes in is replaced: it holds no value and counts for no source.
3. A set of at most `BROADCAST_ROWS` ids is sent to every task as a hash. Larger sets are shuffled
   together once and counted, which is cheaper than sorting both.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, assert_never

from pyspark.sql import DataFrame, Row, functions as f

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.bulk import Fault, type_of
from omnigraph.engine.load.incoming import located, repeated
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.row_rules import (
    EdgeCount,
    Endpoint,
    KeyRule,
    NewId,
    OrphanedEdge,
    RepeatedId,
    UniqueValue,
)
from omnigraph.engine.write.validate import check_count, missing_end, shared_value
from omnigraph.engine.write.violations import Violation
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.key_frames import KeyFrames, union
from omnigraph.pipeline.checks.key_texts import LoadKeys
from omnigraph.pipeline.stage.keys import ORDINAL_KEY, cells_of, unique_name

VALUES_AT_ONCE: Final = 1_000
"""The holders of so many shared values are looked for in one job."""

HOLDERS_MAX: Final = 10_000
"""How many rows that share values one job collects."""


@dataclass(frozen=True, slots=True)
class RuleJoins:
    load: LoadKeys
    frames: KeyFrames

    def find(self, rule: KeyRule) -> DataFrame:
        """(1) Planning a frame alone makes Spark open every file, so call it only if need be."""
        match rule:
            case RepeatedId(type_):
                return self._find_repeated(type_)
            case NewId(type_):
                return self.frames.find_common(type_)
            case UniqueValue(type_, number):
                return self._find_shared(type_, unique_name(number))
            case Endpoint(edge, column):
                return self._find_missing(self.frames.winners(edge), column, rule.node_key)
            case EdgeCount():
                return self._find_miscounted(rule)
            case OrphanedEdge(edge, column):
                return self._find_missing(self._committed(edge), column, rule.node_key)
            case _:
                assert_never(rule)

    def report(self, rule: KeyRule, broken: DataFrame) -> Iterator[Fault]:
        """(1) The faults of a rule, in the order of `engine.load.incoming`."""
        match rule:
            case RepeatedId(type_):
                yield from self._report_repeated(type_, broken)
            case NewId():
                return  # a taken id is a key conflict, see `find_existing`
            case UniqueValue():
                yield from self._report_shared(rule, broken)
            case Endpoint(edge, column):
                edges = self.frames.winners(edge)
                yield from self._report_missing(edge, column, edges, rule.node_key)
            case EdgeCount(edge):
                yield from self._report_miscounted(edge, broken)
            case OrphanedEdge(edge, column):
                yield from self._report_missing(edge, column, self._committed(edge), rule.node_key)
            case _:
                assert_never(rule)

    def find_existing(self, broken: DataFrame) -> tuple[str, ...]:
        """The appended ids that committed rows have, as many as the load reports."""
        return tuple(str(row["id"]) for row in self._first(broken, "id").collect())

    # ids

    def _find_repeated(self, type_: Type) -> DataFrame:
        at = f.col(ORDINAL_KEY)
        counted = (
            self.frames.incoming(type_)
            .groupBy("id")
            .agg(f.count("*").alias("count"), f.min(at).alias("first"), f.max(at).alias("last"))
        )
        return counted.where("count > 1")

    def _report_repeated(self, type_: Type, broken: DataFrame) -> Iterator[Fault]:
        for row in self._reported(broken, "last"):
            places = [self.load.place_of(row[name]) for name in ("first", "last")]
            yield repeated(type_, row["id"], places)

    # unique values

    def _find_shared(self, type_: Type, name: str) -> DataFrame:
        counts = (
            self._find_holders(type_, name)
            .groupBy(name)
            .agg(f.count("*").alias("count"), f.max(ORDINAL_KEY).alias("last"))
        )
        return counts.where("count > 1")

    def _find_holders(self, type_: Type, name: str) -> DataFrame:
        """Who holds a value that comes in: id, value, and ordinal if it comes in itself."""
        wanted = ["id", name, ORDINAL_KEY]
        incoming = self.frames.winners(type_).select(*wanted).where(f.col(name).isNotNull())
        kept = self.frames.kept(type_)
        if kept is None:
            return incoming
        rivals = kept.join(incoming.select(name), name, "left_semi").select(*wanted)
        return incoming.unionByName(rivals)

    def _report_shared(self, rule: UniqueValue, broken: DataFrame) -> Iterator[Fault]:
        name = unique_name(rule.number)
        holders = self._find_holders(rule.type, name)
        rows = iter(self._reported(broken, "last"))
        while values := [str(row[name]) for row in islice(rows, VALUES_AT_ONCE)]:
            yield from self._report_holders(rule, holders, values)

    def _report_holders(
        self, rule: UniqueValue, holders: DataFrame, values: list[str]
    ) -> Iterator[Fault]:
        type_, name = rule.type, unique_name(rule.number)
        rows = holders.where(f.col(name).isin(values)).limit(HOLDERS_MAX).collect()
        by_value: dict[str, list[Row]] = {value: [] for value in values}
        for row in rows:
            by_value[row[name]].append(row)
        for value, some in by_value.items():
            # Committed rows have no ordinal and come first, as in the in-process evaluator.
            some.sort(key=lambda row: (row[ORDINAL_KEY] is not None, row[ORDINAL_KEY] or 0))
            ids = tuple(str(row["id"]) for row in some)
            cells = cells_of(type_, rule.columns, value)
            violation = shared_value(type_, rule.columns, cells, ids)
            yield self._locate(violation, [row[ORDINAL_KEY] for row in some])

    # ends of edges

    def _find_missing(self, edges: DataFrame, column: str, node_key: TableKey) -> DataFrame:
        wanted = edges.select(f.col(column).alias("id"))
        return self.frames.find_absent(wanted, self._node(node_key))

    def _report_missing(
        self, edge: EdgeType, column: str, edges: DataFrame, node_key: TableKey
    ) -> Iterator[Fault]:
        known = self.frames.known_ids(self._node(node_key))
        lost = edges
        if known is not None:
            lost = edges.join(known.select(f.col("id").alias(column)), column, "left_anti")
        for row in self._reported(lost, ORDINAL_KEY, "id"):
            violation = missing_end(edge, row["id"], column, row[column])
            yield self._locate(violation, [row[ORDINAL_KEY]])

    def _committed(self, edge: EdgeType) -> DataFrame:
        rows = self.frames.committed(edge)
        assert rows is not None, "a rule without committed rows is proven before"
        return rows

    def _node(self, key: TableKey) -> NodeType:
        node = type_of(self.load.catalog, key)
        assert isinstance(node, NodeType)
        return node

    # edge counts

    def _find_miscounted(self, rule: EdgeCount) -> DataFrame:
        low, high = rule.edge.cardinality.low, rule.edge.cardinality.high
        is_broken = f.col("n") < low
        is_broken = is_broken if high is None else is_broken | (f.col("n") > high)
        return self._count_edges(rule).where(is_broken & (f.col("touched") == 1))

    def _report_miscounted(self, edge: EdgeType, broken: DataFrame) -> Iterator[Fault]:
        for row in self._reported(broken, "src"):
            for violation in check_count(edge, row["src"], row["n"]):
                yield self._locate(violation, [row["last"]])

    def _count_edges(self, rule: EdgeCount) -> DataFrame:
        """How many edges leave each source, and whether the load has to do with it."""
        parts: list[DataFrame] = []
        for edge in rule.edges:
            kept = self.frames.kept(edge)
            if kept is not None:
                parts.append(_weighed(kept, n=1, touched=0))
            if edge.table_key not in self.load.key_files:
                continue
            incoming = self.frames.winners(edge)
            parts.append(_weighed(incoming, n=1, touched=1))
            committed = self.frames.committed(edge)
            if committed is not None and self.frames.keys.has_given_ids(edge):
                # The source that a replaced edge used to leave has one edge less.
                now = incoming.select("id", f.col("src").alias("now"))
                left = committed.join(now, "id").where("src != now")
                parts.append(_weighed(left, n=0, touched=1))
        rows = union(parts)
        assert rows is not None
        return rows.groupBy("src").agg(
            f.sum("n").alias("n"),
            f.max("touched").alias("touched"),
            f.max(ORDINAL_KEY).alias("last"),
        )

    # rows of the report

    def _first(self, rows: DataFrame, *by: str) -> DataFrame:
        """As many rows as the load reports, and one more to show that there are more."""
        return rows.orderBy(*by).limit(self.load.errors_max + 1)

    def _reported(self, rows: DataFrame, *by: str) -> Iterable[Row]:
        """The first rows; all of them, one partition after the other, if the load keeps rejects."""
        if self.load.rejects is None:
            return self._first(rows, *by).collect()
        return rows.orderBy(*by).toLocalIterator()

    def _locate(self, violation: Violation, ordinals: Collection[int | None]) -> Fault:
        known = [self.load.place_of(each) for each in ordinals if each is not None]
        return located(violation, known)


def _weighed(edges: DataFrame, *, n: int, touched: int) -> DataFrame:
    return edges.select(
        "src", f.lit(n).alias("n"), f.lit(touched).alias("touched"), f.col(ORDINAL_KEY)
    )
