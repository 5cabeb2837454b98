"""Making and opening graphs: what a failed, killed, raced or forced init leaves behind."""

import json
from pathlib import Path
from threading import Barrier, Thread

import pytest

import omnigraph
from omnigraph.commit.manifest.create import NewTable, clear_remains, create_graph
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import open_in, tables_of
from omnigraph.errors import (
    CorruptionError,
    GraphExists,
    GraphIncomplete,
    GraphNotFound,
    OpenedReadOnly,
    SchemaFilesInvalid,
    SchemaInvalid,
    StorageFailure,
)
from omnigraph.ids import BranchName
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.failpoints import Trigger, crash, fail, kill
from omnigraph.testing.faults import (
    Crash,
    CrashAt,
    FailAt,
    Recorder,
    When,
    sweep,
    watch_stores,
)
from support.breaking import SCHEMA as BROKEN_SCHEMA
from support.failpoints import FAILPOINTS, Failpoint, Story, points_of
from support.processes import Died, launch, race

SCHEMA = """
node Person { name: String @key  age: I32? @index }
node Company { name: String @key }
edge WorksAt: Person -> Company { since: Date? }
"""
OTHER_SCHEMA = "node Planet { name: String @key }"


def stores_at(path: Path) -> Stores:
    return open_stores(str(path), REAL, durability=Durability.RELAXED)


def tables(schema: str = SCHEMA) -> list[NewTable]:
    return tables_of(compile_active_schema(schema, name="s").catalog)


def make(stores: Stores, schema: str = SCHEMA) -> None:
    create_graph(
        stores, compile_active_schema(schema, name="s").files(), tables(schema), actor=None
    )


def files_below(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def test_a_new_graph_shows_every_table_empty_in_one_commit(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, actor="ada")
    shown = graph.snapshot()
    assert {key: (pin.version, pin.row_count) for key, pin in shown.pins.items()} == {
        "edge:WorksAt": (1, 0),
        "node:Company": (1, 0),
        "node:Person": (1, 0),
    }
    (genesis,) = graph.commits()
    assert (genesis.parent, genesis.actor, genesis.manifest_version) == (None, "ada", 1)
    assert shown.commit == genesis


def test_the_files_are_where_the_format_says(tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA)
    found = {path.split("/_")[0] for path in files_below(tmp_path / "g")}
    assert {"nodes/40d76f1f51639ec0", "nodes/7cb4e55c59663b1c", "edges/844eefbe5068b644"} <= found
    assert (tmp_path / "g" / "_schema.pg").read_text() == SCHEMA
    state = json.loads((tmp_path / "g" / "__schema_state.json").read_text())
    assert state == {
        "format_version": 1,
        "schema_ir_hash": (
            "sha256:1c4bd35e7d492ee26da2b67b07cf64b9e3829d9abf4a4203563469a763bbe40a"
        ),
        "schema_identity_version": 1,
    }


def test_a_schema_that_is_wrong_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid):
        omnigraph.init(tmp_path / "g", "node person {}")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("force", [False, True])
def test_an_existing_graph_is_never_harmed(tmp_path: Path, *, force: bool) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA)
    before = files_below(tmp_path / "g")
    with pytest.raises(GraphExists):
        omnigraph.init(tmp_path / "g", OTHER_SCHEMA, force=force)
    assert files_below(tmp_path / "g") == before


@pytest.mark.parametrize("when", When)
def test_an_init_that_is_killed_anywhere_can_be_cleared_and_done_again(
    tmp_path: Path, when: When
) -> None:
    roots = (tmp_path / str(number) for number in range(1000))
    tried: list[Path] = []

    def run(fault: CrashAt) -> None:
        tried.append(next(roots))
        make(watch_stores(stores_at(tried[-1]), fault))

    for fault in sweep(when, run):
        stores = stores_at(tried[-1])
        try:
            graph = open_in(stores, Mode.READ_WRITE)
        except (GraphNotFound, GraphIncomplete):
            assert fault.dead
            clear_remains(stores, tables())
            assert files_below(tried[-1]) == {}
            make(stores)
            graph = open_in(stores, Mode.READ_WRITE)
        assert len(graph.commits()) == 1
    assert len(tried) > 8


def test_an_init_that_fails_takes_itself_back(tmp_path: Path) -> None:
    """An error, unlike a death, leaves time to clean up: whatever call it comes from."""
    writes = Recorder()
    make(watch_stores(stores_at(tmp_path / "whole"), writes))
    for number in range(len(writes.writes)):
        root = tmp_path / str(number)
        with pytest.raises(StorageFailure):
            make(watch_stores(stores_at(root), FailAt(number + 1)))
        assert files_below(root) == {}
        assert len(make_and_open(root).commits()) == 1


def make_and_open(root: Path) -> Graph:
    make(stores_at(root))
    return open_in(stores_at(root), Mode.READ_WRITE)


def test_the_remains_of_a_killed_init_are_named_and_cleared_by_force(tmp_path: Path) -> None:
    root = tmp_path / "g"
    with pytest.raises(Crash):
        make(watch_stores(stores_at(root), CrashAt(4, When.AFTER)))
    with pytest.raises(GraphIncomplete, match="--force"):
        omnigraph.init(root, SCHEMA)
    with pytest.raises(GraphIncomplete):
        omnigraph.open(root)
    assert omnigraph.init(root, SCHEMA, force=True).commits()


