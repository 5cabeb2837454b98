"""Branches of a graph, and the forks of tables they make."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import NamedTuple

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.branches import fork_table
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.snapshot import describe_table, open_pin
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_in
from omnigraph.engine.settings import Settings
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNameInvalid,
    BranchNotFound,
    CommitNotFound,
    ExpectedVersionMismatch,
    SchemaLocked,
)
from omnigraph.ids import MAIN, SCHEMA_LOCK, BranchName, CommitId, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import BRANCH_REFS, MANIFEST
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, Landed, Mark, TableRef
from support.publishing import new_intent, pin_at
from support.scenes import CLEAN

SCHEMA = "node Person { name: String @key }  node Company { name: String @key }"
PERSON = TableKey("node:Person")
ONE, TWO = BranchName("one"), BranchName("two")


class Opened(NamedTuple):
    stores: Stores
    bases: Bases
    graph: Graph


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    root = str(tmp_path / "g")
    create(root, SCHEMA, settings=Settings(durability=Durability.RELAXED))
    return reopen(root)


def reopen(root: str) -> Opened:
    stores = open_stores(root, REAL, durability=Durability.RELAXED)
    return Opened(stores, Bases(stores), open_in(stores, Mode.READ_WRITE))


def fork(opened: Opened, branch: BranchName, seen_on: BranchName = MAIN) -> Handle:
    """Fork the table of persons for a branch, as another branch shows it."""
    stores, bases, _ = opened
    source = open_pin(stores, bases.current(seen_on).manifest.pins[PERSON])
    return fork_table(stores, bases, PERSON, branch, source)


def write(opened: Opened, branch: BranchName, name: str) -> Published:
    """Add a person to a branch, as a writer would: fork if need be, append, publish."""
    stores, bases, _ = opened
    pin = bases.current(branch).manifest.pins[PERSON]
    base = open_pin(stores, pin) if pin.owner == branch else fork(opened, branch, branch)
    rows = pa.table({"id": [name], "name": [name]}, schema=base.schema)
    mark = Mark(stores.effects.new_id())
    landed = stores.tables.commit_exact(stores.tables.stage_append(base, rows, mark))
    assert isinstance(landed, Landed)
    intent = CommitIntent(CommitId(stores.effects.new_id()), stores.effects.now_ms() * 1000)
    update = SetVersion(describe_table(stores, PERSON, landed.handle))
    expected = {PERSON: pin.version}
    return publish(stores, bases, Publication(branch, (intent,), (update,), expected))


def people(opened: Opened, branch: BranchName = MAIN) -> set[str]:
    graph = reopen(opened.graph.uri).graph
    handle = graph.open_table(graph.snapshot(branch), PERSON)
    return {row["id"] for row in opened.stores.tables.read(handle).to_pylist()}


def test_a_branch_starts_as_its_source_and_goes_its_own_way(opened: Opened) -> None:
    write(opened, MAIN, "ada")
    opened.graph.create_branch("one")
    assert people(opened, ONE) == {"ada"}
    write(opened, ONE, "bo")
    write(opened, MAIN, "cy")
    assert people(opened, ONE) == {"ada", "bo"}
    assert people(opened) == {"ada", "cy"}


def test_the_history_of_a_branch_continues_its_sources(opened: Opened) -> None:
    on_main = write(opened, MAIN, "ada").commits[0]
    opened.graph.create_branch("one")
    on_branch = write(opened, ONE, "bo").commits[0]
    assert on_branch.parent == on_main.id
    assert [each.id for each in opened.graph.commits(ONE)][:2] == [on_branch.id, on_main.id]
    assert opened.graph.commits()[0].id == on_main.id


def test_a_branch_is_made_from_a_branch(opened: Opened) -> None:
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    opened.graph.create_branch("two", source=ONE)
    write(opened, TWO, "bo")
    assert people(opened, TWO) == {"ada", "bo"}
    assert people(opened, ONE) == {"ada"}
    assert people(opened) == set()


def test_a_branch_is_made_from_a_commit(opened: Opened) -> None:
    first = write(opened, MAIN, "ada").commits[0]
    write(opened, MAIN, "bo")
    opened.graph.create_branch("one", commit_id=first.id)
    assert people(opened, ONE) == {"ada"}
    assert opened.graph.commits(ONE)[0].id == first.id
    write(opened, ONE, "cy")
    assert people(opened, ONE) == {"ada", "cy"}


def test_a_branch_cannot_be_made_from_nothing(opened: Opened) -> None:
    with pytest.raises(BranchNotFound):
        opened.graph.create_branch("two", source=ONE)
    with pytest.raises(CommitNotFound):
        opened.graph.create_branch("two", commit_id=CommitId("01NONE"))
    assert opened.graph.branches() == (MAIN,)


def test_branches_are_listed_main_first_then_by_name(opened: Opened) -> None:
    for name in ("zoo", "agents/7", "b"):
        opened.graph.create_branch(name)
    assert opened.graph.branches() == ("main", "agents/7", "b", "zoo")


def test_a_name_that_is_taken_is_refused(opened: Opened) -> None:
    opened.graph.create_branch("one")
    for name in ("one", " one ", "main"):
        with pytest.raises(BranchExists):
            opened.graph.create_branch(name)


@pytest.mark.parametrize(
    ("live", "wanted"), [("a", "a/b"), ("a/b", "a"), ("a/b", "a/b/c"), ("a/b/c", "a")]
)
def test_a_name_inside_anothers_path_is_refused(opened: Opened, live: str, wanted: str) -> None:
    opened.graph.create_branch(live)
    with pytest.raises(BranchNameInvalid, match=f"overlaps the branch '{live}'"):
        opened.graph.create_branch(wanted)


def test_names_that_only_look_alike_live_side_by_side(opened: Opened) -> None:
    for name in ("a", "ab", "x/a", "x/ab", "A"):
        opened.graph.create_branch(name)
    for name in opened.graph.branches()[1:]:
        write(opened, name, name.replace("/", "-"))
        assert people(opened, name) == {name.replace("/", "-")}


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "/a", "a/", "a//b", "..", "a..b", "a b", "a@b", "x.lock", "a\\b", SCHEMA_LOCK),
        *(".", "x" * 151, "a/" * 51 + "a"),
    ],
)
def test_names_the_table_format_cannot_hold_are_refused(opened: Opened, name: str) -> None:
    with pytest.raises(BranchNameInvalid):
        opened.graph.create_branch(name)


def test_the_schema_lock_is_no_branch_and_stops_branch_work(opened: Opened) -> None:
    opened.graph.create_branch("one")
    main = opened.stores.tables.open_at(TableRef(MANIFEST))
    opened.stores.tables.fork(main, SCHEMA_LOCK)
    assert opened.graph.branches() == ("main", "one")
    with pytest.raises(SchemaLocked):
        opened.graph.create_branch("two")
    with pytest.raises(SchemaLocked):
        opened.graph.delete_branch("one")


def test_a_deleted_branch_is_gone_with_its_forks(opened: Opened) -> None:
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    path = opened.graph.snapshot(ONE).pins[PERSON].path
    assert opened.graph.delete_branch("one").forks_left == ()
    assert opened.graph.branches() == (MAIN,)
    assert opened.stores.tables.find_branches(path) == ()
    with pytest.raises(BranchNotFound):
        opened.graph.snapshot(ONE)
    with pytest.raises(BranchNotFound):
        opened.graph.delete_branch("one")


def test_main_cannot_be_deleted(opened: Opened) -> None:
    with pytest.raises(BranchNameInvalid, match="main"):
        opened.graph.delete_branch("main")


def test_a_branch_that_others_came_from_cannot_be_deleted(opened: Opened) -> None:
    opened.graph.create_branch("one")
    opened.graph.create_branch("two", source=ONE)
    with pytest.raises(BranchInUse) as caught:
        opened.graph.delete_branch("one")
    assert caught.value.users == ("two",)
    opened.graph.delete_branch("two")
    opened.graph.delete_branch("one")


def test_a_name_made_again_is_another_branch(opened: Opened) -> None:
    """Old rows do not return, and no cache mistakes the new branch for the old one."""
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    version = opened.graph.snapshot(ONE).manifest_version
    other = reopen(opened.graph.uri)
    other.graph.delete_branch("one")
    other.graph.create_branch("one")
    write(other, ONE, "bo")
    assert other.graph.snapshot(ONE).manifest_version == version
    seen = opened.graph.snapshot(ONE)
    handle = opened.graph.open_table(seen, PERSON)
    assert opened.stores.tables.read(handle)["id"].to_pylist() == ["bo"]


def test_a_fork_nobody_names_is_reclaimed_by_the_next_first_write(opened: Opened) -> None:
    opened.graph.create_branch("one")
    orphan = fork(opened, ONE)
    rows = pa.table({"id": ["ghost"], "name": ["ghost"]}, schema=orphan.schema)
    mark = Mark(opened.stores.effects.new_id())
    opened.stores.tables.commit_exact(opened.stores.tables.stage_append(orphan, rows, mark))
    write(opened, ONE, "ada")
    assert people(opened, ONE) == {"ada"}


def test_a_table_the_branch_owns_by_now_is_not_forked_again(opened: Opened) -> None:
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    with pytest.raises(ExpectedVersionMismatch):
        fork(opened, ONE)
    assert people(opened, ONE) == {"ada"}


def test_a_branch_whose_fork_another_one_shows_is_not_deleted(opened: Opened) -> None:
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    opened.graph.create_branch("two", source=ONE)
    assert opened.graph.snapshot(TWO).pins[PERSON].owner == ONE
    with pytest.raises(BranchInUse):
        opened.graph.delete_branch("one")
    assert people(opened, TWO) == {"ada"}


def test_a_fork_another_branch_shows_is_never_reclaimed(opened: Opened) -> None:
    """Its branch shows main's table again, as another program may leave it; a child does not."""
    opened.graph.create_branch("one")
    write(opened, ONE, "ada")
    opened.graph.create_branch("two", source=ONE)
    back = pin_at(PERSON, opened.graph.snapshot(ONE).pins[PERSON].version + 1, owner=MAIN)
    publish(opened.stores, opened.bases, Publication(ONE, (new_intent(),), (back,)))
    with pytest.raises(BranchInUse, match="two"):
        fork(opened, ONE)
    assert people(opened, TWO) == {"ada"}


