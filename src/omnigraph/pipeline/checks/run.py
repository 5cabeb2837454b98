"""What spans rows, asked over keys.

The questions are those of `engine.write.validate`, and so are the answers: one violation for a
value that several rows share, for an end that is missing, for a source with too few or too many
edges.

1. Every check is a frame of what is wrong, empty if nothing is. Nearly always all of them are, and
   most can be cleared without Spark's joins (`sift`). All that are left are asked in one job
   whether they are empty, because a job costs more than most checks. What is wrong is told by
   asking those that are not empty once more. Only the keys of faulty rows come back to the driver,
   and no more of them than will be told about.
2. An id given twice is settled first. Where it is an error nothing else is told; where the last
   row counts, only that row takes part.
3. A committed row whose id comes in is replaced, so it holds no value and counts for no source.
4. Tables that are overwritten begin empty, and must not leave edges behind that lead nowhere.
5. What has to be among many others is looked for in a hash of them that every task gets, if they
   are few enough; if not, both are shuffled together once and counted. Sorting both would cost
   more than either.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession, functions as f

from omnigraph.catalog.model import Cardinality, Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import CheckResult, Fault, Faults, LoadMode, gather_faults, type_of
from omnigraph.engine.load.incoming import located, repeated
from omnigraph.engine.write.base_rows import Type, uniques_of
from omnigraph.engine.write.validate import check_count, missing_end, shared_value
from omnigraph.engine.write.violations import Violation
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.key_sets import KeySets, LoadKeys, union
from omnigraph.pipeline.checks.prefilter import (
    Counted,
    CountedPairs,
    Disjoint,
    Distinct,
    KeyCondition,
    Paired,
    Subset,
    find_unproven,
)
from omnigraph.pipeline.spark.jobs import failing_as
from omnigraph.pipeline.stage.keys import ORDINAL_KEY, cells_of, unique_name

VALUES_AT_ONCE: Final = 1_000
"""Of so many values that rows share the holders are looked for in one job."""

HOLDERS_MAX: Final = 10_000
"""How many rows that share values are looked at; more than anybody will read about."""

JOB: Final = "checking the rows"
CHECKS_PER_JOB: Final = 32
"""Beyond this, planning a job takes longer than running two."""


def check_rules(
    spark: SparkSession,
    question: LoadKeys,
    committed: CommittedKeys,
    pins: Mapping[TableKey, Pin],
    moved: Collection[TableKey] | None = None,
) -> CheckResult:
    """What is wrong. When nothing was wrong before, tell what `moved` since: then only what these
    tables have a part in is asked again (D5). Raises JobFailed.
    """
    asked = tables_read(question)
    keys = KeySets(spark, question, committed, {key: pins[key] for key in asked})
    types = [type_of(question.catalog, key) for key in sorted(asked)]
    # All that is read, in one job.
    committed.find_buckets([pins[each.table_key] for each in types if not keys.uses_lookup(each)])
    return replace(_Checks(question, keys, moved).verdict(), asked=asked)


def tables_read(question: LoadKeys) -> frozenset[TableKey]:
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


def _needs_own_table(question: LoadKeys, key: TableKey) -> bool:
    type_ = type_of(question.catalog, key)
    is_counted = isinstance(type_, EdgeType) and type_.cardinality != Cardinality()
    may_exist = question.mode is LoadMode.APPEND and bool(question.given_ids.get(key))
    return bool(uniques_of(type_)) or is_counted or may_exist


def _node_key(catalog: Catalog, name: str) -> TableKey:
    node = catalog.node(name)
    assert node is not None, "the ends of an edge are node types"
    return node.table_key


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """(1) What is wrong, as rows that Spark may find; and the telling of it."""

    find: Callable[[], DataFrame]
    """Planned only if need be: that alone makes Spark look at every file."""
    tell: Callable[[DataFrame], Iterable[Fault]]
    asks: TableKey | None = None
    """The committed table that has a part in it; without one it is answered for good."""
    plain: tuple[KeyCondition, ...] = ()
    """Nothing is wrong if all of these are so. If there are none, that cannot be told so."""


@dataclass(frozen=True, slots=True)
class _Checks:
    question: LoadKeys
    keys: KeySets
    moved: Collection[TableKey] | None

    def _is_due(self, check: Check) -> bool:
        return self.moved is None or check.asks in self.moved

    def verdict(self) -> CheckResult:
        touched = [type_of(self.question.catalog, key) for key in sorted(self.question.key_files)]
        edges = [each for each in touched if isinstance(each, EdgeType)]
        repeated = [*filter(self._is_due, self.check_repeated(touched))]
        others = [
            *filter(self._is_due, self.check_shared(touched)),
            *filter(self._is_due, self.check_ends(edges)),
            *filter(self._is_due, self.check_counts(edges)),
            *filter(self._is_due, self.check_orphans()),
        ]
        taken = [each for each in self.find_taken(touched) if self._is_due(each)]
        doubtful = self._sift([*repeated, *others, *taken])
        with failing_as(JOB):
            wrong = self._find_wrong(doubtful)
            faults = self._gather(self._tell(repeated, wrong))
            if not faults.count:  # (2)
                faults = self._gather(self._tell(others, wrong))
                return CheckResult(faults, self._tell_taken(taken, wrong))
            return CheckResult(faults)

    def _sift(self, checks: Sequence[Check]) -> list[Check]:
        """(1) Those that are not plainly right."""
        questions = [question for check in checks for question in check.plain]
        doubts = find_unproven(self.keys.spark, questions, self.question.bucket_count, JOB)
        return [
            check
            for check in checks
            if not check.plain or any(each in doubts for each in check.plain)
        ]

    def _find_wrong(self, checks: Sequence[Check]) -> dict[Check, DataFrame]:
        """(1) Those that are not empty."""
        frames = [check.find() for check in checks]
        numbered = [
            frame.select(f.lit(number).alias("check")) for number, frame in enumerate(frames)
        ]
        found: set[int] = set()
        for begin in range(0, len(numbered), CHECKS_PER_JOB):
            some = union(numbered[begin : begin + CHECKS_PER_JOB])
            assert some is not None
            (row,) = some.agg(f.collect_set("check").alias("checks")).collect()
            found |= set(row["checks"])
        return {checks[number]: frames[number] for number in found}

    def _tell(self, checks: Sequence[Check], wrong: Mapping[Check, DataFrame]) -> Iterator[Fault]:
        for check in checks:
            if check in wrong:
                yield from check.tell(wrong[check])

    def _tell_taken(
        self, taken: Sequence[Check], wrong: Mapping[Check, DataFrame]
    ) -> dict[str, tuple[str, ...]]:
        """Of the first type that has any."""
        for check in taken:
            if check in wrong:
                assert check.asks is not None, "what is taken is there"
                found = self._first(wrong[check], "id").collect()
                name = type_of(self.question.catalog, check.asks).name
                return {name: tuple(str(row["id"]) for row in found)}
        return {}

    def _gather(self, found: Iterable[Fault]) -> Faults:
        return gather_faults(found, self.question.errors_max, self.question.rejects)

    # ids

    def check_repeated(self, types: Iterable[Type]) -> Iterator[Check]:
        """(2) Ids that come in twice where they may not."""
        for type_ in types:
            if self.keys.is_last_wins(type_) or not self.keys.has_given_ids(type_):
                continue
            plain = Distinct(self.keys.incoming_texts(type_, "id"))
            find, tell = partial(self._find_repeated, type_), partial(self._tell_repeated, type_)
            yield Check(find, tell, plain=(plain,))

    def _find_repeated(self, type_: Type) -> DataFrame:
        at = f.col(ORDINAL_KEY)
        counted = (
            self.keys.incoming(type_)
            .groupBy("id")
            .agg(f.count("*").alias("count"), f.min(at).alias("first"), f.max(at).alias("last"))
        )
        return counted.where("count > 1")

    def _tell_repeated(self, type_: Type, wrong: DataFrame) -> Iterator[Fault]:
        for row in self._told(wrong, "last"):
            places = [self.question.place_of(row[name]) for name in ("first", "last")]
            yield repeated(type_, row["id"], places)

    def find_taken(self, types: Iterable[Type]) -> Iterator[Check]:
        """Ids that were to be new and are there. They are told in a way of their own."""
        if self.question.mode is not LoadMode.APPEND:
            return
        for type_ in types:
            if self.keys.has_committed(type_) and self.keys.has_given_ids(type_):
                find = partial(self.keys.find_common, type_)
                plain = (self._plainly_new(type_),)
                yield Check(find, _tell_nothing, type_.table_key, plain)

    def _plainly_new(self, type_: Type) -> KeyCondition:
        theirs, stored = self.keys.texts_or_lookup(type_, "id")
        return Disjoint(self.keys.incoming_texts(type_, "id"), theirs, stored)

    # unique values

    def check_shared(self, types: Iterable[Type]) -> Iterator[Check]:
        """Unique values that several rows would hold."""
        for type_ in types:
            for number, group in enumerate(uniques_of(type_)):
                name = unique_name(number)
                find = partial(self._find_shared, type_, name)
                tell = partial(self._tell_shared, type_, group, name)
                yield Check(find, tell, type_.table_key, self._plainly_unshared(type_, name))

    def _find_shared(self, type_: Type, name: str) -> DataFrame:
        counts = (
            self._find_holders(type_, name)
            .groupBy(name)
            .agg(f.count("*").alias("count"), f.max(ORDINAL_KEY).alias("last"))
        )
        return counts.where("count > 1")

    def _plainly_unshared(self, type_: Type, name: str) -> tuple[KeyCondition, ...]:
        if self._may_replace(type_):
            # A row that comes in again holds what it held before, as a rule. What a row gives up
            # in favour of another is in doubt, and found right by the join.
            theirs, stored = self.keys.pairs_or_lookup(type_, name, "id")
            return (Paired(self.keys.incoming_pairs(type_, name, "id"), theirs, stored),)
        mine = self.keys.incoming_texts(type_, name)
        there, stored = self.keys.texts_or_lookup(type_, name)
        return (Distinct((*mine, *there)), *([Disjoint(mine, (), stored)] if stored else ()))

    def _may_replace(self, type_: Type) -> bool:
        """May an incoming row rightly take the place of another one?"""
        return self.question.mode is LoadMode.MERGE and self.keys.has_given_ids(type_)

    def _find_holders(self, type_: Type, name: str) -> DataFrame:
        """Who holds a value that comes in: id, value, and ordinal if it comes in itself."""
        wanted = ["id", name, ORDINAL_KEY]
        incoming = self.keys.winners(type_).select(*wanted).where(f.col(name).isNotNull())
        kept = self.keys.kept(type_)
        if kept is None:
            return incoming
        rivals = kept.join(incoming.select(name), name, "left_semi").select(*wanted)
        return incoming.unionByName(rivals)

    def _tell_shared(
        self, type_: Type, group: tuple[str, ...], name: str, wrong: DataFrame
    ) -> Iterator[Fault]:
        holders = self._find_holders(type_, name)
        told = iter(self._told(wrong, "last"))
        while values := [str(row[name]) for row in islice(told, VALUES_AT_ONCE)]:
            yield from self._tell_holders(type_, group, name, holders, values)

    def _tell_holders(
        self, type_: Type, group: tuple[str, ...], name: str, holders: DataFrame, values: list[str]
    ) -> Iterator[Fault]:
        rows = holders.where(f.col(name).isin(values)).limit(HOLDERS_MAX).collect()
        by_value: dict[str, list[Row]] = {value: [] for value in values}
        for row in rows:
            by_value[row[name]].append(row)
        for value, some in by_value.items():
            # Committed rows have no ordinal and come first, as in the evaluator.
            some.sort(key=lambda row: (row[ORDINAL_KEY] is not None, row[ORDINAL_KEY] or 0))
            ids = tuple(str(row["id"]) for row in some)
            violation = shared_value(type_, group, cells_of(type_, group, value), ids)
            yield self._locate(violation, [row[ORDINAL_KEY] for row in some])

    # ends

    def check_ends(self, edges: Sequence[EdgeType]) -> Iterator[Check]:
        """Ends of incoming edges that will not be there: all that one type of nodes is to have."""
        ends = [
            (edge, column, self._node(name))
            for edge in edges
            for column, name in (("src", edge.source), ("dst", edge.target))
        ]
        for node in sorted({node.name: node for _, _, node in ends}.values(), key=_name):
            mine = [(edge, column) for edge, column, of in ends if of.name == node.name]
            wanted = [
                texts for edge, column in mine for texts in self.keys.incoming_texts(edge, column)
            ]
            find = partial(self._find_missing, mine, node)
            tell = partial(self._tell_missing, mine, node)
            there, stored = self.keys.texts_or_lookup(node, "id")
            known = (*self.keys.incoming_texts(node, "id"), *there)
            plain = Subset(tuple(wanted), known, stored)
            yield Check(find, tell, node.table_key, (plain,))

    def _find_missing(self, ends: Sequence[tuple[EdgeType, str]], node: NodeType) -> DataFrame:
        wanted = union(
            self.keys.winners(edge).select(f.col(column).alias("id")) for edge, column in ends
        )
        assert wanted is not None, "a type that is asked about has edges"
        return self.keys.find_absent(wanted, node)

    def _tell_missing(
        self, ends: Sequence[tuple[EdgeType, str]], node: NodeType, wrong: DataFrame
    ) -> Iterator[Fault]:
        del wrong  # which ids are missing; told is who wants them
        known = self.keys.known_ids(node)
        for edge, column in ends:
            yield from self._tell_lost(edge, column, self.keys.winners(edge), known)

    def _tell_lost(
        self, edge: EdgeType, column: str, edges: DataFrame, known: DataFrame | None
    ) -> Iterator[Fault]:
        lost = edges
        if known is not None:
            lost = edges.join(known.select(f.col("id").alias(column)), column, "left_anti")
        for row in self._told(lost, ORDINAL_KEY, "id"):
            violation = missing_end(edge, row["id"], column, row[column])
            yield self._locate(violation, [row[ORDINAL_KEY]])

    def check_orphans(self) -> Iterator[Check]:
        """(4) Edges that stay, and lose a node at one end."""
        if self.question.mode is not LoadMode.OVERWRITE:
            return
        for edge in self.question.catalog.edges:
            for column, name in (("src", edge.source), ("dst", edge.target)):
                node = self._node(name)
                wanted = self.keys.committed_texts(edge, column)
                if wanted and self.keys.is_replaced(node):
                    find = partial(self._find_orphans, edge, column, node)
                    tell = partial(self._tell_orphans, edge, column, node)
                    plain = Subset(wanted, self.keys.incoming_texts(node, "id"))
                    yield Check(find, tell, edge.table_key, (plain,))

    def _find_orphans(self, edge: EdgeType, column: str, node: NodeType) -> DataFrame:
        rows = self.keys.committed(edge)
        assert rows is not None, "the edges are there"
        return self.keys.find_absent(rows.select(f.col(column).alias("id")), node)

    def _tell_orphans(
        self, edge: EdgeType, column: str, node: NodeType, wrong: DataFrame
    ) -> Iterator[Fault]:
        del wrong  # which ids are missing; told is who loses them
        rows = self.keys.committed(edge)
        assert rows is not None, "the edges are there"
        yield from self._tell_lost(edge, column, rows, self.keys.known_ids(node))

    # how many edges

    def check_counts(self, edges: Iterable[EdgeType]) -> Iterator[Check]:
        """Sources that the load touches and that end with too few edges or too many."""
        for edge in edges:
            if edge.cardinality == Cardinality():
                continue
            find, tell = partial(self._find_counts, edge), partial(self._tell_counts, edge)
            yield Check(find, tell, edge.table_key, self._plainly_counted(edge))

    def _plainly_counted(self, edge: EdgeType) -> tuple[KeyCondition, ...]:
        if self._may_replace(edge):
            # Those that are replaced count once, unless they left another source before.
            there, stored = self.keys.pairs_or_lookup(edge, "id", "src")
            have_stayed = Paired(self.keys.incoming_pairs(edge, "id", "src"), there, stored)
            there, stored = self.keys.pairs_or_lookup(edge, "src", "id")
            mine = self.keys.incoming_pairs(edge, "src", "id")
            low, high = edge.cardinality.low, edge.cardinality.high
            return (have_stayed, CountedPairs(mine, there, low, high, stored))
        are_new: tuple[KeyCondition, ...] = ()
        if self.keys.has_committed(edge) and self.keys.has_given_ids(edge):
            # They should not replace any, but they might.
            are_new = (self._plainly_new(edge),)
        found, stored = self.keys.texts_or_lookup(edge, "src")
        texts = (*self.keys.incoming_texts(edge, "src"), *found)
        return (Counted(texts, edge.cardinality.low, edge.cardinality.high, stored), *are_new)

    def _find_counts(self, edge: EdgeType) -> DataFrame:
        low, high = edge.cardinality.low, edge.cardinality.high
        is_wrong = f.col("n") < low
        is_wrong = is_wrong if high is None else is_wrong | (f.col("n") > high)
        return self._count_edges(edge).where(is_wrong & (f.col("touched") == 1))

    def _tell_counts(self, edge: EdgeType, wrong: DataFrame) -> Iterator[Fault]:
        for row in self._told(wrong, "src"):
            for violation in check_count(edge, row["src"], row["n"]):
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

    # pieces

    def _first(self, rows: DataFrame, *by: str) -> DataFrame:
        """As many as will be told about, and one more, so that it shows that there are more."""
        return rows.orderBy(*by).limit(self.question.errors_max + 1)

    def _told(self, rows: DataFrame, *by: str) -> Iterable[Row]:
        """The first, or all if somebody wants to know, one partition after the other."""
        if self.question.rejects is None:
            return self._first(rows, *by).collect()
        return rows.orderBy(*by).toLocalIterator()

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


def _tell_nothing(wrong: DataFrame) -> Iterable[Fault]:
    del wrong
    return ()


def _name(node: NodeType) -> str:
    return node.name
