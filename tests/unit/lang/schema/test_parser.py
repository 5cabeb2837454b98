import pytest

from omnigraph.catalog.types import Scalar
from omnigraph.errors import SchemaInvalid
from omnigraph.lang.schema.ast import (
    Annotation,
    Constraint,
    Edge,
    Interface,
    Literal,
    Name,
    Node,
    Property,
    Range,
)
from omnigraph.lang.schema.parser import BASE_TYPES, parse
from omnigraph.lang.source import Source, Span


def parsed(text: str) -> tuple[Interface | Node | Edge, ...]:
    return parse(Source("test.pg", text)).declarations


def members(body: str) -> tuple[Property | Constraint, ...]:
    (node,) = parsed(f"node A {{ {body} }}")
    assert isinstance(node, Node)
    return node.members


def refusals(text: str) -> list[tuple[str, int, int, str]]:
    with pytest.raises(SchemaInvalid) as caught:
        parse(Source("test.pg", text))
    return [
        (each.code, each.line or 0, each.column or 0, each.message)
        for each in caught.value.findings
    ]


def test_the_base_types_are_those_of_the_catalog() -> None:
    assert set(BASE_TYPES) == {each.value for each in Scalar}


def test_an_empty_text_is_a_schema_without_declarations() -> None:
    assert parsed(" // nothing\n/* at all */") == ()


def test_every_tree_knows_where_it_stands() -> None:
    text = 'node Arger @note("é") { a: [String]? @index  @range(b, -1..2) }'
    (node,) = parsed(text)
    assert isinstance(node, Node)
    prop, constraint = node.members
    assert isinstance(prop, Property)
    assert isinstance(constraint, Constraint)

    def at(span: Span) -> str:
        return text[span.start : span.end]

    assert at(node.span) == text
    assert at(node.name.span) == "Arger"
    assert at(node.annotations[0].span) == '@note("é")'
    assert at(prop.span) == "a: [String]? @index"
    assert at(prop.name.span) == "a"
    assert at(prop.type.span) == "[String]?"
    assert at(prop.annotations[0].span) == "@index"
    assert at(constraint.span) == "@range(b, -1..2)"
    assert at(constraint.arguments[0].span) == "b"
    assert at(constraint.arguments[1].span) == "-1..2"


def test_columns_count_characters() -> None:
    source = Source("test.pg", "/* é */ node A { a: Nope }")
    with pytest.raises(SchemaInvalid) as caught:
        parse(source)
    (finding,) = caught.value.findings
    assert finding.column == 21


@pytest.mark.parametrize(
    "word",
    ["node", "edge", "interface", "implements", "enum", "true", "false", "card", "from", "limit"],
)
def test_no_word_is_reserved(word: str) -> None:
    body = f"{word}: String @{word} {word}2: Bool @unique({word}, {word}2) {word}3: I32"
    first, second, constraint, third = members(body)
    assert isinstance(first, Property)
    assert first.name == Name(word)
    assert first.annotations == (Annotation(word, None, ()),)
    assert isinstance(second, Property)
    assert constraint == Constraint("unique", (Name(word), Name(f"{word}2")))
    assert isinstance(third, Property)


def test_an_edge_without_a_body_ends_where_the_next_declaration_begins() -> None:
    first, second, third = parsed("edge E: A -> B @note(x) edge F: A -> B interface I { }")
    assert isinstance(first, Edge)
    assert isinstance(second, Edge)
    assert isinstance(third, Interface)
    assert first.annotations == (Annotation("note", Name("x"), ()),)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("nodeA { }", 1),
        ("node A{ a:Stringb: I32 }", 18),
        ("node A implementsB { }", 8),
        ("edge E: A -> A @card(0..1x)", 25),
        ("node A { a: Vector(3d) }", 20),
    ],
)
def test_words_and_numbers_end_at_a_boundary(text: str, column: int) -> None:
    ((code, line, found, _),) = refusals(text)
    assert (code, line, found) == ("S1", 1, column)


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("0..5", 0, 5),
        ("-2..-1", -2, -1),
        ("0.5..1.5", 0.5, 1.5),
        ("3..", 3, None),
        ("..3", None, 3),
        ("..-0.5", None, -0.5),
        ("-3 .. 4", -3, 4),
    ],
)
def test_ranges_are_open_on_either_side(
    written: str, low: float | None, high: float | None
) -> None:
    (constraint,) = members(f"@range(a, {written})")
    assert isinstance(constraint, Constraint)
    found = constraint.arguments[1]
    assert isinstance(found, Range)
    assert (found.low, found.high) == (low, high)
    assert (type(found.low), type(found.high)) == (type(low), type(high))


