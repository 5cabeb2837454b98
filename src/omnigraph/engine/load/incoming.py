"""The rules across rows of a load, evaluated in memory by the evaluator of every other write.

Loads whose rows fit in memory use it. Larger loads check the same rules as joins, in
`pipeline.checks`; a property test holds both to the same faults in the same order.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.catalog.names import spell_group
from omnigraph.catalog.types import ValueType
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.engine.load.bulk import (
    ORDINAL,
    CheckResult,
    Fault,
    Ingested,
    LoadMode,
    RecordPlace,
    Rejects,
    fault_of,
    gather_faults,
    type_of,
)
from omnigraph.engine.tables.cells import Blob, Cell, Row
from omnigraph.engine.tables.columns import column_type, read_cells, schema_of
from omnigraph.engine.write.base_rows import BaseRows, Type, text_of, uniques_of
from omnigraph.engine.write.pending import Pending
from omnigraph.engine.write.row_rules import (
    EdgeCount,
    Endpoint,
    KeyRule,
    NewId,
    OrphanedEdge,
    RepeatedId,
    UniqueValue,
    rules_of_load,
    siblings_of,
)
from omnigraph.engine.write.validate import Before, Delta, Evaluation, missing_end
from omnigraph.engine.write.violations import Violation, ViolationKind, clip
from omnigraph.errors import KeyConflict
from omnigraph.ids import TableKey
from omnigraph.storage.stores import Stores


@dataclass(frozen=True)
class Incoming:
    """All rows of a load, with their ordinals."""

    catalog: Catalog
    mode: LoadMode
    ingested: Ingested
    has_blobs: bool = False
    """Are the bytes of blobs read? No rule needs them, only whether there are any."""

    @cached_property
    def rows(self) -> Mapping[TableKey, Sequence[tuple[int, Row]]]:
        """In the order of the input."""
        return {key: self._read(key) for key in self.ingested.counts}

    def _read(self, key: TableKey) -> list[tuple[int, Row]]:
        type_ = type_of(self.catalog, key)
        table = self.ingested.read_pending(key)
        names = schema_of(type_).names
        cells = [self._cells(table[name], column_type(type_, name)) for name in names]
        ordinals = [int(each) for each in table[ORDINAL].to_pylist() if each is not None]
        return [
            (ordinal, dict(zip(names, row, strict=True)))
            for ordinal, row in zip(ordinals, zip(*cells, strict=True), strict=True)
        ]

    def _cells(self, column: "pa.ChunkedArray[Any]", value_type: ValueType) -> list[Cell]:
        if not value_type.is_blob:
            return read_cells(column, value_type)
        if self.has_blobs:
            return [None if each is None else Blob(**each) for each in column.to_pylist()]
        return [Blob() if each else None for each in column.is_valid().to_pylist()]

    @cached_property
    def rules(self) -> tuple[KeyRule, ...]:
        return load_rules(self.catalog, self.mode, self.ingested.counts, self.ingested.given_ids)

    @cached_property
    def places(self) -> Mapping[TableKey, Mapping[str, list[int]]]:
        """The ordinals of every id."""
        found: dict[TableKey, dict[str, list[int]]] = {}
        for key, rows in self.rows.items():
            of_type = found.setdefault(key, defaultdict(list))
            for ordinal, row in rows:
                of_type[text_of(row, "id")].append(ordinal)
        return found


def key_columns(type_: Type) -> tuple[str, ...]:
    """The columns that rules across rows read."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    grouped = (name for group in uniques_of(type_) for name in group)
    return tuple(dict.fromkeys(("id", *ends, *grouped)))


def load_rules(
    catalog: Catalog,
    mode: LoadMode,
    counts: Mapping[TableKey, int],
    given_ids: Mapping[TableKey, int],
) -> tuple[KeyRule, ...]:
    """The rules that the rows of a load can break together, in the order of its faults."""
    return rules_of_load(
        catalog,
        [type_of(catalog, key) for key in counts],
        {key for key in counts if given_ids.get(key)},
        merges=mode is LoadMode.MERGE,
        overwrites=mode is LoadMode.OVERWRITE,
    )


