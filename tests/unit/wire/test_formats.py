"""What the description says of branch names is what names are judged by."""

import re

import pytest
from hypothesis import example, given, strategies as st

from omnigraph.errors import BranchNameInvalid
from omnigraph.ids import BRANCH_NAME_MAX, SCHEMA_LOCK, parse_branch, spell
from omnigraph.wire.formats import BRANCH, DELETABLE, MAYBE_BRANCH


def fits(told: dict[str, str], text: str) -> bool:
    """As JSON Schema means it: `$` is the end, and not the end of the last line."""
    return re.search(told["pattern"].replace("$", r"\Z"), text) is not None


def is_name(text: str) -> bool:
    try:
        parse_branch(text)
    except BranchNameInvalid:
        return False
    return True


@given(st.text(alphabet="ab0é_-./ \n", max_size=8))
@example("a..b")
@example("a./.b")
@example("a/./b")
@example(".")
@example(".a.")
@example("a.lock")
@example("a.lock\n")
@example("lock")
@example("a.lock/b")
@example("/a")
@example("a/")
def test_a_name_is_described_exactly_if_it_is_taken(name: str) -> None:
    assert fits(BRANCH, name) == is_name(name)
    assert fits(MAYBE_BRANCH, name) == (not name or is_name(name))


@pytest.mark.parametrize("name", ["main", "a\n", " a"])
def test_what_cannot_be_deleted_by_an_address_is_not_described(name: str) -> None:
    assert not fits(DELETABLE, name)
    assert fits(DELETABLE, "mainly/x")


def test_what_a_pattern_cannot_say_is_little() -> None:
    assert BRANCH["maxLength"] == BRANCH_NAME_MAX
    assert not is_name(SCHEMA_LOCK)


@pytest.mark.parametrize("unit", ["a", "é", "\u8a9e", "\U00020000", "a/"])
def test_the_longest_name_names_a_file_with_room_for_more(unit: str) -> None:
    longest = BRANCH_NAME_MAX // len(spell(unit))
    assert is_name((unit * longest).rstrip("/"))
    assert not is_name(f"{unit * longest}{unit}aa")
