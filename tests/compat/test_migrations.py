"""Graphs of every format: read as they are, stepped forward, and read again."""

from pathlib import Path

import lance
import pytest

from omnigraph.commit.compat.migrate import migrate
from omnigraph.commit.manifest.base import Bases, manifest_ref, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.stamp import CURRENT, read_stamp
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import open_graph, open_in
from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import IDENTITY
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Landed, Mark, Refused, ScanRequest
from omnigraph.testing.faults import (
    OBJECT_WRITES,
    SINGLE_STEP_WRITES,
    TABLE_WRITES,
    Recorder,
    watch_stores,
)
from omnigraph.testing.invariants import check_graph
from support.folders import read_folder
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
    V4,
    OldGraph,
    Recipe,
    write_old_graph,
)
from support.publishing import lineage_only

OLD = {
    "v1": V1,
    "v2": V2,
    "v3": V3,
    "v1 with a branch": V1_BRANCHED,
    "v2 with a branch": V2_BRANCHED,
    "v3 with a branch": V3_BRANCHED,
}
EVERY_OLD_GRAPH = pytest.mark.parametrize("recipe", OLD.values(), ids=OLD.keys())
BRANCHED = pytest.mark.parametrize(
    "recipe", [V1_BRANCHED, V2_BRANCHED, V3_BRANCHED], ids=["v1", "v2", "v3"]
)

WRITES = {
    *(f"objects.{name}" for name in OBJECT_WRITES),
    *(f"tables.{name}" for name in TABLE_WRITES),
    *(f"tables.single_step.{name}" for name in SINGLE_STEP_WRITES),
}


def stores_of(root: Path) -> Stores:
    return open_stores(str(root), REAL)


def history(graph: Graph, branch: BranchName = MAIN) -> tuple[Commit, ...]:
    """Oldest first."""
    return tuple(reversed(graph.commits(branch)))


def check_every_commit(opened: Graph, written: OldGraph) -> None:
    """Each commit is found by its id, and shows the people there were."""
    for commit in {*written.main, *written.feature}:
        snapshot = opened.snapshot_at_commit(commit.id)
        assert snapshot.commit == commit
        assert snapshot.manifest_version == commit.manifest_version
        assert opened.open_table(snapshot, PERSON).row_count == PEOPLE[commit.id]


