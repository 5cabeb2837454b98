"""Laws of the query language's syntax: print then parse is nothing, and no text is a crash."""

from hypothesis import given, settings, strategies as st

from omnigraph.errors import QueryInvalid
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.query.printer import print_file, print_query
from omnigraph.lang.query.rules import SyntaxRule
from omnigraph.lang.source import Source
from support.programs import KEYWORDS, files, programs, queries


def _parse(text: str) -> ast.File:
    return parse(Source("law.gq", text))


def _read(text: str) -> ast.File | QueryInvalid:
    """The tree, or the one exception that is allowed."""
    try:
        return _parse(text)
    except QueryInvalid as invalid:
        return invalid


def _survives(text: str) -> bool:
    """Is the text refused with words, or read and printed without loss?"""
    outcome = _read(text)
    if isinstance(outcome, QueryInvalid):
        return str(outcome) != "" and all(finding.line for finding in outcome.findings)
    return _parse(print_file(outcome)) == outcome


@settings(max_examples=150, deadline=None)
@given(files)
def test_parsing_what_was_printed_gives_the_same_tree(file: ast.File) -> None:
    assert _parse(print_file(file)) == file


@settings(max_examples=50, deadline=None)
@given(files)
def test_printing_what_was_parsed_gives_the_same_text(file: ast.File) -> None:
    text = print_file(file)
    assert print_file(_parse(text)) == text


@settings(max_examples=40, deadline=None)
@given(programs())
def test_every_program_the_grammar_grows_is_read_and_survives_printing(text: str) -> None:
    outcome = _read(text)
    if isinstance(outcome, QueryInvalid):
        # The grammar cannot know which names are taken; all else it promises.
        names = {SyntaxRule.QUERY_REPEATED, SyntaxRule.PARAMETER_REPEATED, SyntaxRule.ANNOTATION}
        assert {finding.code for finding in outcome.findings} <= names
    assert _survives(text)


_FRAGMENTS = (
    *KEYWORDS,
    *("$a", "$b", "$_", "$", "T", "Vector", "x", "12", "-1", "0.5", '"s"', '"', "\\", "'", "\x00"),
    *("{", "}", "(", ")", "[", "]", ":", ",", ".", "<", ">", "=", "!=", "?", "@description", "@"),
    *("//", "/*", "*/", "\n", " ", "-", "\ud800", "é"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=40).map(" ".join))
def test_a_heap_of_tokens_is_read_or_refused(heap: str) -> None:
    assert _survives(heap)
    assert _survives(f"query q() {{ match {{ {heap} }} return {{ $x }} }}")


@settings(max_examples=100, deadline=None)
@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert _survives(text)


@settings(max_examples=100, deadline=None)
@given(queries(), st.data())
def test_a_program_with_a_piece_torn_out_is_read_or_refused(
    query: ast.Query, data: st.DataObject
) -> None:
    text = print_query(query)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    assert _survives(text[:start] + text[end:])
