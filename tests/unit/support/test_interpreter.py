"""The rules of the language, one by one, as the slow interpreter answers them."""

from collections.abc import Mapping
from typing import Final

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.ir import I64, Comparator, ParameterRef, Predicate, Read, Value
from omnigraph.compiler.resolve import resolve_query
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source
from support.interpreter import Edge, Graph, matching_ids, run

SCHEMA: Final = compile_schema(
    Source(
        "places.pg",
        """
        node Place {
            name: String @key
            floor: I32?
            size: F64?
            about: String? @index
            tags: [String]?
            vec: Vector(2)?
        }
        node Person { name: String @key   big: I64? }
        edge Next: Place -> Place { weight: I32? }
        edge Lives: Person -> Place { since: I32? }
        """,
    )
)

Rows = list[tuple[Value, ...]]


def place(**properties: Value) -> Mapping[str, Value]:
    return properties


def graph(
    places: Mapping[str, Mapping[str, Value]],
    following: str = "",
    people: Mapping[str, Mapping[str, Value]] | None = None,
    lives: str = "",
) -> Graph:
    """Edges are written `AB BC`: from a place or person of one letter to a place of one letter."""
    return Graph(
        {
            "Place": {each: {"name": each, **record} for each, record in places.items()},
            "Person": {each: {"name": each, **record} for each, record in (people or {}).items()},
        },
        {
            "Next": [
                Edge(f"n{at}", pair[0], pair[1], {"weight": at})
                for at, pair in enumerate(following.split())
            ],
            "Lives": [
                Edge(f"l{at}", pair[0], pair[1], {"since": at})
                for at, pair in enumerate(lives.split())
            ],
        },
    )


def ask(text: str, asked: Graph, **parameters: Value) -> Rows:
    declared = ", ".join(f"${name}: {_type_name(value)}" for name, value in parameters.items())
    source = Source("query", f"query asked({declared}) {{ {text} }}")
    query = resolve_query(parse(source).queries[0], SCHEMA, source)
    assert isinstance(query, Read)
    return run(query, asked, parameters, now_ms=1_000)


def _type_name(value: Value) -> str:
    match value:
        case None:
            return "I64?"
        case int():
            return "I64"
        case float():
            return "F64"
        case str():
            return "String"
        case _:
            return "Vector(2)"


def letters(rows: Rows) -> str:
    return "".join(str(row[0]) for row in rows)


NOTHING: Final[Mapping[str, Value]] = {}
ABC = {"A": NOTHING, "B": NOTHING, "C": NOTHING}
WORKED = graph(ABC, "AB BC AC CA CC")

# ── walks ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("hops", "reached"),
    [("", "BC"), ("{1,1}", "BC"), ("{1,3}", "BC"), ("{2,2}", ""), ("{0,1}", "ABC"), ("{1,}", "BC")],
)
def test_a_walk_finds_each_node_at_its_shortest_distance(hops: str, reached: str) -> None:
    text = (
        f'match {{ $a: Place {{name: "A"}} $a next{hops} $b }} '
        f"return {{ $b.name }} order {{ $b.name }}"
    )
    assert letters(ask(text, WORKED)) == reached


def test_a_cycle_never_returns_to_where_the_walk_began() -> None:
    text = 'match { $a: Place {name: "A"} $a next{1,5} $b } return { $b.name } order { $b.name }'
    assert letters(ask(text, graph(ABC, "AB BC CA"))) == "BC"


def test_a_self_loop_of_the_start_is_one_hop_and_leads_no_further() -> None:
    text = 'match { $a: Place {name: "A"} $a next{%s} $b } return { $b.name }'
    looped = graph(ABC, "AA")
    assert letters(ask(text % "1,1", looped)) == "A"
    assert letters(ask(text % "2,3", looped)) == ""


def test_parallel_edges_are_one_neighbour_unless_the_edge_is_bound() -> None:
    doubled = graph(ABC, "AB AB")
    assert len(ask("match { $a: Place $a next $b } return { $b.name }", doubled)) == 1
    assert len(ask("match { $a: Place $a $w:next $b } return { $w.weight }", doubled)) == 2


def test_a_wildcard_multiplies_rows_like_any_neighbour() -> None:
    rows = ask('match { $a: Place {name: "A"} $a next $_ } return { $a.name }', WORKED)
    assert rows == [("A",), ("A",)]


def test_an_edge_that_dangles_leads_nowhere_not_even_through_the_missing_node() -> None:
    text = 'match { $a: Place {name: "A"} $a next{1,2} $b } return { $b.name }'
    assert ask(text, graph(ABC, "AZ ZB")) == []


def test_nodes_of_two_types_with_one_id_are_two_nodes() -> None:
    homes = graph(ABC, people={"A": NOTHING}, lives="AA AB")
    text = "match { $p: Person $p lives $h } return { $h.name } order { $h.name }"
    assert letters(ask(text, homes)) == "AB"