def evaluate(
    stores: Stores,
    manifest: Manifest,
    incoming: Incoming,
    *,
    errors_max: int,
    rejects: Rejects | None = None,
) -> CheckResult:
    """Evaluate the rules of a load over its rows and the rows that the manifest shows."""
    repeated = find_all_repeated(incoming)
    if repeated:
        return CheckResult(gather_faults(repeated, errors_max, rejects))
    committed = BaseRows(stores.tables, manifest, lambda pin: open_pin(stores, pin))
    pending = Pending(incoming.catalog, committed, _no_new_id)
    write_into(pending, incoming)
    faults = gather_faults(LoadEvaluation(incoming, pending).find_all(), errors_max, rejects)
    return CheckResult(
        faults,
        _find_taken(pending) if incoming.mode is LoadMode.APPEND else {},
        frozenset(committed.asked),
    )


@dataclass
class LoadEvaluation:
    """Rules of a load, evaluated over its rows in memory."""

    incoming: Incoming
    pending: Pending

    def find_all(self) -> Iterator[Fault]:
        """The faults in their order; the rows that exist are found first."""
        if self.incoming.mode is not LoadMode.OVERWRITE:
            self.pending.find_existing()
        for rule in self.incoming.rules:
            yield from self.find(rule)

    @cached_property
    def evaluation(self) -> Evaluation:
        deltas = {each.type.table_key: each for each in self.pending.deltas()}
        before: Before = self.pending
        if self.incoming.mode is LoadMode.OVERWRITE:
            before = _Emptied(self.pending, deltas.keys())
        return Evaluation(deltas, before)

    def find(self, rule: KeyRule) -> list[Fault]:
        """The faults of a rule: edge counts by source, others by the last record behind each."""
        match rule:
            case EdgeCount():
                return locate(self.incoming, self.evaluation.find(rule))
            case UniqueValue() | Endpoint():
                return locate(self.incoming, self.evaluation.find(rule), is_sorted=False)
            case OrphanedEdge():
                return locate(self.incoming, self._find_orphans(rule), is_sorted=False)
            case RepeatedId() | NewId():
                return []  # repeated ids end the check before, existing ids are no faults
            case _:
                assert_never(rule)

    def _find_orphans(self, rule: OrphanedEdge) -> Iterator[Violation]:
        known = self.incoming.places[rule.node_key].keys()
        for identity, end in self.pending.committed.read_ends(rule.edge, rule.column):
            if end not in known:
                yield missing_end(rule.edge, identity, rule.column, end)


def write_into(pending: Pending, incoming: Incoming) -> None:
    """Decide that the rows of a load are written."""
    for key, rows in incoming.rows.items():
        table = pending.table(type_of(incoming.catalog, key))
        # If all ids of a table are generated, none of them can exist.
        is_new = not incoming.ingested.given_ids.get(key)
        places = incoming.places[key]
        for at, row in rows:
            # Of rows with one id only the last one counts, also for the order of faults.
            if places[text_of(row, "id")][-1] == at:
                table.write(row, is_new=is_new)
        if incoming.mode is LoadMode.APPEND:
            table.fresh |= table.rows.keys()


def _no_new_id() -> str:
    raise AssertionError("rows of a load have their ids")


def _find_taken(pending: Pending) -> dict[str, tuple[str, ...]]:
    try:
        pending.check_fresh()
    except KeyConflict as conflict:
        return {conflict.type_name: tuple(conflict.ids)}
    return {}


# ── faults and their places ──────────────────────────────────────────────────────────────────────


def find_all_repeated(incoming: Incoming) -> list[Fault]:
    return [fault for rule in incoming.rules for fault in find_repeated(rule, incoming)]


