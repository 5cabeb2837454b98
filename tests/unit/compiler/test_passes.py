"""Passes on shapes that the front of the compiler does not emit, or that need naming one by one."""

import cProfile
from dataclasses import replace

import pytest

from omnigraph.catalog.model import Cardinality, Catalog, EdgeType, Key, NodeType, Property
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.compiler.compile import compile_tree
from omnigraph.compiler.ir import (
    ALWAYS,
    F64,
    I64,
    NEVER,
    STRING,
    AllOf,
    AnyOf,
    Bm25,
    Comparator,
    Compare,
    Condition,
    Constant,
    Direction,
    Expand,
    IdOf,
    Member,
    NullTest,
    Optionally,
    Ordering,
    Output,
    ParameterRef,
    PropertyOf,
    Read,
    Scan,
    Step,
    Where,
    Without,
)
from omnigraph.compiler.passes import PASSES, optimise
from omnigraph.compiler.passes.fold_constants import fold_constants
from omnigraph.compiler.passes.order_expands import order_expands
from omnigraph.compiler.passes.prune_columns import prune_columns
from omnigraph.compiler.passes.push_filters import push_filters
from omnigraph.compiler.sizes import Sizes
from omnigraph.ids import table_key
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source

AGE = ValueType(Scalar.I32, nullable=True)
CATALOG = Catalog(
    nodes=(
        NodeType("Person", (Property("age", AGE), Property("name", STRING)), (Key(("name",)),)),
    ),
    edges=(
        EdgeType("Knows", "Person", "Person"),
        EdgeType("Married", "Person", "Person", cardinality=Cardinality(0, 1)),
    ),
)


def read(*steps: Step) -> Read:
    return Read("q", (), steps, (Output("n", Constant(1, I64), I64),))


def age(variable: str) -> PropertyOf:
    return PropertyOf(variable, "age", AGE)


def name(variable: str) -> PropertyOf:
    return PropertyOf(variable, "name", STRING)


def number(value: int) -> Constant:
    return Constant(value, I64)


def older(variable: str, than: int) -> Compare:
    return Compare(age(variable), Comparator.GT, number(than))


def named(variable: str, text: str) -> Compare:
    return Compare(name(variable), Comparator.EQ, Constant(text, STRING))


def knows(source: str, target: str, *filters: Condition) -> Expand:
    return Expand(source, "Knows", Direction.OUT, target, "Person", filters=filters)


def folded(condition: Condition) -> tuple[Condition, ...]:
    steps = fold_constants(read(Scan("a", "Person"), Where(condition)), CATALOG).steps
    return tuple(each.condition for each in steps if isinstance(each, Where))


# ── folding ──────────────────────────────────────────────────────────────────────────────────────

NULL = Constant(None, None)
KEPT = older("a", 3)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Compare(age("a"), Comparator.NE, NULL), (NEVER,)),
        (AnyOf((Compare(age("a"), Comparator.EQ, NULL), KEPT)), (KEPT,)),
        (AnyOf((KEPT, ALWAYS)), ()),
        (AllOf((KEPT, AllOf((KEPT, ALWAYS)))), (KEPT,)),
        (AllOf(()), ()),
        (AnyOf(()), (NEVER,)),
        (Member(age("a"), ()), (NEVER,)),
        (Member(age("a"), NULL), (NEVER,)),
        (Member(NULL, (age("a"),)), (NEVER,)),
        (Member(number(3), (number(1), NULL, number(3))), ()),
        (Member(number(2), (number(1), age("a"))), (Compare(age("a"), Comparator.EQ, number(2)),)),
        (Compare(Constant(2**53, I64), Comparator.EQ, Constant(2.0**53, F64)), ()),
        (Compare(Constant(2**53 + 1, I64), Comparator.EQ, Constant(2.0**53, F64)), (NEVER,)),
        (AllOf((older("a", 3), NullTest(age("a"), negated=False))), (NEVER,)),
        (AllOf((older("a", 3), NullTest(age("a"), negated=True))), (KEPT,)),
        (NullTest(ParameterRef("p", I64), negated=False), (NEVER,)),
        (
            AllOf((Compare(age("a"), Comparator.EQ, number(5)), older("a", 3))),
            (Compare(age("a"), Comparator.EQ, number(5)),),
        ),
        (AllOf((Compare(age("a"), Comparator.EQ, number(2)), older("a", 3))), (NEVER,)),
    ],
)
def test_a_condition_folds_to_what_it_means(
    condition: Condition, expected: tuple[Condition, ...]
) -> None:
    assert folded(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        NullTest(ParameterRef("p", I64.optional()), negated=False),
        Compare(age("a"), Comparator.EQ, ParameterRef("p", I64)),
        AnyOf((older("a", 3), NullTest(age("a"), negated=False))),
        # A required property is null all the same when an optional block left its node unbound.
        NullTest(name("a"), negated=False),
    ],
)
def test_what_only_the_execution_knows_is_left(condition: Condition) -> None:
    assert folded(condition) == (condition,)


