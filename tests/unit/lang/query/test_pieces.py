"""Long files are parsed piece by piece; nobody can tell."""

import pytest

from omnigraph.errors import QueryInvalid
from omnigraph.lang.query.parser import parse
from omnigraph.lang.query.printer import print_file
from omnigraph.lang.source import Source
from omnigraph.lang.syntax import PIECE_CHARACTERS

TRICKY = """
// query not_one() { match {
/* query nor_this() { */
query q%d($query: String) @description("query { text() {") {
  match { $a: A { query: "query x() {" }  $a query $b  $b.query = $query }
  return { $a.query as query }
}
"""


def long_text(queries: int) -> str:
    text = "".join(TRICKY % number for number in range(queries))
    assert len(text) > 5 * PIECE_CHARACTERS
    return text


def test_a_long_file_is_read_whole() -> None:
    file = parse(Source("long.gq", long_text(300)))
    assert [query.name.text for query in file.queries] == [f"q{number}" for number in range(300)]
    assert parse(Source("again.gq", print_file(file))) == file


def test_places_are_those_of_the_file_not_of_the_piece() -> None:
    source = Source("long.gq", long_text(300))
    last = parse(source).queries[-1]
    assert source.text[last.span.start :].startswith("query q299")


@pytest.mark.parametrize("number", [0, 150, 299])
def test_a_mistake_anywhere_is_found_at_its_line(number: int) -> None:
    text = long_text(300).replace(f"query q{number}(", f"query q{number} oops (")
    with pytest.raises(QueryInvalid) as caught:
        parse(Source("long.gq", text))
    (finding,) = caught.value.findings
    assert finding.line == text[: text.index("oops")].count("\n") + 1


def test_a_name_given_twice_far_apart_is_found() -> None:
    text = long_text(300) + "query q0() { match { $a: A } return { $a } }"
    with pytest.raises(QueryInvalid, match="q0"):
        parse(Source("long.gq", text))


def test_braces_that_do_not_match_are_left_to_the_grammar() -> None:
    for text in ("}" + long_text(300), long_text(300) + "{", "{" + long_text(300)):
        with pytest.raises(QueryInvalid):
            parse(Source("long.gq", text))