@EVERY_OLD_GRAPH
def test_reading_an_old_graph_shows_everything_and_writes_nothing(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    before = read_folder(written.root)
    calls = Recorder()
    opened = open_in(watch_stores(stores_of(written.root), calls), Mode.READ_ONLY)

    assert history(opened) == written.main
    assert opened.snapshot().commit == written.main[-1]
    if written.feature:
        assert history(opened, FEATURE) == written.feature
        assert opened.snapshot(FEATURE).commit == written.feature[-1]
    check_every_commit(opened, written)

    assert "tables.read" in calls.calls
    assert WRITES.isdisjoint(calls.calls)
    assert read_folder(written.root) == before


@EVERY_OLD_GRAPH
def test_opening_an_old_graph_for_writing_steps_main_forward(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    opened = open_graph(str(written.root))
    stores = stores_of(written.root)

    assert read_stamp(read_base(stores, MAIN).handle) == CURRENT
    assert read_base(stores, MAIN).manifest.log.rows.num_rows == len(written.main)
    assert history(opened) == written.main
    check_every_commit(opened, written)
    # The branch has no head row yet, as long as it is old.
    assert [each for each in check_graph(stores) if each.branch == MAIN] == []
    assert opened.branches() == ((MAIN, FEATURE) if recipe.has_branch else (MAIN,))


@EVERY_OLD_GRAPH
def test_what_was_stepped_forward_is_not_touched_again(tmp_path: Path, recipe: Recipe) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    open_graph(str(written.root))
    before = read_folder(written.root)
    calls = Recorder()
    open_in(watch_stores(stores_of(written.root), calls), Mode.READ_WRITE)
    assert WRITES.isdisjoint(calls.calls)
    assert read_folder(written.root) == before


def test_a_graph_of_the_current_format_is_not_touched(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V4)
    before = read_folder(written.root)
    opened = open_graph(str(written.root))
    assert history(opened) == written.main
    check_every_commit(opened, written)
    after = read_folder(written.root)
    assert after.keys() - before.keys() == {IDENTITY}, "where it is, in case it is moved (D33)"
    assert {name: after[name] for name in before} == before
    open_graph(str(written.root))
    assert read_folder(written.root) == after


@BRANCHED
def test_a_branch_stays_old_until_something_is_published_to_it(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    old = read_stamp(stores_of(written.root).tables.open_at(manifest_ref(FEATURE)))
    opened = open_graph(str(written.root))
    stores = stores_of(written.root)

    assert read_stamp(read_base(stores, MAIN).handle) == CURRENT
    assert read_stamp(read_base(stores, FEATURE).handle) == old < CURRENT
    assert history(opened, FEATURE) == written.feature

    main_before = read_base(stores, MAIN).handle.version
    published = publish(stores, Bases(stores), lineage_only(FEATURE))
    (commit,) = published.commits
    assert read_stamp(read_base(stores, FEATURE).handle) == CURRENT
    assert commit.parent == written.feature[-1].id
    assert history(opened, FEATURE) == (*written.feature, commit)
    assert opened.snapshot_at_commit(commit.id).manifest_version == commit.manifest_version
    assert read_base(stores, MAIN).handle.version == main_before
    check_every_commit(opened, written)
    assert check_graph(stores) == []


@EVERY_OLD_GRAPH
def test_the_first_publish_after_stepping_forward_descends_from_the_old_head(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    opened = open_graph(str(written.root))
    stores = stores_of(written.root)
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits
    assert commit.parent == written.main[-1].id
    assert history(opened) == (*written.main, commit)
    check_every_commit(opened, written)
    assert [each for each in check_graph(stores) if each.branch == MAIN] == []


def test_a_publish_steps_a_branch_forward_that_nobody_opened_for_writing(tmp_path: Path) -> None:
    """Publishing needs no opened graph; the stores will do."""
    written = write_old_graph(tmp_path / "g", V1)
    stores = stores_of(written.root)
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits
    assert commit.parent == written.main[-1].id
    assert check_graph(stores) == []


@pytest.mark.parametrize("recipe", [V2, V2_BRANCHED], ids=["alone", "with a branch"])
def test_branches_that_stood_for_runs_are_gone_afterwards(tmp_path: Path, recipe: Recipe) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    assert len(open_graph(str(written.root), mode=Mode.READ_ONLY).branches()) > 2
    opened = open_graph(str(written.root))
    assert not [name for name in opened.branches() if name.startswith("__run__")]
    assert not list((written.root / "__manifest" / "tree").glob("__run__*/_versions/*"))


def test_runs_that_came_from_runs_are_gone_too(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V2)
    run = BranchName(V2.runs[0])
    lance.dataset(str(written.root / "__manifest" / "tree" / run)).create_branch("__run__child", 6)
    opened = open_graph(str(written.root))
    assert opened.branches() == (MAIN,)


def test_a_run_that_a_branch_came_from_stays(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V2)
    run = BranchName(V2.runs[0])
    lance.dataset(str(written.root / "__manifest" / "tree" / run)).create_branch("kept", 6)
    opened = open_graph(str(written.root))
    assert opened.branches() == (MAIN, run, "kept")


def test_somebodys_branch_that_is_called_like_a_run_outlives_a_late_migration(
    tmp_path: Path,
) -> None:
    written = write_old_graph(tmp_path / "g", V2_BRANCHED)
    opened = open_graph(str(written.root))
    mine = opened.create_branch("__run__mine")
    stores = stores_of(written.root)
    publish(stores, Bases(stores), lineage_only(FEATURE))
    assert read_stamp(read_base(stores, FEATURE).handle) == CURRENT
    assert mine in opened.branches()


def test_two_publishers_of_a_manifest_that_got_its_key_later_cannot_both_win(
    tmp_path: Path,
) -> None:
    written = write_old_graph(tmp_path / "g", V1)
    stores = stores_of(written.root)
    base = migrate(stores, read_base(stores, MAIN))
    head = ScanRequest(where="object_id = 'graph_head:main'")
    rows = stores.tables.read(base.handle, head)
    outcomes = [
        stores.tables.single_step.swap_rows(base.handle, rows, key="object_id", mark=Mark(name))
        for name in ("one", "two")
    ]
    assert [type(each) for each in outcomes] == [Landed, Refused]


def test_a_manifest_with_another_key_is_refused(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V1)
    lance.dataset(str(written.root / "__manifest")).update_field_metadata(
        {"object_type": {"lance-schema:unenforced-primary-key": "true"}}
    )
    with pytest.raises(ManifestCorrupt, match="object_type"):
        open_graph(str(written.root))
    stores = stores_of(written.root)
    assert read_stamp(read_base(stores, MAIN).handle) == 1


@pytest.mark.parametrize("recipe", [V3, V4], ids=["v3", "v4"])
def test_the_table_formats_own_cleanup_is_switched_off_before_it_eats_history(
    tmp_path: Path, recipe: Recipe
) -> None:
    """A graph that was made with it, and opened by programs that knew how to skip it."""
    written = write_old_graph(tmp_path / "g", recipe)
    manifest = lance.dataset(str(written.root / "__manifest"))
    # Due at the next commit, whatever it is; this one only says so.
    due = str(manifest.version + 2)
    manifest.update_config(
        {"lance.auto_cleanup.interval": due, "lance.auto_cleanup.older_than": "0s"}
    )
    opened = open_graph(str(written.root))
    stores = stores_of(written.root)
    publish(stores, Bases(stores), lineage_only())
    check_every_commit(opened, written)
    config = lance.dataset(str(written.root / "__manifest")).config()
    assert config == {"table_version_management": "true"}


def test_a_graph_without_any_commit_is_stamped_all_the_same(tmp_path: Path) -> None:
    """The old table of commits is gone with everything in it; there is nothing to move."""
    written = write_old_graph(tmp_path / "g", V3)
    for name in ("_graph_commits.lance", "_graph_commit_actors.lance"):
        for file in sorted((written.root / name).rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
    opened = open_graph(str(written.root))
    stores = stores_of(written.root)
    assert read_stamp(read_base(stores, MAIN).handle) == CURRENT
    assert opened.commits() == ()
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits
    assert commit.parent is None
