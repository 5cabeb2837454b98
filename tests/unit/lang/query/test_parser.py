"""What a `.gq` text says, where it says it, and how it is refused."""

import logging
from importlib import resources

import pytest
from lark import Lark, logger

from omnigraph.errors import QueryInvalid
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import TOKENS_MAX, parse
from omnigraph.lang.source import Diagnostic, Source
from support.programs import KEYWORDS


def _query(text: str) -> ast.Query:
    [query] = parse(Source("test.gq", text)).queries
    return query


def _read(clauses: str, rest: str = "return { $a }") -> ast.Read:
    body = _query(f"query q() {{ match {{ {clauses} }} {rest} }}").body
    assert isinstance(body, ast.Read)
    return body


def _clause(text: str) -> ast.Clause:
    [clause] = _read(text).match
    return clause


def _condition(text: str) -> ast.Condition:
    clause = _clause(text)
    assert isinstance(clause, ast.Filter)
    return clause.condition


def _mutation(text: str) -> ast.Mutation:
    body = _query(f"query q() {{ {text} }}").body
    assert isinstance(body, ast.Mutation)
    return body


def _findings(text: str) -> list[Diagnostic]:
    with pytest.raises(QueryInvalid) as raised:
        parse(Source("test.gq", text))
    return [finding for finding in raised.value.findings if isinstance(finding, Diagnostic)]


def _codes(text: str) -> list[str]:
    return [finding.code for finding in _findings(text)]


# ── no word is reserved ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", KEYWORDS)
def test_every_keyword_names_a_query_a_parameter_a_property_and_an_alias(word: str) -> None:
    query = _query(
        f"query {word}(${word}: T) {{"
        f" match {{ ${word}: T {{ {word}: 1, {word}: ${word} }} ${word}.{word} = 1 }}"
        f" return {{ ${word}.{word} as {word} ${word} as {word} }} }}"
    )
    assert query.name.text == query.parameters[0].name == word
    assert isinstance(query.body, ast.Read)
    binding, condition = query.body.match
    assert isinstance(binding, ast.Binding)
    assert [match.name.text for match in binding.matches] == [word, word]
    assert isinstance(condition, ast.Filter)
    reference = ast.PropertyRef(ast.Variable(word), ast.Name(word))
    assert condition.condition == ast.Comparison(reference, ast.Operator.EQ, ast.Literal(1))
    assert [projection.alias for projection in query.body.returns] == [ast.Name(word)] * 2


@pytest.mark.parametrize("word", KEYWORDS)
def test_every_keyword_is_assigned_to_without_commas(word: str) -> None:
    insert, update = _mutation(
        f"insert T {{ {word}: 1 {word}: now() }} update T set {{ {word}: $x }} where {word} < 1"
    ).statements
    assert isinstance(insert, ast.Insert)
    assert [each.name.text for each in insert.assignments] == [word, word]
    assert isinstance(update, ast.Update)
    assert update.where == ast.Predicate(ast.Name(word), ast.Operator.LT, ast.Literal(1))


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word != "not"])
@pytest.mark.parametrize(
    "written", ["$s {} $d", "$s <{}> $d", "$s $w:{} $d", "$s $w:<{}> $d", "$s {}{{1,2}} $d"]
)
def test_every_keyword_but_not_is_an_edge(word: str, written: str) -> None:
    clause = _clause(written.format(word))
    assert isinstance(clause, ast.Traversal)
    assert clause.edge.text == word
    assert clause.undirected is ("<" in written)
    assert (clause.edge_variable is None) is ("$w" not in written)
    assert (clause.hops is None) is ("{1" not in written)