def test_an_edge_between_two_types_cannot_be_chained() -> None:
    homes = graph(ABC, people={"A": NOTHING}, lives="AA AB")
    assert len(ask("match { $p: Person $p lives{1,4} $h } return { $h.name }", homes)) == 2
    assert ask("match { $p: Person $p lives{2,4} $h } return { $h.name }", homes) == []


def test_undirected_neighbours_are_a_set_and_a_loop_counts_once() -> None:
    both = graph(ABC, "AB BA CA AA")
    text = 'match { $a: Place {name: "A"} $a <next> $b } return { $b.name } order { $b.name }'
    assert letters(ask(text, both)) == "ABC"
    text = 'match { $a: Place {name: "A"} $a $w:<next> $b } return { $b.name } order { $b.name }'
    assert letters(ask(text, both)) == "ABBC"


def test_a_walk_between_bound_ends_is_a_check() -> None:
    text = (
        "match { $a: Place $b: Place $a next $b $b next $a } return { $a.name } order { $a.name }"
    )
    assert letters(ask(text, WORKED)) == "ACC"


# ── conditions ───────────────────────────────────────────────────────────────────────────────────

FLOORS = graph({"A": place(floor=1, size=2.5), "B": place(floor=3), "C": NOTHING}, "AB")


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("$p.floor = 1", "A"),
        ("$p.floor != 1", "B"),
        ("$p.floor > 0.5", "AB"),
        ("$p.floor = 2.7", ""),
        ("$p.floor > 2.7", "B"),
        ("$p.floor is null", "C"),
        ("$p.floor is not null", "AB"),
        ("$p.floor < 2 or $p.size is null", "ABC"),
        ("$p.floor < 2 and $p.size > 2", "A"),
        ("$p.floor in [3, 4]", "B"),
        ('$p.name contains "B"', "B"),
        ('$p.name starts_with ""', "ABC"),
        ("$p.floor = $missing", ""),
        ("$p.floor != $missing", ""),
    ],
)
def test_a_row_is_kept_only_by_a_condition_that_is_true(condition: str, kept: str) -> None:
    text = f"match {{ $p: Place {condition} }} return {{ $p.name }} order {{ $p.name }}"
    assert letters(ask(text, FLOORS, missing=None)) == kept


def test_large_integers_and_floats_are_compared_exactly() -> None:
    held = graph({}, people={"A": place(big=2**53 + 1), "B": place(big=2**53)})
    text = "match { $p: Person $p.big = $f } return { $p.name }"
    assert letters(ask(text, held, f=float(2**53))) == "B"


def test_a_match_on_a_list_asks_for_membership_and_a_null_list_has_no_members() -> None:
    tagged = graph({"A": place(tags=("x", "y")), "B": place(tags=()), "C": NOTHING})
    assert letters(ask('match { $p: Place {tags: "y"} } return { $p.name }', tagged)) == "A"


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def test_a_negation_keeps_what_is_unknown() -> None:
    text = "match { $p: Place not { $p.floor > 2 } } return { $p.name } order { $p.name }"
    assert letters(ask(text, FLOORS)) == "AC"


def test_negations_nest() -> None:
    text = (
        "match { $p: Place not { $p next $q not { $q.floor > 2 } } } "
        "return { $p.name } order { $p.name }"
    )
    assert letters(ask(text, FLOORS)) == "ABC"
    assert letters(ask(text, graph({"A": NOTHING, "C": NOTHING}, "AC"))) == "C"


def test_an_optional_block_that_finds_nothing_keeps_the_row_once_with_nulls() -> None:
    text = (
        "match { $p: Place optional { $p next $q } } "
        "return { $p.name, $q.name, $q as place } order { $p.name }"
    )
    place = ("B", None, 3, "B", None, None)
    assert ask(text, FLOORS) == [("A", "B", place), ("B", None, None), ("C", None, None)]


def test_a_filter_behind_an_optional_block_removes_rows() -> None:
    text = "match { $p: Place optional { $p next $q } $q.floor > 2 } return { $p.name }"
    assert letters(ask(text, FLOORS)) == "A"
    text = (
        "match { $p: Place optional { $p next $q $q.floor > 9 } } "
        "return { $p.name } order { $p.name }"
    )
    assert letters(ask(text, FLOORS)) == "ABC"


# ── results ──────────────────────────────────────────────────────────────────────────────────────

CROWD = graph(
    {
        "A": place(floor=1, size=1.0),
        "B": place(floor=1, size=None),
        "C": place(floor=None, size=0.5),
    }
)


def test_aggregates_skip_nulls_and_null_is_a_group() -> None:
    text = (
        "match { $p: Place } "
        "return { $p.floor, count($p) as n, sum($p.size) as s, min($p.name) as m } order { n desc }"
    )
    assert ask(text, CROWD) == [(1, 2, 1.0, "A"), (None, 1, 0.5, "C")]


