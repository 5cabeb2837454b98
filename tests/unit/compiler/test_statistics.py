"""Shares of values and degrees of nodes, out of statistics."""

import pytest

from omnigraph.compiler.ir import (
    STRING,
    Comparator,
    Compare,
    Constant,
    Direction,
    Member,
    NullTest,
    ParameterRef,
    PropertyOf,
    StringMatch,
    StringTest,
)
from omnigraph.compiler.statistics import LEAST, Degrees, Departure, Statistics, Values

AGES = Values(distinct=100, nulls=0.5, bounds=(0, 10, 20, 30, 40, 40, 40, 70, 80, 90, 100))
FOLLOWED = Departure("Follows", Direction.IN)
FOLLOWS = Departure("Follows", Direction.OUT)
KNOWN = Statistics(
    degrees={FOLLOWED: Degrees(mean=2.0, most=600)},
    pulls={(FOLLOWED, FOLLOWED): 200.0, (FOLLOWED, FOLLOWS): 1.5},
    values={
        ("Person", "age"): AGES,
        ("Person", "name"): Values(10, 0.0, ("anna", "bert", "berta", "carl", "dora")),
    },
)
AGE, NAME = PropertyOf("p", "age", STRING), PropertyOf("p", "name", STRING)


@pytest.mark.parametrize(
    ("comparator", "value", "share"),
    [
        (Comparator.EQ, 15, 0.01),
        (Comparator.EQ, 40, 0.2),
        (Comparator.EQ, None, 0.01),
        (Comparator.EQ, "text", 0.01),
        (Comparator.NE, 40, 0.8),
        (Comparator.LT, 20, 2 / 11),
        (Comparator.LE, 20, 3 / 11),
        (Comparator.GT, 20, 8 / 11),
        (Comparator.GE, 20, 9 / 11),
        (Comparator.GT, 1_000, 0.0),
        (Comparator.LT, None, 0.3),
        (Comparator.GE, None, 0.3),
    ],
)
def test_a_share_of_values_is_read_from_bounds_that_many_rows_lie_between(
    comparator: Comparator, value: object, share: float
) -> None:
    assert AGES.share_of(comparator, value) == pytest.approx(0.5 * share)


def test_conditions_have_the_share_of_their_property() -> None:
    equal = Compare(AGE, Comparator.EQ, Constant(15, STRING))
    assert KNOWN.share("Person", equal) == pytest.approx(0.005)
    assert KNOWN.share("City", equal) is None
    later = Compare(AGE, Comparator.EQ, ParameterRef("age", STRING))
    assert KNOWN.share("Person", later) == pytest.approx(0.005)
    assert KNOWN.share("Person", later, lambda _: 40) == pytest.approx(0.1)
    assert KNOWN.share("Person", NullTest(AGE, negated=False)) == 0.5
    few = Member(AGE, (Constant(15, STRING), Constant(40, STRING)))
    assert KNOWN.share("Person", few) == pytest.approx(0.105)
    begins = StringMatch(NAME, StringTest.STARTS_WITH, Constant("ber", STRING))
    assert KNOWN.share("Person", begins) == pytest.approx(0.4)
    holds = StringMatch(NAME, StringTest.CONTAINS, Constant("ber", STRING))
    assert KNOWN.share("Person", holds) is None


def test_nothing_is_taken_to_let_no_row_through() -> None:
    old = Compare(AGE, Comparator.GT, Constant(1_000, STRING))
    assert KNOWN.share("Person", old) == LEAST


def test_a_node_that_an_edge_leads_to_has_more_of_the_edges_that_go_with_it() -> None:
    assert KNOWN.degree(FOLLOWED, 2.0, []) == 2.0
    assert KNOWN.degree(FOLLOWED, 2.0, [FOLLOWED]) == 400.0
    assert KNOWN.degree(FOLLOWS, 3.0, [FOLLOWED]) == 4.5


def test_no_mean_is_above_the_greatest_degree_of_a_graph_of_now() -> None:
    assert KNOWN.degree(FOLLOWED, 2.0, [FOLLOWED, FOLLOWED]) == 600.0
    assert KNOWN.degree(FOLLOWED, 4.0, [FOLLOWED, FOLLOWED]) == 1200.0


def test_what_is_known_is_said_in_words() -> None:
    tested = {("Person", "age"), ("City", "name")}
    expected = "row counts; degrees of Follows; values of Person.age"
    assert KNOWN.known_of({"Follows", "Near"}, tested) == expected
    assert KNOWN.known_of({"Near"}, set()) == "row counts"