@pytest.mark.parametrize("written", ["$s not $d", "$s <not> $d", "$s $w:not $d"])
def test_not_is_no_edge(written: str) -> None:
    assert _codes(f"query q() {{ match {{ {written} }} return {{ $s }} }}") == ["P1"]


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in {"true", "false"}])
def test_every_keyword_is_a_bare_word_in_an_expression(word: str) -> None:
    read = _read(
        f"$a: T {word} = $x.p $x.p = {word}", f"return {{ {word}, {word} }} order {{ {word} desc }}"
    )
    assert [clause.condition for clause in read.match if isinstance(clause, ast.Filter)] == [
        ast.Comparison(
            ast.Word(word), ast.Operator.EQ, ast.PropertyRef(ast.Variable("x"), ast.Name("p"))
        ),
        ast.Comparison(
            ast.PropertyRef(ast.Variable("x"), ast.Name("p")), ast.Operator.EQ, ast.Word(word)
        ),
    ]
    assert [each.expression for each in read.returns] == [ast.Word(word)] * 2
    assert read.order == (ast.Ordering(ast.Word(word), descending=True),)


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { $a: T } return { $a } limit10 }",
        "query q() { match { $a: T } return { $a } limit 10offset 2 }",
        "queryq() { match { $a: T } return { $a } }",
        "query q() { insertT { x: 1 } }",
        "query q() { match { $a.x = 1or $a.y = 2 } return { $a } }",
        "query q() { match { $ a: T } return { $a } }",
        "query q() { match { $a.x = 1 } return { $a.x - } }",
    ],
)
def test_a_word_or_number_ends_where_it_ends(text: str) -> None:
    assert _codes(text) == ["P1"]


def test_words_that_begin_with_a_keyword_are_ordinary_names() -> None:
    read = _read("$a nothing $b true_n = optionally", "return { counter as limits, nowhere }")
    assert read.match == (
        ast.Traversal(
            source=ast.Variable("a"),
            edge_variable=None,
            edge=ast.Name("nothing"),
            undirected=False,
            hops=None,
            target=ast.Variable("b"),
        ),
        ast.Filter(
            ast.Comparison(ast.Word("true_n"), ast.Operator.EQ, ast.Word("optionally")),
        ),
    )
    assert [each.expression for each in read.returns] == [ast.Word("counter"), ast.Word("nowhere")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"a\"b\\c\n\r\t"', 'a"b\\c\n\r\t'),
        ('"raw\nline, and é"', "raw\nline, and é"),
        ('"// no comment /* here"', "// no comment /* here"),
        ("007", 7),
        ("-0", 0),
        ("-2.50", -2.5),
        ("9223372036854775807", 2**63 - 1),
        ("true", True),
        ("0.0000000000000000000000000000000001", 1e-34),
    ],
)
def test_a_literal_has_its_value_and_type(written: str, value: object) -> None:
    condition = _condition(f"$a.x = {written}")
    assert isinstance(condition, ast.Comparison)
    assert isinstance(condition.right, ast.Literal)
    assert condition.right.value == value
    assert type(condition.right.value) is type(value)


def test_null_is_a_value_where_it_cannot_be_an_alias() -> None:
    [insert] = _mutation("insert T { a: null, b: [1] }").statements
    assert isinstance(insert, ast.Insert)
    assert insert.assignments[0].value == ast.Null()
    condition = _condition("$a.x = null")
    assert isinstance(condition, ast.Comparison)
    assert condition.right == ast.Word("null")


def test_comments_stand_between_any_two_tokens() -> None:
    spread = "query/**/q(/* a */)// b\n{ match { $a /* * / */ : T } return { $a . x } }"
    assert _query(spread) == _query("query q() { match { $a: T } return { $a.x } }")


# ── clauses ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["contains", "starts_with", "in", "is", "or", "and", "knows"])
def test_a_word_between_two_bare_variables_is_a_traversal(word: str) -> None:
    read = _read(f"$a {word} $b $c: T")
    assert [type(clause) for clause in read.match] == [ast.Traversal, ast.Binding]


@pytest.mark.parametrize("word", ["contains", "starts_with", "in"])
@pytest.mark.parametrize(
    "written",
    ["$a {} $b.p", '$a {} "x"', "$a.p {} $b", "($a {} $b)", "$a {} [1]", "$a {} now()", "$a {} b"],
)
def test_a_word_operator_beside_anything_else_is_a_filter(word: str, written: str) -> None:
    condition = _condition(written.format(word))
    assert isinstance(condition, ast.Comparison)
    assert condition.operator == word


