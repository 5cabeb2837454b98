"""Stepping forward, interrupted: by death, by a store that fails, by others.

Whatever happens, a reader sees the whole history, and whoever comes next finishes the step.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.stamp import CURRENT, read_stamp
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import open_in
from omnigraph.errors import Contention, OutcomeUnknown, StorageFailure, TableCorrupt
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.failpoints import Act, Trigger, crash, fail, kill
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, Watch, When, sweep, watch_stores
from omnigraph.testing.invariants import check_graph
from support.failpoints import FAILPOINTS, Failpoint, Story, points_of
from support.folders import put_back, read_folder
from support.old_graphs import (
    FEATURE,
    PEOPLE,
    PERSON,
    V1,
    V1_BRANCHED,
    V2,
    V2_BRANCHED,
    V3,
    V3_BRANCHED,
    OldGraph,
    Recipe,
    set_stamp,
    write_old_graph,
)
from support.processes import Died, launch, race
from support.publishing import lineage_only

WHENEVER = pytest.mark.parametrize("when", list(When))
EVERY_FORMAT = pytest.mark.parametrize("recipe", [V1, V2, V3], ids=["v1", "v2", "v3"])
BRANCHED = pytest.mark.parametrize(
    "recipe", [V1_BRANCHED, V2_BRANCHED, V3_BRANCHED], ids=["v1", "v2", "v3"]
)


def stores_of(root: Path) -> Stores:
    return open_stores(str(root), REAL, durability=Durability.RELAXED)


def open_now(root: Path, mode: Mode = Mode.READ_WRITE) -> Graph:
    return open_in(stores_of(root), mode)


def history(graph: Graph, branch: BranchName = MAIN) -> tuple[Commit, ...]:
    return tuple(reversed(graph.commits(branch)))


def check_readable(opened: Graph, written: OldGraph) -> None:
    assert history(opened) == written.main
    for commit in {*written.main, *written.feature}:
        snapshot = opened.snapshot_at_commit(commit.id)
        assert snapshot.commit == commit
        assert opened.open_table(snapshot, PERSON).row_count == PEOPLE[commit.id]


def check_stepped(root: Path, written: OldGraph) -> None:
    """Main is all it should be, whoever brought it there."""
    stores = stores_of(root)
    base = read_base(stores, MAIN)
    assert read_stamp(base.handle) == CURRENT
    assert base.manifest.log.rows.num_rows == len(written.main)
    assert [each for each in check_graph(stores) if each.branch == MAIN] == []


# ── death ────────────────────────────────────────────────────────────────────────────────────────


@EVERY_FORMAT
@WHENEVER
def test_dying_at_any_write_loses_nothing_and_the_next_to_open_finishes(
    tmp_path: Path, recipe: Recipe, when: When
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    kept = read_folder(written.root)
    deaths = 0
    for fault in sweep(when, lambda fault: _open_again(written.root, kept, fault)):
        deaths += fault.dead
        check_readable(open_now(written.root, Mode.READ_ONLY), written)
        check_readable(open_now(written.root), written)
        check_stepped(written.root, written)
    # Per step a stamp is staged and committed; the work of the steps comes on top.
    assert deaths > 2 * (CURRENT - int(recipe.stamp or 1))


def _open_again(root: Path, kept: dict[str, bytes], watch: Watch) -> None:
    put_back(root, kept)
    open_in(watch_stores(stores_of(root), watch), Mode.READ_WRITE)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [V1, V2], ids=["v1", "v2"])
@WHENEVER
def test_whoever_finishes_may_die_at_any_write_too(
    tmp_path: Path, recipe: Recipe, when: When
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    kept = read_folder(written.root)
    for _ in sweep(when, lambda fault: _open_again(written.root, kept, fault), STRIDE):
        left = read_folder(written.root)

        def finish(again: CrashAt, left: dict[str, bytes] = left) -> None:
            _open_again(written.root, left, again)

        for _ in sweep(when, finish, STRIDE):
            check_readable(open_now(written.root, Mode.READ_ONLY), written)
            open_now(written.root)
            check_stepped(written.root, written)


@BRANCHED
@WHENEVER
def test_dying_at_any_write_of_a_branchs_first_publish_publishes_it_once_or_not_at_all(
    tmp_path: Path, recipe: Recipe, when: When
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    open_now(written.root)
    kept = read_folder(written.root)
    publication = lineage_only(FEATURE)

    def run(watch: Watch) -> None:
        put_back(written.root, kept)
        stores = watch_stores(stores_of(written.root), watch)
        publish(stores, Bases(stores), publication)

    for _ in sweep(when, run):
        reader = open_now(written.root, Mode.READ_ONLY)
        check_readable(reader, written)
        *before, newest = history(reader, FEATURE)
        if newest.id == publication.intents[0].id:
            assert tuple(before) == written.feature
        else:
            assert (*before, newest) == written.feature

        stores = stores_of(written.root)
        (commit,) = publish(stores, Bases(stores), publication).commits
        assert history(open_now(written.root), FEATURE) == (*written.feature, commit)
        assert check_graph(stores) == []


@pytest.mark.parametrize("name", points_of(Story.MIGRATION))
@pytest.mark.parametrize("how", [crash, fail])
def test_breaking_off_at_a_failpoint_keeps_the_stamp_and_the_next_to_open_steps(
    tmp_path: Path, name: str, how: Act
) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    stores = watch_stores(stores_of(written.root), Trigger(FAILPOINTS[name].at, how))
    with pytest.raises((Crash, StorageFailure)):
        open_in(stores, Mode.READ_WRITE)
    check_broken_off(FAILPOINTS[name], written)


@pytest.mark.slow
@pytest.mark.parametrize("name", points_of(Story.MIGRATION))
def test_being_killed_at_a_failpoint_keeps_the_stamp_and_the_next_to_open_steps(
    tmp_path: Path, name: str
) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    (outcome,) = race([launch(step_to_death, written.root, name)])
    assert isinstance(outcome, Died), outcome
    assert outcome.exit_code == -9, outcome.report
    check_broken_off(FAILPOINTS[name], written)


def step_to_death(root: Path, name: str) -> None:
    """For a process of its own."""
    open_in(watch_stores(stores_of(root), Trigger(FAILPOINTS[name].at, kill)), Mode.READ_WRITE)


def check_broken_off(point: Failpoint, written: OldGraph) -> None:
    base = read_base(stores_of(written.root), MAIN)
    assert read_stamp(base.handle) == 3
    assert base.manifest.log.rows.num_rows == (len(written.main) if point.is_done else 0)
    check_readable(open_now(written.root), written)
    check_stepped(written.root, written)


# ── a store that fails ───────────────────────────────────────────────────────────────────────────


@dataclass
class FailAt:
    """The n-th call fails, once, before or after it does what it does."""

    step: int
    when: When
    seen: int = 0

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - every call counts
        self.seen += 1
        self._fail_if(self.when is When.BEFORE, call)

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - every call counts
        self._fail_if(self.when is When.AFTER, call)

    def _fail_if(self, due: bool, call: str) -> None:  # noqa: FBT001 - private
        if due and self.seen == self.step:
            raise StorageFailure(call, subject="the store", reason="a storm")


def fail_at_every_call(when: When, run: Callable[[FailAt], None], look: Callable[[], None]) -> None:
    for step in count(1):
        fault = FailAt(step, when)
        try:
            run(fault)
        except (StorageFailure, OutcomeUnknown):
            look()
            continue
        if fault.seen < step:
            return
        look()


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(V1, marks=pytest.mark.slow), pytest.param(V2, marks=pytest.mark.slow), V3],
    ids=["v1", "v2", "v3"],
)
@WHENEVER
def test_a_store_that_fails_at_any_call_ends_the_open_and_loses_nothing(
    tmp_path: Path, recipe: Recipe, when: When
) -> None:
    """Reading the old commits is one of the calls; a failure there must not pass for «none»."""
    written = write_old_graph(tmp_path / "g", recipe)
    kept = read_folder(written.root)

    def run(fault: FailAt) -> None:
        _open_again(written.root, kept, fault)

    def look() -> None:
        stores = stores_of(written.root)
        base = read_base(stores, MAIN)
        moved = base.manifest.log.rows.num_rows
        assert moved in {0, len(written.main)}
        assert moved or read_stamp(base.handle) < CURRENT
        check_readable(open_now(written.root), written)
        check_stepped(written.root, written)

    fail_at_every_call(when, run, look)


@pytest.mark.parametrize("table", ["_graph_commits.lance", "_graph_commit_actors.lance"])
@pytest.mark.parametrize("damage", ["cut short", "without versions"])
def test_old_commits_that_cannot_be_read_keep_the_graph_old(
    tmp_path: Path, table: str, damage: str
) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    kept = read_folder(written.root)
    versions = written.root / table / "_versions"
    if damage == "without versions":
        shutil.rmtree(versions)
    else:
        for file in versions.glob("*.manifest"):
            file.write_bytes(file.read_bytes()[:8])
    damaged = read_folder(written.root)

    for mode in Mode:
        with pytest.raises(TableCorrupt):
            open_now(written.root, mode)
    assert read_folder(written.root) == damaged

    put_back(written.root, kept)
    check_readable(open_now(written.root), written)
    check_stepped(written.root, written)


# ── others ───────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Interloper:
    """Gets in right before some call, each time with the next thing to do."""

    call: str
    acts: list[Callable[[], object]]

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - told apart by name
        if call == self.call and self.acts:
            self.acts.pop(0)()

    def after(self, call: str, *, is_write: bool) -> None:
        pass


def test_losing_every_race_for_the_stamp_is_contention_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    stamp_again = partial(set_stamp, written.root / "__manifest", "3")
    point = FAILPOINTS["migration.v4_stamp.force_incompatible"]
    rival = Trigger(point.at, lambda _: stamp_again(), times=100)
    with pytest.raises(Contention):
        open_in(watch_stores(stores_of(written.root), rival), Mode.READ_WRITE)
    assert 1 < rival.fired < 100
    check_readable(open_now(written.root), written)
    check_stepped(written.root, written)


@pytest.mark.parametrize(
    "call", ["tables.stage_settings", "tables.commit_exact", "tables.single_step.swap_rows"]
)
@EVERY_FORMAT
def test_finding_the_whole_way_gone_by_somebody_else_is_as_good_as_going_it(
    tmp_path: Path, recipe: Recipe, call: str
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    rival = Interloper(call, [partial(open_now, written.root)])
    opened = open_in(watch_stores(stores_of(written.root), rival), Mode.READ_WRITE)
    assert rival.acts == []
    check_readable(opened, written)
    check_stepped(written.root, written)


@pytest.mark.parametrize("rivals", ["a stamp", "a stamp, then a publish"])
def test_a_commit_beside_which_a_stamp_was_set_records_the_version_that_shows_it(
    tmp_path: Path, rivals: str
) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    open_now(written.root)
    acts: list[Callable[[], object]] = [partial(set_stamp, written.root / "__manifest", "4")]
    if rivals != "a stamp":
        acts.append(partial(_publish_plainly, written.root))
    rival = Interloper("tables.single_step.swap_rows", acts)
    stores = watch_stores(stores_of(written.root), rival)
    base = read_base(stores, MAIN)
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits

    assert rival.acts == []
    assert commit.manifest_version > base.handle.version + 1
    opened = open_now(written.root)
    snapshot = opened.snapshot_at_commit(commit.id)
    assert snapshot.manifest_version == commit.manifest_version
    assert opened.commit(commit.id) == commit
    assert check_graph(stores_of(written.root)) == []


def _publish_plainly(root: Path) -> None:
    stores = stores_of(root)
    publish(stores, Bases(stores), lineage_only())
