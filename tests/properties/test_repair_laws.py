"""Whatever is done to a program, a repair of it is valid, and nothing but a refusal comes out."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.compile import compile_query, find_faults
from omnigraph.compiler.repair.edits import EditedText, TextEdit
from omnigraph.compiler.repair.search import CHARACTERS_MAX, find_repair
from omnigraph.errors import QueryInvalid, QueryNotFound
from omnigraph.lang.source import Diagnostic, Source

CASES = Path(__file__).parents[1] / "golden" / "repair"
CATALOG = compile_schema(Source("schema.pg", (CASES / "schema.pg").read_text()))
PROGRAMS = [
    each.strip()
    for each in (CASES / "cases.txt").read_text().replace("---", "===").split("===")
    if any(word in each for word in ("query", "MATCH", "SELECT", "CREATE", "g.V", "{ "))
]
SCRAPS = ["$", "{", "}", "(", ")", "'", '"', "=", "where ", "return ", "-[:", "]->", ".", ",", "x"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(["", *SCRAPS]))),
)
def test_a_repair_is_valid_whatever_was_broken(
    program: str, breaks: list[tuple[float, int, str]]
) -> None:
    text = program
    for place, dropped, added in breaks[:4]:
        at = int(place * len(text))
        text = text[:at] + added + text[at + dropped :]
    repaired = find_repaired(text)
    assert repaired is None or find_faults(Source("<query>", repaired), CATALOG) == ()


def find_repaired(text: str) -> str | None:
    """What a refusal of this text suggests."""
    try:
        compile_query(Source("<query>", text), CATALOG)
    except QueryInvalid as refused:
        return None if refused.repair is None else refused.repair.program
    except QueryNotFound:
        pass
    return None


@given(
    st.text("ab{}", min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.text("xyz", max_size=3))),
)
def test_edits_one_after_another_are_edits_of_the_first_text(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    edited = EditedText(text)
    for left, right, replacement in edits:
        start, end = sorted((min(left, len(edited.text)), min(right, len(edited.text))))
        expected = edited.text[:start] + replacement + edited.text[end:]
        edited = edited.apply((TextEdit(start, end, replacement),))
        assert edited.text == expected
    rebuilt = text
    placed = edited.repair("<query>").edits
    for edit in reversed(placed):
        rebuilt = rebuilt[: edit.start] + edit.replacement + rebuilt[edit.end :]
    assert rebuilt == edited.text
    assert all(left.end < right.start for left, right in pairwise(placed))


@pytest.mark.parametrize(
    "unit", ["match ", "update a where b ", "(a:B)-[:C]->", "$a ", "in (", "  \n", "a ? "]
)
@pytest.mark.parametrize(
    "start", ["query q() { match { $a = ", "MATCH (a) WHERE ", "SELECT a FROM "]
)
def test_a_hostile_text_is_given_up_soon(start: str, unit: str) -> None:
    text = (start + unit * 2_000)[:3_999]
    checked = 0

    def check(source: Source) -> tuple[Diagnostic, ...]:
        nonlocal checked
        checked += 1
        return find_faults(source, CATALOG)

    faults = find_faults(Source("<query>", text), CATALOG)
    assert find_repair(Source("<query>", text), faults, CATALOG, check) is None
    assert checked <= CHARACTERS_MAX // len(text)


def test_a_program_with_a_very_long_word_is_not_searched() -> None:
    """Each pattern would take the square of its length: minutes for 4,000 digits."""
    source = Source("<query>", "MATCH (a) WHERE a.x = " + "1" * 3_900)

    def check(text: Source) -> tuple[Diagnostic, ...]:
        raise AssertionError(text)

    assert find_repair(source, find_faults(source, CATALOG), CATALOG, check) is None


def test_a_program_with_a_very_long_text_is_repaired() -> None:
    long = "x" * 1_000
    repaired = find_repaired(f'MATCH (p:Person) WHERE p.name = "{long}" RETURN p.name')
    assert repaired is not None
    assert long in repaired
