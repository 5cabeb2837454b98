"""Whatever parses is judged: it has a meaning that can be lowered, or a reason why not."""

import re
from pathlib import Path

from hypothesis import given, strategies as st

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.ir import Mutation, Read
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import optimise
from omnigraph.compiler.resolve import check_file
from omnigraph.compiler.rules import QueryRule
from omnigraph.errors import QueryInvalid
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source

CASES = Path(__file__).parents[1] / "golden" / "query"
CATALOG = compile_schema(Source("schema.pg", (CASES / "schema.pg").read_text(encoding="utf-8")))
TOKEN = re.compile(r'"[^"]*"|\$?\w+|[<>!]=|-?\d+\.\d+|\S')


def _tokens(program: Path) -> list[list[str]]:
    text = re.sub(r"//[^\n]*", "", program.read_text(encoding="utf-8"))
    return [TOKEN.findall(query) for query in re.split(r"(?m)^(?=query )", text) if query.strip()]


QUERIES = [tokens for program in sorted(CASES.glob("*.gq")) for tokens in _tokens(program)]
WORDS = sorted({token for tokens in QUERIES for token in tokens if token not in "(){}"})


@st.composite
def disturbed_queries(draw: st.DrawFn) -> str:
    """A golden query in which some words were replaced by words of other golden queries."""
    tokens = list(draw(st.sampled_from(QUERIES)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at] = draw(st.sampled_from(WORDS))
    return " ".join(tokens)


def _parsed(source: Source) -> ast.File | None:
    try:
        return parse(source)
    except QueryInvalid:
        return None


@given(disturbed_queries())
def test_whatever_parses_has_a_meaning_or_a_reason_why_not(text: str) -> None:
    source = Source("disturbed.gq", text)
    file = _parsed(source)
    if file is None:
        return
    for checked in check_file(file, CATALOG, source):
        assert (checked.resolved is None) == bool(checked.diagnostics)
        for diagnostic in checked.diagnostics:
            assert diagnostic.code in {rule.value for rule in QueryRule}
            assert diagnostic.span is not None
            assert diagnostic.render()
        match checked.resolved:
            case Read() as read:
                lower(optimise(read, CATALOG), CATALOG)
            case Mutation() as mutation:
                lower(mutation, CATALOG)
            case None:
                pass
