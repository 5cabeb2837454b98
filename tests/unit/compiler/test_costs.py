"""Which order of steps is taken, by the sizes of tables and by statistics."""

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.compile import arrange, compile_query
from omnigraph.compiler.explain import headline
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.plan import Expand, NodeScan, ReadPlan, operators_in
from omnigraph.compiler.statistics import UNKNOWN, Degrees, Departure, Statistics, Values
from omnigraph.ids import TableKey
from omnigraph.lang.source import Source

CATALOG = compile_schema(
    Source(
        "schema.pg",
        """node Person { name: String @key  age: I32  city: String }
        edge Follows: Person -> Person
        edge Near: Person -> Person""",
    )
)
ROWS = {"node:Person": 100_000, "edge:Follows": 200_000, "edge:Near": 800_000}
FOLLOWED = Departure("Follows", Direction.IN)
HUBS = Statistics(
    degrees={FOLLOWED: Degrees(mean=2.0, most=40_000)}, pulls={(FOLLOWED, FOLLOWED): 20_000.0}
)
LIKE_MINDED = "$a: Person $a follows $b $c follows $b $a near $c"


def steps_of(pattern: str, statistics: Statistics) -> list[str]:
    """The scans and walks of a pattern, the first one first."""
    text = f"query q() {{ match {{ {pattern} }} return {{ $a.name }} }}"
    compiled = compile_query(Source("q.gq", text), CATALOG)

    def row_count(key: TableKey) -> int:
        return ROWS[key]

    planned = arrange(compiled, CATALOG, row_count, lambda: statistics)
    assert isinstance(planned, ReadPlan)
    operators = list(operators_in(planned.root))
    return [headline(each) for each in reversed(operators) if isinstance(each, Expand | NodeScan)]


def test_a_mean_leads_through_hubs_and_statistics_around_them() -> None:
    assert steps_of(LIKE_MINDED, UNKNOWN)[2] == "expand $b <-Follows- $c: Person"
    around = steps_of(LIKE_MINDED, HUBS)
    assert [each.split("-")[1] for each in around[1:]] == ["Follows", "Near", "Follows"]


def test_hubs_of_another_edge_type_change_nothing() -> None:
    near = Departure("Near", Direction.IN)
    others = Statistics(
        degrees={near: Degrees(mean=8.0, most=40_000)}, pulls={(near, near): 5_000.0}
    )
    assert steps_of(LIKE_MINDED, others) == steps_of(LIKE_MINDED, UNKNOWN)


@pytest.mark.parametrize(("ages", "cities", "start"), [(90, 2, "$a"), (2, 90_000, "$b")])
def test_a_walk_starts_where_conditions_leave_fewer(ages: int, cities: int, start: str) -> None:
    """Both are equalities, and equally good without statistics."""
    known = Statistics(
        values={("Person", "age"): Values(ages, 0.0), ("Person", "city"): Values(cities, 0.0)}
    )
    both = '$a: Person { age: 3 } $b: Person { city: "Rome" } $a near $b $b near $c'
    found = steps_of(both, known)
    assert found[0] == f"scan {start}: Person"


def test_a_filtered_variable_is_no_mere_count() -> None:
    """A condition that lets everything through is a condition still."""
    known = Statistics(values={("Person", "age"): Values(90, 0.0, (1, 5, 9))})
    found = steps_of("$a: Person $a follows $b $a near $c $c.age > 0", known)
    assert len(found) == 3
