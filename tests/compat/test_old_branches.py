"""Branches of old graphs, and the old table of commits that is branched with them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from omnigraph.commit.compat.migrate import migrate
from omnigraph.commit.manifest.base import Bases, manifest_ref, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.stamp import CURRENT, read_stamp
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.errors import BranchExists, TableCorrupt
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import LEASES, LEGACY_COMMITS, MANIFEST
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import ScanRequest, TableRef
from omnigraph.testing.invariants import check_graph
from support.folders import read_folder
from support.old_graphs import (
    FEATURE,
    FIRST,
    GENESIS,
    PEOPLE,
    PERSON,
    SCHEMA,
    SECOND,
    SIDE,
    THIRD,
    V1,
    V1_BRANCHED,
    V2,
    V3,
    V3_BRANCHED,
    V4,
    Recipe,
    write_old_graph,
)
from support.publishing import lineage_only

EVERY_FORMAT = pytest.mark.parametrize("recipe", [V1, V2, V3, V4], ids=["v1", "v2", "v3", "v4"])


def stores_of(root: Path) -> Stores:
    return open_stores(str(root), REAL)


def history(graph: Graph, branch: BranchName = MAIN) -> tuple[Commit, ...]:
    return tuple(reversed(graph.commits(branch)))


def ids_of(commits: Sequence[Commit]) -> list[str]:
    return [each.id for each in commits]


def old_branches(root: Path) -> list[str]:
    """The branches of the old table of commits."""
    return [each.name for each in stores_of(root).tables.find_branches(LEGACY_COMMITS)]


# ── branches that start in the past ──────────────────────────────────────────────────────────────


@EVERY_FORMAT
def test_a_branch_that_starts_in_the_past_shows_and_keeps_only_the_history_until_then(
    tmp_path: Path, recipe: Recipe
) -> None:
    """Stepping it forward takes versions whose numbers later commits of main bear."""
    written = write_old_graph(tmp_path / "g", recipe)
    opened = open_graph(str(written.root))
    past = opened.create_branch("past", commit_id=FIRST)
    until = written.main[:2]
    stores = stores_of(written.root)

    assert ids_of(until) == [GENESIS, FIRST]
    assert history(opened, past) == until
    assert read_stamp(read_base(stores, past).handle) == int(recipe.stamp or 1)

    (commit,) = publish(stores, Bases(stores), lineage_only(past)).commits
    assert commit.parent == FIRST
    assert read_stamp(read_base(stores, past).handle) == CURRENT
    assert history(opened, past) == (*until, commit)
    assert opened.open_table(opened.snapshot(past), PERSON).row_count == PEOPLE[FIRST]
    assert check_graph(stores) == []


@EVERY_FORMAT
def test_a_branch_may_start_at_genesis_which_no_program_stamped(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    opened = open_graph(str(written.root))
    first = opened.create_branch("first", commit_id=GENESIS)
    stores = stores_of(written.root)
    assert read_stamp(read_base(stores, first).handle) == 1
    assert history(opened, first) == written.main[:1]
    (commit,) = publish(stores, Bases(stores), lineage_only(first)).commits
    assert history(opened, first) == (written.main[0], commit)
    assert check_graph(stores) == []


def test_a_branch_of_an_old_branch_shares_what_both_of_them_came_from(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V1_BRANCHED)
    opened = open_graph(str(written.root))
    child = opened.create_branch("child", source=FEATURE)
    late = opened.create_branch("late", commit_id=SECOND)
    grandchild = opened.create_branch("grandchild", source=late)
    stores = stores_of(written.root)

    assert ids_of(history(opened, child)) == [GENESIS, FIRST, SECOND, SIDE]
    for branch in (late, grandchild):
        assert ids_of(history(opened, branch)) == [GENESIS, FIRST, SECOND]
    for branch in (grandchild, child, late):
        before = history(opened, branch)
        (commit,) = publish(stores, Bases(stores), lineage_only(branch)).commits
        assert history(opened, branch) == (*before, commit)
    assert history(opened, FEATURE) == written.feature


def test_a_branch_gets_a_head_row_of_its_own_though_it_has_no_commit_of_its_own(
    tmp_path: Path,
) -> None:
    """Publishers contend for that row and no other."""
    written = write_old_graph(tmp_path / "g", V3)
    stores = stores_of(written.root)
    one = BranchName("one")
    stores.tables.fork(stores.tables.open_at(manifest_ref(MAIN)), one)
    base = migrate(stores, read_base(stores, one))
    rows = stores.tables.read(base.handle, ScanRequest(where="object_type = 'graph_head'"))
    assert rows["object_id"].to_pylist() == ["graph_head:one"]
    head = {"head_commit_id": THIRD, "parent_commit_id": SECOND}
    assert [json.loads(text or "") for text in rows["metadata"].to_pylist()] == [head]


def test_a_branch_made_after_main_stepped_forward_is_of_the_current_format(
    tmp_path: Path,
) -> None:
    written = write_old_graph(tmp_path / "g", V1)
    opened = open_graph(str(written.root))
    fresh = opened.create_branch("fresh")
    assert read_stamp(read_base(stores_of(written.root), fresh).handle) == CURRENT
    assert history(opened, fresh) == written.main


# ── the copies of branches on the old table (D12) ────────────────────────────────────────────────


@pytest.mark.parametrize("recipe", [V1, V3, V3_BRANCHED], ids=["v1", "v3", "v3 with a branch"])
def test_making_and_deleting_branches_is_mirrored_on_the_old_table(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    opened = open_graph(str(written.root))
    before = old_branches(written.root)
    one = opened.create_branch("one")
    two = opened.create_branch("deep/two", source=one)
    assert sorted(old_branches(written.root)) == sorted([*before, one, two])
    mirrored = stores_of(written.root).tables.find_branch(LEGACY_COMMITS, two)
    assert mirrored is not None
    assert mirrored.parent == one

    opened.delete_branch(two)
    assert sorted(old_branches(written.root)) == sorted([*before, one])
    opened.delete_branch(one)
    assert old_branches(written.root) == before


def test_what_is_left_of_an_older_branch_of_that_name_does_not_become_its_history(
    tmp_path: Path,
) -> None:
    written = write_old_graph(tmp_path / "g", V3_BRANCHED)
    stores = stores_of(written.root)
    stores.tables.clear_branch(MANIFEST, FEATURE)
    assert old_branches(written.root) == [FEATURE]
    opened = open_graph(str(written.root))
    opened.create_branch(FEATURE, commit_id=FIRST)
    assert history(opened, FEATURE) == written.main[:2]


def test_a_branch_that_could_not_be_made_is_not_mirrored(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V3_BRANCHED)
    opened = open_graph(str(written.root))
    before = read_folder(written.root)
    with pytest.raises(BranchExists):
        opened.create_branch(FEATURE)
    after = read_folder(written.root)
    assert {key: each for key, each in after.items() if not key.startswith(LEASES)} == before


def test_a_graph_without_the_old_table_never_gets_it(tmp_path: Path) -> None:
    opened = create(str(tmp_path / "g"), SCHEMA)
    opened.create_branch("one")
    opened.delete_branch("one")
    assert not (tmp_path / "g" / LEGACY_COMMITS).exists()


# ── old branches whose part of the old table is missing ──────────────────────────────────────────


def remove_copy(root: Path, branch: BranchName) -> None:
    stores_of(root).tables.clear_branch(LEGACY_COMMITS, branch)


def test_a_branch_that_published_nothing_needs_no_copy(tmp_path: Path) -> None:
    """Whoever made it died between the two tables."""
    written = write_old_graph(tmp_path / "g", V1)
    stores = stores_of(written.root)
    bare = BranchName("bare")
    stores.tables.fork(stores.tables.open_at(manifest_ref(MAIN)), bare)

    reader = open_graph(str(written.root), mode=Mode.READ_ONLY)
    assert history(reader, bare) == written.main
    opened = open_graph(str(written.root))
    assert history(opened, bare) == written.main
    (commit,) = publish(stores, Bases(stores), lineage_only(bare)).commits
    assert history(opened, bare) == (*written.main, commit)
    assert check_graph(stores) == []


@pytest.mark.parametrize("mode", list(Mode))
def test_a_branch_that_published_and_lost_its_copy_is_refused_and_left_alone(
    tmp_path: Path, mode: Mode
) -> None:
    written = write_old_graph(tmp_path / "g", V3_BRANCHED)
    open_graph(str(written.root))
    remove_copy(written.root, FEATURE)
    before = read_folder(written.root)
    opened = open_graph(str(written.root), mode=mode)
    with pytest.raises(TableCorrupt, match="feature"):
        opened.commits(FEATURE)
    stores = stores_of(written.root)
    with pytest.raises(TableCorrupt, match="feature"):
        publish(stores, Bases(stores), lineage_only(FEATURE))
    assert history(opened) == written.main
    assert read_folder(written.root) == before


def test_a_folder_without_a_ref_is_no_copy(tmp_path: Path) -> None:
    """It may be what a deletion left of another branch of that name."""
    written = write_old_graph(tmp_path / "g", V3_BRANCHED)
    (written.root / LEGACY_COMMITS / "_refs" / "branches" / f"{FEATURE}.json").unlink()
    with pytest.raises(TableCorrupt, match="feature"):
        open_graph(str(written.root), mode=Mode.READ_ONLY).commits(FEATURE)


def test_a_branch_of_the_current_format_needs_no_copy_and_neither_do_its_children(
    tmp_path: Path,
) -> None:
    """Its commits are in its manifest. A program that is strict about copies gets the child's."""
    written = write_old_graph(tmp_path / "g", V3)
    opened = open_graph(str(written.root))
    one = opened.create_branch("one")
    stores = stores_of(written.root)
    (commit,) = publish(stores, Bases(stores), lineage_only(one)).commits
    remove_copy(written.root, one)

    assert history(opened, one) == (*written.main, commit)
    two = opened.create_branch("two", source=one)
    assert history(opened, two) == (*written.main, commit)
    assert old_branches(written.root) == [two]
    assert stores.tables.open_at(TableRef(LEGACY_COMMITS, two)).row_count == len(written.main)


def test_losing_the_old_tables_after_stepping_forward_loses_nothing(tmp_path: Path) -> None:
    written = write_old_graph(tmp_path / "g", V3)
    open_graph(str(written.root))
    for name in ("_graph_commits.lance", "_graph_commit_actors.lance"):
        shutil.rmtree(written.root / name)
    opened = open_graph(str(written.root))
    assert history(opened) == written.main
    for commit in written.main:
        snapshot = opened.snapshot_at_commit(commit.id)
        assert opened.open_table(snapshot, PERSON).row_count == PEOPLE[commit.id]
    opened.create_branch("one")
    assert history(opened, BranchName("one")) == written.main