def find_repeated(rule: KeyRule, incoming: Incoming) -> list[Fault]:
    """Ids that the input gives twice, with both places, ordered by the last place."""
    if not isinstance(rule, RepeatedId):
        return []
    found = [
        (ordinals[-1], ordinals[0], identity)
        for identity, ordinals in incoming.places[rule.type.table_key].items()
        if len(ordinals) > 1
    ]
    place_of = incoming.ingested.place_of
    return [
        repeated(rule.type, identity, [place_of(first), place_of(last)])
        for last, first, identity in sorted(found)
    ]


def repeated(type_: Type, identity: str, places: Sequence[RecordPlace]) -> Fault:
    """One identity given to several rows of a load."""
    name = spell_group(type_.key) if type_.key else type_.id_name
    message = (
        f"@unique violation on {type_.name}.{name}: {clip(identity)} is given at "
        f"{' and at '.join(map(str, places))}"
    )
    violation = Violation(ViolationKind.KEY, type_.name, name, (identity,), identity, message)
    return fault_of(violation, file=places[-1].file, line=places[-1].line)


def locate(
    incoming: Incoming, violations: Iterable[Violation], *, is_sorted: bool = True
) -> list[Fault]:
    """Violations as faults of their records, by the last record behind each unless sorted."""
    found = [(ordinals_of(each, incoming), each) for each in violations]
    if not is_sorted:
        found.sort(key=lambda each: (max(each[0], default=-1), each[1].ids))
    place_of = incoming.ingested.place_of
    return [located(each, [place_of(at) for at in ordinals]) for ordinals, each in found]


def ordinals_of(violation: Violation, incoming: Incoming) -> list[int]:
    """The ordinals of the records that a violation is about, ascending."""
    key = _table_of(violation, incoming.catalog)
    known = incoming.places.get(key, {})
    if violation.kind is ViolationKind.CARDINALITY:
        sources = set(violation.ids)
        edge = type_of(incoming.catalog, key)
        assert isinstance(edge, EdgeType), "only edges are counted"
        tables = [each.table_key for each in (edge, *siblings_of(incoming.catalog, edge))]
        return sorted(
            at
            for table in tables
            for at, row in incoming.rows.get(table, ())
            # Of rows with one id only the last one counts.
            if row["src"] in sources and incoming.places[table][text_of(row, "id")][-1] == at
        )
    return sorted(known[each][-1] for each in violation.ids if each in known)


def located(violation: Violation, places: Sequence[RecordPlace]) -> Fault:
    """A violation at the last of its places; all of them are named when there are several."""
    fault = fault_of(violation)
    if not places:
        return fault
    last = places[-1]
    if violation.kind is ViolationKind.UNIQUE and len(places) > 1:
        shown = " and ".join(map(str, places))
        violation = Violation(
            violation.kind,
            violation.type_name,
            violation.property_name,
            violation.ids,
            violation.value,
            f"{violation.message} ({shown})",
        )
    return fault_of(violation, file=last.file, line=last.line)


_OF_EDGES = frozenset({ViolationKind.ENDPOINT, ViolationKind.CARDINALITY})


def _table_of(violation: Violation, catalog: Catalog) -> TableKey:
    node, edge = catalog.node(violation.type_name), catalog.edge(violation.type_name)
    type_ = edge if node is None or violation.kind in _OF_EDGES else node
    assert type_ is not None
    return type_.table_key


# ── overwriting ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Emptied:
    """`validate.Before` an overwrite: the tables that are replaced begin empty."""

    pending: Pending
    replaced: Collection[TableKey]

    def find_ids(self, node: str, ids: Collection[str]) -> Collection[str]:
        type_ = self.pending.catalog.node(node)
        assert type_ is not None
        return () if type_.table_key in self.replaced else self.pending.find_ids(node, ids)

    def find_holders(self, delta: Delta) -> Iterable[Row]:  # noqa: ARG002 - the protocol's
        return ()

    def find_edges(self, edge: EdgeType, sources: Collection[str]) -> Iterable[tuple[str, str]]:
        return () if edge.table_key in self.replaced else self.pending.find_edges(edge, sources)