def test_the_remains_of_a_branch_creation_that_died_are_no_obstacle(opened: Opened) -> None:
    root = Path(opened.graph.uri)
    opened.graph.create_branch("one")
    (root / MANIFEST / "_refs" / "branches" / "one.json").unlink()
    fresh = reopen(opened.graph.uri)
    assert fresh.graph.branches() == (MAIN,)
    fresh.graph.create_branch("one")
    assert people(fresh, ONE) == set()


def test_snapshots_are_found_by_commit_and_by_version(opened: Opened) -> None:
    commits = [write(opened, MAIN, name).commits[0] for name in ("ada", "bo", "cy")]
    graph = reopen(opened.graph.uri).graph
    for number, commit in enumerate(commits, start=1):
        by_commit = graph.snapshot_at_commit(commit.id)
        by_version = graph.snapshot_at_version(MAIN, commit.manifest_version)
        assert by_commit == by_version
        assert by_commit.pins[PERSON].row_count == number
        assert by_commit.commit == commit


def test_a_commit_of_any_branch_is_found(opened: Opened) -> None:
    opened.graph.create_branch("one")
    commit = write(opened, ONE, "ada").commits[0]
    graph = omnigraph.open(opened.graph.uri)
    assert graph.commit(commit.id) == commit
    assert graph.snapshot(commit=commit.id).pins[PERSON].row_count == 1
    with pytest.raises(CommitNotFound):
        graph.commit("01NONE")


