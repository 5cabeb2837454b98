"""What queries mean, told by running them with the slow interpreter on a small museum."""

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler import ir
from omnigraph.compiler.parameters import bind
from omnigraph.compiler.resolve import resolve_query
from omnigraph.errors import QueryInvalid
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source
from support.interpreter import Edge, Graph, run

CATALOG = compile_schema(
    Source(
        "schema.pg",
        """
        node Gallery { code: String @key  floor: I32? }
        node Artwork { ref: String @key  price: F64?  ratio: F32?  tags: [String]? }
        edge Hangs: Artwork -> Gallery { year: I32? }
        edge Inspired: Artwork -> Artwork
        """,
    )
)

MUSEUM = Graph(
    nodes={
        "Gallery": {
            "W1": {"code": "W1", "floor": 1},
            "W2": {"code": "W2", "floor": 2},
            "W3": {"code": "W3", "floor": None},
        },
        "Artwork": {
            "a": {"ref": "a", "price": 10.0, "ratio": 0.10000000149011612, "tags": ("x", "y")},
            "b": {"ref": "b", "price": 20.0, "ratio": None, "tags": ()},
            "c": {"ref": "c", "price": None, "ratio": None, "tags": None},
        },
    },
    edges={
        "Hangs": [Edge("h1", "a", "W1", {"year": 1}), Edge("h2", "b", "W2", {"year": 2})],
        "Inspired": [Edge("i1", "a", "b"), Edge("i2", "b", "c")],
    },
)


def resolve(text: str) -> ir.Query:
    source = Source("q.gq", text)
    return resolve_query(parse(source).queries[0], CATALOG, source)


def rows(body: str, parameters: str = "", **given: object) -> list[tuple[ir.Value, ...]]:
    query = resolve(f"query q({parameters}) {{ {body} }}")
    assert isinstance(query, ir.Read)
    found = run(query, MUSEUM, bind(query.parameters, given), now_ms=0)
    return found if query.order else sorted(found, key=repr)


def codes(text: str) -> list[str]:
    with pytest.raises(QueryInvalid) as caught:
        resolve(text)
    return [each.code for each in caught.value.findings]


def test_a_negation_walks_the_way_the_types_say() -> None:
    assert rows("match { $g: Gallery  not { $g hangs $_ } } return { $g.code }") == [("W3",)]
    assert rows("match { $g: Gallery  not { $_ hangs $g } } return { $g.code }") == [("W3",)]


def test_both_ways_of_writing_an_edge_between_two_types_are_equal() -> None:
    forth = rows("match { $g: Gallery  $a hangs $g } return { $a.ref, $g.code }")
    back = rows("match { $g: Gallery  $g hangs $a } return { $a.ref, $g.code }")
    assert forth == back == [("a", "W1"), ("b", "W2")]


def test_an_edge_within_one_type_is_walked_as_written_from_either_end() -> None:
    assert rows('match { $b: Artwork { ref: "b" }  $a inspired $b } return { $a.ref }') == [("a",)]
    assert rows('match { $b: Artwork { ref: "b" }  $b inspired $a } return { $a.ref }') == [("c",)]


def test_a_variable_bound_twice_must_satisfy_both_bindings() -> None:
    body = "match { $a: Artwork { price: 10 }  $a: Artwork { tags: %s } } return { $a.ref }"
    assert rows(body % '"x"') == [("a",)]
    assert rows(body % '"z"') == []


def test_parts_without_a_connection_are_multiplied() -> None:
    assert len(rows("match { $a: Artwork  $g: Gallery } return { $a.ref, $g.code }")) == 9


def test_every_wildcard_is_a_node_of_its_own() -> None:
    body = "match { $a: Artwork  $a inspired $_  $_ inspired $a } return { $a.ref }"
    assert rows(body) == [("b",)]


def test_a_filter_on_an_optional_variable_sees_the_rows_it_left_unbound() -> None:
    unhung = "match { $a: Artwork  optional { $a hangs $g }  $g is null } return { $a.ref }"
    assert rows(unhung) == [("c",)]
    low = "match { $a: Artwork  optional { $a hangs $g }  $g.floor = 1 } return { $a.ref }"
    assert rows(low) == [("a",)]
    inside = (
        "match { $a: Artwork  optional { $a hangs $g  $g.floor = 1 } } return { $a.ref, $g.code }"
    )
    assert rows(inside) == [("a", "W1"), ("b", None), ("c", None)]


def test_an_optional_block_can_go_on_from_another() -> None:
    body = """
    match { $a: Artwork  optional { $a inspired $b }  optional { $b hangs $g } }
    return { $a.ref, $b.ref, $g.code }
    """
    assert rows(body) == [("a", "b", "W2"), ("b", "c", None), ("c", None, None)]


def test_binding_an_optional_variable_in_a_block_asks_that_it_is_there() -> None:
    body = "match { $a: Artwork  optional { $a hangs $g }  not { $g: Gallery } } return { $a.ref }"
    assert rows(body) == [("c",)]


def test_a_count_of_optional_matches_can_be_zero() -> None:
    body = """
    match { $g: Gallery  optional { $g hangs $a } }
    return { $g.code, count($a) as n } order { n, $g.code desc }
    """
    assert rows(body) == [("W3", 0), ("W2", 1), ("W1", 1)]


