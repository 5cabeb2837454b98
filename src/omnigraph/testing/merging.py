"""Merges to break: two branches that have grown apart, and one is merged into the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from omnigraph.engine.merge.run import MergeOrder, MergeResult
from omnigraph.engine.merge.workers import Bulk
from omnigraph.ids import MAIN, BranchName
from omnigraph.testing.breaking import (
    LINK,
    SIDE,
    Ask,
    BreakableGraph,
    open_living,
    open_mortal,
    populate,
    read_content,
)
from omnigraph.testing.failpoints import (
    COMMIT,
    FORK,
    PUBLISH,
    PUT,
    SWAP,
    At,
    Scene,
    Trigger,
    kill,
)
from omnigraph.testing.faults import When
from omnigraph.testing.folders import read_folder
from omnigraph.testing.scenes import Stage

WORK = BranchName("work")

CHANGES: Sequence[Ask] = (
    Ask("put", {"name": "dora", "age": 1}),
    Ask("age", {"name": "bob", "age": 41}),
    Ask("drop", {"name": "carl"}),
)
"""A row that is new, one that is changed, and one that is removed."""


class MergeScene(StrEnum):
    """What is merged."""

    FAST_FORWARD = "a branch into main, which has not moved"
    THREE_WAY = "a branch into main, both of which changed the same table"
    FIRST_TOUCH = "a branch into another that owns none of the tables"
    MIXED = "main into a branch that owns one of the tables"
    POINTERS = "main into a branch that owns no table"
    TWO_TABLES = "a branch that wrote two tables into main"
    NET_ZERO = "a branch that changed one table there and back, and another for good"


@dataclass(frozen=True, slots=True)
class Pair:
    source: BranchName
    into: BranchName

    def merge(self, graph: BreakableGraph, bulk: Bulk | None = None) -> MergeResult:
        return graph.merge(MergeOrder(self.source, self.into, actor="writer"), bulk)


def grow_apart(scene: MergeScene, root: Path) -> Pair:
    """Make the branches of a scene."""
    graph = populate(root)
    graph.create_branch(SIDE)
    graph.create_branch(WORK)
    match scene:
        case MergeScene.FAST_FORWARD | MergeScene.THREE_WAY | MergeScene.FIRST_TOUCH:
            for ask in CHANGES:
                graph.ask(ask, SIDE)
            if scene is MergeScene.THREE_WAY:
                graph.ask(Ask("age", {"name": "ann", "age": 31}))
            return Pair(SIDE, WORK if scene is MergeScene.FIRST_TOUCH else MAIN)
        case MergeScene.MIXED | MergeScene.POINTERS:
            graph.ask(Ask("pair", {"a": "eve"}))
            if scene is MergeScene.MIXED:
                graph.ask(Ask("age", {"name": "bob", "age": 41}), SIDE)
            return Pair(MAIN, SIDE)
        case MergeScene.TWO_TABLES:
            graph.ask(Ask("pair", {"a": "eve"}), SIDE)
            return Pair(SIDE, MAIN)
        case MergeScene.NET_ZERO:
            graph.ask(Ask("age", {"name": "bob", "age": 41}), SIDE)
            graph.ask(Ask("age", {"name": "bob", "age": 40}), SIDE)
            graph.ask(LINK, SIDE)
            return Pair(SIDE, MAIN)


@dataclass(frozen=True, slots=True)
class MergeStage:
    """Branches that have grown apart, and what they show before and after a merge."""

    pair: Pair
    stage: Stage


def set_merge(scene: MergeScene, root: Path) -> MergeStage:
    pair = grow_apart(scene, root)
    files = read_folder(root)
    before = read_content(root)
    pair.merge(open_mortal(root))
    return MergeStage(pair, Stage(Scene.WRITE, root, files, before, read_content(root)))


# ── named places ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class MergePoint:
    """A failpoint of a merge."""

    scene: MergeScene
    at: At
    is_done: bool
    """Had everything moved, so that dying there must not undo it?"""
    meaning: str


_AFTER: Final = When.AFTER

MERGE_POINTS: Final[Mapping[str, MergePoint]] = {
    "branch_merge.adopt_after_append_pre_upsert": MergePoint(
        MergeScene.FAST_FORWARD, At(COMMIT, 1, _AFTER), False, "new rows are there, changed are not"
    ),
    "branch_merge.adopt_after_upsert_pre_delete": MergePoint(
        MergeScene.FAST_FORWARD, At(COMMIT, 2, _AFTER), False, "changed rows too, removed still are"
    ),
    "branch_merge.rewrite_after_merge_pre_delete": MergePoint(
        MergeScene.THREE_WAY, At(COMMIT, 2, _AFTER), False, "the same, where both sides wrote"
    ),
    "branch_merge.rewrite_after_delete_pre_index": MergePoint(
        MergeScene.THREE_WAY, At(COMMIT, 3, _AFTER), True, "all rows are; nothing is to be indexed"
    ),
    "branch_merge.post_phase_b_pre_manifest_commit": MergePoint(
        MergeScene.FAST_FORWARD, At(PUBLISH), True, "every table moved, nothing is visible"
    ),
    "merge.after_sidecar_pre_fork": MergePoint(
        MergeScene.FIRST_TOUCH, At(PUT, 1, _AFTER), False, "the note names a fork nobody made yet"
    ),
    "merge.after_fork_pre_commit": MergePoint(
        MergeScene.FIRST_TOUCH, At(FORK, 1, _AFTER), False, "the fork is there, and as it was"
    ),
    "merge.after_table_1": MergePoint(
        MergeScene.TWO_TABLES, At(COMMIT, 1, _AFTER), False, "one table of two is merged"
    ),
    "merge.after_confirm_mixed": MergePoint(
        MergeScene.MIXED, At(SWAP), True, "one table moved, another is to be pointed at"
    ),
    "merge.pointer_only": MergePoint(
        MergeScene.POINTERS, At(SWAP), False, "no table was to move; nothing had begun"
    ),
    "merge.net_zero": MergePoint(
        MergeScene.NET_ZERO, At(SWAP), True, "beside a table that was changed there and back"
    ),
    "merge.lost_ack": MergePoint(
        MergeScene.MIXED, At(SWAP, 1, _AFTER), True, "visible, and not yet said so"
    ),
}
"""Every failpoint of a merge, by name. The one in which another process moves the target between
planning and holding has a test of its own."""


def merge_to_death(root: Path, name: str, source: str, into: str) -> None:
    """For a process of its own."""
    trigger = Trigger(MERGE_POINTS[name].at, kill)
    graph = open_living(root, trigger, observe=trigger.observe)
    Pair(BranchName(source), BranchName(into)).merge(graph)
    raise AssertionError(f"it never came to {name}")
