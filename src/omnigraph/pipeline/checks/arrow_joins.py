"""The rules of a load as joins over keys in the memory of this process.

They find what the joins of Spark find (`joins`), in the same order, in less time than Spark takes
to start. All keys of the tables that a rule compares are held, so `ROWS_MAX` bounds their number.

1. Where an id may be given twice, only the last row that has it takes part.
2. A committed row whose id comes in is replaced: it holds no value and counts for no source.
3. Tables that are overwritten begin empty.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.catalog.model import NodeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import CheckResult, Fault, type_of
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
from omnigraph.pipeline.checks.broken_rules import report_broken
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.conditions import find_doubtful
from omnigraph.pipeline.checks.key_texts import KeyTexts, LoadKeys
from omnigraph.pipeline.stage.keys import ORDINAL_KEY, cells_of, text_columns, unique_name

ROWS_MAX: Final = 4_000_000
"""The keys of so many rows take some hundred megabytes."""

Column = pa.ChunkedArray


def check_here(
    load: LoadKeys,
    committed: CommittedKeys,
    pins: Mapping[TableKey, Pin],
    *,
    rows_max: int = ROWS_MAX,
) -> CheckResult | None:
    """Check the rules of a load: first by the prefilter, then by joins for what it leaves.

    None if there are too many keys to join. Raises JobFailed.
    """
    read = load.tables_read
    keys = KeyTexts(load, committed, {key: pins[key] for key in read})
    doubtful = find_doubtful(committed.run, keys, load.rules)
    if doubtful and _count_keys(keys, doubtful) > rows_max:
        return None
    joins = ArrowJoins(load, keys)
    found = [(rule, joins.find(rule)) for rule in doubtful]
    return report_broken(load, joins, [(rule, rows) for rule, rows in found if rows.num_rows])


def _count_keys(keys: KeyTexts, rules: Sequence[KeyRule]) -> int:
    """How many keys the joins of these rules hold."""
    tables: set[TableKey] = set()
    for rule in rules:
        match rule:
            case Endpoint(edge) | OrphanedEdge(edge):
                tables |= {edge.table_key, rule.node_key}
            case RepeatedId(type_) | NewId(type_) | UniqueValue(type_):
                tables.add(type_.table_key)
            case EdgeCount():
                tables |= {each.table_key for each in rule.edges}
            case _:
                assert_never(rule)
    catalog, counts = keys.load.catalog, keys.load.counts
    committed = sum(keys.count_committed(type_of(catalog, each)) for each in tables)
    return committed + sum(counts.get(each, 0) for each in tables)


@dataclass(frozen=True, slots=True)
class ArrowJoins:
    load: LoadKeys
    keys: KeyTexts
    _tables: dict[tuple[TableKey, bool], pa.Table] = field(default_factory=dict)

    def find(self, rule: KeyRule) -> pa.Table:
        match rule:
            case RepeatedId(type_):
                return self._find_repeated(type_)
            case NewId(type_):
                ids = self._incoming(type_)["id"]
                return self._committed(type_).filter(_is_in("id", ids)).select(["id"])
            case UniqueValue(type_, number):
                return self._find_shared(type_, unique_name(number))
            case Endpoint(edge, column):
                return self._find_missing(self._winners(edge), column, rule.node_key)
            case EdgeCount():
                return self._find_miscounted(rule)
            case OrphanedEdge(edge, column):
                return self._find_missing(self._committed(edge), column, rule.node_key)
            case _:
                assert_never(rule)

    def report(self, rule: KeyRule, broken: pa.Table) -> Iterator[Fault]:
        match rule:
            case RepeatedId(type_):
                for row in self._reported(broken, "last"):
                    places = [self.load.place_of(row[name]) for name in ("first", "last")]
                    yield repeated(type_, row["id"], places)
            case NewId():
                return  # a taken id is a key conflict, see `find_existing`
            case UniqueValue():
                yield from self._report_shared(rule, broken)
            case Endpoint(edge, column) | OrphanedEdge(edge, column):
                for row in self._reported(broken, ORDINAL_KEY, "id"):
                    violation = missing_end(edge, row["id"], column, row[column])
                    yield self._locate(violation, [row[ORDINAL_KEY]])
            case EdgeCount(edge):
                for row in self._reported(broken, "src"):
                    for violation in check_count(edge, row["src"], row["n"]):
                        yield self._locate(violation, [row["last"]])
            case _:
                assert_never(rule)

    def find_existing(self, broken: pa.Table) -> tuple[str, ...]:
        ordered = broken.sort_by("id").slice(0, self.load.errors_max + 1)
        return tuple(map(str, ordered["id"].to_pylist()))

    # keys

    def _read(self, type_: Type, files: Sequence[str], *, is_committed: bool) -> pa.Table:
        place = (type_.table_key, is_committed)
        if place not in self._tables:
            self._tables[place] = _open(type_, files)
        return self._tables[place]

    def _incoming(self, type_: Type) -> pa.Table:
        files = self.load.key_files.get(type_.table_key)
        return self._read(type_, () if files is None else files.rows, is_committed=False)

    def _winners(self, type_: Type) -> pa.Table:
        """(1) The rows that take part."""
        rows = self._incoming(type_)
        if not self.keys.is_last_wins(type_) or not self.keys.has_given_ids(type_):
            return rows
        last = rows.group_by("id").aggregate([(ORDINAL_KEY, "max")])
        return rows.filter(_is_in(ORDINAL_KEY, last[f"{ORDINAL_KEY}_max"]))

    def _committed(self, type_: Type) -> pa.Table:
        """(3) Committed rows; none of a table that the load overwrites."""
        pin = self.keys.pins.get(type_.table_key)
        files: tuple[str, ...] = ()
        if pin is not None and not self.keys.is_replaced(type_):
            files = self.keys.source.find_rows([pin])[pin.key]
        return self._read(type_, files, is_committed=True)

    def _kept(self, type_: Type) -> pa.Table:
        """(2) Committed rows that the load does not replace."""
        rows = self._committed(type_)
        if not self.keys.has_given_ids(type_):
            return rows
        return rows.filter(~_is_in("id", self._incoming(type_)["id"]))

    # ids

    def _find_repeated(self, type_: Type) -> pa.Table:
        ordinals: list[Any] = [(ORDINAL_KEY, each) for each in ("count", "min", "max")]
        grouped = self._incoming(type_).group_by("id").aggregate(ordinals)
        counted = grouped.select(
            ["id", f"{ORDINAL_KEY}_count", f"{ORDINAL_KEY}_min", f"{ORDINAL_KEY}_max"]
        ).rename_columns(["id", "count", "first", "last"])
        return counted.filter(pc.field("count") > 1)

    # unique values

    def _find_holders(self, type_: Type, name: str) -> pa.Table:
        """Who holds a value that comes in: id, value, and ordinal if it comes in itself."""
        wanted = ["id", name, ORDINAL_KEY]
        winners = self._winners(type_).select(wanted)
        incoming = winners.filter(pc.is_valid(winners[name]))
        rivals = self._kept(type_).select(wanted).filter(_is_in(name, incoming[name]))
        return pa.concat_tables([incoming, rivals])

    def _find_shared(self, type_: Type, name: str) -> pa.Table:
        grouped = self._find_holders(type_, name).group_by(name)
        counted = grouped.aggregate([("id", "count"), (ORDINAL_KEY, "max")])
        named = counted.select([name, "id_count", f"{ORDINAL_KEY}_max"])
        return named.rename_columns([name, "count", "last"]).filter(pc.field("count") > 1)

    def _report_shared(self, rule: UniqueValue, broken: pa.Table) -> Iterator[Fault]:
        type_, name = rule.type, unique_name(rule.number)
        by_value: dict[str, list[Any]] = {row[name]: [] for row in self._reported(broken, "last")}
        values = pa.array(by_value, pa.string())
        holders = self._find_holders(type_, name).filter(_is_in(name, values))
        # Committed rows have no ordinal and come first, as in the in-process evaluator.
        for row in holders.sort_by(ORDINAL_KEY).to_pylist():
            by_value[row[name]].append(row)
        for value, rows in by_value.items():
            rows.sort(key=lambda row: row[ORDINAL_KEY] is not None)
            ids = tuple(row["id"] for row in rows)
            violation = shared_value(type_, rule.columns, cells_of(type_, rule.columns, value), ids)
            yield self._locate(violation, [row[ORDINAL_KEY] for row in rows])

    # edges

    def _find_missing(self, edges: pa.Table, column: str, node_key: TableKey) -> pa.Table:
        node = type_of(self.load.catalog, node_key)
        assert isinstance(node, NodeType), "an end is a node"
        for known in (self._incoming(node), self._committed(node)):
            edges = edges.filter(~_is_in(column, known["id"]))
        return edges

    def _find_miscounted(self, rule: EdgeCount) -> pa.Table:
        low, high = rule.edge.cardinality.low, rule.edge.cardinality.high
        n = pc.field("n")
        is_broken = n < low if high is None else (n < low) | (n > high)
        return self._count_edges(rule).filter(is_broken & (pc.field("touched") == 1))

    def _count_edges(self, rule: EdgeCount) -> pa.Table:
        """How many edges leave each source, and whether the load has to do with it."""
        parts: list[pa.Table] = []
        for edge in rule.edges:
            incoming = self._winners(edge)
            parts.append(_weighed(incoming, n=1, touched=1))
            parts.append(_weighed(self._kept(edge), n=1, touched=0))
            if self.keys.has_given_ids(edge):
                # The source that a replaced edge used to leave has one edge less.
                now = incoming.select(["id", "src"]).rename_columns(["id", "now"])
                left = self._committed(edge).join(now, "id", join_type="inner")
                moved = left.filter(pc.field("src") != pc.field("now"))
                parts.append(_weighed(moved, n=0, touched=1))
        grouped = pa.concat_tables(parts).group_by("src")
        counted = grouped.aggregate([("n", "sum"), ("touched", "max"), (ORDINAL_KEY, "max")])
        names = ["src", "n_sum", "touched_max", f"{ORDINAL_KEY}_max"]
        return counted.select(names).rename_columns(["src", "n", "touched", "last"])

    # rows of the report

    def _reported(self, rows: pa.Table, *by: str) -> Iterator[dict[str, Any]]:
        """The first rows, and one more to show that there are more; all, if rejects are kept."""
        ordered = rows.sort_by([(name, "ascending") for name in by])
        if self.load.rejects is None:
            ordered = ordered.slice(0, self.load.errors_max + 1)
        for batch in ordered.to_batches():
            yield from batch.to_pylist()

    def _locate(self, violation: Violation, ordinals: Collection[int | None]) -> Fault:
        known = [self.load.place_of(each) for each in ordinals if each is not None]
        return located(violation, known)


def _open(type_: Type, files: Sequence[str]) -> pa.Table:
    """Keys as tasks wrote them. Committed rows have no ordinals."""
    columns: dict[str, pa.DataType] = dict.fromkeys(text_columns(type_), pa.string())
    schema = pa.schema({**columns, ORDINAL_KEY: pa.int64()})
    read = [pq.read_table(each, schema=schema) for each in files]
    return pa.concat_tables(read) if read else schema.empty_table()


def _is_in(name: str, values: "Column[Any] | pa.Array[Any]") -> pc.Expression:
    whole = values.combine_chunks() if isinstance(values, Column) else values
    return pc.field(name).isin(whole)


def _weighed(edges: pa.Table, *, n: int, touched: int) -> pa.Table:
    count = edges.num_rows
    return pa.table(
        {
            "src": edges["src"],
            "n": pa.repeat(pa.scalar(n, pa.int64()), count),
            "touched": pa.repeat(pa.scalar(touched, pa.int64()), count),
            ORDINAL_KEY: edges[ORDINAL_KEY],
        }
    )
