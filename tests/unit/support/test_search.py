"""The naive tokeniser and the rankings, by hand-made examples."""

import math

import pytest

from omnigraph.compiler.ir import TextFunction
from support.search import (
    edits,
    fuse,
    is_text_match,
    rank_by_distance,
    rank_by_text,
    tokens,
)


def test_words_lose_case_accents_and_punctuation() -> None:
    assert tokens("Élan-vital, 2nd_edition!") == ["elan", "vital", "2nd", "edition"]


@pytest.mark.parametrize(
    ("left", "right", "distance"), [("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
)
def test_edits_are_insertions_deletions_and_replacements(
    left: str, right: str, distance: int
) -> None:
    assert edits(left, right) == edits(right, left) == distance


def test_fuzzy_allows_two_edits_unless_told() -> None:
    assert is_text_match(TextFunction.FUZZY, "barn", "bean", None)
    assert not is_text_match(TextFunction.FUZZY, "barn", "bean", 1)


def test_a_rarer_word_counts_more_and_equal_scores_go_by_id() -> None:
    ranking = rank_by_text({"b": "red", "a": "red", "c": "blue", "d": ""}, "red blue")
    assert [each for each, _ in ranking] == ["c", "a", "b"]


def test_equal_distances_go_by_id() -> None:
    ranking = rank_by_distance({"b": (1.0, 0.0), "a": (0.0, 1.0), "c": (0.0, 0.0)}, (0.0, 0.0))
    assert ranking == [("c", 0.0), ("a", 1.0), ("b", 1.0)]


def test_fusion_ranks_from_one_and_ties_keep_the_order_of_the_arms() -> None:
    fused = fuse([("x", 9.0), ("y", 8.0)], [("y", 0.1), ("z", 0.2)], 60)
    assert [each for each, _ in fused] == ["y", "x", "z"]
    assert math.isclose(fused[0][1], 1 / 62 + 1 / 61)
    assert [each for each, _ in fuse([("b", 1.0)], [("a", 1.0)], 60)] == ["b", "a"]