def test_bounds_that_meet_in_a_value_they_both_allow_are_kept() -> None:
    low = Compare(age("a"), Comparator.GE, number(3))
    high = Compare(age("a"), Comparator.LE, number(3))
    below = Compare(age("a"), Comparator.LT, number(3))
    assert folded(AllOf((low, high))) == (low, high)
    assert folded(AllOf((low, below))) == (NEVER,)


def test_what_is_left_between_dropped_blocks_is_folded_together() -> None:
    dead = Without((Where(NEVER),))
    steps = (Scan("a", "Person"), Where(older("a", 3)), dead, Where(older("a", 3)))
    assert fold_constants(read(*steps), CATALOG).steps == steps[:2]


def test_what_is_not_null_is_kept_when_only_a_join_implies_it() -> None:
    test = NullTest(age("a"), negated=True)
    join = Compare(age("a"), Comparator.EQ, age("b"))
    assert folded(AllOf((test, join))) == (test, join)


def test_a_negation_of_nothing_removes_every_row() -> None:
    query = fold_constants(read(Scan("a", "Person"), Without((Where(ALWAYS),))), CATALOG)
    assert query.steps == (Scan("a", "Person"), Where(NEVER))


def test_an_optional_block_that_finds_nothing_still_binds_its_variables() -> None:
    dead = Optionally((knows("a", "b"), Where(NEVER)))
    assert fold_constants(read(Scan("a", "Person"), dead), CATALOG).steps[-1] == dead


# ── pushing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_condition_of_no_variable_is_asked_before_anything_is_read() -> None:
    gate = Where(Compare(ParameterRef("p", I64), Comparator.EQ, number(1)))
    query = push_filters(read(Scan("a", "Person"), knows("a", "b"), gate), CATALOG)
    assert query.steps == (gate, Scan("a", "Person"), knows("a", "b"))


def test_a_condition_goes_to_the_first_step_that_binds_its_variable() -> None:
    steps = (Scan("a", "Person"), knows("a", "b"), knows("b", "a"), Where(older("a", 3)))
    query = push_filters(read(*steps), CATALOG)
    assert query.steps[0] == Scan("a", "Person", (older("a", 3),))


def test_a_condition_passes_an_optional_block_that_does_not_bind_its_variables() -> None:
    block = Optionally((knows("b", "c"),))
    join = Where(Compare(age("a"), Comparator.LT, age("b")))
    query = push_filters(read(Scan("a", "Person"), knows("a", "b"), block, join), CATALOG)
    assert query.steps == (Scan("a", "Person"), knows("a", "b"), join, block)


# ── ordering ─────────────────────────────────────────────────────────────────────────────────────


def test_a_scan_that_a_walk_can_replace_is_replaced() -> None:
    steps = (Scan("a", "Person"), Scan("b", "Person", (older("b", 3),)), knows("a", "b"))
    query = order_expands(read(*steps), CATALOG)
    assert query.steps == (
        Scan("b", "Person", (older("b", 3),)),
        Expand("b", "Knows", Direction.IN, "a", "Person"),
    )


def test_separate_components_start_with_the_cheaper_one() -> None:
    steps = (Scan("a", "Person"), knows("a", "b"), Scan("c", "Person", (named("c", "Kim"),)))
    query = order_expands(read(*steps), CATALOG)
    assert query.steps == (steps[2], steps[0], steps[1])


def test_a_condition_on_an_outer_variable_survives_the_reordering_of_a_block() -> None:
    block = Without((knows("a", "b"), knows("b", "a", older("a", 3))))
    query = order_expands(read(Scan("a", "Person"), block), CATALOG)
    assert isinstance(query.steps[1], Without)
    assert Where(older("a", 3)) in query.steps[1].steps


def test_at_most_one_neighbour_is_walked_to_first() -> None:
    married = Expand("a", "Married", Direction.OUT, "c", "Person")
    steps = (Scan("a", "Person"), knows("a", "b"), married)
    assert order_expands(read(*steps), CATALOG).steps == (steps[0], married, steps[1])


def test_nothing_is_said_of_how_many_are_married_to_one() -> None:
    married = Expand("a", "Married", Direction.IN, "c", "Person")
    steps = (Scan("a", "Person"), knows("a", "b"), married)
    assert order_expands(read(*steps), CATALOG).steps == steps


