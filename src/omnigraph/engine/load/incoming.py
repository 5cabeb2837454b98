"""Rows that come in together, judged by the evaluator that judges every other write.

For loads whose rows fit in the hand. Larger ones ask the same questions as joins, in
`pipeline.checks.run`; a property test holds the two against each other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
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
from omnigraph.engine.write.base_rows import Committed, Type, text_of, uniques_of
from omnigraph.engine.write.pending import Pending
from omnigraph.engine.write.validate import Delta, find_violations, missing_end
from omnigraph.engine.write.violations import Violation, ViolationKind, clip
from omnigraph.errors import KeyConflict
from omnigraph.ids import TableKey
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ScanRequest


@dataclass(frozen=True)
class Incoming:
    """All rows of a load, with their ordinals."""

    catalog: Catalog
    mode: LoadMode
    ingested: Ingested

    @cached_property
    def rows(self) -> Mapping[TableKey, Sequence[tuple[int, Row]]]:
        """In the order of the input, whole but for what blobs hold."""
        return {key: self._read(key) for key in self.ingested.counts}

    def _read(self, key: TableKey) -> list[tuple[int, Row]]:
        type_ = type_of(self.catalog, key)
        table = self.ingested.read_pending(key)
        names = schema_of(type_).names
        cells = [_cells(table[name], column_type(type_, name)) for name in names]
        ordinals = [int(each) for each in table[ORDINAL].to_pylist() if each is not None]
        return [
            (ordinal, dict(zip(names, row, strict=True)))
            for ordinal, row in zip(ordinals, zip(*cells, strict=True), strict=True)
        ]

    @cached_property
    def places(self) -> Mapping[TableKey, Mapping[str, list[int]]]:
        """The ordinals of every id."""
        found: dict[TableKey, dict[str, list[int]]] = {}
        for key, rows in self.rows.items():
            of_type = found.setdefault(key, defaultdict(list))
            for ordinal, row in rows:
                of_type[text_of(row, "id")].append(ordinal)
        return found

    def is_last_wins(self, type_: Type) -> bool:
        """May an id be given twice, the last row being the one that counts?"""
        return self.mode is LoadMode.MERGE and not is_keyed(type_)


def _cells(column: "pa.ChunkedArray[Any]", value_type: ValueType) -> list[Cell]:
    if not value_type.is_blob:
        return read_cells(column, value_type)
    # No rule looks inside a blob; that there is one is all that matters.
    return [Blob() if each else None for each in column.is_valid().to_pylist()]


def key_columns(type_: Type) -> tuple[str, ...]:
    """What checks across rows look at."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    grouped = (name for group in uniques_of(type_) for name in group)
    return tuple(dict.fromkeys(("id", *ends, *grouped)))


def is_keyed(type_: Type) -> bool:
    return isinstance(type_, NodeType) and bool(type_.key)


def evaluate(
    stores: Stores,
    manifest: Manifest,
    incoming: Incoming,
    *,
    errors_max: int,
    rejects: Rejects | None = None,
) -> CheckResult:
    """What is wrong with the rows together, and with what the manifest shows."""
    repeated = [*find_repeated(incoming)]
    committed = Committed(stores.tables, manifest, lambda pin: open_pin(stores, pin))
    if repeated:
        return CheckResult(gather_faults(repeated, errors_max, rejects))
    pending = _pending(incoming, committed)
    if incoming.mode is LoadMode.OVERWRITE:
        deltas = pending.deltas()
        before = _Emptied(pending, {each.type.table_key for each in deltas})
        orphans = _find_orphans(stores, manifest, incoming)
        violations = [*find_violations(deltas, before), *orphans.violations]
        asked = frozenset(committed.asked) | orphans.asked
        taken: dict[str, tuple[str, ...]] = {}
    else:
        pending.find_existing()
        violations = list(find_violations(pending.deltas(), pending))
        taken = _find_taken(pending)
        asked = frozenset(committed.asked)
    faults = (place(each, incoming) for each in violations)
    return CheckResult(gather_faults(faults, errors_max, rejects), taken, asked)


