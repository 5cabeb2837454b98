"""What a schema means once it is accepted. What is rejected is in the golden cases."""

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embed,
    IndexConstraint,
    Key,
    NodeType,
    Range,
    Unique,
    WantedIndexKind,
)
from omnigraph.catalog.portability import find_extensions
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.lang.source import Source


def compiled(text: str) -> Catalog:
    return compile_schema(Source("test.pg", text))


def node(text: str) -> NodeType:
    return compiled(text).nodes[0]


def edge(text: str) -> EdgeType:
    return compiled(f"node A {{ }} {text}").edges[0]


def test_everything_is_sorted_by_name() -> None:
    catalog = compiled(
        "edge Z: B -> A edge Y: B -> A node B { z: I32 a: I32 } node A { } "
        "interface J { z: I32 a: I32 } interface I { }"
    )
    assert [each.name for each in catalog.interfaces] == ["I", "J"]
    assert [each.name for each in catalog.nodes] == ["A", "B"]
    assert [each.name for each in catalog.edges] == ["Y", "Z"]
    assert [each.name for each in catalog.nodes[1].properties] == ["a", "z"]
    assert [each.name for each in catalog.interfaces[1].properties] == ["a", "z"]


def test_types_are_resolved() -> None:
    built = node("node A { a: [Date]? b: Vector(3) c: enum(y, x)? d: U64 }")
    assert [each.type for each in built.properties] == [
        ValueType(Scalar.DATE, nullable=True, is_list=True),
        ValueType(Vector(3)),
        ValueType(Scalar.STRING, nullable=True, enum_values=("x", "y")),
        ValueType(Scalar.U64),
    ]


def test_a_mark_and_a_body_constraint_mean_the_same() -> None:
    marked = node("node A { a: String @key b: I32 @unique c: I32 @index }")
    listed = node("node A { a: String b: I32 c: I32 @key(a) @unique(b) @index(c) }")
    assert (
        marked.constraints
        == listed.constraints
        == (IndexConstraint(("c",)), Key(("a",)), Unique(("b",)))
    )
    assert marked.properties[0].annotations == (Annotation("key"),)
    assert listed.properties[0].annotations == ()


def test_a_composite_key_is_sorted() -> None:
    assert node("node A { b: I32 a: I32 @key(b, a) }").key == ("a", "b")


def test_a_range_open_below_has_no_minimum() -> None:
    built = node("node A { a: I32 @range(a, ..9) @range(a, 1..) }")
    assert built.constraints == (Range("a", None, 9), Range("a", 1, None))


def test_surplus_arguments_of_range_and_check_are_ignored() -> None:
    built = node('node A { a: I32 s: String @range(a, 0..9, a, "x") @check(s, "x", 3) }')
    assert built.constraints == (Check("s", "x"), Range("a", 0, 9))


def test_a_node_takes_what_it_lacks_from_its_interfaces() -> None:
    built = node(
        'interface Dated { on: Date @index @description("when") code: String @key } '
        "interface Sized { size: I32? }"
        "node A implements Sized, Dated, Sized { own: Bool }"
    )
    assert built.implements == ("Dated", "Sized")
    assert [each.name for each in built.properties] == ["code", "on", "own", "size"]
    assert built.constraints == (IndexConstraint(("on",)), Key(("code",)))
    on = built.find("on")
    assert on is not None
    assert on.annotations == (Annotation("description", "when"), Annotation("index"))


def test_a_property_that_a_node_redeclares_loses_the_annotations_of_the_interface() -> None:
    built = node("interface I { a: String @index } node A implements I { a: String @unique }")
    assert built.constraints == (Unique(("a",)),)
    assert built.properties[0].annotations == (Annotation("unique"),)


def test_interfaces_agree_whatever_the_order_of_their_annotations() -> None:
    built = node(
        "interface I { a: String @index @n(1, x=1, y=2) } "
        "interface J { a: String @n(1, y=2, x=1) @index } node A implements I, J { }"
    )
    assert [each.name for each in built.properties] == ["a"]


def test_an_interface_nobody_implements_may_hold_what_a_node_may_not() -> None:
    catalog = compiled("interface I { a: [String] @key b: String? @key c: String @embed(nothing) }")
    assert [each.name for each in catalog.interfaces] == ["I"]


def test_a_node_an_edge_and_an_interface_may_share_a_name() -> None:
    catalog = compiled("interface A { } node A { } edge A: A -> A")
    assert catalog.node("A") is not None
    assert catalog.edge("A") is not None


