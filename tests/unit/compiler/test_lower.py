"""What lowering decides: access paths, what a row of a walk stands for, and what ties blocks."""

import pytest

from omnigraph.catalog.model import (
    Catalog,
    EdgeType,
    IndexConstraint,
    Key,
    NodeType,
    Property,
    WantedIndexKind,
)
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler import ir, plan
from omnigraph.compiler.access import KeyPart
from omnigraph.compiler.ir import F64, I64, STRING, Comparator, Condition, Direction, Operand
from omnigraph.compiler.lower import lower

AGE = ValueType(Scalar.I32, nullable=True)
VECTOR = ValueType(Vector(2), nullable=True)
CATALOG = Catalog(
    nodes=(
        NodeType("City", (Property("code", I64), Property("region", STRING)), (Key(("code",)),)),
        NodeType(
            "House",
            (Property("number", I64), Property("street", STRING)),
            (Key(("number", "street")),),
        ),
        NodeType(
            "Person",
            (Property("age", AGE), Property("name", STRING), Property("vec", VECTOR)),
            (IndexConstraint(("age",)), IndexConstraint(("name",))),
        ),
    ),
    edges=(EdgeType("Knows", "Person", "Person"), EdgeType("Lives", "Person", "City")),
)


def read(*steps: ir.Step, order: tuple[ir.Ordering, ...] = (), limit: int | None = None) -> ir.Read:
    return ir.Read("q", (), steps, (ir.Output("n", ir.Constant(1, I64), I64),), order, limit)


def rows_of(query: ir.Read) -> plan.Operator:
    """The tree below the projection."""
    made = lower(query, CATALOG)
    assert isinstance(made, plan.ReadPlan)
    assert isinstance(made.root, plan.Project)
    return made.root.input


def equals(variable: str, name: str, value: Operand, kind: ValueType = I64) -> Condition:
    return ir.Compare(ir.PropertyOf(variable, name, kind), Comparator.EQ, value)


P = ir.ParameterRef("p", I64)
S = ir.ParameterRef("s", STRING)

# ── access ───────────────────────────────────────────────────────────────────────────────────────


def test_equality_with_the_key_is_a_look_up() -> None:
    rest = equals("c", "region", S, STRING)
    leaf = rows_of(read(ir.Scan("c", "City", (rest, equals("c", "code", P)))))
    assert leaf == plan.KeyLookup("City", "c", (KeyPart("code", P),), (rest,), ("code", "region"))


def test_a_look_up_needs_every_member_of_the_key_in_the_order_of_the_key() -> None:
    number, street = equals("h", "number", P), equals("h", "street", S, STRING)
    assert isinstance(rows_of(read(ir.Scan("h", "House", (number,)))), plan.NodeScan)
    leaf = rows_of(read(ir.Scan("h", "House", (street, number))))
    assert isinstance(leaf, plan.KeyLookup)
    assert leaf.key == (KeyPart("number", P), KeyPart("street", S))


def test_two_values_for_one_key_are_a_look_up_and_a_check() -> None:
    one, other = equals("c", "code", P), equals("c", "code", ir.Constant(7, I64))
    leaf = rows_of(read(ir.Scan("c", "City", (one, other))))
    assert isinstance(leaf, plan.KeyLookup)
    assert (leaf.key, leaf.filters) == ((KeyPart("code", P),), (other,))


@pytest.mark.parametrize(
    "value", [ir.Constant(2.0, F64), ir.ParameterRef("f", F64), ir.Constant(None, None)]
)
def test_a_value_that_is_spelled_otherwise_than_the_key_is_no_look_up(value: Operand) -> None:
    leaf = rows_of(read(ir.Scan("c", "City", (equals("c", "code", value),))))
    assert isinstance(leaf, plan.NodeScan)


