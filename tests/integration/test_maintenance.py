"""Keeping a graph in shape: optimize, cleanup, repair, doctor."""

import json
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from omnigraph.cli.app import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lease import DEFAULT_TIMING
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.retention import RetentionPolicy, find_retained
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.maintain.doctor import DoctorFinding, check_tables, examine
from omnigraph.engine.maintain.repair import RepairAction, RepairRequest
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import DriftFound, UsageError, VersionNotFound
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import BlobMode, Mark, ScanRequest, TableRef, TableSettings
from omnigraph.testing.failpoints import At, Pause, Trigger
from support.breaking import open_living, stores_at

SCHEMA = """
node Person { name: String @key  age: I64? @index }
node Doc { name: String @key  body: Blob? }
edge Knows: Person -> Person
"""
PERSON = TableKey("node:Person")
SETTINGS = Settings(durability=Durability.RELAXED, maintenance=False)
Streams = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create(str(tmp_path / "g"), SCHEMA, settings=SETTINGS)
    return tmp_path / "g"


def open_at(root: Path) -> Graph:
    return open_graph(str(root), settings=SETTINGS)


def put(graph: Graph, *names: str, branch: str = "main") -> None:
    rows: list[dict[str, object]] = [{"name": name, "age": len(name)} for name in names]
    order = WriteRequest(BranchName(branch))
    graph.write_rows("Person", rows, existing=Existing.REPLACE, request=order)


def names_of(graph: Graph, commit: str | None = None, branch: str = "main") -> set[str]:

    shown = (
        graph.snapshot(BranchName(branch))
        if commit is None
        else graph.snapshot_at_commit(CommitId(commit))
    )
    rows = graph._stores.tables.read(graph.open_table(shown, PERSON))
    return {str(each) for each in rows["name"].to_pylist()}


def clean(graph: Graph, keep: int = 1, *, debris_age_ms: int = -60_000) -> None:
    """What died a moment ago counts as old here."""
    order = CleanupRequest(RetentionPolicy(keep), is_confirmed=True, debris_age_ms=debris_age_ms)
    result = graph.cleanup(order)
    assert [each.error for each in result.tables if each.error] == []


def check_well(graph: Graph) -> None:
    assert graph.examine(is_deep=True) == []


# ── optimize ─────────────────────────────────────────────────────────────────────────────────────


def test_optimize_puts_fragments_together_and_every_commit_still_shows_the_same(
    root: Path,
) -> None:
    graph = open_at(root)
    for n in range(12):
        put(graph, f"p{n}")
    commits = [each.id for each in graph.commits()]
    before = {each: names_of(graph, each) for each in commits}
    result = graph.optimize(actor="ann")
    (person,) = (each for each in result.tables if each.key == PERSON)
    assert person.is_committed
    assert person.fragments_removed == 12
    assert person.fragments_added == 1
    assert {each: names_of(graph, each) for each in commits} == before
    again = graph.optimize()
    assert again.commits == ()
    check_well(graph)


def test_a_run_is_one_commit_of_all_tables_and_leaves_nothing_to_index(root: Path) -> None:
    graph = open_at(root)
    for n in range(3):
        put(graph, f"p{n}")
        graph.write_rows("Doc", [{"name": f"d{n}"}], existing=Existing.REFUSE)
    before = len(graph.commits())
    result = graph.optimize(actor="ann")
    assert len(result.commits) == 1
    assert len(graph.commits()) == before + 1
    assert {each.key for each in result.tables if each.is_committed} == {PERSON, "node:Doc"}
    assert graph.ensure_indices().commits == ()
    check_well(graph)


def test_a_table_of_blobs_survives_being_put_together(root: Path) -> None:
    graph = open_at(root)
    big = b"x" * 200_000
    for n, data in enumerate([b"one", big, b"three"]):
        graph.write_rows("Doc", [{"name": f"d{n}", "body": data}], existing=Existing.REFUSE)
    result = graph.optimize()
    assert any(each.key == "node:Doc" and each.is_committed for each in result.tables)

    handle = graph.open_table(graph.snapshot(), TableKey("node:Doc"))
    rows = graph._stores.tables.read(handle, ScanRequest(blobs=BlobMode.BYTES))
    found = dict(zip(rows["name"].to_pylist(), rows["body"].to_pylist(), strict=True))
    assert found == {"d0": b"one", "d1": big, "d2": b"three"}
    check_well(graph)


