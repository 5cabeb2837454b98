"""What spans rows, asked as joins over keys.

The questions are those of `engine.validate`, and so are the answers: one violation for a value that
several rows share, for an end that is missing, for a source with too few or too many edges. Only
the keys of faulty rows come back to the driver, and no more of them than will be told about.

1. An id given twice is settled first. Where it is an error nothing else is asked; where the last
   row counts, only that row takes part.
2. A committed row whose id comes in is replaced, so it holds no value and counts for no source.
3. Tables that are overwritten begin empty, and must not leave edges behind that lead nowhere.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from omnigraph.catalog.model import Cardinality, Catalog, EdgeType, NodeType
from omnigraph.commit.manifest import Pin
from omnigraph.engine.bulk import Fault, Faults, LoadMode, Verdict, type_of
from omnigraph.engine.committed import Type, uniques_of
from omnigraph.engine.incoming import located, repeated
from omnigraph.engine.validate import judge_count, missing_end, shared_value
from omnigraph.engine.violations import Violation
from omnigraph.ids import TableKey
from omnigraph.pipeline.committed import CommittedKeys
from omnigraph.pipeline.jobs import failing_as
from omnigraph.pipeline.keys import ORDINAL_KEY, cells_of, unique_name
from omnigraph.pipeline.keysets import KeySets, Question, union

HOLDERS_MAX: Final = 10_000
"""How many rows that share values are looked at; more than anybody will read about."""


def find_verdict(
    spark: SparkSession,
    question: Question,
    committed: CommittedKeys,
    pins: Mapping[TableKey, Pin],
) -> Verdict:
    """Raises JobFailed."""
    asked = find_asked(question)
    files = committed.find_files([pins[key] for key in sorted(asked)])
    checks = _Checks(question, KeySets(spark, question, files))
    with failing_as("checking the rows"):
        return replace(checks.verdict(), asked=asked)


def find_asked(question: Question) -> frozenset[TableKey]:
    """The committed tables that decide whether the load may be made."""
    touched = set(question.key_files)
    is_overwrite = question.mode is LoadMode.OVERWRITE
    asked: set[TableKey] = set()
    for edge in question.catalog.edges:
        ends = {_node_key(question.catalog, name) for name in (edge.source, edge.target)}
        if edge.table_key in touched:
            asked |= ends - touched if is_overwrite else ends
        elif is_overwrite and ends & touched:
            asked.add(edge.table_key)
    if not is_overwrite:
        asked |= {key for key in touched if _needs_own_table(question, key)}
    return frozenset(asked)


def _needs_own_table(question: Question, key: TableKey) -> bool:
    type_ = type_of(question.catalog, key)
    is_counted = isinstance(type_, EdgeType) and type_.cardinality != Cardinality()
    may_exist = question.mode is LoadMode.APPEND and bool(question.given_ids.get(key))
    return bool(uniques_of(type_)) or is_counted or may_exist


def _node_key(catalog: Catalog, name: str) -> TableKey:
    node = catalog.node(name)
    assert node is not None, "the ends of an edge are node types"
    return node.table_key


@dataclass(frozen=True, slots=True)
class _Checks:
    question: Question
    keys: KeySets

    def verdict(self) -> Verdict:
        given_twice = [fault for each in self._touched() for fault in self.find_repeated(each)]
        if given_twice:
            return Verdict(self._gather(given_twice))  # (1)
        found = [fault for each in self._touched() for fault in self.find_shared(each)]
        found += self.find_missing_ends()
        found += self.find_miscounts()
        found += self.find_orphans()
        return Verdict(self._gather(found), self.find_taken())

    def _gather(self, found: Sequence[Fault]) -> Faults:
        return Faults(tuple(found[: self.question.errors_max]), len(found))

    def _touched(self) -> list[Type]:
        """The types that have rows in the input, in the order of their tables."""
        return [type_of(self.question.catalog, key) for key in sorted(self.question.key_files)]

    def _touched_edges(self) -> list[EdgeType]:
        return [each for each in self._touched() if isinstance(each, EdgeType)]

    # questions

    def find_repeated(self, type_: Type) -> Iterator[Fault]:
        """Ids that come in twice where they may not."""
        if self.keys.is_last_wins(type_) or not self.keys.has_given_ids(type_):
            return
        at = f.col(ORDINAL_KEY)
        counted = (
            self.keys.incoming(type_)
            .groupBy("id")
            .agg(f.count("*").alias("count"), f.min(at).alias("first"), f.max(at).alias("last"))
        )
        for row in self._first(counted.where("count > 1"), "last"):
            places = [self.question.place_of(row[name]) for name in ("first", "last")]
            yield repeated(type_, row["id"], places)

    def find_shared(self, type_: Type) -> Iterator[Fault]:
        """Unique values that several rows would hold."""
        for number, group in enumerate(uniques_of(type_)):
            name = unique_name(number)
            holders = self._find_holders(type_, name)
            counts = holders.groupBy(name).agg(
                f.count("*").alias("count"), f.max(ORDINAL_KEY).alias("last")
            )
            shared = self._first(counts.where("count > 1"), "last")
            if shared:
                values = [str(row[name]) for row in shared]
                yield from self._describe_shared(type_, group, holders, name, values)

    def _find_holders(self, type_: Type, name: str) -> DataFrame:
        """Who holds a value that comes in: id, value, and ordinal if it comes in itself."""
        wanted = ["id", name, ORDINAL_KEY]
        incoming = self.keys.winners(type_).select(*wanted).where(f.col(name).isNotNull())
        kept = self.keys.kept(type_)
        if kept is None:
            return incoming
        rivals = kept.join(incoming.select(name), name, "left_semi").select(*wanted)
        return incoming.unionByName(rivals)

    def _describe_shared(
        self,
        type_: Type,
        group: tuple[str, ...],
        holders: DataFrame,
        name: str,
        values: Sequence[str],
    ) -> Iterator[Fault]:
        rows = holders.where(f.col(name).isin(list(values))).limit(HOLDERS_MAX).collect()
        by_value: dict[str, list[Row]] = {value: [] for value in values}
        for row in rows:
            by_value[row[name]].append(row)
        for value, some in by_value.items():
            # Committed rows have no ordinal and come first, as in the evaluator.
            some.sort(key=lambda row: (row[ORDINAL_KEY] is not None, row[ORDINAL_KEY] or 0))
            ids = tuple(str(row["id"]) for row in some)
            violation = shared_value(type_, group, cells_of(type_, group, value), ids)
            yield self._locate(violation, [row[ORDINAL_KEY] for row in some])

    def find_missing_ends(self) -> Iterator[Fault]:
        """Ends of incoming edges that will not be there.

        First all ends that one type of nodes is to have, in one join; which edges they belong to
        is asked only if some are missing.
        """
        ends = [
            (edge, column, self._node(name))
            for edge in self._touched_edges()
            for column, name in (("src", edge.source), ("dst", edge.target))
        ]
        for node in sorted({node.name: node for _, _, node in ends}.values(), key=_name):
            mine = [(edge, column) for edge, column, of in ends if of.name == node.name]
            known = self.keys.known_ids(node)
            wanted = union(
                self.keys.winners(edge).select(f.col(column).alias("id")) for edge, column in mine
            )
            assert wanted is not None, "a type that is asked about has edges"
            if known is not None and wanted.join(known, "id", "left_anti").isEmpty():
                continue
            for edge, column in mine:
                yield from self._describe_lost(edge, column, self.keys.winners(edge), known)

    def _describe_lost(
        self, edge: EdgeType, column: str, edges: DataFrame, known: DataFrame | None
    ) -> Iterator[Fault]:
        lost = edges
        if known is not None:
            lost = edges.join(known.select(f.col("id").alias(column)), column, "left_anti")
        for row in self._first(lost, ORDINAL_KEY, "id"):
            violation = missing_end(edge, row["id"], column, row[column])
            yield self._locate(violation, [row[ORDINAL_KEY]])

    def find_miscounts(self) -> Iterator[Fault]:
        """Sources that the load touches and that end with too few edges or too many."""
        for edge in self._touched_edges():
            if edge.cardinality == Cardinality():
                continue
            low, high = edge.cardinality.low, edge.cardinality.high
            wrong = f.col("n") < low
            wrong = wrong if high is None else wrong | (f.col("n") > high)
            counts = self._count_edges(edge).where(wrong & (f.col("touched") == 1))
            for row in self._first(counts, "src"):
                for violation in judge_count(edge, row["src"], row["n"]):
                    yield self._locate(violation, [row["last"]])

    def _count_edges(self, edge: EdgeType) -> DataFrame:
        """How many edges leave each source, and whether the load has to do with it."""
        incoming = self.keys.winners(edge)
        parts = [_weighed(incoming, n=1, touched=1)]
        kept = self.keys.kept(edge)
        if kept is not None:
            parts.append(_weighed(kept, n=1, touched=0))
        committed = self.keys.committed(edge)
        if committed is not None and self.keys.has_given_ids(edge):
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

    def find_orphans(self) -> Iterator[Fault]:
        """(3) Edges that stay, and lose a node at one end."""
        for edge in self.question.catalog.edges:
            rows = self.keys.committed(edge)
            if rows is None or self.question.mode is not LoadMode.OVERWRITE:
                continue
            for column, name in (("src", edge.source), ("dst", edge.target)):
                node = self._node(name)
                if self.keys.is_replaced(node):
                    yield from self._describe_lost(edge, column, rows, self.keys.known_ids(node))

    def find_taken(self) -> dict[str, tuple[str, ...]]:
        """Ids that were to be new, of the first type that has any."""
        if self.question.mode is not LoadMode.APPEND:
            return {}
        for type_ in self._touched():
            committed = self.keys.committed(type_)
            if committed is None or not self.keys.has_given_ids(type_):
                continue
            ids = self.keys.incoming(type_).select("id")
            found = self._first(ids.join(committed.select("id"), "id", "left_semi"), "id")
            if found:
                return {type_.name: tuple(str(row["id"]) for row in found)}
        return {}

    # pieces

    def _first(self, rows: DataFrame, *by: str) -> list[Row]:
        """As many as will be told about, and one more, so that it shows that there are more."""
        return rows.orderBy(*by).limit(self.question.errors_max + 1).collect()

    def _locate(self, violation: Violation, ordinals: Collection[int | None]) -> Fault:
        known = [self.question.place_of(each) for each in ordinals if each is not None]
        return located(violation, known)

    def _node(self, name: str) -> NodeType:
        node = self.question.catalog.node(name)
        assert node is not None, "the ends of an edge are node types"
        return node


def _weighed(edges: DataFrame, *, n: int, touched: int) -> DataFrame:
    return edges.select(
        "src", f.lit(n).alias("n"), f.lit(touched).alias("touched"), f.col(ORDINAL_KEY)
    )


def _name(node: NodeType) -> str:
    return node.name
