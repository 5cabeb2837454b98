"""Several processes meet at one old graph."""

from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.stamp import CURRENT, read_stamp
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.testing.invariants import check_graph
from support.old_graphs import (
    FEATURE,
    V1,
    V1_BRANCHED,
    V2,
    V3,
    Recipe,
    write_old_graph,
)
from support.processes import launch, race, values_of
from support.publishing import Place, lineage_only

RUNNERS = 4


def open_and_list(place: Place) -> tuple[CommitId, ...]:
    opened = open_in(place.open(), Mode.READ_WRITE)
    return tuple(each.id for each in reversed(opened.commits()))


def open_and_publish(place: Place, branch: BranchName) -> CommitId:
    stores = place.open()
    open_in(stores, Mode.READ_WRITE)
    (commit,) = publish(stores, Bases(stores), lineage_only(branch)).commits
    return commit.id


@pytest.mark.parametrize("recipe", [V1, V2, V3], ids=["v1", "v2", "v3"])
def test_processes_that_open_an_old_graph_at_once_all_find_it_stepped_forward(
    tmp_path: Path, recipe: Recipe
) -> None:
    written = write_old_graph(tmp_path / "g", recipe)
    place = Place(str(written.root))
    answers = values_of(race([launch(open_and_list, place) for _ in range(RUNNERS)]))

    assert set(answers) == {tuple(each.id for each in written.main)}
    stores = place.open()
    base = read_base(stores, MAIN)
    assert read_stamp(base.handle) == CURRENT
    assert base.manifest.log.commits == written.main
    assert check_graph(stores) == []
    assert open_in(stores, Mode.READ_ONLY).branches() == (MAIN,)


@pytest.mark.parametrize("branch", [MAIN, FEATURE])
def test_processes_that_publish_to_an_old_branch_at_once_all_get_through(
    tmp_path: Path, branch: BranchName
) -> None:
    written = write_old_graph(tmp_path / "g", V1_BRANCHED)
    place = Place(str(written.root))
    published = values_of(race([launch(open_and_publish, place, branch) for _ in range(RUNNERS)]))

    stores = place.open()
    before = written.main if branch == MAIN else written.feature
    commits = read_base(stores, branch).manifest.log.commits
    assert commits[: len(before)] == before
    assert {each.id for each in commits[len(before) :]} == set(published)
    assert [each for each in check_graph(stores) if each.branch == branch] == []