def test_optimize_strips_the_settings_that_would_purge_what_commits_show(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    pin = graph.snapshot().pins[PERSON]
    tables = graph._stores.tables
    handle = tables.open_at(TableRef(pin.path))
    purging = TableSettings(config={"lance.auto_cleanup.interval": "1000"})
    tables.commit_exact(tables.stage_settings(handle, purging, Mark("from-elsewhere")))
    graph.optimize()
    shown = graph.open_table(graph.snapshot(), PERSON)
    assert not [name for name in shown.config if name.startswith("lance.auto_cleanup")]
    check_well(graph)


# ── cleanup ──────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_removes_nothing_and_says_what_would_go(root: Path) -> None:
    graph = open_at(root)
    for n in range(5):
        put(graph, f"p{n}")
    commits = [each.id for each in graph.commits()]
    result = graph.cleanup(CleanupRequest(RetentionPolicy(keep=1)))
    assert sum(each.versions_removed for each in result.tables if each.key == PERSON) == 5
    assert {each: len(names_of(graph, each)) for each in commits[:5]} == dict(
        zip(commits[:5], [5, 4, 3, 2, 1], strict=True)
    )


def test_retained_commits_answer_as_before_and_others_are_gone(root: Path) -> None:
    graph = open_at(root)
    for n in range(10):
        put(graph, f"p{n}")
    commits = [each.id for each in graph.commits()]
    clean(graph, keep=3)
    assert [len(names_of(graph, each)) for each in commits[:3]] == [10, 9, 8]
    with pytest.raises(VersionNotFound):
        graph.snapshot_at_commit(commits[5])
    put(graph, "later")
    check_well(graph)
    check_well(open_at(root))


def test_what_a_branch_inherits_stays(root: Path) -> None:
    """The branch shows main's table at an old version, and never wrote it."""
    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    for n in range(6):
        put(graph, f"p{n}")
    graph.optimize()
    clean(graph)
    assert names_of(graph, branch="side") == {"a"}
    put(graph, "b", branch="side")
    assert names_of(graph, branch="side") == {"a", "b"}
    for n in range(3):
        put(graph, f"s{n}", branch="side")
    clean(graph)
    assert names_of(graph, branch="side") == {"a", "b", "s0", "s1", "s2"}
    assert len(names_of(graph)) == 7
    check_well(graph)


def test_what_a_fork_reads_stays_though_nothing_else_shows_it(root: Path) -> None:
    """A branch took main's table over as it was merged into it, forked it, and was merged again."""
    side, main = BranchName("side"), BranchName("main")
    graph = open_at(root)
    graph.create_branch("side")
    put(graph, "a", "b")
    graph.merge(MergeRequest(source=main, into=side))
    put(graph, "c", branch="side")
    for n in range(4):
        put(graph, f"p{n}")
    graph.optimize()
    graph.merge(MergeRequest(source=main, into=side))
    put(graph, "later")
    path = graph.snapshot().pins[PERSON].path
    (fork,) = graph._stores.tables.find_branches(path)
    # Asked of our own rule: the table format keeps it too, and does not promise to.
    retained = find_retained(graph._stores, Bases(graph._stores), RetentionPolicy(keep=1))
    assert fork.parent_version in retained.versions[TableRef(path)]
    clean(graph)
    assert names_of(graph, branch="side") == {"a", "b", "c", "p0", "p1", "p2", "p3"}
    put(graph, "d", branch="side")
    check_well(open_at(root))


def test_a_branch_can_still_be_merged_after_cleanup(root: Path) -> None:

    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    put(graph, "b", branch="side")
    for n in range(4):
        put(graph, f"p{n}")
    clean(graph)
    graph.merge(MergeRequest(source=BranchName("side"), into=BranchName("main")))
    assert names_of(graph) == {"a", "b", "p0", "p1", "p2", "p3"}
    put(graph, "c", branch="side")
    put(graph, "d")
    clean(graph)
    graph.merge(MergeRequest(source=BranchName("side"), into=BranchName("main")))
    assert names_of(graph) >= {"c", "d"}
    check_well(graph)


def test_forks_of_a_deleted_branch_are_reclaimed(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    put(graph, "b", branch="side")
    # As if deleting the branch had died as soon as the branch was gone.
    graph._stores.tables.clear_branch("__manifest", "side")
    fresh = open_at(root)
    assert [each.remedy.split()[1] for each in fresh.examine()] == ["cleanup"]
    clean(fresh)
    path = fresh.snapshot().pins[PERSON].path
    assert fresh._stores.tables.find_branches(path) == ()
    check_well(fresh)


def test_leases_of_deleted_branches_go_and_a_new_branch_of_the_name_works(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")

    def leases() -> set[str]:
        return {each.name.partition("@")[2] for each in (root / "__leases").glob("*Person@*")}

    for _ in range(2):
        graph.create_branch("side")
        put(graph, "b", branch="side")
        clean(graph)
        assert "side.json" in leases(), "the branch exists"
        graph.delete_branch("side")
        clean(graph, debris_age_ms=3_600_000)
        assert "side.json" in leases(), "another process may be about to release it"
        clean(graph)
        assert {each.partition(".")[0] for each in leases()} == {"main"}
    check_well(graph)


def test_a_branch_that_is_deleted_while_a_cleanup_decides_is_left_out(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    put(graph, "b", branch="side")
    deleted = []
    trigger = Trigger(At("tables.read"), lambda _: deleted.append(graph.delete_branch("side")))
    clean(open_living(root, trigger))
    assert deleted
    check_well(graph)


def test_a_branch_that_is_first_written_while_a_cleanup_decides_keeps_its_fork(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    # After everything that must stay was found, and before the forks are listed.
    at = At("tables.find_branches", 5)
    clean(open_living(root, Trigger(at, lambda _: put(graph, "b", branch="side"))))
    assert names_of(open_at(root), branch="side") == {"a", "b"}
    check_well(graph)


def test_files_the_dead_staged_go_and_those_of_the_living_stay(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    pin = graph.snapshot().pins[PERSON]
    handle = graph.open_table(graph.snapshot(), PERSON)
    rows = pa.Table.from_pylist([{"id": "x", "name": "x", "age": 1}], schema=handle.schema)

    def data() -> set[str]:
        return {each.name for each in (root / pin.path / "data").iterdir()}

    before = data()
    graph._stores.tables.stage_append(handle, rows, Mark("nobody"))
    staged = data() - before
    assert len(staged) == 1
    clean(graph, keep=99, debris_age_ms=3_600_000)
    assert data() == before | staged, "it may be somebody's work in progress"
    clean(graph, keep=99)
    assert data() == before
    check_well(graph)


def test_dropped_types_dead_jobs_and_inert_tables_go(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    graph.apply_schema(SchemaRequest("node Doc { name: String @key  body: Blob? }\n"))
    (root / "_graph_runs.lance").mkdir()
    (root / "_graph_runs.lance" / "old").write_bytes(b"12345")
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01DEAD.json#4711").write_bytes(b"half a note")
    (root / "__staging" / "01DEAD.files").mkdir(parents=True)
    (root / "__staging" / "01DEAD.files" / "part").write_bytes(b"123")
    clean(graph)
    assert not (root / "_graph_runs.lance").exists()
    assert not list((root / "__staging").rglob("part"))
    assert not list((root / "__recovery").rglob("*#*"))
    assert len(list((root / "nodes").iterdir())) == 1
    graph.apply_schema(SchemaRequest(SCHEMA))
    put(graph, "b")
    assert names_of(graph) == {"b"}
    check_well(graph)


def test_a_reader_that_slept_through_a_cleanup_sees_what_is_new(root: Path) -> None:
    """Even one whose own version was kept for a branch, while those after it went."""
    graph, reader = open_at(root), open_graph(str(root), mode=Mode.READ_ONLY)
    put(graph, "a")
    graph.create_branch("side")
    assert names_of(reader) == {"a"}
    for n in range(6):
        put(graph, f"p{n}")
    clean(graph)
    assert len(names_of(reader)) == 7
    put(reader_turned_writer := open_at(root), "b")
    assert "b" in names_of(graph)
    assert reader_turned_writer.examine() == []


def test_a_load_under_way_keeps_what_it_started_from(root: Path) -> None:

    graph = open_at(root)
    put(graph, "a")
    pin = graph.snapshot().pins[PERSON]
    with staging(
        graph._stores.objects,
        OperationId("01LIVING"),
        MAIN,
        {PERSON: pin.version},
        DEFAULT_TIMING,
    ):
        for n in range(4):
            put(graph, f"p{n}")
        clean(graph)
        assert graph._stores.tables.open_at(TableRef(pin.path), pin.version).row_count == 1
    clean(graph)
    with pytest.raises(VersionNotFound):
        graph._stores.tables.open_at(TableRef(pin.path), pin.version)


def test_bytes_are_bounded_and_costs_return(root: Path) -> None:
    graph = open_at(root)

    def size() -> int:
        """Without the manifest, which holds the history of commits and so grows with it."""
        files = [each for each in root.rglob("*") if each.is_file()]
        history = root / "__manifest"
        return sum(each.stat().st_size for each in files if history not in each.parents)

    def round_() -> int:
        for n in range(15):
            put(graph, f"p{n}")
        graph.optimize()
        clean(graph)
        return size()

    first = round_()
    later = [round_() for _ in range(3)]
    assert max(later) < first * 1.5
    path = graph.snapshot().pins[PERSON].path
    assert len(list((root / path / "_versions").glob("*.manifest"))) <= 3


# ── repair and doctor ────────────────────────────────────────────────────────────────────────────


def drift(graph: Graph, *, branch: str | None = None, is_data: bool) -> None:
    """Somebody else's tool changes a table."""
    shown = graph.snapshot(BranchName(branch or "main"))
    tables = graph._stores.tables
    handle = tables.open_at(TableRef(shown.pins[PERSON].path, branch))
    if is_data:
        row = {"id": "odd", "name": "odd", "age": 1}
        rows = pa.Table.from_pylist([row], schema=handle.schema)
        tables.commit_exact(tables.stage_append(handle, rows, Mark(f"odd-{time.time_ns()}")))
    else:
        odd = TableSettings(config={"somebody": "was here"})
        tables.commit_exact(tables.stage_settings(handle, odd, Mark(f"odd-{time.time_ns()}")))


def test_maintenance_by_others_is_shown_on_confirmation(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a")
    drift(graph, is_data=False)
    (finding,) = graph.examine()
    assert finding.remedy == "omnigraph repair"
    preview = graph.repair(RepairRequest())
    assert {each.action for each in preview.tables} == {RepairAction.NO_OP, RepairAction.PREVIEW}
    result = graph.repair(RepairRequest(is_confirmed=True))
    assert [each.action for each in result.tables if each.key == PERSON] == [RepairAction.HEALED]
    assert graph.commits()[0].actor == "omnigraph:repair"
    check_well(graph)


def check_both_generations(optimized: dict[str, Any], repaired: dict[str, Any]) -> None:
    """Of a table that another tool moved."""
    for document in (optimized, repaired):
        (table,) = (each for each in document["tables"] if each["table_key"] == PERSON)
        (later,) = (each for each in document["datasets"] if each["type_key"] == PERSON)
        assert table["lance_head_version"] == table["manifest_version"] + 1
        assert later["published_dataset_version"] == table["manifest_version"]
        assert later["lance_head_version"] == table["lance_head_version"]
        assert table.keys() - later.keys() == {"table_key", "manifest_version"}
        if document is optimized:
            assert table["skipped"] == "drift_needs_repair"


@pytest.mark.parametrize("branch", [None, "side"])
def test_rows_by_others_are_refused_forced_or_taken_back(root: Path, branch: str | None) -> None:
    graph = open_at(root)
    put(graph, "a")
    graph.create_branch("side")
    put(graph, "b", branch="side")
    where = branch or "main"
    before = names_of(graph, branch=where)
    drift(graph, branch=branch, is_data=True)
    with pytest.raises(DriftFound):
        put(graph, "c", branch=where)
    assert graph.repair(RepairRequest(is_confirmed=True)).has_refusals
    result = graph.repair(RepairRequest(is_confirmed=True, is_discarded=True))
    assert not result.has_refusals
    assert names_of(graph, branch=where) == before
    check_well(graph)
    drift(graph, branch=branch, is_data=True)
    graph.repair(RepairRequest(is_confirmed=True, is_forced=True))
    assert names_of(graph, branch=where) == before | {"odd"}
    put(graph, "c", branch=where)
    check_well(graph)


def test_force_and_discard_need_to_be_confirmed(root: Path) -> None:
    with pytest.raises(UsageError):
        open_at(root).repair(RepairRequest(is_forced=True))


def test_the_doctor_finds_what_is_missing_and_what_dangles(root: Path) -> None:
    graph = open_at(root)
    put(graph, "a", "b")
    graph.write_rows("Knows", [{"from": "a", "to": "b"}], existing=Existing.REFUSE)
    check_well(graph)
    pin = graph.snapshot().pins[PERSON]
    tables = graph._stores.tables
    handle = tables.open_at(TableRef(pin.path))
    tables.commit_exact(tables.stage_delete(handle, "id = 'b'", Mark("odd")))
    graph.repair(RepairRequest(is_confirmed=True, is_forced=True))
    assert graph.examine() == []
    (dangling,) = graph.examine(is_deep=True)
    assert "no Person" in dangling.problem
    (root / "_schema.ir.json").write_text("{}")
    assert any(
        each.subject == "_schema.pg" or "schema" in each.subject for each in examine_afresh(root)
    )
    for file in (root / pin.path / "data").iterdir():
        file.unlink()
    fresh = stores_at(root)

    assert any(each.subject == PERSON for each in check_tables(fresh))


def test_a_deep_check_reads_every_value(root: Path) -> None:
    graph = open_at(root)
    names = [f"a name of some length, number {each}" for each in range(1_000)]
    put(graph, *names)
    (file,) = (root / graph.snapshot().pins[PERSON].path / "data").glob("*.lance")
    page = LanceFileReader(str(file)).metadata().columns[1].pages[0]
    whole = bytearray(file.read_bytes())
    for buffer in page.buffers:
        whole[buffer.position : buffer.position + buffer.size] = bytes(buffer.size)
    file.write_bytes(whole)
    fresh = open_at(root)
    assert fresh.examine() == []
    problems = [each.problem for each in fresh.examine(is_deep=True)]
    assert any("age cannot be read" in each for each in problems), problems


def test_what_a_writer_is_about_is_no_fault_and_what_it_leaves_is(root: Path) -> None:
    put(open_at(root), "a")
    pause = Pause()
    trigger = Trigger(At("step publish"), pause)
    graph = open_living(root, trigger, observe=trigger.observe)
    writer = Thread(target=put, args=(graph, "b"))
    writer.start()
    try:
        pause.await_arrival()
        assert check_tables(stores_at(root)), "the table has moved"
        assert examine_afresh(root) == []
    finally:
        pause.release()
        writer.join()
    assert examine_afresh(root) == []
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01ODD.json").write_text("{")
    (note,) = examine_afresh(root)
    assert "__recovery" in note.remedy


def examine_afresh(root: Path) -> list[DoctorFinding]:

    stores = stores_at(root)
    return examine(WriteContext(stores, Bases(stores)))


def test_the_commands_report_as_documents(root: Path, capsys: Streams) -> None:
    graph = open_at(root)
    for n in range(4):
        put(graph, f"p{n}")
    uri = str(root)

    def ask(*arguments: str) -> dict[str, object]:
        assert run([*arguments, uri, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert isinstance(document, dict)
        return document

    assert ask("optimize")["commits"]
    assert ask("cleanup", "--keep", "2")["confirmed"] is False
    done = ask("cleanup", "--keep", "2", "--older-than", "0s", "--confirm")
    assert isinstance(done["bytes_removed"], int)
    assert done["bytes_removed"] > 0
    assert ask("repair")["confirm"] is False
    assert ask("doctor", "--deep") == {"uri": uri, "ok": True, "findings": []}
    assert ask("schema", "show")["schema_source"] == SCHEMA
    assert run(["cleanup", uri]) == 2
    put(graph, "last")
    capsys.readouterr()
    assert run(["optimize", uri, "--progress"]) == 0
    assert "compacting node:Person …" in capsys.readouterr().err
    assert run(["cleanup", uri, "--keep", "1", "--progress"]) == 0
    assert "cleaning up node:Person …" in capsys.readouterr().err
    drift(graph, is_data=True)
    assert run(["doctor", uri]) == 1
    assert "omnigraph repair" in capsys.readouterr().out
    check_both_generations(ask("optimize"), ask("repair"))
    assert run(["repair", uri, "--confirm"]) == 1