def test_no_rows_are_one_group_without_keys_and_no_group_with_keys() -> None:
    none = graph({})
    text = "match { $p: Place } return { count($p) as n, sum($p.size) as s, avg($p.size) as a }"
    assert ask(text, none) == [(0, None, None)]
    assert ask("match { $p: Place } return { $p.floor, count($p) as n }", none) == []


def test_equal_groups_are_ordered_by_their_keys() -> None:
    text = "match { $p: Place } return { $p.name, count($p) as n } order { n desc }"
    assert letters(ask(text, CROWD)) == "ABC"


def test_nulls_are_smallest_and_ties_go_by_id() -> None:
    text = "match { $p: Place } return { $p.name } order { $p.floor %s }"
    assert letters(ask(text % "asc", CROWD)) == "CAB"
    assert letters(ask(text % "desc", CROWD)) == "ABC"


def test_ties_go_by_the_variables_in_the_order_of_their_names() -> None:
    text = "match { $z: Place $a: Place } return { $a.name, $z.name } order { $a.floor } limit 2"
    two = graph({"B": NOTHING, "A": NOTHING})
    assert ask(text, two) == [("A", "A"), ("A", "B")]


def test_a_limit_counts_from_the_offset() -> None:
    text = "match { $p: Place } return { $p.name } order { $p.name } limit %s offset 1"
    assert letters(ask(text % "1", CROWD)) == "B"
    assert letters(ask(text % "0", CROWD)) == ""
    assert letters(ask(text % "$n", CROWD, n=9)) == "BC"


def test_now_is_one_instant() -> None:
    assert ask("match { $p: Place } return { now() } limit 1", CROWD) == [(1_000,)]


# ── search ───────────────────────────────────────────────────────────────────────────────────────

SHELF = graph(
    {
        "A": place(about="red house", vec=(0.0, 0.0), floor=1),
        "B": place(about="Red, red barn", vec=(1.0, 0.0), floor=2),
        "C": place(about="blue barn", vec=(0.0, 3.0), floor=2),
        "D": place(about=None, vec=None, floor=2),
    },
    "BC",
)


def test_search_finds_any_word_whatever_its_case() -> None:
    text = "match { $p: Place search($p.about, $q) } return { $p.name } order { $p.name }"
    assert letters(ask(text, SHELF, q="RED stone")) == "AB"
    assert letters(ask(text, SHELF, q="")) == ""


def test_fuzzy_counts_edits() -> None:
    text = "match { $p: Place fuzzy($p.about, $q, 1) } return { $p.name } order { $p.name }"
    assert letters(ask(text, SHELF, q="bern")) == "BC"
    assert letters(ask(text, SHELF, q="burnt")) == ""


def test_bm25_keeps_what_matches_best_first() -> None:
    text = "match { $p: Place } return { $p.name } order { bm25($p.about, $q) }"
    assert letters(ask(text, SHELF, q="red")) == "BA"


def test_nearest_leaves_out_null_vectors() -> None:
    text = "match { $p: Place } return { $p.name } order { nearest($p.vec, $q) } limit 9"
    assert letters(ask(text, SHELF, q=(0.0, 0.0))) == "ABC"


def test_conditions_on_the_ranked_node_apply_before_the_ranking_and_others_after() -> None:
    text = (
        "match { $p: Place $p.floor = 2 %s } "
        "return { $p.name } order { nearest($p.vec, $q) } limit 1"
    )
    assert letters(ask(text % "", SHELF, q=(0.0, 0.0))) == "B"
    assert letters(ask(text % "$p next $_", SHELF, q=(0.0, 0.0))) == "B"
    assert letters(ask(text % "$p next $_", SHELF, q=(0.0, 3.0))) == ""


def test_a_ranked_node_that_was_walked_to_is_ranked_among_those_found() -> None:
    text = (
        'match { $p: Place {name: "B"} $p next $r } '
        "return { $r.name } order { nearest($r.vec, $q) } limit 1"
    )
    assert letters(ask(text, SHELF, q=(0.0, 0.0))) == "C"


def test_fusion_adds_reciprocal_ranks() -> None:
    text = (
        "match { $p: Place } "
        "return { $p.name, rrf(nearest($p.vec, $v), bm25($p.about, $w)) as s } order { s } limit 2"
    )
    rows = ask(text, SHELF, v=(0.0, 0.0), w="barn")
    # The vector arm keeps A and B, the text arm finds C (the shorter text) before B.
    assert rows == [("B", 1 / 62 + 1 / 62), ("A", 1 / 61)]


# ── mutations ────────────────────────────────────────────────────────────────────────────────────


def test_the_predicate_of_a_mutation_never_matches_null() -> None:
    records: Mapping[str, Mapping[str, Value]] = {"a": {"n": 1}, "b": {"n": None}, "c": {"n": 2}}
    where = Predicate("n", I64, Comparator.NE, ParameterRef("x", I64))
    assert matching_ids(where, records, {"x": 1}, now_ms=0) == ["c"]