def test_the_sign_of_a_number_is_glued_to_it() -> None:
    ((code, _, column, message),) = refusals("node A { @range(a, - 2..3) }")
    assert (code, column) == ("S1", 20)
    assert message == "expected a name, a string, a number or '..', found '-'"


def test_literals_keep_their_value_and_their_text() -> None:
    (prop,) = members('a: F64 @s("x\\"\\\\\\n\\r\\t\ny") @i(007) @f(0.50) @t(true) @n(trueish)')
    assert isinstance(prop, Property)
    values = [each.value for each in prop.annotations]
    assert values == [
        Literal('x"\\\n\r\t\ny', 'x"\\\n\r\t\ny'),
        Literal(7, "007"),
        Literal(0.5, "0.50"),
        Literal(value=True, text="true"),
        Name("trueish"),
    ]
    assert [each.text for each in values if each is not None][1:3] == ["007", "0.50"]


def test_a_constraint_in_parentheses_ends_the_property_it_follows() -> None:
    prop, constraint = members("a: String @index @unique(a)")
    assert isinstance(prop, Property)
    assert [each.name for each in prop.annotations] == ["index"]
    assert constraint == Constraint("unique", (Name("a"),))


def test_the_parse_carries_on_at_the_next_declaration() -> None:
    text = 'node a { }\n// node Not { x }\nnode B { c: "node D { }" }\nedge E - F\nnode G { }'
    assert [(line, column) for _, line, column, _ in refusals(text)] == [(1, 6), (3, 13), (4, 8)]


def test_an_open_comment_or_string_hides_all_that_follows() -> None:
    assert [found[0] for found in refusals("node a { } /* node B { x }")] == ["S1"]
    assert [found[0] for found in refusals("node A { } /* node b { x }")] == ["S2"]
    assert [found[0] for found in refusals('node A { a: I32 @n("x) } node b { x }')] == ["S3"]


def test_no_more_than_twenty_syntax_errors_are_reported() -> None:
    assert len(refusals("node A { x } " * 1000)) == 20


@pytest.mark.parametrize("digits", [1001, 10_000])
def test_numbers_of_thousands_of_digits_are_refused(digits: int) -> None:
    long = "7" * digits
    for text in (
        f"node A {{ a: I32 @n({long}) }}",
        f"node A {{ a: Vector({long}) }}",
        f"node A {{ a: F64 @n({long}.0) }}",
        f"node A {{ @range(a, -{long}..) }}",
        f"edge E: A -> A @card({long}..)",
    ):
        assert [found[0] for found in refusals(text)] == ["S7"]


@pytest.mark.parametrize("stray", ["\x00", "\ufeff", "é", "\u00a0", "#", "'", "`", ";", "\\", "/"])
def test_stray_characters_are_named(stray: str) -> None:
    ((code, line, column, message),) = refusals(f"\nnode A {stray} {{ }}")
    assert (code, line, column) == ("S1", 2, 8)
    shown = f"'{stray}'" if stray.isprintable() else f"U+{ord(stray):04X}"
    assert message.endswith(f"found {shown}")


def test_messages_speak_of_words_and_never_of_terminals() -> None:
    for text in ("node", "node A {", "node A { a:", "edge E:", "node A @", "node A { @x(", "x"):
        ((_, _, _, message),) = refusals(text)
        assert not any(word.isupper() for word in message.replace("'", " ").split())
        assert "_" not in message


def test_a_message_about_a_long_line_shows_only_a_part_of_it() -> None:
    with pytest.raises(SchemaInvalid) as caught:
        parse(Source("test.pg", f"{' ' * 500_000}node a {{ }}{' ' * 500_000}"))
    text = str(caught.value)
    assert len(text) < 1_000
    excerpt, carets = text.splitlines()[1:3]
    assert excerpt[carets.index("^")] == "a"
