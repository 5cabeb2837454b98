"""The rules of a merge, for one row and for one table. Pure functions.

A token stands for the content of a row: two versions of a row have equal tokens exactly if their
content is equal. None stands for a missing row.
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
    """What a merge does to a row of the target."""

    KEEP = "keep"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class ConflictKind(StrEnum):
    DIVERGENT_INSERT = "divergent_insert"
    """Both branches inserted a row with this id, with different content."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both branches updated the row, with different content."""
    DELETE_VS_UPDATE = "delete_vs_update"
    """One branch deleted the row, the other updated it."""
    ORPHAN_EDGE = "orphan_edge"
    """An edge would start or end at a missing node."""
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    AMBIGUOUS_BASE = "ambiguous_base"
    """The branches have several merge bases, which differ in this row."""


Token = bytes | None


def decide_row(bases: Sequence[Token], target: Token, source: Token) -> RowStep | ConflictKind:
    """Decide one row from its tokens in the bases, in the target and in the source."""
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
    """The step that turns one state of a row into another."""
    if source is None:
        return RowStep.DELETE
    return RowStep.INSERT if target is None else RowStep.UPDATE


class TableStep(StrEnum):
    """How a table is merged."""

    KEEP = "keep"
    """The source did not move it, or both branches show the same version."""
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
    """May the target show the source's version itself, instead of a copy of its rows (D6)?

    Not if the target owns a version of the table, whose history would be cut off. Not if the
    version number would fall, because a manifest shows the greatest. Not if the target would come
    to depend on another branch, which could then not be deleted.
    """
    is_safe = source.owner in (MAIN, target.owner)
    return target.owner != into and is_safe and source.version > target.version