@pytest.mark.parametrize("operator", [each for each in ast.Operator if not each.isidentifier()])
def test_a_symbol_between_two_variables_is_a_filter(operator: ast.Operator) -> None:
    assert _condition(f"$a {operator} $b") == ast.Comparison(
        ast.Variable("a"), operator, ast.Variable("b")
    )


def test_less_than_a_word_is_told_from_an_undirected_edge() -> None:
    read = _read("$a < e $a <e> $b $a <true> $b $a < true")
    assert [type(clause) for clause in read.match] == [
        ast.Filter,
        ast.Traversal,
        ast.Traversal,
        ast.Filter,
    ]


def test_hops_have_a_low_and_perhaps_a_high_bound() -> None:
    open_ended, closed = _read("$a e{2,} $b $a e{ 1 , 3 } $b").match
    assert isinstance(open_ended, ast.Traversal)
    assert open_ended.hops == ast.Hops(2, None)
    assert isinstance(closed, ast.Traversal)
    assert closed.hops == ast.Hops(1, 3)


def test_and_binds_tighter_than_or() -> None:
    one, two, three = (
        ast.Comparison(ast.Literal(n), ast.Operator.EQ, ast.Literal(n)) for n in (1, 2, 3)
    )
    assert _condition("1 = 1 or 2 = 2 and 3 = 3") == ast.AnyOf((one, ast.AllOf((two, three))))
    assert _condition("(1 = 1 or 2 = 2) and 3 = 3") == ast.AllOf((ast.AnyOf((one, two)), three))
    assert _condition("1 = 1 or 2 = 2 or 3 = 3") == ast.AnyOf((one, two, three))
    assert _condition("((1 = 1))") == one


def test_a_null_test_is_told_from_a_traversal_along_is() -> None:
    assert _condition("$a is null") == ast.NullTest(ast.Variable("a"), negated=False)
    assert _condition("$a.p is not null") == ast.NullTest(
        ast.PropertyRef(ast.Variable("a"), ast.Name("p")), negated=True
    )
    assert isinstance(_clause("$a is{1,2} $b"), ast.Traversal)


def test_a_text_function_is_a_condition_of_its_own_or_one_side_of_a_comparison() -> None:
    alone = _condition('search($a.t, "x")')
    assert isinstance(alone, ast.TextMatch)
    assert _condition('search($a.t, "x") = true') == ast.Comparison(
        alone, ast.Operator.EQ, ast.Literal(value=True)
    )


# ── sections ─────────────────────────────────────────────────────────────────────────────────────


def test_commas_are_optional_in_return_and_in_assignments() -> None:
    with_commas = _read("$a: T", "return { $a.x, $a.y as z, count($a), }")
    without = _read("$a: T", "return { $a.x $a.y as z count($a) }")
    assert with_commas == without
    assert _mutation("insert T { a: 1, b: $b, }") == _mutation("insert T { a: 1 b: $b }")


@pytest.mark.parametrize(
    "text",
    [
        "query q($a: T $b: T) { delete T where x = 1 }",
        "query q($a: T,) { delete T where x = 1 }",
        "query q() { match { $a: T { x: 1 y: 2 } } return { $a } }",
        "query q() { match { $a: T } return { $a } order { $a.x $a.y } }",
        "query q() { match { $a: T } return { $a } order { $a.x, } }",
    ],
)
def test_commas_are_mandatory_in_parameters_matches_and_orderings(text: str) -> None:
    assert _codes(text) == ["P1"]