def _pending(incoming: Incoming, committed: Committed) -> Pending:
    pending = Pending(incoming.catalog, committed, _no_new_id)
    for key, rows in incoming.rows.items():
        table = pending.table(type_of(incoming.catalog, key))
        # Ids that were made up for all rows of a table need not be looked for.
        is_new = not incoming.ingested.given_ids.get(key)
        for _, row in rows:
            table.write(row, is_new=is_new)
        if incoming.mode is LoadMode.APPEND:
            table.fresh |= table.rows.keys()
    return pending


def _no_new_id() -> str:
    raise AssertionError("rows of a load have their ids")


def _find_taken(pending: Pending) -> dict[str, tuple[str, ...]]:
    try:
        pending.check_fresh()
    except KeyConflict as conflict:
        return {conflict.type_name: tuple(conflict.ids)}
    return {}


# ── faults and their places ──────────────────────────────────────────────────────────────────────


def find_repeated(incoming: Incoming) -> Iterator[Fault]:
    """Ids that are given twice where they may not be, with both places."""
    for key, places in sorted(incoming.places.items()):
        type_ = type_of(incoming.catalog, key)
        if incoming.is_last_wins(type_):
            continue
        for identity, ordinals in places.items():
            if len(ordinals) > 1:
                found = [incoming.ingested.place_of(each) for each in (ordinals[0], ordinals[-1])]
                yield repeated(type_, identity, found)


def repeated(type_: Type, identity: str, places: Sequence[RecordPlace]) -> Fault:
    """One identity given to several rows of a load."""
    key = type_.key if isinstance(type_, NodeType) else ()
    name = "id" if not key else key[0] if len(key) == 1 else f"({', '.join(key)})"
    message = (
        f"@unique violation on {type_.name}.{name}: {clip(identity)} is given at "
        f"{' and at '.join(map(str, places))}"
    )
    violation = Violation(ViolationKind.KEY, type_.name, name, (identity,), identity, message)
    return fault_of(violation, file=places[-1].file, line=places[-1].line)


def place(violation: Violation, incoming: Incoming) -> Fault:
    """A violation, and the records that are behind it as far as they came in."""
    key = _table_of(violation, incoming.catalog)
    known = incoming.places.get(key, {})
    if violation.kind is ViolationKind.CARDINALITY:
        sources = set(violation.ids)
        ordinals = [
            at
            for at, row in incoming.rows.get(key, ())
            # Of rows with one id only the last is there to be counted.
            if row["src"] in sources and known[text_of(row, "id")][-1] == at
        ]
    else:
        ordinals = sorted(known[each][-1] for each in violation.ids if each in known)
    return located(violation, [incoming.ingested.place_of(each) for each in ordinals])


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

    def find_edges(self, edge: EdgeType, sources: Collection[str]) -> Iterable[tuple[str, str]]:  # noqa: ARG002 - the protocol's
        return ()


@dataclass(frozen=True, slots=True)
class _Orphans:
    violations: tuple[Violation, ...]
    asked: frozenset[TableKey]


def _find_orphans(stores: Stores, manifest: Manifest, incoming: Incoming) -> _Orphans:
    """Edges that stay, of types that are not replaced, and lose a node at one end."""
    violations: list[Violation] = []
    asked: set[TableKey] = set()
    nodes = {node.name: node.table_key for node in incoming.catalog.nodes}
    for edge in incoming.catalog.edges:
        ends = [
            (column, incoming.places[nodes[name]].keys())
            for column, name in (("src", edge.source), ("dst", edge.target))
            if nodes[name] in incoming.places
        ]
        if edge.table_key in incoming.places or not ends:
            continue
        asked.add(edge.table_key)
        pin = manifest.pins[edge.table_key]
        request = ScanRequest(columns=("id", "src", "dst"))
        with stores.tables.scan(open_pin(stores, pin), request) as batches:
            for batch in batches:
                violations += _orphans_in(edge, batch, ends)
    return _Orphans(tuple(violations), frozenset(asked))


def _orphans_in(
    edge: EdgeType, batch: pa.RecordBatch, ends: Sequence[tuple[str, Collection[str]]]
) -> Iterator[Violation]:
    ids = batch["id"].to_pylist()
    for column, known in ends:
        for identity, end in zip(ids, batch[column].to_pylist(), strict=True):
            if end not in known:
                yield missing_end(edge, str(identity), column, end)