def test_numbers_are_compared_by_value() -> None:
    assert rows("match { $g: Gallery  $g.floor > 1.5 } return { $g.code }") == [("W2",)]
    assert rows("match { $g: Gallery  $g.floor = 1.5 } return { $g.code }") == []
    assert rows("match { $g: Gallery { floor: 2.0 } } return { $g.code }") == [("W2",)]


def test_a_float_literal_finds_the_f32_it_was_stored_as() -> None:
    assert rows("match { $a: Artwork { ratio: 0.1 } } return { $a.ref }") == [("a",)]
    assert rows("match { $a: Artwork  $a.ratio = 0.1 } return { $a.ref }") == [("a",)]
    parameter = "match { $a: Artwork  $a.ratio = $r } return { $a.ref }"
    assert rows(parameter, "$r: F32", r=0.1) == [("a",)]


def test_null_is_neither_equal_nor_different() -> None:
    assert rows("match { $g: Gallery  $g.floor != 1 } return { $g.code }") == [("W2",)]
    assert rows("match { $g: Gallery  not { $g.floor > 1 } } return { $g.code }") == [
        ("W1",),
        ("W3",),
    ]
    body = "match { $g: Gallery { floor: $n } } return { $g.code }"
    assert rows(body, "$n: I32?", n=None) == []


def test_a_parameter_hides_a_variable_of_its_name_but_not_its_properties() -> None:
    body = "match { $g: Gallery  $g.floor = 1 } return { $g.code, $g }"
    assert rows(body, "$g: String", g="given") == [("W1", "given")]


def test_a_walk_that_closes_a_circle_is_a_check() -> None:
    body = "match { $a: Artwork  $a inspired $b  $b inspired $c  $a inspired $c } return { $a.ref }"
    assert rows(body) == []


def test_an_edge_variable_gives_a_row_per_edge_and_its_properties() -> None:
    body = "match { $g: Gallery  $g $w:hangs $a  $w.year > 1 } return { $a.ref, $w.year }"
    assert rows(body) == [("b", 2)]


def test_two_hops_over_an_edge_between_two_types_find_nothing() -> None:
    assert rows("match { $a: Artwork  $a hangs{2,3} $g } return { $a.ref }") == []
    assert len(rows("match { $a: Artwork  $a hangs{1,3} $g } return { $a.ref }")) == 2


def test_a_returned_score_is_the_one_rows_are_ranked_by() -> None:
    query = resolve(
        """query q($w: String) { match { $a: Artwork }
           return { $a.ref, bm25($a.ref, $w) as score } order { score desc, $a.price } }"""
    )
    assert isinstance(query, ir.Read)
    [ordering] = query.order
    assert (ordering.key, ordering.descending) == (query.outputs[1].expression, False)
    assert query.outputs[1].type == ir.F64.optional()


def test_limits_given_as_parameters_are_marked_as_counts() -> None:
    query = resolve(
        "query q($n: I64, $m: I64) { match { $a: Artwork } return { $a.ref, $m } limit $n }"
    )
    assert [(each.name, each.is_count) for each in query.parameters] == [("n", True), ("m", False)]


def test_columns_keep_their_run_time_names() -> None:
    query = resolve(
        """query q($p: String) { match { $a: Artwork }
           return { $a.ref, $a, $p, 1, now(), $a.price as cost } }"""
    )
    assert isinstance(query, ir.Read)
    names = [each.name for each in query.outputs]
    assert names == ["a.ref", "a", "p", "literal", "now", "cost"]


def test_an_aggregate_is_named_by_what_it_aggregates() -> None:
    query = resolve(
        """query q() { match { $a: Artwork }
           return { count($a), sum($a.price), count(distinct $a.ref) } }"""
    )
    assert isinstance(query, ir.Read)
    assert [each.name for each in query.outputs] == ["a", "a.price", "a.ref"]


def test_every_fault_of_a_query_is_reported_in_the_order_it_is_read() -> None:
    assert codes(
        """query q() {
          match { $a: Artwrk  $g: Gallery { flor: 1 }  $g.floor = "x"  $g hung $b }
          return { $g.cod, $x } order { nothing } limit $n
        }"""
    ) == ["T1", "T2", "T7", "T4", "T6", "U4", "U8", "U4"]


def test_one_slip_is_reported_once() -> None:
    assert codes(
        """query q() {
          match { $a: Artwrk { x: 1 }  $a hangs $g  $g.floor = 1  $a.x = $g.y }
          return { $a.x } order { $a.x }
        }"""
    ) == ["T1", "T6"]


def test_a_misspelt_edge_does_not_cut_the_pattern_apart() -> None:
    assert codes(
        "query q() { match { $a: Artwork  $a hang $g  $b hangs $g } return { $b.ref, $g.floor } }"
    ) == ["T4"]


def test_diagnostics_name_line_and_column() -> None:
    with pytest.raises(QueryInvalid) as caught:
        resolve("query q() {\n  match { $a: Artwork }\n  return { $a.reff }\n}")
    assert [(each.line, each.column) for each in caught.value.findings] == [(3, 15)]