@pytest.mark.parametrize(
    "text",
    [
        "query q() { }",
        "query q() { match { } return { $a } }",
        "query q() { match { $a: T } return { } }",
        "query q() { match { $a: T } }",
        "query q() { match { $a: T {} } return { $a } }",
        "query q() { match { not { } } return { $a } }",
        "query q() { match { optional { } } return { $a } }",
        "query q() { match { $a: T } return { $a } order { } }",
        "query q() { insert T { } }",
        "query q() { match { $a: T } return { $a } delete T where x = 1 }",
        "query q() { match { $a: T } return { $a } limit 3 order { $a } }",
        "query q() { match { $a: T } return { $a } limit -3 }",
        "query q() { match { $a: T } return { $a } order { nearest($a.v, $q) asc } limit 3 }",
        "query q() { match { $a: T } return { count() } }",
        "query q() { match { $a: T } return { search(distinct $a, 1) } }",
        "query q() { match { $a.x = [null] } return { $a } }",
        "query q() { delete T }",
        "query q() { delete T where x contains 1 }",
        "query q() { update T set { x: 1 } }",
        "query q($x: enum(a, b)) { delete T where x = 1 }",
        "query q($x: [Vector(3)]) { delete T where x = 1 }",
    ],
)
def test_what_the_language_does_not_have_is_a_syntax_error(text: str) -> None:
    assert _codes(text) == ["P1"]


def test_limit_and_offset_take_a_number_or_a_parameter() -> None:
    both = _read("$a: T", "return { $a } limit $n offset 5")
    assert (both.limit, both.offset) == (ast.Variable("n"), ast.Literal(5))
    alone = _read("$a: T", "return { $a } offset $n")
    assert (alone.limit, alone.offset) == (None, ast.Variable("n"))


def test_the_types_of_parameters_are_kept_as_written() -> None:
    query = _query(
        "query q($a: Strin, $b: [I32]?, $c: Vector(3), $d: Date?) { delete T where x=1 }"
    )
    assert [parameter.type for parameter in query.parameters] == [
        ast.TypeRef("Strin", None, is_list=False, nullable=False),
        ast.TypeRef("I32", None, is_list=True, nullable=True),
        ast.TypeRef(None, 3, is_list=False, nullable=False),
        ast.TypeRef("Date", None, is_list=False, nullable=True),
    ]


# ── places ───────────────────────────────────────────────────────────────────────────────────────


def test_every_span_covers_exactly_what_was_written() -> None:
    text = (
        "query q($p: [I32]?) { match { $a: T { x: 1 }  $a <e>{1,2} $b  ($a.x = 1 or $b.y is null)"
        " not { $a e $b } } return { count(distinct $a.x) as n } order { n desc } limit $p }"
    )
    query = _query(text)
    assert isinstance(query.body, ast.Read)
    binding, traversal, condition, negation = query.body.match
    assert isinstance(traversal, ast.Traversal)
    assert traversal.hops is not None
    assert isinstance(condition, ast.Filter)
    assert isinstance(condition.condition, ast.AnyOf)
    assert query.body.limit is not None
    covered = [
        text[span.start : span.end]
        for span in (
            query.name.span,
            query.parameters[0].span,
            query.parameters[0].type.span,
            binding.span,
            traversal.span,
            traversal.edge.span,
            traversal.hops.span,
            condition.span,
            condition.condition.conditions[1].span,
            negation.span,
            query.body.returns[0].span,
            query.body.returns[0].expression.span,
            query.body.order[0].span,
            query.body.limit.span,
        )
    ]
    assert covered == [
        "q",
        "$p: [I32]?",
        "[I32]?",
        "$a: T { x: 1 }",
        "$a <e>{1,2} $b",
        "e",
        "{1,2}",
        "($a.x = 1 or $b.y is null)",
        "$b.y is null",
        "not { $a e $b }",
        "count(distinct $a.x) as n",
        "count(distinct $a.x)",
        "n desc",
        "$p",
    ]
    assert text[query.span.start : query.span.end] == text


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


def test_each_broken_query_of_a_file_is_reported() -> None:
    text = "\n".join(f"query q{n}() {{ match {{ $a }} return {{ $a }} }}" for n in range(5))
    findings = _findings(text)
    assert [(finding.line, finding.column) for finding in findings] == [
        (n, 25) for n in range(1, 6)
    ]


def test_a_query_after_one_that_was_never_closed_is_still_judged() -> None:
    findings = _findings("query a() { match { $a: T   query b($x: I32) { match { } return { $x } }")
    assert [finding.column for finding in findings] == [35, 56]


