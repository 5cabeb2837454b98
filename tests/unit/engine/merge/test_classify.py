"""The rules of a merge, row by row of their tables."""

from dataclasses import replace

import pytest

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.merge.classify import (
    ConflictKind,
    RowStep,
    TableStep,
    Token,
    decide_row,
    decide_table,
    may_point,
)
from omnigraph.engine.merge.resolve import blend_cells
from omnigraph.ids import MAIN, BranchName, TableKey, Version

B, X, Y = b"base", b"x", b"y"
SIDE = BranchName("side")
OTHER = BranchName("other")


@pytest.mark.parametrize(
    ("base", "target", "source", "verdict"),
    [
        (None, None, X, RowStep.INSERT),
        (None, X, None, RowStep.KEEP),
        (None, X, X, RowStep.KEEP),
        (None, Y, X, ConflictKind.DIVERGENT_INSERT),
        (B, B, B, RowStep.KEEP),
        (B, B, X, RowStep.UPDATE),
        (B, X, B, RowStep.KEEP),
        (B, X, X, RowStep.KEEP),
        (B, Y, X, ConflictKind.DIVERGENT_UPDATE),
        (B, B, None, RowStep.DELETE),
        (B, None, B, RowStep.KEEP),
        (B, None, None, RowStep.KEEP),
        (B, X, None, ConflictKind.DELETE_VS_UPDATE),
        (B, None, X, ConflictKind.DELETE_VS_UPDATE),
        (None, None, None, RowStep.KEEP),
    ],
)
def test_a_row_is_merged_by_the_truth_table(
    base: Token, target: Token, source: Token, verdict: RowStep | ConflictKind
) -> None:
    assert decide_row([base], target, source) == verdict
    assert decide_row([base, base], target, source) == verdict, "bases that agree are one"


@pytest.mark.parametrize("bases", [(B, X), (None, B), (X, None)])
def test_bases_that_disagree_decide_nothing(bases: tuple[Token, Token]) -> None:
    assert decide_row(bases, Y, b"z") is ConflictKind.AMBIGUOUS_BASE
    assert decide_row(bases, *bases) is ConflictKind.AMBIGUOUS_BASE
    assert decide_row(bases, Y, Y) is RowStep.KEEP
    assert decide_row(bases, None, None) is RowStep.KEEP


def pin(version: int, owner: BranchName = MAIN) -> Pin:
    return Pin(TableKey("node:A"), "nodes/a", Version(version), owner, 1)


def test_a_table_is_looked_at_only_if_the_source_moved_it() -> None:
    base = pin(3)
    assert decide_table([base], pin(9), base) is TableStep.KEEP
    assert decide_table([base], pin(4, SIDE), pin(4, SIDE)) is TableStep.KEEP
    assert decide_table([base], base, pin(4, SIDE)) is TableStep.ADOPT
    assert decide_table([base], pin(4), pin(4, SIDE)) is TableStep.THREE_WAY
    assert decide_table([base, pin(2)], base, pin(4, SIDE)) is TableStep.THREE_WAY
    assert decide_table([None], pin(1), pin(2)) is TableStep.THREE_WAY


def test_a_pointer_never_falls_and_never_cuts_off_a_history() -> None:
    target = pin(3)
    assert may_point(target, pin(4), SIDE)
    assert not may_point(target, pin(3), SIDE), "no number is published twice"
    assert not may_point(target, pin(2), SIDE), "a lower number would stay hidden"
    assert not may_point(replace(target, owner=SIDE), pin(9), SIDE), "it has rows of its own"
    assert not may_point(target, pin(4, OTHER), SIDE), "it would depend on another branch"
    assert may_point(replace(target, owner=OTHER), pin(4, OTHER), SIDE), "it does already"


def test_cells_are_blended_where_only_one_side_changed_them() -> None:
    base: dict[str, Token] = {"a": B, "b": B, "c": B, "d": B, "e": B}
    target: dict[str, Token] = {"a": B, "b": X, "c": X, "d": X, "e": B}
    source: dict[str, Token] = {"a": X, "b": B, "c": X, "d": Y, "e": B}
    from_source, clashes = blend_cells(base, target, source)
    assert from_source == {"a": True, "b": False, "c": False, "d": False, "e": False}
    assert clashes == ["d"]
