"""A read on Spark answers as the interpreter, whatever the query, the graph and its shape."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, assume, given, note, settings, strategies as st
from pyspark.sql import DataFrame, SparkSession

from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import NOW_PARAMETER, Read, Value
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import optimise
from omnigraph.compiler.plan import (
    Expand,
    ExpandAny,
    ReadPlan,
    TopRanked,
    operators_in,
)
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.engine.settings import AccessMode
from omnigraph.engine.tables.memory import Memory
from omnigraph.pipeline.queries.run import to_dataframe
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.storage.durability import Durability
from properties.test_query_laws import CATALOG
from support.graphs import INSTANT_MS, dense_graph
from support.interpreter import run
from support.queries import parameter_values, reads
from support.steps import format_read
from support.worlds import Shape, World, write_world

EXAMPLES = int(os.environ.get("OMNIGRAPH_SPARK_QUERY_EXAMPLES", "20"))

Table = list[tuple[Value, ...]]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    root = tmp_path_factory.mktemp("worlds")
    return [
        write_world(root / shape.value, CATALOG, dense_graph(CATALOG, seed), shape)
        for seed, shape in enumerate(Shape)
    ]


def on_spark(
    spark: SparkSession, plan: ReadPlan, world: World, values: Mapping[str, Value]
) -> DataFrame:
    parameters = {NOW_PARAMETER: INSTANT_MS, **values}
    searching = world.searching(values, INSTANT_MS)
    execution = Execution(world.view(AccessMode.AUTO), parameters, Memory(1 << 28), searching)
    return to_dataframe(spark, plan, execution, Storage(world.stores.root, {}, Durability.RELAXED))


def cells_of(data: DataFrame) -> Table:
    return [tuple(canonical(each) for each in row) for row in data.collect()]


def canonical(value: object) -> Value:
    """As the interpreter has it; floats as far as the order of a sum cannot show."""
    match value:
        case list() | tuple():
            return tuple(canonical(each) for each in value)  # type: ignore[misc]
        case _:
            return _scalar(value)


def _scalar(value: object) -> str | int | float | bool | None:
    match value:
        case datetime():
            return round(value.astimezone(UTC).timestamp() * 1000)
        case date():
            return (value - date(1970, 1, 1)).days
        case Decimal():
            return int(value)
        case float():
            return float(f"{value:.9g}")
        case None | str() | int():
            return value
        case _:
            raise AssertionError(value)


def rounded(table: Table) -> Table:
    return [tuple(canonical(each) for each in row) for row in table]


def check(spark: SparkSession, query: Read, world: World, values: Mapping[str, Value]) -> None:
    plan = lower(optimise(query, world.catalog), world.catalog)
    assert isinstance(plan, ReadPlan)
    note(explain(plan))
    walks = [each for each in operators_in(plan.root) if isinstance(each, Expand | ExpandAny)]
    assume(all(each.hops_high is not None for each in walks))
    assume(not any(isinstance(e, TopRanked) and e.limit is None for e in operators_in(plan.root)))
    found = cells_of(on_spark(spark, plan, world, values))
    expected = rounded(run(query, world.graph, values, INSTANT_MS))
    if query.order:
        assert found == expected
    elif query.limit is None and query.offset is None:
        assert Counter(found) == Counter(expected)
    else:
        whole = replace(query, limit=None, offset=None)
        assert len(found) == len(expected)
        assert not Counter(found) - Counter(rounded(run(whole, world.graph, values, INSTANT_MS)))


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(st.data())
def test_a_read_on_spark_answers_as_the_interpreter(
    spark: SparkSession, worlds: list[World], data: st.DataObject
) -> None:
    query = data.draw(reads(CATALOG))
    values = data.draw(parameter_values())
    note(format_read(query))
    world = data.draw(st.sampled_from(worlds))
    expected = run(query, world.graph, values, INSTANT_MS)
    assume(expected or data.draw(st.integers(0, 5)) == 0)
    check(spark, query, world, values)