def test_an_id_is_a_look_up_in_any_type() -> None:
    by_id = ir.Compare(ir.IdOf("a"), Comparator.EQ, S)
    leaf = rows_of(read(ir.Scan("a", "Person", (by_id,))))
    assert isinstance(leaf, plan.KeyLookup)
    assert leaf.key == (KeyPart("id", S),)


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        (equals("a", "age", P, AGE), ("age", WantedIndexKind.BTREE)),
        (ir.Compare(ir.PropertyOf("a", "age", AGE), Comparator.NE, P), None),
        (equals("a", "name", S, STRING), None),
        (
            ir.TextMatch(
                ir.TextFunction.SEARCH, ir.PropertyOf("a", "name", STRING), S, max_edits=None
            ),
            ("name", WantedIndexKind.FULL_TEXT),
        ),
    ],
)
def test_a_scan_names_the_index_that_serves_it(
    condition: Condition, index: tuple[str, WantedIndexKind] | None
) -> None:
    leaf = rows_of(read(ir.Scan("a", "Person", (condition,))))
    assert isinstance(leaf, plan.NodeScan)
    assert leaf.index == index


def test_without_pruning_every_column_is_handed_on() -> None:
    leaf = rows_of(read(ir.Scan("a", "Person")))
    assert isinstance(leaf, plan.NodeScan)
    assert leaf.columns == ("age", "name", "vec")


# ── walks ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("edge", "target_type", "hops", "edge_variable", "mode", "high"),
    [
        ("Knows", "Person", (1, 1), None, plan.WalkMode.NEIGHBOURS, 1),
        ("Knows", "Person", (1, 3), None, plan.WalkMode.SEARCH, 3),
        ("Knows", "Person", (1, 1), "w", plan.WalkMode.EDGES, 1),
        ("Lives", "City", (1, 3), None, plan.WalkMode.NEIGHBOURS, 1),
        ("Lives", "City", (2, 3), None, plan.WalkMode.NOTHING, 1),
    ],
)
def test_a_walk_says_what_one_row_of_it_stands_for(
    edge: str,
    target_type: str,
    hops: tuple[int, int],
    edge_variable: str | None,
    mode: plan.WalkMode,
    high: int,
) -> None:
    step = ir.Expand("a", edge, Direction.OUT, "b", target_type, *hops, edge_variable)
    walk = rows_of(read(ir.Scan("a", "Person"), step))
    assert isinstance(walk, plan.Expand)
    assert (walk.mode, walk.hops_high, walk.closes) == (mode, high, False)


def test_a_walk_to_a_bound_variable_closes_a_cycle() -> None:
    steps = (ir.Scan("a", "Person"), ir.Expand("a", "Knows", Direction.OUT, "a", "Person"))
    walk = rows_of(read(*steps))
    assert isinstance(walk, plan.Expand)
    assert walk.closes
    assert walk.columns == ()


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def test_a_search_to_a_node_that_is_known_starts_from_both_ends() -> None:
    known = ir.Compare(ir.IdOf("b"), Comparator.EQ, S)
    old = ir.Compare(ir.PropertyOf("b", "age", AGE), Comparator.GT, P)

    def walk(low: int, high: int | None, *filters: Condition) -> plan.Operator:
        out = Direction.OUT
        step = ir.Expand("a", "Knows", out, "b", "Person", low, high, filters=filters)
        return rows_of(read(ir.Scan("a", "Person"), step))

    found = walk(1, None, old, known)
    assert isinstance(found, plan.Expand)
    assert (found.closes, found.filters) == (True, ())
    assert isinstance(found.input, plan.CrossJoin)
    other = found.input.right
    assert isinstance(other, plan.KeyLookup)
    assert (other.key, other.filters) == ((KeyPart("id", S),), (old,))
    for alone in (walk(1, 1, known), walk(1, 3, old)):
        assert isinstance(alone, plan.Expand)
        assert (alone.closes, isinstance(alone.input, plan.NodeScan)) == (False, True)


def test_a_block_is_joined_on_the_outer_variables_it_mentions_however_deep() -> None:
    deep = ir.Without((ir.Expand("b", "Knows", Direction.OUT, "z", "Person"),))
    block = ir.Optionally((ir.Expand("a", "Knows", Direction.OUT, "c", "Person"), deep))
    steps = (ir.Scan("a", "Person"), ir.Scan("b", "Person"), ir.Scan("x", "Person"), block)
    join = rows_of(read(*steps))
    assert isinstance(join, plan.LeftJoin)
    assert (join.on, join.binds) == (("a", "b"), ("c",))
    assert isinstance(join.inner, plan.AntiJoin)
    assert join.inner.on == ("b",)
    leaves = [each for each in plan.operators_in(join.inner) if isinstance(each, plan.Given)]
    assert leaves == [plan.Given(("a", "b")), plan.Given(("b",))]


