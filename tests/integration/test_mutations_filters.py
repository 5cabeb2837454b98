"""Predicates on real tables find exactly the rows they should, with an index and without."""

from itertools import product
from pathlib import Path

import pytest

import omnigraph
from omnigraph.catalog.model import NodeType
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.compiler.ir import Comparator, Constant, Predicate, Scalarish
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.tables.filters import one_of
from omnigraph.engine.write.base_rows import BaseRows
from omnigraph.ids import MAIN
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import (
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Mark,
    ScanRequest,
    Staged,
)
from support.values import compare

SCHEMA = """
node Thing {
    text: String?
    flag: Bool?
    small: I32?
    big: I64?
    count: U64?
    single: F32?
    double: F64?
    day: Date?
    moment: DateTime?
}
"""
VALUES: dict[str, tuple[Scalarish, ...]] = {
    "text": ("", "it's", 'a"b', "back\\slash", "new\nline", "%_", "é", "😀", "`tick`"),
    "flag": (False, True),
    "small": (-(2**31), -1, 0, 1, 2**31 - 1),
    "big": (-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1),
    "count": (0, 1, 2**53 + 1, 2**63, 2**64 - 1),
    "single": (-0.0, 0.0, 0.10000000149011612, 0.5, -1.0, 3.4028234663852886e38),
    "double": (-0.0, 0.0, 0.1, 5e-324, 2.0**53, -1e300),
    "day": (-(2**31), -1, 0, 19844, 2**31 - 1),
    "moment": (-(2**62), -1, 0, 1, 1_714_550_400_001, 2**62),
}
ASKED: dict[str, tuple[Scalarish, ...]] = {
    "small": (0.5, -0.5, 2**40, -(2**40), 1e300),
    "big": (0.5, 2.0**53, -1e300, 9.3e18),
    "count": (-1, 0.5, 2.0**53, 1e300),
    "single": (0.1, 1e300, -1e300, 2, 5e-324),
    "double": (2**53 + 1, 0, 1),
}


@pytest.fixture(scope="module", params=["without an index", "with an index"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    root: Path = tmp_path_factory.mktemp("things")
    made = omnigraph.init(root / "g", SCHEMA, durability=Durability.RELAXED)
    rows: list[dict[str, object]] = [
        {"id": f"{name}{at}", name: value}
        for name, pool in VALUES.items()
        for at, value in enumerate(pool)
    ]
    made.insert("Thing", rows)
    if request.param == "with an index":
        index_everything(made)
    return made


def thing(graph: LocalGraph) -> NodeType:
    found = graph._graph.catalog.node("Thing")
    assert found is not None
    return found


def index_everything(graph: LocalGraph) -> None:
    context, key = graph._graph._context, thing(graph).table_key
    specs = [IndexSpec(name, IndexKind.BTREE) for name in VALUES]

    def stage(handle: Handle, mark: Mark) -> Staged | None:
        return context.stores.tables.stage_indices(handle, specs, IndexScope.REBUILD, mark)

    with acquire_write_locks(context, MAIN, [key]) as lock:
        write = TableWrite(key, lock.base.manifest.version_of(key), (stage,))
        run(lock, Change(WriterKind.ENSURE_INDICES, MAIN, (write,)))


@pytest.mark.parametrize("column", list(VALUES))
def test_a_predicate_finds_what_compares_true_by_value(graph: LocalGraph, column: str) -> None:
    node = thing(graph)
    stores = graph._graph._stores
    manifest = graph._graph._bases.current(MAIN).manifest
    committed = BaseRows(stores.tables, manifest, lambda pin: open_pin(stores, pin))
    stored = VALUES[column]
    for comparator, value in product(Comparator, (*stored, *ASKED.get(column, ()), None)):
        where = Predicate(column, column_type(node, column), comparator, Constant(None, None))
        found = {each.id for each in committed.find_matches(node, where, value, ())}
        wanted = {
            f"{column}{at}"
            for at, each in enumerate(stored)
            if compare(each, comparator, value) is True
        }
        assert found == wanted, f"{column} {comparator} {value!r}"


@pytest.mark.parametrize("column", list(VALUES))
def test_unique_values_are_found_by_equality(graph: LocalGraph, column: str) -> None:
    """The same literals, in a list."""
    stores = graph._graph._stores
    handle = graph._graph.open_table(graph._graph.snapshot(), thing(graph).table_key)
    for value in VALUES[column]:
        where = one_of(column, column_type(thing(graph), column), [value])
        found = stores.tables.read(handle, ScanRequest(columns=("id",), where=where))
        wanted = {f"{column}{at}" for at, each in enumerate(VALUES[column]) if each == value}
        assert set(found["id"].to_pylist()) == wanted, f"{column} = {value!r}"
