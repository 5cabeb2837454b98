"""Laws of the schema language: what is printed reads back, and order never matters."""

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra.lark import from_lark

from omnigraph.catalog.build import build, compile_schema
from omnigraph.catalog.codec import decode_ir, encode_compact, encode_pretty, schema_hash
from omnigraph.errors import SchemaInvalid
from omnigraph.lang.schema.ast import (
    Annotation,
    Cardinality,
    Constraint,
    Declaration,
    Edge,
    Interface,
    Literal,
    Name,
    Node,
    Property,
    Range,
    Schema,
    TypeRef,
)
from omnigraph.lang.schema.parser import BASE_TYPES, CONSTRAINTS, GRAMMAR, parse
from omnigraph.lang.schema.printer import print_schema
from omnigraph.lang.source import Source

T = TypeVar("T")

# ── trees the parser can make, meaningful or not ─────────────────────────────────────────────────

KEYWORDS = ["node", "edge", "interface", "implements", "enum", "true", "false", "card", "key"]
words = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True) | st.sampled_from(KEYWORDS)
type_words = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True)
names = st.builds(Name, words)
type_names = st.builds(Name, type_words)
enum_values = st.builds(Name, st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.integers(0, 2**70)
fractions = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


def number_text(value: float) -> str:
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


unsigned = (
    st.builds(lambda value: Literal(value, value), texts)
    | st.builds(lambda value: Literal(value, str(value)), counts)
    | st.builds(lambda value: Literal(value, number_text(value)), fractions)
)
booleans = st.builds(lambda value: Literal(value, str(value).lower()), st.booleans())
bounds = st.integers(-(2**70), 2**70) | st.floats(allow_infinity=False, allow_nan=False)
ranges = (
    st.builds(Range, bounds, bounds)
    | st.builds(Range, bounds, st.none())
    | st.builds(Range, st.none(), bounds)
)

marks = st.builds(Annotation, words, st.none(), st.just(()))
valued = st.builds(
    Annotation,
    words.filter(lambda word: word not in CONSTRAINTS),
    unsigned | booleans | names.filter(lambda name: name.text not in {"true", "false"}),
    st.lists(st.tuples(words, unsigned | booleans), max_size=2).map(tuple),
)
annotations = st.lists(marks | valued, max_size=3).map(tuple)
edge_annotations = annotations.map(lambda many: tuple(each for each in many if each.name != "card"))
constraints = st.builds(
    Constraint,
    st.sampled_from(CONSTRAINTS),
    st.lists(names | unsigned | ranges, min_size=1, max_size=3).map(tuple),
)
types = (
    st.builds(
        TypeRef, st.sampled_from(BASE_TYPES), st.none(), st.none(), st.booleans(), st.booleans()
    )
    | st.builds(TypeRef, st.none(), counts, st.none(), st.just(False), st.booleans())
    | st.builds(
        TypeRef,
        st.none(),
        st.none(),
        st.lists(enum_values, min_size=1, max_size=3).map(tuple),
        st.just(False),
        st.booleans(),
    )
)
properties = st.builds(Property, names, types, annotations)
members = st.lists(properties | constraints, max_size=4).map(tuple)
declarations = (
    st.builds(Interface, type_names, st.lists(properties, max_size=3).map(tuple))
    | st.builds(Node, type_names, annotations, st.lists(type_names, max_size=2).map(tuple), members)
    | st.builds(
        Edge,
        type_names,
        st.lists(type_names, min_size=1, max_size=2).map(tuple),
        st.lists(type_names, min_size=1, max_size=2).map(tuple),
        st.none() | st.builds(Cardinality, counts, st.none() | counts),
        edge_annotations,
        members,
    )
)
schemas = st.builds(Schema, st.lists(declarations, max_size=4).map(tuple))


def source(text: str) -> Source:
    return Source("law.pg", text)


@given(schemas)
@settings(deadline=None)
def test_parsing_what_was_printed_gives_the_same_tree(schema: Schema) -> None:
    printed = print_schema(schema)
    again = parse(source(printed))
    assert again == schema
    assert print_schema(again) == printed


# The grammar is wider than the language, and a word may be glued to the next one: not all that
# grows from it is a program. What is one must survive printing; what is not is refused in words.
grown = from_lark(
    GRAMMAR.build(),
    start="schema",
    explicit={
        "NODE": st.just("node "),
        "EDGE": st.just("edge "),
        "INTERFACE": st.just("interface "),
        "IMPLEMENTS": st.just("implements "),
        "TYPE_NAME": type_words,
        "PROPERTY_NAME": words.map(lambda word: f" {word}"),
        "MARK_NAME": words,
        "NAME": words,
        "TYPE_WORD": st.sampled_from(BASE_TYPES),
    },
)


@given(grown)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_program_grown_from_the_grammar_survives_printing_or_is_refused(text: str) -> None:
    try:
        tree = parse(source(text))
    except SchemaInvalid:
        return
    assert parse(source(print_schema(tree))) == tree


fragments = st.sampled_from(
    [
        *("node ", "edge ", "interface ", "implements ", "enum(", "Vector(", "String", "[", "]"),
        *("{", "}", "(", ")", ":", "->", "@", "@key", "@card(", "..", "-1", "0.5", "?", ",", "="),
        *('"', '"x"', '"\\', "\\n", "//", "/*", "*/", "\n", "\x00", "\ud800", "é", "A", "a", " "),
    ]
)


@given(st.lists(fragments | st.text(max_size=3), max_size=30).map("".join))
@settings(deadline=None)
def test_any_text_is_a_schema_or_refused_with_a_place(text: str) -> None:
    try:
        compile_schema(source(text))
    except SchemaInvalid as refused:
        for finding in refused.findings:
            assert finding.line is not None
            assert finding.column is not None
            assert finding.render().encode()


# ── schemas that mean something ──────────────────────────────────────────────────────────────────

SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")


def scalar(base: str, *, nullable: bool = False, is_list: bool = False) -> TypeRef:
    return TypeRef(base, None, None, is_list, nullable)


notes = st.lists(
    st.builds(
        Annotation,
        st.sampled_from(["note", "owner", "weight"]),
        st.none() | unsigned,
        st.just(()),
    )
    | st.builds(
        Annotation,
        st.just("note"),
        unsigned,
        st.just((("b", Literal("1", "1")), ("a", Literal("2", "2")))),
    ),
    max_size=2,
).map(tuple)
plain_types = (
    st.builds(scalar, st.sampled_from(SCALARS), nullable=st.booleans(), is_list=st.booleans())
    | st.builds(lambda n: TypeRef(None, n, None, is_list=False, nullable=True), st.integers(1, 99))
    | st.builds(
        lambda values: TypeRef(None, None, tuple(map(Name, values)), is_list=False, nullable=False),
        st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    )
)
low_bounds = st.none() | st.integers(-9, 0) | st.floats(-9, 0)
high_bounds = st.integers(0, 9) | st.floats(0, 1e300)


@st.composite
def bodies(draw: st.DrawFn, columns: tuple[str, ...] = ()) -> tuple[Property | Constraint, ...]:
    named = draw(st.lists(st.sampled_from([*"pqrstuvw", "id"]), unique=True, max_size=5))
    body: list[Property | Constraint] = [
        Property(Name(name), draw(plain_types), draw(notes)) for name in named
    ]
    if columns:
        listed = draw(st.permutations(columns))
        body.append(Constraint("unique", tuple(map(Name, listed))))
        body.append(Constraint("index", (Name(listed[0]),)))
        return tuple(body)
    body.append(Property(Name("code"), scalar("String"), draw(notes)))
    body.append(Property(Name("size"), scalar("F64"), ()))
    body.append(Constraint("key", tuple(map(Name, draw(st.permutations(["code", "size"]))))))
    body.append(Constraint("range", (Name("size"), Range(draw(low_bounds), draw(high_bounds)))))
    body.append(Constraint("range", (Name("size"), Range(draw(low_bounds), draw(high_bounds)))))
    body.append(Constraint("check", (Name("code"), Literal("^[a-z]", "^[a-z]"))))
    return tuple(body)


@st.composite
def sound_schemas(draw: st.DrawFn) -> Schema:
    declared: list[Declaration] = [
        Interface(Name("Dated"), (Property(Name("at"), scalar("Date", nullable=True), ()),)),
        Interface(Name("Named"), (Property(Name("name"), scalar("String"), draw(notes)),)),
    ]
    nodes = draw(st.lists(st.sampled_from(["One", "Two", "Three"]), min_size=1, unique=True))
    for name in nodes:
        implements = tuple(map(Name, draw(st.permutations(["Dated", "Named"]))))
        declared.append(Node(Name(name), draw(notes), implements, draw(bodies())))
    for name in draw(st.lists(st.sampled_from(["Likes", "Sees"]), unique=True)):
        some = st.lists(st.sampled_from([*nodes, "Dated"]), min_size=1, max_size=3, unique=True)
        sources, targets = (tuple(map(Name, draw(some))) for _ in range(2))
        cardinality = draw(st.none() | st.just(Cardinality(0, 3)))
        body = draw(bodies(columns=("src", "dst")))
        declared.append(Edge(Name(name), sources, targets, cardinality, draw(notes), body))
    return Schema(tuple(declared))


def shuffled(schema: Schema, draw: Callable[[st.SearchStrategy[list[int]]], list[int]]) -> Schema:
    """The same schema with everything that has no order put in another one."""

    def mix(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(items[at] for at in draw(st.permutations(range(len(items)))))

    def mixed_annotations(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
        return mix(tuple(Annotation(a.name, a.value, mix(a.keywords)) for a in annotations))

    def mixed_member(member: Property | Constraint) -> Property | Constraint:
        if isinstance(member, Constraint):
            ordered = member.name in {"range", "check"}
            return member if ordered else Constraint(member.name, mix(member.arguments))
        written = member.type
        enum = None if written.enum is None else mix(written.enum)
        mixed = TypeRef(written.base, written.dimension, enum, written.is_list, written.nullable)
        return Property(member.name, mixed, mixed_annotations(member.annotations))

    def mixed(declaration: Declaration) -> Declaration:
        match declaration:
            case Interface():
                return declaration
            case Node(name, annotations, implements, members):
                body = mix(tuple(map(mixed_member, members)))
                return Node(name, mixed_annotations(annotations), mix(implements), body)
            case Edge(name, sources, targets, cardinality, annotations, members):
                body = mix(tuple(map(mixed_member, members)))
                notes = mixed_annotations(annotations)
                return Edge(name, mix(sources), mix(targets), cardinality, notes, body)

    return Schema(mix(tuple(map(mixed, schema.declarations))))


@given(sound_schemas(), st.data())
@settings(deadline=None)
def test_the_order_of_the_text_never_changes_the_hash(schema: Schema, data: st.DataObject) -> None:
    text, other = print_schema(schema), print_schema(shuffled(schema, data.draw))
    assert schema_hash(compile_schema(source(text))) == schema_hash(compile_schema(source(other)))


@given(sound_schemas())
@settings(deadline=None)
def test_decoding_what_was_encoded_gives_the_same_catalog(schema: Schema) -> None:
    catalog = build(schema, source(""))
    for text in (encode_compact(catalog), encode_pretty(catalog)):
        decoded = decode_ir(text)
        assert decoded == catalog
        assert encode_compact(decoded) == encode_compact(catalog)


@given(sound_schemas())
@settings(deadline=None)
def test_a_catalog_is_the_same_whether_built_from_the_tree_or_from_its_text(
    schema: Schema,
) -> None:
    assert build(schema, source("")) == compile_schema(source(print_schema(schema)))


def test_most_programs_that_grow_from_the_grammar_are_read() -> None:
    """Otherwise the law above would hold because nothing ever reached it."""
    read: list[bool] = []

    @given(grown)
    @settings(deadline=None, max_examples=300, database=None, derandomize=True)
    def sample(text: str) -> None:
        try:
            read.append(bool(parse(source(text)).declarations))
        except SchemaInvalid:
            read.append(False)

    sample()
    assert sum(read) >= 10, f"only {sum(read)} of {len(read)}"


def test_a_long_text_without_sense_is_refused_in_reasonable_time() -> None:
    pieces = ["node A { ", "a: String ", "} ", "@x(", '"', "/*", "edge ", "0..", "\n", "{"]
    text = "".join(pieces[(at * at * 7 + at // 3) % len(pieces)] for at in range(100_000))
    with pytest.raises(SchemaInvalid):
        compile_schema(source(text))
