"""Die before every single write of a merge, and of the recovery that follows.

Whatever dies wherever, the target shows what it showed before or all that was merged, never a part
of it; what it shows agrees with whether the merge is in its history; and merging again completes
it. That holds for tables that are written, forked, and only pointed at.
"""

import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.recovery_commit import ACTOR
from omnigraph.engine.merge.classify import Outcome
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.testing.failpoints import COMMIT, PUBLISH, At, Trigger
from omnigraph.testing.faults import Crash, CrashAt, FailAt, When
from support.breaking import (
    PERSON,
    check_lasting,
    check_whole,
    find_orphans,
    open_living,
    open_mortal,
    read_content,
    slip_in,
    stores_at,
    with_rival,
)
from support.crews import Neighbours
from support.failpoints import FAILPOINTS, Failpoint, MergeScene, points_of
from support.merging import MergeStage, merge_to_death, set_merge
from support.processes import Died, launch, race, values_of
from support.scenes import die

STRIDE = int(os.environ.get("OMNIGRAPH_SWEEP_STRIDE", "4"))
"""Of the scenes that resemble others every so many-th write is died at; the soak says 1."""

FULL = (MergeScene.THREE_WAY, MergeScene.MIXED)

every_scene = pytest.mark.parametrize(
    "scene",
    [
        MergeScene.THREE_WAY,
        MergeScene.MIXED,
        pytest.param(MergeScene.FAST_FORWARD, marks=pytest.mark.slow),
        pytest.param(MergeScene.FIRST_TOUCH, marks=pytest.mark.slow),
        pytest.param(MergeScene.POINTERS, marks=pytest.mark.slow),
        pytest.param(MergeScene.NET_ZERO, marks=pytest.mark.slow),
    ],
)


def is_recorded(made: MergeStage) -> bool:
    """Is the merge in the history of the target?"""
    graph = open_mortal(made.stage.root)
    source = graph.snapshot(made.pair.source).commit
    assert source is not None
    merged = {each.merged_parent for each in graph.commits(made.pair.into) if each.actor != ACTOR}
    return source.id in merged


def check_again(made: MergeStage) -> None:
    """Merging once more leaves the target as a merge that went well leaves it."""
    landed = is_recorded(made)
    outcome = made.pair.merge(open_mortal(made.stage.root)).outcome
    assert (outcome is Outcome.ALREADY_UP_TO_DATE) is landed
    assert check_whole(made.stage.root, made.stage.allowed) == 1


@every_scene
def test_a_merge_that_dies_anywhere_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, scene: MergeScene
) -> None:
    made = set_merge(scene, tmp_path / "g")
    stage, outcomes = made.stage, []
    for step in count(1, 1 if scene in FULL else STRIDE):
        stage.reset()
        fault = CrashAt(step, When.BEFORE)
        with suppress(Crash):
            made.pair.merge(open_mortal(stage.root, fault))
        if not fault.dead:
            break
        heal(open_mortal(stage.root).context)
        outcome = check_whole(stage.root, stage.allowed)
        assert is_recorded(made) is bool(outcome), f"shown and recorded disagree, {fault.step}"
        assert list(find_orphans(stores_at(stage.root))) == []
        outcomes.append(outcome)
        if step % 9 == 0:
            check_lasting(stage.root)
        elif step % 9 == 5:
            check_again(made)
    assert outcomes == sorted(outcomes), "once it is decided it is not undone"
    assert set(outcomes) == {0, 1}
    assert check_whole(stage.root, stage.allowed) == 1, "the run that survived"


