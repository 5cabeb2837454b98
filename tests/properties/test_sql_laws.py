"""The engine answers as DuckDB and as ladybug, whatever the read, as far as these can say it."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import duckdb
import pytest
from hypothesis import assume, given, note, settings, strategies as st
from ladybug import Connection, QueryResult

from omnigraph.compiler.ir import Read, Value
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import optimise
from omnigraph.compiler.plan import ReadPlan
from omnigraph.engine.settings import AccessMode
from properties.test_query_laws import CATALOG, PATIENT, Table, answer, rounded
from support.cypher_of import create_graph, cypher_of
from support.graphs import INSTANT_MS, dense_graph
from support.queries import parameter_values, patterns, reads
from support.sql_of import create_tables, sql_of
from support.sql_values import Unsayable
from support.steps import format_read
from support.worlds import Shape, World, write_world

EXAMPLES = int(os.environ.get("OMNIGRAPH_SQL_EXAMPLES", "30"))
SEEDS = range(2 if EXAMPLES < 1000 else 10)


@dataclass(frozen=True, slots=True)
class Asked:
    """One graph three times."""

    world: World
    database: duckdb.DuckDBPyConnection
    cypher: Connection


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Asked]]:
    root = tmp_path_factory.mktemp("sql")
    made: list[Asked] = []
    for seed in SEEDS:
        graph = dense_graph(CATALOG, seed)
        database = duckdb.connect(config={"threads": 1})
        create_tables(database, CATALOG, graph)
        world = write_world(root / str(seed), CATALOG, graph, Shape.MAIN)
        made.append(Asked(world, database, create_graph(CATALOG, graph)))
    yield made
    for each in made:
        each.database.close()
        each.cypher.close()
    made.clear()


def ours(query: Read, world: World, values: Mapping[str, Value]) -> Table:
    plan = lower(optimise(query, CATALOG), CATALOG)
    assert isinstance(plan, ReadPlan)
    return answer(plan, world, values, world.view(AccessMode.AUTO))


def in_sql(query: Read, database: duckdb.DuckDBPyConnection, values: Mapping[str, Value]) -> Table:
    text = sql_of(query, CATALOG, values, INSTANT_MS)
    note(text)
    return rounded(database.execute(text).fetchall())


@settings(PATIENT, max_examples=EXAMPLES)
@given(st.data())
def test_a_read_answers_as_the_same_read_in_sql(graphs: list[Asked], data: st.DataObject) -> None:
    query = data.draw(reads(CATALOG, searching=False))
    values = data.draw(parameter_values())
    asked = data.draw(st.sampled_from(graphs))
    note(format_read(query))
    try:
        expected = in_sql(query, asked.database, values)
    except Unsayable:
        assume(False)
    assume(expected or data.draw(st.integers(0, 5)) == 0)
    found = ours(query, asked.world, values)
    if query.order:
        assert found == expected
    elif query.limit is None and query.offset is None:
        assert Counter(found) == Counter(expected)
    else:
        whole = replace(query, limit=None, offset=None)
        assert len(found) == len(expected)
        assert not Counter(found) - Counter(in_sql(whole, asked.database, values))


@settings(PATIENT, max_examples=EXAMPLES)
@given(st.data())
def test_a_pattern_has_the_same_matches_in_cypher(graphs: list[Asked], data: st.DataObject) -> None:
    query = data.draw(patterns(CATALOG))
    values = data.draw(parameter_values())
    asked = data.draw(st.sampled_from(graphs))
    note(format_read(query))
    try:
        text = cypher_of(query, CATALOG, values, INSTANT_MS)
    except Unsayable:
        assume(False)
    note(text)
    answered = asked.cypher.execute(text)
    assert isinstance(answered, QueryResult)
    expected = Counter(map(tuple, answered.get_all()))
    assume(expected or data.draw(st.integers(0, 5)) == 0)
    assert Counter(ours(query, asked.world, values)) == expected