def sizes(persons: int, knows: int, married: int) -> Sizes:
    rows = {
        table_key("node", "Person"): persons,
        table_key("edge", "Knows"): knows,
        table_key("edge", "Married"): married,
    }
    return Sizes.of(list(rows), rows.__getitem__)


MARRIED_BACK = Expand("c", "Married", Direction.IN, "a", "Person")


def test_many_edges_are_walked_behind_few() -> None:
    """Without sizes, `Married` from its end is expected to lead to as many as `Knows`."""
    steps = (Scan("c", "Person", (older("c", 3),)), knows("c", "b"), MARRIED_BACK)
    assert order_expands(read(*steps), CATALOG).steps == steps
    known = sizes(1_000_000, 50_000_000, 20_000)
    ordered = order_expands(read(*steps), CATALOG, known)
    assert ordered.steps == (steps[0], MARRIED_BACK, steps[1])


def test_a_small_graph_keeps_the_usual_order() -> None:
    steps = (Scan("c", "Person", (older("c", 3),)), knows("c", "b"), MARRIED_BACK)
    known = sizes(100, 5_000, 40)
    assert order_expands(read(*steps), CATALOG, known).steps == steps


def test_a_cycle_is_closed_before_it_multiplies() -> None:
    """The same walk twice, a triangle, and a table of which nothing is known to be there."""
    triangle = (Scan("a", "Person"), knows("a", "b"), knows("b", "c"), knows("a", "c"))
    known = sizes(100_000, 3_000_000, 0)
    twice = (*triangle, knows("a", "b"))
    ordered = order_expands(read(*twice), CATALOG, known).steps
    assert ordered == (*twice[:2], twice[4], *twice[2:4])


def test_a_ranked_scan_stays_one_though_a_block_before_it_has_bound_its_neighbour() -> None:
    """Its best are picked before anything is joined to them: reached, others would take part."""
    best = Ordering(Bm25(name("b"), Constant("Kim", STRING)), descending=False)
    steps = (Scan("a", "Person"), Without((knows("a", "c"),)), Scan("b", "Person"), knows("b", "a"))
    query = replace(read(*steps), order=(best,), limit=1)
    assert order_expands(query, CATALOG).steps == steps


# ── pruning ──────────────────────────────────────────────────────────────────────────────────────


def test_a_column_that_only_its_own_step_reads_is_not_handed_on() -> None:
    query = prune_columns(read(Scan("a", "Person", (older("a", 3),))), CATALOG)
    assert query.steps == (Scan("a", "Person", (older("a", 3),), columns=()),)


def test_a_column_read_inside_a_later_block_is_handed_on() -> None:
    block = Without((knows("a", "b"), Where(Compare(age("a"), Comparator.LT, age("b")))))
    query = prune_columns(read(Scan("a", "Person"), block), CATALOG)
    assert query.steps[0] == Scan("a", "Person", columns=("age",))


def test_a_walk_to_a_bound_variable_hands_nothing_on() -> None:
    query = read(Scan("a", "Person"), knows("a", "a"), Where(older("a", 3)))
    pruned = prune_columns(query, CATALOG).steps
    assert isinstance(pruned[0], Scan)
    assert isinstance(pruned[1], Expand)
    assert (pruned[0].columns, pruned[1].columns) == (("age",), ())


# ── all of them ──────────────────────────────────────────────────────────────────────────────────


def test_the_watcher_sees_every_pass_in_order() -> None:
    seen: list[tuple[str, Read]] = []
    query = read(Scan("a", "Person"), Where(Compare(IdOf("a"), Comparator.EQ, NULL)))
    final = optimise(query, CATALOG, watch=lambda *step: seen.append(step))
    assert [label for label, _ in seen] == [each.__name__ for each in PASSES]
    assert seen[-1][1] == final


@pytest.mark.parametrize("hops", ["", "{2,3}"])
def test_the_work_of_choosing_an_order_grows_no_faster_than_the_square(hops: str) -> None:
    """A chain of walks that cannot be turned round once took time that grew with the cube."""
    short, long = (count_calls(chain_of(length, hops)) for length in (100, 400))
    assert long < 2 * 16 * short


def chain_of(length: int, hops: str) -> str:
    walks = "\n".join(f"$p{at} knows{hops} $p{at + 1}" for at in range(length))
    return f"query q() {{ match {{ $p0: Person\n{walks} }} return {{ $p0.name }} }}"


def count_calls(text: str) -> int:
    """How many functions are called to compile a text, after it was parsed."""
    source = Source("q.gq", text)
    (query,) = parse(source).queries
    profile = cProfile.Profile()
    profile.runcall(compile_tree, query, CATALOG, source)
    return sum(each.callcount for each in profile.getstats())