def test_filters_in_a_row_are_one_filter() -> None:
    one, other = equals("a", "age", P, AGE), equals("a", "name", S, STRING)
    rows = rows_of(read(ir.Scan("a", "Person"), ir.Where(one), ir.Where(other)))
    assert isinstance(rows, plan.Filter)
    assert rows.conditions == (one, other)


# ── ranking and order ────────────────────────────────────────────────────────────────────────────

NEAREST = ir.Nearest(ir.PropertyOf("b", "vec", VECTOR), ir.Constant((0.0, 0.0), VECTOR))


def test_what_is_ranked_is_narrowed_by_its_own_conditions_even_if_they_come_later() -> None:
    own = equals("b", "age", P, AGE)
    steps = (
        ir.Scan("b", "Person"),
        ir.Expand("b", "Knows", Direction.OUT, "c", "Person"),
        ir.Where(ir.AllOf((own, equals("c", "age", P, AGE)))),
    )
    operators = list(
        plan.operators_in(rows_of(read(*steps, order=(ir.Ordering(NEAREST),), limit=3)))
    )
    rank = next(each for each in operators if isinstance(each, plan.TopRanked))
    assert isinstance(rank.input, plan.NodeScan)
    assert rank.input.filters == (own,)


def test_what_is_reached_is_ranked_after_everything_else() -> None:
    steps = (ir.Scan("a", "Person"), ir.Expand("a", "Knows", Direction.OUT, "b", "Person"))
    limited = rows_of(read(*steps, order=(ir.Ordering(NEAREST),), limit=3))
    assert isinstance(limited, plan.Limit)
    assert isinstance(limited.input, plan.Sort)
    assert isinstance(limited.input.input, plan.TopRanked)
    assert isinstance(limited.input.input.input, plan.Expand)


def test_ties_are_all_variables_in_name_order_edges_too_but_not_wildcards() -> None:
    steps = (
        ir.Scan("z", "Person"),
        ir.Expand("z", "Knows", Direction.OUT, "~1", "Person", edge_variable="w"),
        ir.Optionally((ir.Expand("z", "Lives", Direction.OUT, "a", "City"),)),
        ir.Without((ir.Expand("z", "Lives", Direction.OUT, "b", "City"),)),
    )
    rows = rows_of(read(*steps, order=(ir.Ordering(ir.PropertyOf("z", "age", AGE)),)))
    assert isinstance(rows, plan.Sort)
    assert rows.ties == ("a", "w", "z")


# ── statements ───────────────────────────────────────────────────────────────────────────────────


def statement_plan(statement: ir.Statement) -> plan.StatementPlan:
    made = lower(ir.Mutation("m", (), (statement,)), CATALOG)
    assert isinstance(made, plan.MutationPlan)
    return made.statements[0]


def test_a_deleted_node_takes_the_edges_of_every_type_it_can_have() -> None:
    where = ir.Predicate("age", AGE, Comparator.EQ, P)
    deleted = statement_plan(ir.Delete("node", "Person", where))
    assert isinstance(deleted, plan.DeleteRows)
    assert (deleted.cascade, deleted.by_key) == (("Knows", "Lives"), False)


@pytest.mark.parametrize(
    ("comparator", "value", "by_key"),
    [
        (Comparator.EQ, P, True),
        (Comparator.GE, P, False),
        (Comparator.EQ, ir.Constant(2.0, F64), False),
    ],
)
def test_an_update_by_key_is_a_look_up(
    comparator: Comparator, value: Operand, *, by_key: bool
) -> None:
    where = ir.Predicate("code", I64, comparator, value)
    updated = statement_plan(ir.Update("City", (), where))
    assert isinstance(updated, plan.UpdateRows)
    assert updated.by_key is by_key


def test_an_insert_knows_what_spells_its_id() -> None:
    house = statement_plan(ir.Insert("node", "House", ()))
    edge = statement_plan(ir.Insert("edge", "Knows", ()))
    assert isinstance(house, plan.InsertRow)
    assert isinstance(edge, plan.InsertRow)
    assert (house.key, edge.key) == (("number", "street"), ())
