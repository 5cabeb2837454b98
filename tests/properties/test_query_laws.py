"""The engine answers as the interpreter, whatever the query, the graph and its physical shape."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings, strategies as st

from omnigraph.catalog.model import Catalog, EdgeType, IndexConstraint, Key, NodeType, Property
from omnigraph.catalog.types import Struct, ValueType
from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import NOW_PARAMETER, Read, Value
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import optimise
from omnigraph.compiler.plan import ReadPlan
from omnigraph.engine.query.columns import view
from omnigraph.engine.query.columns.table_cache import TableCache
from omnigraph.engine.query.columns.values import as_plain
from omnigraph.engine.query.columns.view import View
from omnigraph.engine.query.operators import execution, intersect, walk, walker
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.engine.query.operators.run import Runner
from omnigraph.engine.query.reading import types_of
from omnigraph.engine.settings import AccessMode
from omnigraph.engine.tables.arrays import Array, one_chunk
from omnigraph.engine.tables.memory import Memory
from support.graphs import (
    EDGE_PROPERTIES,
    INSTANT_MS,
    KEY,
    NODE_PROPERTIES,
    catalogs,
    dense_graph,
    graphs,
)
from support.interpreter import run
from support.queries import cycles, parameter_values, paths, reads
from support.steps import format_read
from support.worlds import Shape, World, write_world

EXAMPLES = int(os.environ.get("OMNIGRAPH_QUERY_EXAMPLES", "40"))
SEEDS = range(2)

PATIENT = settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)

Table = list[tuple[Value, ...]]


def properties(types: Mapping[str, "object"], *names: str) -> tuple[Property, ...]:
    known = {**NODE_PROPERTIES, **EDGE_PROPERTIES}
    return tuple(Property(name, known[name]) for name in sorted(names or types))


CATALOG = Catalog(
    nodes=(
        NodeType("Ant", properties(NODE_PROPERTIES), (IndexConstraint(("total",)),)),
        NodeType("Bee", (KEY, *properties({}, "age", "text")), (Key((KEY.name,)),)),
        NodeType("Cow", properties({}, "kind", "vec")),
    ),
    edges=(
        EdgeType("Eats", "Ant", "Ant", properties(EDGE_PROPERTIES)),
        EdgeType("Follows", "Ant", "Bee", properties({}, "note")),
        EdgeType("Greets", "Bee", "Bee"),
        EdgeType("Herds", "Cow", "Ant", properties({}, "since")),
    ),
)
"""Every kind of property, edges that chain and edges that cannot, keys and none."""


@pytest.fixture(scope="module", params=Shape, ids=lambda shape: shape.value)
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    shape: Shape = request.param
    root = tmp_path_factory.mktemp(shape.value)
    return [
        write_world(root / str(seed), CATALOG, dense_graph(CATALOG, seed), shape) for seed in SEEDS
    ]


def answer(plan: ReadPlan, world: World, values: Mapping[str, Value], seen: View) -> Table:
    parameters = {NOW_PARAMETER: INSTANT_MS, **values}
    searching = world.searching(values, INSTANT_MS)
    running = Execution(seen, parameters, Memory(1 << 28), searching)
    table = Runner(running).table(plan.root)
    columns = [cells(one_chunk(table[at]), kind) for at, kind in enumerate(types_of(plan.root))]
    return [tuple(map(canonical, cells)) for cells in zip(*columns, strict=True)]


def cells(column: Array, kind: ValueType) -> list[object]:
    """The cells of a column; of an object, its values in the order of its fields."""
    if not isinstance(kind.base, Struct):
        return list(as_plain(column, kind).to_pylist())
    assert isinstance(column, pa.StructArray)
    parts = [
        cells(each, of) for each, (_, of) in zip(column.flatten(), kind.base.fields, strict=True)
    ]
    there = column.is_valid().to_pylist()
    return [list(row) if is_there else None for is_there, *row in zip(there, *parts, strict=True)]


def canonical(value: object) -> Value:
    """As the interpreter has it; floats as far as the order of a sum cannot show."""
    if isinstance(value, list):
        return tuple(map(canonical, value))  # type: ignore[arg-type]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    assert value is None or isinstance(value, str | int | bool)
    return value


def check(query: Read, world: World, values: Mapping[str, Value], access: AccessMode) -> None:
    plan = lower(optimise(query, world.catalog), world.catalog)
    assert isinstance(plan, ReadPlan)
    note(f"{access}\n{explain(plan)}")
    expected = rounded(run(query, world.graph, values, INSTANT_MS))
    seen = world.view(access)
    for _ in range(2):  # again with what the first run worked out for the snapshot
        found = answer(plan, world, values, seen)
        if query.order:
            assert found == expected
        elif query.limit is None and query.offset is None:
            assert Counter(found) == Counter(expected)
        else:
            whole = replace(query, limit=None, offset=None)
            among = Counter(rounded(run(whole, world.graph, values, INSTANT_MS)))
            assert len(found) == len(expected)
            assert not Counter(found) - among


def rounded(table: Table) -> Table:
    return [tuple(map(canonical, map(listed, row))) for row in table]


def listed(value: object) -> object:
    return [*map(listed, value)] if isinstance(value, tuple) else value


@settings(PATIENT)
@given(st.data())
def test_every_way_of_running_a_read_answers_as_the_interpreter(
    worlds: list[World], data: st.DataObject
) -> None:
    query = data.draw(reads(CATALOG))
    values = data.draw(parameter_values())
    note(format_read(query))
    world = data.draw(st.sampled_from(worlds))
    expected = run(query, world.graph, values, INSTANT_MS)
    assume(expected or data.draw(st.integers(0, 5)) == 0)
    for access in AccessMode:
        check(query, world, values, access)


@settings(PATIENT)
@given(st.data())
def test_shortest_paths_are_those_of_the_interpreter(
    worlds: list[World], data: st.DataObject
) -> None:
    query = data.draw(paths(CATALOG))
    note(format_read(query))
    world = data.draw(st.sampled_from(worlds))
    for access in AccessMode:
        check(query, world, {}, access)


@settings(PATIENT)
@given(st.data())
def test_cycles_walked_from_either_end_are_those_of_the_interpreter(
    worlds: list[World], data: st.DataObject
) -> None:
    query = data.draw(cycles(CATALOG))
    note(format_read(query))
    world = data.draw(st.sampled_from(worlds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intersect, "STEPS_MIN", 0)
        patch.setattr(intersect, "GAIN_MIN", 0.0)
        patch.setattr(walk, "MARKS_MAX", data.draw(st.sampled_from((0, 8))))
        for access in AccessMode:
            check(query, world, {}, access)


@settings(PATIENT)
@given(st.data())
def test_a_read_that_changes_its_access_midway_answers_as_the_interpreter(
    worlds: list[World], data: st.DataObject
) -> None:
    """Small morsels, look-ups of any price, and columns that are fetched late."""
    query = data.draw(reads(CATALOG))
    values = data.draw(parameter_values())
    world = data.draw(st.sampled_from(worlds))
    cold = replace(world, cache=TableCache(1 << 28))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "SMALL_ROWS", 0)
        patch.setattr(view, "FEW_IDS", data.draw(st.integers(0, 2)))
        patch.setattr(view, "LOOK_UP_COST", data.draw(st.integers(0, 200)))
        patch.setattr(view, "LOOK_UP_COST_PER_ID", data.draw(st.integers(0, 20)))
        patch.setattr(view, "LOOK_UP_COST_PER_ROW", data.draw(st.integers(0, 20)))
        patch.setattr(walker, "SEARCHES_MAX", data.draw(st.integers(1, 3)))
        patch.setattr(execution, "LATE_FACTOR", data.draw(st.integers(0, 2)))
        for _ in range(2):
            check(query, cold, values, AccessMode.AUTO)


@pytest.mark.slow
@settings(PATIENT, max_examples=EXAMPLES // 3)
@given(st.data())
def test_random_graphs_answer_as_the_interpreter(data: st.DataObject) -> None:
    catalog = data.draw(catalogs())
    query = data.draw(reads(catalog))
    graph = data.draw(graphs(catalog))
    values = data.draw(parameter_values())
    assume(run(query, graph, values, INSTANT_MS) or data.draw(st.integers(0, 5)) == 0)
    note(format_read(query))
    with TemporaryDirectory() as folder:
        world = write_world(Path(folder), catalog, graph, data.draw(st.sampled_from(Shape)))
        for access in (AccessMode.RESIDENT, AccessMode.INDEXED):
            check(query, world, values, access)
