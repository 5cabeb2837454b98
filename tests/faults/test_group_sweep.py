"""Die at every single write of a group, and at every single write of its recovery.

A group is recovered as a whole: all of its members are in the history in their order, or none is;
the recovery names every member; nothing is left over, and the next writer works.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.groups import read_touched
from omnigraph.commit.recovery.audit import decode_recovery
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.recovery_commit import ACTOR
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.ids import MAIN, BranchName
from omnigraph.pipeline.local_load import LocalLoader
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support import breaking
from support.breaking import (
    LINK,
    PAIR,
    UPDATE,
    BreakableGraph,
    check_lasting,
    check_whole,
    open_mortal,
    populate,
)
from support.folders import put_back, read_folder
from support.grouping import Busy
from support.writing import (
    COMPANY,
    PERSON,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
    write_group,
)

SIDE = BranchName("side")
THREE = ("a", "b", "c")
ACTORS = [f"writer of {name}" for name in THREE]


def prepare(root: Path, branch: BranchName) -> None:
    graph = new_graph(root)
    write(mortal_bench(stores_at(root)), "first")
    if branch != MAIN:
        graph.create_branch(branch)


def dies(root: Path, branch: BranchName, step: int, when: When) -> bool:
    stores = watch_stores(stores_at(root), CrashAt(step, when))
    try:
        write_group(mortal_bench(stores), THREE, branch=branch)
    except Crash:
        return True
    return False


def check(root: Path, branch: BranchName) -> bool:
    """Everything that must hold, and whether the group is there."""
    stores = stores_at(root)
    assert find_sidecars(stores.objects) == ()
    assert check_graph(stores) == []
    people = names_in(root, PERSON, branch)
    assert people == names_in(root, COMPANY, branch), "half a group is visible"
    commits = Bases(stores).current(branch).manifest.log.commits
    members = [each for each in commits if each.extension.group is not None]
    recoveries = [decode_recovery(each) for each in commits if each.actor == ACTOR]
    assert all([m.actor for m in each.members] == ACTORS for each in recoveries)
    if not members:
        assert people == {"first"}
        return False
    assert people == {"first", *THREE}
    assert [each.actor for each in members] == ACTORS
    places = [each.extension.group for each in members if each.extension.group is not None]
    assert [(each.index, each.size) for each in places] == [(0, 3), (1, 3), (2, 3)]
    assert len({each.id for each in places}) == len({each.manifest_version for each in members})
    assert [each.parent for each in members[1:]] == [each.id for each in members[:2]]
    touched = [read_touched(stores.objects, each) for each in members]
    assert [each and each[PERSON][0] for each in touched] == list(THREE)
    return True


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("when", When)
def test_a_crash_anywhere_leaves_the_whole_group_or_none_of_it(
    tmp_path: Path, when: When, branch: BranchName
) -> None:
    seen = set()
    for step in count(1):
        root = tmp_path / str(step)
        prepare(root, branch)
        if not dies(root, branch, step, when):
            assert check(root, branch)
            break
        heal(mortal_bench(stores_at(root)))
        seen.add(check(root, branch))
        write(mortal_bench(stores_at(root)), "next", branch=branch)
        assert "next" in names_in(root, PERSON, branch)
    assert seen == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("when", When)
def test_the_recovery_of_a_group_may_die_anywhere_too(tmp_path: Path, when: When) -> None:
    for step in count(1, 2 * STRIDE):
        for again in count(1, 2 * STRIDE):
            root = tmp_path / f"{step}-{again}"
            prepare(root, MAIN)
            if not dies(root, MAIN, step, when):
                return
            stores = watch_stores(stores_at(root), CrashAt(again, when))
            try:
                heal(mortal_bench(stores))
            except Crash:
                heal(mortal_bench(stores_at(root)))
                check(root, MAIN)
            else:
                check(root, MAIN)
                break


# ── through the queue ────────────────────────────────────────────────────────────────────────────

ASKS = (PAIR, UPDATE, LINK)
"""Three tables, one of which two members write; a row that is replaced; an edge."""


LINES = (
    '{"type": "Person", "data": {"name": "carl", "age": 51}}',
    '{"type": "Person", "data": {"name": "fay", "age": 1}}',
    '{"edge": "Works", "from": "fay", "to": "acme"}',
)
"""What a load writes: a row that is replaced, a new one, and an edge of it."""


def ask_together(graph: BreakableGraph, source: Path) -> None:
    """Three real writes and a small load that arrive while their branch is busy."""
    request = LoadRequest([str(source)], LoadMode.MERGE, actor="loader")
    asks: list[Callable[[], object]] = [partial(graph.ask, each) for each in ASKS]
    asks.append(partial(graph.load, request, LocalLoader()))
    answers = Busy(graph).run(asks)
    for each in answers:
        each.result()


@pytest.mark.parametrize("when", When)
def test_callers_that_die_together_leave_all_of_their_writes_or_none(
    tmp_path: Path, when: When
) -> None:
    root, source = tmp_path / "g", tmp_path / "people.jsonl"
    source.write_text("\n".join(LINES))
    populate(root)
    before, files = breaking.read_content(root), read_folder(root)
    ask_together(open_mortal(root), source)
    after = breaking.read_content(root)
    seen = set()
    for step in count(1, STRIDE):
        put_back(root, files)
        graph = open_mortal(root, CrashAt(step, when))
        try:
            ask_together(graph, source)
        except Crash:
            pass
        else:
            break
        heal(open_mortal(root).context)
        seen.add(check_whole(root, (before, after)))
        commits = Bases(stores_at(root)).current(MAIN).manifest.log.commits
        assert len([each for each in commits if each.extension.group is not None]) in {0, 4}
        check_lasting(root)
    assert 0 in seen
    assert STRIDE > 1 or 1 in seen
