"""Layout, and the places where parentheses have to come back. The laws are in tests/properties."""

import pytest

from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.query.printer import WIDTH_MAX, print_file
from omnigraph.lang.source import Source


def _reprint(text: str) -> str:
    return print_file(parse(Source("test.gq", text)))


def _reprinted_clauses(clauses: str) -> list[str]:
    lines = _reprint(f"query q() {{ match {{ {clauses} }} return {{ $a }} }}").splitlines()
    return [line.strip() for line in lines[2:-3]]


def test_a_program_is_laid_out_one_clause_a_line() -> None:
    text = """\
query q($a: I32, $v: Vector(3)?) @instruction("i") @description("d \\" \\\\") {
match{$a:T{x:1,y:-2.0,} $a $w:<e>{1,} $b not{$b.x in[1,"a"]}} return{$a.x as y,count($b)}
order{y desc,$a.x}limit 3 offset $n}
query m() { insert T { a: null b: now() } update T set { a: date("x") } where b != true }
"""
    assert (
        _reprint(text)
        == """\
query q($a: I32, $v: Vector(3)?)
  @description("d \\" \\\\")
  @instruction("i")
{
  match {
    $a: T { x: 1, y: -2.0 }
    $a $w:<e>{1,} $b
    not {
      $b.x in [1, "a"]
    }
  }
  return { $a.x as y, count($b) }
  order { y desc, $a.x }
  limit 3
  offset $n
}

query m() {
  insert T { a: null, b: now() }
  update T set { a: date("x") } where b != true
}
"""
    )


def test_a_long_list_is_spread_over_lines() -> None:
    names = ", ".join(f"$artwork.property_{n}" for n in range(9))
    printed = _reprint(f"query q() {{ match {{ $a: T }} return {{ {names} }} }}")
    assert max(map(len, printed.splitlines())) <= WIDTH_MAX
    assert "    $artwork.property_0,\n" in printed
    assert "    $artwork.property_8\n  }\n" in printed


def test_a_file_without_queries_is_empty() -> None:
    assert print_file(ast.File(())) == ""


@pytest.mark.parametrize(
    "clauses",
    [
        "($a contains $b)",
        "($a in $b) or $a.x = 1",
        "($a.x = 1 or $a.y = 2) and $a.z = 3",
        "($a.x = 1 or $a.y = 2) or $a.z = 3",
        "($a.x = 1 and $a.y = 2) and $a.z = 3",
        "($a.x = count)",
        "($a.x = 1 or $a.y = date)",
        "(or = 1)",
        "(contains is null)",
        "(and = 1 or $a.x = 2)",
    ],
)
def test_parentheses_without_which_the_text_means_something_else_are_kept(clauses: str) -> None:
    assert _reprinted_clauses(clauses) == [clauses]


@pytest.mark.parametrize(
    ("clauses", "plain"),
    [
        ("($a.x = 1)", "$a.x = 1"),
        ("($a.x = 1 and $a.y = 2) or $a.z = 3", "$a.x = 1 and $a.y = 2 or $a.z = 3"),
        ('(search($a.t, "x"))', 'search($a.t, "x")'),
        ("($a contains $b.p)", "$a contains $b.p"),
    ],
)
def test_parentheses_that_change_nothing_are_dropped(clauses: str, plain: str) -> None:
    assert _reprinted_clauses(clauses) == [plain]


def test_a_condition_does_not_grow_into_the_clause_after_it() -> None:
    clauses = '($a.x = count) ($b contains $c) search($a.t, "x") (in = 1) $a.y = 1 (or = 2)'
    assert _reprinted_clauses(clauses) == [
        "($a.x = count)",
        "($b contains $c)",
        'search($a.t, "x")',
        "(in = 1)",
        "$a.y = 1",
        "(or = 2)",
    ]


@pytest.mark.parametrize(
    ("number", "digits"),
    [(1e22, "10000000000000000000000.0"), (1e-7, "0.0000001"), (-0.5, "-0.5"), (3.0, "3.0")],
)
def test_a_float_is_written_without_an_exponent(number: float, digits: str) -> None:
    mutation = ast.Mutation(
        (ast.Insert(ast.Name("T"), (ast.Assignment(ast.Name("x"), ast.Literal(number)),)),)
    )
    file = ast.File((ast.Query(ast.Name("q"), (), None, None, mutation),))
    assert f"x: {digits} }}" in print_file(file)
    assert parse(Source("test.gq", print_file(file))) == file
