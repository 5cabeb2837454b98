"""The rules of a merge. Facts in, verdict out.

A row is told by a token: two versions of it have the same token exactly if they say the same, and
None stands for a row that is not there.
"""

from collections.abc import Sequence
from enum import StrEnum

from omnigraph.commit.manifest.model import Pin, is_same_version
from omnigraph.ids import MAIN, BranchName


class Outcome(StrEnum):
    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


class RowStep(StrEnum):
    """What happens to a row of the target."""

    KEEP = "keep"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class ConflictKind(StrEnum):
    DIVERGENT_INSERT = "divergent_insert"
    """Both branches made a row of one id, and they differ."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both branches changed a row, each in its own way."""
    DELETE_VS_UPDATE = "delete_vs_update"
    """One branch removed a row that the other changed."""
    ORPHAN_EDGE = "orphan_edge"
    """An edge would lead from or to a node that is not there."""
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    AMBIGUOUS_BASE = "ambiguous_base"
    """The branches last agreed in several states, which do not agree on the row."""


Token = bytes | None


def decide_row(bases: Sequence[Token], target: Token, source: Token) -> RowStep | ConflictKind:
    """What a merge makes of a row, from what it was, what the target and the source made of it."""
    if source == target:
        return RowStep.KEEP
    base = bases[0]
    if any(each != base for each in bases):
        return ConflictKind.AMBIGUOUS_BASE
    if source == base:
        return RowStep.KEEP
    if target == base:
        return _towards(base, source)
    if base is None:
        return ConflictKind.DIVERGENT_INSERT
    if source is None or target is None:
        return ConflictKind.DELETE_VS_UPDATE
    return ConflictKind.DIVERGENT_UPDATE


def _towards(target: Token, source: Token) -> RowStep:
    """The way from one state of a row to another."""
    if source is None:
        return RowStep.DELETE
    return RowStep.INSERT if target is None else RowStep.UPDATE


class TableStep(StrEnum):
    """How a table is merged."""

    KEEP = "keep"
    """The source did not move it, or both show the same."""
    ADOPT = "adopt"
    """Only the source moved it."""
    THREE_WAY = "three_way"
    """Both moved it."""


def decide_table(bases: Sequence[Pin | None], target: Pin, source: Pin) -> TableStep:
    if is_same_version(source, target) or all(is_same_version(each, source) for each in bases):
        return TableStep.KEEP
    if all(is_same_version(each, target) for each in bases):
        return TableStep.ADOPT
    return TableStep.THREE_WAY


def may_point(target: Pin, source: Pin, into: BranchName) -> bool:
    """May the target show the source's version as it is, instead of a copy of its rows (D6)?

    Not if it has a version of its own, whose history would be cut off; not if the number would
    fall, because the greatest is what a manifest shows; and not if it would come to depend on a
    branch it did not depend on, which somebody may want to delete.
    """
    is_safe = source.owner in (MAIN, target.owner)
    return target.owner != into and is_safe and source.version > target.version
