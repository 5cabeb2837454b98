"""Merges to break: two branches that diverged, and the merge of one into the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.merge.workers import BulkMerge
from omnigraph.ids import MAIN, BranchName
from omnigraph.testing.failpoints import Trigger, kill
from support.breaking import (
    LINK,
    SIDE,
    Ask,
    BreakableGraph,
    open_living,
    open_mortal,
    populate,
    read_content,
)
from support.failpoints import FAILPOINTS, MergeScene, Scene
from support.folders import read_folder
from support.scenes import Stage

WORK = BranchName("work")

CHANGES: Sequence[Ask] = (
    Ask("put", {"name": "dora", "age": 1}),
    Ask("age", {"name": "bob", "age": 41}),
    Ask("drop", {"name": "carl"}),
)
"""A row that is new, one that is changed, and one that is removed."""


@dataclass(frozen=True, slots=True)
class Pair:
    source: BranchName
    into: BranchName

    def merge(self, graph: BreakableGraph, bulk: BulkMerge | None = None) -> MergeResult:
        return graph.merge(MergeRequest(self.source, self.into, actor="writer"), bulk)


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


def merge_to_death(root: Path, name: str, source: str, into: str) -> None:
    """For a process of its own."""
    trigger = Trigger(FAILPOINTS[name].at, kill)
    graph = open_living(root, trigger, observe=trigger.observe)
    Pair(BranchName(source), BranchName(into)).merge(graph)
    raise AssertionError(f"it never came to {name}")
