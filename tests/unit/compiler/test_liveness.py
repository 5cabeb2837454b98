"""Which variables the walks and filters of a plan still bind."""

from collections.abc import Iterator

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler import plan
from omnigraph.compiler.compile import compile_query
from omnigraph.lang.source import Source

SCHEMA = (
    "node Person { name: String @key  age: I64? }  edge Knows: Person -> Person { since: I64? }"
)
CATALOG = compile_schema(Source("schema.pg", SCHEMA))


def kept_in(body: str) -> list[tuple[str, ...] | None]:
    """What each walk and filter keeps, the last one first, and not inside blocks."""
    compiled = compile_query(Source("q.gq", f"query q() {{ {body} }}"), CATALOG)
    assert isinstance(compiled.plan, plan.ReadPlan)
    return list(_kept(compiled.plan.root))


def _kept(operator: plan.Operator) -> Iterator[tuple[str, ...] | None]:
    if isinstance(operator, plan.Expand | plan.Filter):
        yield operator.kept
    for given in plan.inputs_of(operator)[:1]:
        yield from _kept(given)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (
            "match { $a: Person $a knows $b $b knows $c } return { count($c) as n }",
            [(), ()],
        ),
        (
            "match { $a: Person $a knows $b $b knows $c } return { $a.name, count($c) as n }",
            [("a",), ("a",)],
        ),
        (
            "match { $a: Person $a knows $b $b knows $c $a != $c } return { count($c) as n }",
            [("c",), ("a",), ("a",)],
        ),
        (
            "match { $a: Person $a knows $b $b knows $c $c knows $a } return { $b.name }",
            [("a", "b"), ("a", "b"), ("a",)],
        ),
        (
            "match { $a: Person $a knows $b } return { $b.name } order { $b.age } limit 2",
            [("a",)],
        ),
        (
            "match { $a: Person $a knows $b not { $b knows $a } } return { $b.name }",
            [("a",)],
        ),
        (
            "match { $a: Person $a knows $b count { $a knows $x } > $b.age } return { $b.name }",
            [("a",)],
        ),
        (
            "match { $a: Person $a $k:knows $b $k.since > 3 } return { $b.name }",
            [()],
        ),
    ],
)
def test_a_walk_keeps_what_is_read_above_it(body: str, kept: list[tuple[str, ...]]) -> None:
    assert kept_in(body) == kept


def test_blocks_keep_all_their_variables() -> None:
    compiled = compile_query(
        Source(
            "q.gq",
            "query q() { match { $a: Person not { $a knows $b $b knows $c } } return { $a.name } }",
        ),
        CATALOG,
    )
    assert isinstance(compiled.plan, plan.ReadPlan)
    (block,) = [
        each for each in plan.operators_in(compiled.plan.root) if isinstance(each, plan.AntiJoin)
    ]
    walks = [each for each in plan.operators_in(block.inner) if isinstance(each, plan.Expand)]
    assert [each.kept for each in walks] == [None, None]