def test_an_edge_knows_its_ends_its_cardinality_and_its_columns() -> None:
    built = edge("edge E: A -> A @card(1..4294967295) { w: I32 @unique(dst, src, w) @index(src) }")
    assert (built.source, built.target) == ("A", "A")
    assert built.cardinality == Cardinality(1, 4294967295)
    assert built.constraints == (IndexConstraint(("src",)), Unique(("dst", "src", "w")))
    assert edge("edge E: A -> A").cardinality == Cardinality(0, None)


def test_indexes_are_built_for_single_columns_by_the_type_of_the_column() -> None:
    built = node(
        "node A { k: String @key e: enum(a, b) @index b: Bool @index n: F32 @index d: Date @index "
        "t: DateTime @index v: Vector(3) @index l: [String] s: String u: String @unique "
        "@index(l) @index(s, e) @index(k) }"
    )
    assert dict(built.indexes) == {
        "id": WantedIndexKind.BTREE,
        "k": WantedIndexKind.FULL_TEXT,
        "e": WantedIndexKind.BTREE,
        "b": WantedIndexKind.BTREE,
        "n": WantedIndexKind.BTREE,
        "d": WantedIndexKind.BTREE,
        "t": WantedIndexKind.BTREE,
        "v": WantedIndexKind.VECTOR,
    }
    assert built.indexes[0] == ("id", WantedIndexKind.BTREE)


def test_edges_are_indexed_by_identity_and_ends_only() -> None:
    built = edge("edge E: A -> A { w: I32 @index }")
    assert [name for name, _ in built.indexes] == ["id", "src", "dst"]


def test_embed_names_its_source_and_its_model() -> None:
    built = node(
        'node A { t: String v: Vector(2) @embed(t, model="m") w: Vector(2) @embed("t") u: Bool }'
    )
    assert [each.embed for each in built.properties] == [
        None,
        None,
        Embed("t", "m"),
        Embed("t", None),
    ]


def test_a_default_is_kept_and_changes_nothing_else() -> None:
    built = node(
        'node A { a: I32 @default(3) b: enum(x, y) @default("x") c: F32 @default(1) '
        'd: Date? @default("2024-05-01") e: DateTime @default("2024-05-01") '
        "f: Bool @default(false) "
        'g: U64 @default(18446744073709551615) h: String @default("") @range(a, 3..3) }'
    )
    defaults = {each.name: each.annotation("default") for each in built.properties}
    assert [each.value for each in defaults.values() if each is not None] == [
        *("3", "x", "1", "2024-05-01", "2024-05-01", "false", "18446744073709551615", "")
    ]
    assert not built.properties[0].type.nullable


def test_unknown_annotations_are_kept_with_their_texts() -> None:
    built = node(
        'node A @owner("me", since=2024, draft=true) { a: I32 @weight(0.50) @plain(word) }'
    )
    keywords = (("draft", "true"), ("since", "2024"))
    assert built.annotations == (Annotation("owner", "me", keywords),)
    assert built.properties[0].annotations == (
        Annotation("plain", "word"),
        Annotation("weight", "0.50"),
    )


ENDS_SCHEMA = """
interface Place { }
node Person { }
node Robot { }
node City implements Place { }
node Country implements Place { }
edge LivesIn: Person | Robot -> Place @key(src, dst)
edge Knows: Person -> Person
"""


def test_an_edge_over_several_ends_is_an_edge_type_for_each_pair() -> None:
    catalog = compiled(ENDS_SCHEMA)
    pairs = catalog.pairs("LivesIn")
    assert [(each.name, each.source, each.target) for each in pairs] == [
        ("LivesIn.Person.City", "Person", "City"),
        ("LivesIn.Person.Country", "Person", "Country"),
        ("LivesIn.Robot.City", "Robot", "City"),
        ("LivesIn.Robot.Country", "Robot", "Country"),
    ]
    assert all(each.key == ("src", "dst") and each.family == "LivesIn" for each in pairs)
    assert catalog.edge_names == ("Knows", "LivesIn")
    assert catalog.edges_named("livesIn") == pairs
    assert catalog.pairs("livesIn") == () == catalog.pairs("Knows") == catalog.edges_named("No")
    assert [str(each) for each in find_extensions(catalog)] == [
        "edge:LivesIn: ends of several types, Person | Robot -> City | Country",
        "edge:LivesIn: @key(src, dst) on an edge",
    ]


def test_an_interface_with_one_implementer_is_an_edge_of_one_pair() -> None:
    catalog = compiled("interface I { } node A implements I { } edge E: I -> A")
    assert [each.name for each in catalog.edges] == ["E.A.A"]