def test_a_projection_called_query_does_not_begin_one() -> None:
    text = "query a() { match { $a: T }\n  return { $a.x == 1, query count($x) } }"
    assert len(_findings(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "query q() { match { $a.x = \x00 } return { $a } }",
        "query \ud800() { delete T where x = 1 }",
        'query q() { delete T where x = "\udfff" }',
        "\ufeffquery q() { delete T where x = 1 }",
        "/*",
        '"',
        "query",
        "query q(",
        "}" * 1_000,
        "query q() { match " + "{" * 10_000,
        "query q() { match { " + "(" * 10_000,
        "query q() { match { $a.x = " + "[" * 10_000 + "]" * 10_000 + " } return { $a } }",
        "query q() { match { " + "not {" * 5_000 + "}" * 5_000 + " } return { $a } }",
        "query q() { match { "
        + "($a.x = 1 or " * 3_000
        + "$a.x = 1"
        + ")" * 3_000
        + " } return { $a } }",
        "query q() { match { $a: T } return { " + "sum(" * 3_000 + "$a" + ")" * 3_000 + " } }",
        "query q() { match { $a.x = " + "9" * 10_000 + " } return { $a } }",
        "query q() { match { $a.x = -" + "9" * 10_000 + ".5 } return { $a } }",
        "query q($v: Vector(" + "9" * 10_000 + ")) { delete T where x = 1 }",
        "query q() { match { $a e{" + "9" * 10_000 + ",} $b } return { $a } }",
        'query q() { delete T where x = "' + "\\" * 9_999,
        "query " * 2_000,
        "query q() {" * 2_000,
        "query // \n" * 500 + "(",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_a_hostile_text_is_refused_in_words(text: str) -> None:
    findings = _findings(text)
    assert findings
    assert all(finding.render() for finding in findings)


def test_a_text_with_countless_faults_is_not_answered_with_countless_findings() -> None:
    text = r'query q() { delete T where x = "' + r"\z" * 10_000 + '" }'
    findings = _findings(text)
    assert {finding.code for finding in findings} == {"P2"}
    assert len(findings) == 200


def test_redundant_parentheses_may_be_as_deep_as_one_likes() -> None:
    assert _condition("(" * 5_000 + "$a.x = 1" + ")" * 5_000) == _condition("$a.x = 1")


def test_nesting_up_to_the_limit_is_read() -> None:
    assert isinstance(_clause("not {" * 90 + "$a: T" + "}" * 90), ast.Negation)


def test_the_grammar_leaves_only_the_choices_it_names_to_lark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = resources.files("omnigraph.lang.query").joinpath("grammar.lark").read_text()
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.DEBUG, logger=logger.name):
            Lark(text, start="file", parser="lalr", lexer="basic", debug=True)
    finally:
        logger.removeHandler(caplog.handler)
    conflicts = {
        record.getMessage().split("terminal ")[1].split(":")[0]
        for record in caplog.records
        if "conflict" in record.getMessage()
    }
    continued = {"LPAR", "AND", "OR", "AS", "CONTAINS", "STARTS_WITH", "IN", "IS"}
    subtracted = {"MINUS", "NEGATIVE_INT", "NEGATIVE_FLOAT"}
    begun = {"NAME", "VARIABLE", "WHEN"}
    assert conflicts == continued | subtracted | begun


def test_a_text_of_too_many_words_is_refused_before_it_is_parsed() -> None:
    clauses = "$p.age > 1\n" * 80_000
    text = f"query q() {{ match {{ $p: Person\n{clauses} }} return {{ $p.name }} }}"
    with pytest.raises(QueryInvalid) as refused:
        parse(Source("long.gq", text))
    (finding,) = refused.value.findings
    assert finding.code == "P9"
    assert f"{TOKENS_MAX:,}" in finding.message


def test_a_long_value_is_one_word() -> None:
    text = 'query q() { insert Note { text: "' + "a b " * TOKENS_MAX + '" } }'
    assert len(parse(Source("long.gq", text)).queries) == 1