def test_a_snapshot_once_taken_never_moves(opened: Opened) -> None:
    write(opened, MAIN, "ada")
    taken = opened.graph.snapshot()
    write(opened, MAIN, "bo")
    handle = opened.graph.open_table(taken, PERSON)
    assert opened.stores.tables.read(handle)["id"].to_pylist() == ["ada"]


def test_those_who_make_one_branch_at_once_have_one_winner_and_what_it_asked_for(
    tmp_path: Path,
) -> None:
    root = tmp_path / "g"
    graph = omnigraph.init(root, SCHEMA)
    graph.branches.create("other")
    for source in ("main", "other"):
        graph.insert("Person", [{"name": source}], branch=source)
    makers = [omnigraph.open(root) for _ in range(4)]
    everybody = "query q() { match { $p: Person } return { $p.name } }"

    def make(number: int) -> str | None:
        source = ("main", "other")[number % 2]
        together.wait()
        try:
            makers[number].branches.create(name, source=source)
        except BranchExists:
            return None
        return source

    with ThreadPoolExecutor(4) as threads:
        for name in ("a", "b", "c", "d", "e", "f", "g", "h"):
            together = Barrier(4)
            (winner,) = [each for each in threads.map(make, range(4)) if each is not None]
            assert [*graph.query(everybody, branch=name).rows()] == [{"p.name": winner}]
            graph.branches.delete(name)


def test_a_process_remembers_a_bounded_number_of_branches_and_answers_for_all(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.commit.manifest.base.BASES_KEPT_MAX", 2)
    bases = Bases(opened.stores)
    names = [BranchName(f"branch-{number}") for number in range(4)]
    for name in names:
        opened.graph.create_branch(name)
        assert bases.current(name).manifest.branch == name
    assert [name for name in names if bases.known(name) is not None] == names[2:]
    assert bases.current(names[0]).manifest.branch == names[0]
    assert bases.known(names[3]) is not None
    assert bases.known(names[2]) is None, "the branch that was not used for the longest time"


def test_a_ref_that_was_never_finished_is_no_branch(opened: Opened) -> None:
    """Found by the mixed storm. Lance writes a ref beside its place and renames it; a process that
    was killed in between left a branch that could neither be opened nor deleted.
    """
    _, _, graph = opened
    graph.create_branch(ONE)
    refs = Path(graph.uri, MANIFEST, BRANCH_REFS)
    left = refs / f"two.json.tmp.{'0a' * 16}"
    left.write_bytes((refs / "one.json").read_bytes())
    (refs / "notes.txt").write_text("of another program")
    assert set(graph.branches()) == {MAIN, ONE}
    assert graph.examine() == []
    graph.create_branch(TWO)
    graph.delete_branch(ONE)
    graph.cleanup(CLEAN)
    assert set(graph.branches()) == {MAIN, TWO}
    assert not left.exists(), "cleanup removes it"