@pytest.mark.parametrize("name", points_of(Story.INIT))
def test_an_init_that_dies_at_a_failpoint_is_done_or_can_be_done_again_by_force(
    tmp_path: Path, name: str
) -> None:
    trigger = Trigger(FAILPOINTS[name].at, crash)
    with pytest.raises(Crash):
        make(watch_stores(stores_at(tmp_path / "g"), trigger), BROKEN_SCHEMA)
    check_begun(FAILPOINTS[name], tmp_path / "g")


@pytest.mark.slow
@pytest.mark.parametrize("name", points_of(Story.INIT))
def test_an_init_that_is_killed_at_a_failpoint_is_done_or_can_be_done_again_by_force(
    tmp_path: Path, name: str
) -> None:
    (outcome,) = race([launch(init_to_death, tmp_path / "g", name)])
    assert isinstance(outcome, Died), outcome
    assert outcome.exit_code == -9, outcome.report
    check_begun(FAILPOINTS[name], tmp_path / "g")


def init_to_death(root: Path, name: str) -> None:
    """For a process of its own."""
    make(watch_stores(stores_at(root), Trigger(FAILPOINTS[name].at, kill)), BROKEN_SCHEMA)


def check_begun(point: Failpoint, root: Path) -> None:
    if point.is_done:
        assert len(omnigraph.open(root).commits()) == 1
        with pytest.raises(GraphExists):
            omnigraph.init(root, BROKEN_SCHEMA, force=True)
        return
    with pytest.raises(GraphIncomplete):
        omnigraph.open(root)
    with pytest.raises(GraphIncomplete, match="--force"):
        omnigraph.init(root, BROKEN_SCHEMA)
    assert omnigraph.init(root, BROKEN_SCHEMA, force=True).commits()


@pytest.mark.parametrize("name", points_of(Story.INIT))
def test_a_store_that_fails_at_a_failpoint_of_init_leaves_nothing_or_a_graph(
    tmp_path: Path, name: str
) -> None:
    point, root = FAILPOINTS[name], tmp_path / "g"
    with pytest.raises(StorageFailure, match="the test said so"):
        make(watch_stores(stores_at(root), Trigger(point.at, fail)), BROKEN_SCHEMA)
    if not point.is_done:
        assert files_below(root) == {}
        omnigraph.init(root, BROKEN_SCHEMA)
    assert len(omnigraph.open(root).commits()) == 1


def test_one_of_many_who_init_at_once_makes_the_graph(tmp_path: Path) -> None:
    start = Barrier(6)
    outcomes: list[str] = []

    def attempt(number: int) -> None:
        start.wait()
        try:
            omnigraph.init(tmp_path / "g", f"node N{number} {{ name: String @key }}")
            outcomes.append(f"N{number}")
        except (GraphExists, GraphIncomplete):
            outcomes.append("")

    threads = [Thread(target=attempt, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    (winner,) = [each for each in outcomes if each]
    assert list(omnigraph.open(tmp_path / "g").snapshot().pins) == [f"node:{winner}"]


def test_where_there_is_nothing_there_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFound, match="omnigraph init"):
        omnigraph.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA).branches.create("b")
    before = files_below(tmp_path / "g")
    calls = Recorder()
    graph = open_in(watch_stores(stores_at(tmp_path / "g"), calls), Mode.READ_ONLY)
    graph.snapshot(BranchName("b"))
    graph.commits()
    with pytest.raises(OpenedReadOnly):
        graph.create_branch("c")
    with pytest.raises(OpenedReadOnly):
        graph.delete_branch("b")
    assert calls.writes == []
    assert files_below(tmp_path / "g") == before


def test_a_graph_without_recorded_hash_gets_one_when_opened_for_writing_only(
    tmp_path: Path,
) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA)
    whole = files_below(root)
    (root / "_schema.ir.json").unlink()
    (root / "__schema_state.json").unlink()
    omnigraph.open(root, read_only=True)
    assert not (root / "__schema_state.json").exists()
    omnigraph.open(root)
    assert files_below(root) == whole


def test_a_graph_without_recorded_hash_but_with_branches_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA).branches.create("b")
    (root / "_schema.ir.json").unlink()
    (root / "__schema_state.json").unlink()
    with pytest.raises(SchemaFilesInvalid, match="branches: b"):
        omnigraph.open(root)


@pytest.mark.parametrize("missing", ["_schema.ir.json", "__schema_state.json", "_schema.pg"])
def test_a_schema_file_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA)
    (tmp_path / "g" / missing).unlink()
    with pytest.raises(SchemaFilesInvalid, match=missing):
        omnigraph.open(tmp_path / "g")


def test_a_source_that_was_edited_is_refused_unless_it_says_the_same(tmp_path: Path) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA)
    (root / "_schema.pg").write_text(f"// our schema\n{SCHEMA}")
    assert omnigraph.open(root).schema_source.startswith("// our schema")
    (root / "_schema.pg").write_text(SCHEMA.replace("age: I32?", "age: I64?"))
    with pytest.raises(SchemaFilesInvalid, match="schema apply"):
        omnigraph.open(root)


@pytest.mark.parametrize(
    "damage", ["", "nonsense", "[]", '{"ir_version": 2}', '{"ir_version":1,"nodes":3}']
)
def test_a_canonical_form_that_is_damaged_is_refused(tmp_path: Path, damage: str) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA)
    (tmp_path / "g" / "_schema.ir.json").write_text(damage)
    with pytest.raises(CorruptionError):
        omnigraph.open(tmp_path / "g")