@pytest.mark.parametrize("scene", [MergeScene.THREE_WAY, MergeScene.FIRST_TOUCH])
def test_a_merge_by_workers_that_dies_anywhere_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, scene: MergeScene
) -> None:
    """Their files are named by one commit of the attempt, or by nobody."""
    made = set_merge(scene, tmp_path / "g")
    stage, outcomes, asked = made.stage, [], 0
    for step in count(1, max(1, STRIDE // 2)):
        stage.reset()
        fault, neighbours = CrashAt(step, When.BEFORE), Neighbours()
        with suppress(Crash):
            made.pair.merge(open_mortal(stage.root, fault), neighbours)
        asked += len(neighbours.asked)
        if not fault.dead:
            break
        heal(open_mortal(stage.root).context)
        outcomes.append(check_whole(stage.root, stage.allowed))
        assert is_recorded(made) is bool(outcomes[-1])
        assert list(find_orphans(stores_at(stage.root))) == []
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {0, 1}
    assert asked
    assert check_whole(stage.root, stage.allowed) == 1, "the run that survived"


@pytest.mark.slow
@pytest.mark.parametrize("scene", [MergeScene.THREE_WAY, MergeScene.MIXED])
def test_the_recovery_of_a_merge_may_die_anywhere_too(tmp_path: Path, scene: MergeScene) -> None:
    made = set_merge(scene, tmp_path / "g")
    stage = made.stage
    for step in count(1, 2 * STRIDE):
        for again in count(1, STRIDE):
            stage.reset()
            with suppress(Crash):
                made.pair.merge(open_mortal(stage.root, CrashAt(step, When.BEFORE)))
                return
            fault = CrashAt(again, When.BEFORE)
            with suppress(Crash):
                heal(open_mortal(stage.root, fault).context)
            heal(open_mortal(stage.root).context)
            assert is_recorded(made) is bool(check_whole(stage.root, stage.allowed))
            assert list(find_orphans(stores_at(stage.root))) == []
            if not fault.dead:
                break


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[MergeScene, MergeStage]:
    folder = tmp_path_factory.mktemp("merges")
    return {each: set_merge(each, folder / each.name / "g") for each in MergeScene}


def scene_of(stages: dict[MergeScene, MergeStage], point: Failpoint) -> MergeStage:
    assert isinstance(point.scene, MergeScene)
    made = stages[point.scene]
    made.stage.reset()
    return made


def check_point(made: MergeStage, point: Failpoint) -> None:
    """Nothing of a table that is half merged may stay; what was complete must not go."""
    heal(open_mortal(made.stage.root).context)
    assert bool(check_whole(made.stage.root, made.stage.allowed)) is point.is_done
    assert is_recorded(made) is point.is_done
    assert list(find_orphans(stores_at(made.stage.root))) == []
    check_again(made)


@pytest.mark.parametrize("name", points_of(MergeScene))
def test_dying_at_a_failpoint_goes_back_or_forward_as_a_whole(
    stages: dict[MergeScene, MergeStage], name: str
) -> None:
    point = FAILPOINTS[name]
    made = scene_of(stages, point)
    die(made.stage.root, point.at, made.pair.merge)
    check_point(made, point)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(points_of(MergeScene))[::STRIDE])
def test_being_killed_at_a_failpoint_is_the_same(
    stages: dict[MergeScene, MergeStage], name: str
) -> None:
    point = FAILPOINTS[name]
    made = scene_of(stages, point)
    process = launch(merge_to_death, made.stage.root, name, made.pair.source, made.pair.into)
    (result,) = race([process])
    assert isinstance(result, Died), result
    check_point(made, point)


@pytest.mark.parametrize("scene", [MergeScene.FAST_FORWARD, MergeScene.MIXED])
def test_a_merge_that_moved_everything_goes_forward_with_both_parents(
    tmp_path: Path, scene: MergeScene
) -> None:
    made = set_merge(scene, tmp_path / "g")
    made.stage.reset()
    graph = open_mortal(made.stage.root)
    heads = [graph.snapshot(each).commit for each in (made.pair.into, made.pair.source)]
    die(made.stage.root, At(PUBLISH), made.pair.merge)
    heal(open_mortal(made.stage.root).context)
    assert check_whole(made.stage.root, made.stage.allowed) == 1
    recovery, merged = open_mortal(made.stage.root).commits(made.pair.into)[:2]
    assert merged.parents == tuple(each.id for each in heads if each is not None)
    assert (merged.actor, recovery.actor) == ("writer", ACTOR)
    check_again(made)


def test_the_sidecar_of_a_merge_names_everything_it_will_make_visible(tmp_path: Path) -> None:
    made = set_merge(MergeScene.MIXED, tmp_path / "g")
    made.stage.reset()
    die(made.stage.root, At(PUBLISH), made.pair.merge)
    (sidecar,) = (made.stage.root / "__recovery").glob("*.json")
    said = json.loads(sidecar.read_text())
    graph = open_mortal(made.stage.root)
    source = graph.snapshot(made.pair.source)
    assert said["writer_kind"] == "BranchMerge"
    assert [each["table_key"] for each in said["tables"]] == ["node:Person"]
    assert [(each["table_key"], each["version"]) for each in said["manifest_delta"]] == [
        ("node:Company", source.pins["node:Company"].version)  # type: ignore[index]
    ]
    assert source.commit is not None
    assert said["lineage"]["merged_parent_commit_id"] == source.commit.id
    assert said["read_set"].keys() | {"node:Person"} >= {"node:Company"}


@pytest.mark.parametrize(("version", "outcome"), [(1, 1), (2, 0)])
def test_a_sidecar_the_reference_left_keeps_its_meaning(
    tmp_path: Path, version: int, outcome: int
) -> None:
    """Version 1 never confirms, and goes forward; version 2 does, and goes back without."""
    made = set_merge(MergeScene.FAST_FORWARD, tmp_path / "g")
    made.stage.reset()
    die(made.stage.root, At(PUBLISH), made.pair.merge)
    (sidecar,) = (made.stage.root / "__recovery").glob("*.json")
    said = json.loads(sidecar.read_text())
    old = {
        "schema_version": version,
        "operation_id": said["operation_id"],
        "started_at": said["started_at"],
        "branch": None,
        "actor_id": "writer",
        "writer_kind": "BranchMerge",
        "merge_source_commit_id": said["lineage"]["merged_parent_commit_id"],
        "tables": [
            {
                "table_key": each["table_key"],
                "table_path": str(made.stage.root / each["table_path"]),
                "expected_version": each["expected_version"],
                "post_commit_pin": each["expected_version"] + 1,
                "table_branch": None,
            }
            for each in said["tables"]
        ],
    }
    sidecar.write_text(json.dumps(old))
    heal(open_mortal(made.stage.root).context)
    content = read_content(made.stage.root)
    assert made.stage.allowed.index(content) == outcome
    head = open_mortal(made.stage.root).commits()[0]
    assert head.actor == ACTOR
    assert (head.merged_parent is not None) is bool(outcome)
    again = made.pair.merge(open_mortal(made.stage.root))
    assert (again.outcome is Outcome.ALREADY_UP_TO_DATE) is bool(outcome)
    assert read_content(made.stage.root) == made.stage.after


def test_a_second_writer_between_the_crash_and_the_recovery_loses_nothing(tmp_path: Path) -> None:
    made = set_merge(MergeScene.THREE_WAY, tmp_path / "g")
    allowed = [with_rival(each, PERSON) for each in made.stage.allowed]
    outcomes = []
    for done in (1, 2, 3):
        made.stage.reset()
        die(made.stage.root, At(COMMIT, done, When.AFTER), made.pair.merge)
        slip_in(open_mortal(made.stage.root).context, PERSON)
        heal(open_mortal(made.stage.root).context)
        outcomes.append(check_whole(made.stage.root, allowed))
    assert outcomes == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("scene", [MergeScene.THREE_WAY, MergeScene.MIXED])
def test_a_store_that_fails_anywhere_leaves_all_or_nothing(
    tmp_path: Path, scene: MergeScene
) -> None:
    made = set_merge(scene, tmp_path / "g")
    for step in count(1, STRIDE):
        made.stage.reset()
        fault = FailDurably(step)
        graph = open_living(made.stage.root, fault)
        try:
            made.pair.merge(graph)
        except StorageFailure:
            assert check_whole(made.stage.root, made.stage.allowed) == 0
        except OutcomeUnknown:
            graph.refresh()
            check_whole(made.stage.root, made.stage.allowed)
        else:
            graph.refresh()
            assert check_whole(made.stage.root, made.stage.allowed) == 1
        if fault.seen < step:
            return


class FailDurably(FailAt):
    """Leases that cannot be given back are another story: they run out."""

    def before(self, call: str, *, is_write: bool) -> None:
        super().before(call, is_write=is_write and not call.startswith("volatile."))


def write_meanwhile(root: Path) -> None:
    """For a process of its own."""
    slip_in(open_living(root).context, PERSON)


def test_a_target_that_another_process_moves_while_a_merge_is_planned_is_never_overwritten(
    tmp_path: Path,
) -> None:
    made = set_merge(MergeScene.FAST_FORWARD, tmp_path / "g")
    made.stage.reset()
    rival = launch(write_meanwhile, made.stage.root)
    at = FAILPOINTS["merge.target_advanced_by_other_process"].at
    trigger = Trigger(at, lambda _: values_of(race([rival])))
    result = made.pair.merge(open_living(made.stage.root, trigger))
    assert trigger.fired
    assert result.outcome is Outcome.MERGED, "it was planned anew"
    assert check_whole(made.stage.root, [with_rival(made.stage.after, PERSON)]) == 0
