"""What a person reads when a query does not parse."""

import re

import pytest

from omnigraph.errors import QueryInvalid
from omnigraph.lang.query.mistakes import DIALECT
from omnigraph.lang.query.parser import GRAMMAR, parse
from omnigraph.lang.source import Diagnostic, Source

PROGRAM = """
query q($a: I32, $v: Vector(3)?, $l: [String]) @description("d") {
  match { $a: T { x: 1, y: [2] } $a e{1,2} $b $a $w:<e> $b $a.x = $b.y or ($a in [1] and $b is not
    null) optional { not { search($a.t, "x") } } }
  return { $a.x as n, count(distinct $b), now() } order { n desc, nearest($a.v, $v) } limit 1 }
query r() { insert T { a: null } update T set { b: date("x") } where c >= 1 }
"""


def _findings(text: str) -> list[Diagnostic]:
    with pytest.raises(QueryInvalid) as raised:
        parse(Source("test.gq", text))
    return [finding for finding in raised.value.findings if isinstance(finding, Diagnostic)]


def test_every_terminal_has_words() -> None:
    grammar = GRAMMAR.build()
    terminals = {terminal.name for terminal in grammar.terminals} - set(grammar.ignore_tokens)
    grouped = {name for members, _ in DIALECT.groups for name in members}
    assert terminals - grouped - set(DIALECT.words) == set()
    assert (grouped | set(DIALECT.words)) - terminals == set()


def test_wherever_a_program_breaks_off_the_expectation_is_said_in_words() -> None:
    ends = [match.end() for match in re.finditer(r"\S+", PROGRAM)]
    for end in ends:
        text = f"{PROGRAM[:end]} ~"
        finding = _findings(text)[0]
        assert finding.message.startswith("expected ")
        assert finding.message.endswith(", found '~'")
        # Our own words are lower case, or quoted as they are to be written.
        assert not re.search(r"[A-Z_]{2,}|\$END", finding.message.replace("starts_with", "")), text
        assert finding.span is not None
        assert text[finding.span.start : finding.span.end] == "~"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select", "expected 'query', found 'select'"),
        ("query q", "expected '(', found the end of the text"),
        ("query q(a", "expected a variable or ')', found 'a'"),
        (
            "query q() { drop",
            "expected 'match', 'insert', 'update' or 'delete', found 'drop'",
        ),
        ("query q() { match { )", "expected a clause, found ')'"),
        (
            "query q() { match { $a )",
            "expected an edge, an operator, a variable, ':' or '.', found ')'",
        ),
        ("query q() { match { $a = )", "expected an expression, found ')'"),
        ("query q() { match { $a: T { x: )", "expected a value, found ')'"),
        ("query q() { match { $a: T { )", "expected a name, found ')'"),
        ("query q() { delete T where x )", "expected a comparison operator, found ')'"),
    ],
)
def test_what_was_expected_is_summed_up(text: str, message: str) -> None:
    assert _findings(text)[0].message == message


@pytest.mark.parametrize(
    ("clauses", "hint"),
    [
        ("$a.x == 1", "one '=' compares"),
        ("$a.x = 'y'", "strings stand in double quotes"),
        ("$a.x <> 1", "write '!='"),
        ("$a.x like 1", "write 'contains' or 'starts_with'"),
        ("$a: T and $b: U", "'and' joins conditions; other clauses just follow each other"),
        ("$a: T {}", "leave the braces out when a binding matches nothing"),
        ("not $a e $b", "negation stands in braces: not { … }"),
        ("$a Knows $b", "edges are named with a lower-case first letter in a query"),
        ("$a.x in (1, 2)", "a list stands in brackets: [1, 2]"),
        ("$a e{2} $b", "hops have two bounds: {2,2}"),
        ("$a.x = 1.", "a decimal number has digits on both sides of its point"),
        ("$a.x = 1e5", "numbers have no exponent; write the digits out"),
    ],
)
def test_a_common_mistake_comes_with_its_remedy(clauses: str, hint: str) -> None:
    [finding] = _findings(f"query q() {{ match {{ {clauses} }} return {{ $a }} }}")
    assert finding.hint == hint
