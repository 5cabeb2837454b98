"""Loads: what becomes of records, in every mode, down both paths."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph.engine.gate import Action
from omnigraph.engine.graph import Mode
from omnigraph.engine.load.bulk import BulkLoader, Ingested, LoadJob, LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.opening import open_graph
from omnigraph.engine.write.batch import Existing
from omnigraph.errors import (
    BranchNotFound,
    ExpectedVersionMismatch,
    FileUnreadable,
    JobFailed,
    KeyConflict,
    LoadRejected,
    OpenedReadOnly,
)
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.tasks import Work
from omnigraph.storage.layout import STAGING
from omnigraph.testing.invariants import check_graph
from support.loading import (
    LARGE,
    SMALL,
    Loader,
    knows,
    new_loader,
    note,
    person,
    wrote,
)
from support.tasks import DiesOnce, fill_the_disk
from support.writing import stores_at

APPEND, MERGE, OVERWRITE = LoadMode.APPEND, LoadMode.MERGE, LoadMode.OVERWRITE
SIDE = BranchName("side")
PERSON, KNOWS = TableKey("node:Person"), TableKey("edge:Knows")


def rejected(loader: Loader, mode: LoadMode, *lines: object, errors_max: int = 100) -> LoadRejected:
    before = loader.graph.snapshot()
    with pytest.raises(LoadRejected) as caught:
        loader.put(mode, *lines, errors_max=errors_max)
    assert loader.graph.snapshot() == before
    return caught.value


# ── modes ────────────────────────────────────────────────────────────────────────────────────────


def test_a_load_is_one_commit_of_every_table_it_names(either: Loader) -> None:
    before = len(either.graph.commits())
    result = either.put(
        APPEND,
        person("ada", age=36, mail="a@b"),
        knows("ada", "bob", since="2024-05-01"),
        "",
        person("bob"),
    )
    assert result.counts == {KNOWS: 1, PERSON: 2}
    commits = either.graph.commits()
    assert len(commits) == before + 1
    assert result.commit == commits[0]
    assert commits[0].actor == "dana"
    tables = either.tables()
    assert tables["Person"] == {
        "ada": {"name": "ada", "age": 36, "mail": "a@b"},
        "bob": {"name": "bob", "age": None, "mail": None},
    }
    (edge,) = tables["Knows"].values()
    assert edge == {"src": "ada", "dst": "bob", "since": 19844}
    assert check_graph(stores_at(Path(either.graph.uri))) == []


def test_appending_what_exists_is_a_conflict(either: Loader) -> None:
    either.put(APPEND, person("ada"))
    before = either.graph.snapshot()
    with pytest.raises(KeyConflict) as caught:
        either.put(APPEND, person("ada"), person("bob"))
    assert (caught.value.type_name, caught.value.ids) == ("Person", ("ada",))
    assert either.graph.snapshot() == before


def test_merging_replaces_whole_rows_and_adds_the_others(either: Loader) -> None:
    either.put(APPEND, person("ada", age=36, mail="a@b"), person("eve", age=1))
    either.put(MERGE, person("ada", age=37), person("bob", age=2))
    assert either.tables()["Person"] == {
        "ada": {"name": "ada", "age": 37, "mail": None},
        "eve": {"name": "eve", "age": 1, "mail": None},
        "bob": {"name": "bob", "age": 2, "mail": None},
    }


def test_of_an_id_merged_twice_the_last_line_counts(either: Loader) -> None:
    lines: list[object] = [note(id="n", text=str(number)) for number in range(9)]
    # However a record is spelled, its place in the input is what matters.
    lines[4] = {"data": {"text": "4", "id": "n"}, "type": "Note"}
    result = either.put(MERGE, *lines)
    assert result.counts == {TableKey("node:Note"): 9}
    assert either.tables()["Note"] == {"n": {"text": "8"}}


def test_overwriting_replaces_the_tables_that_are_named_and_no_others(either: Loader) -> None:
    either.put(APPEND, person("ada"), note(id="n"), note(id="m"), wrote("ada", "n"))
    either.put(OVERWRITE, person("ada", age=1), person("bob"))
    tables = either.tables()
    assert set(tables["Person"]) == {"ada", "bob"}
    assert set(tables["Note"]) == {"n", "m"}
    assert len(tables["Wrote"]) == 1


def test_an_overwrite_that_leaves_edges_without_nodes_is_refused(either: Loader) -> None:
    either.put(APPEND, person("ada"), person("bob"), note(id="n"), wrote("ada", "n", id="w"))
    error = rejected(either, OVERWRITE, person("bob"))
    (fault,) = error.faults
    assert (fault.kind, fault.type_name, fault.ids, fault.value) == (
        "endpoint",
        "Wrote",
        ("w",),
        "ada",
    )
    either.put(OVERWRITE, person("bob"), wrote("bob", "n"))
    assert set(either.tables()["Person"]) == {"bob"}


def test_empty_input_makes_no_commit(loader: Loader) -> None:
    before = loader.graph.snapshot()
    assert loader.put(OVERWRITE).commit is None
    assert loader.put(APPEND, "", "  ").commit is None
    assert loader.graph.snapshot() == before


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────


def test_every_bad_line_is_reported_and_none_is_loaded(either: Loader) -> None:
    lines: list[object] = [person(f"p{number}") for number in range(60)]
    bad = {3: "{", 20: person("x", age="old"), 41: {"type": "Persn"}, 59: person("y", agee=1)}
    for line, record in bad.items():
        lines[line - 1] = record
    error = rejected(either, APPEND, *lines)
    assert [fault.line for fault in error.faults] == sorted(bad)
    assert error.count == len(bad)
    assert {Path(str(fault.file)).name for fault in error.faults} == {"input.jsonl"}
    assert error.faults[1].property_name == "age"
    assert error.faults[1].value == "old"


def test_only_so_many_faults_are_told_and_all_are_counted(either: Loader) -> None:
    error = rejected(either, APPEND, *["{"] * 30, errors_max=7)
    assert [fault.line for fault in error.faults] == list(range(1, 8))
    assert error.count == 30
    assert "and 23 more" in str(error)


@pytest.mark.parametrize("mode", LoadMode)
def test_a_key_given_twice_is_an_error_that_names_both_places(
    either: Loader, mode: LoadMode
) -> None:
    lines = [person(f"p{number}") for number in range(10)]
    error = rejected(either, mode, person("twin"), *lines, person("twin"))
    (fault,) = error.faults
    assert fault.line == 12
    assert "input.jsonl:1 and at" in fault.message
    assert fault.message.endswith("input.jsonl:12")


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
def test_an_id_given_twice_is_an_error_unless_merging(either: Loader, mode: LoadMode) -> None:
    error = rejected(either, mode, note(id="n"), note(id="m"), note(id="n"))
    assert [fault.line for fault in error.faults] == [3]


def test_uniqueness_reaches_across_the_input_and_what_is_there(either: Loader) -> None:
    either.put(APPEND, person("ada", mail="a@b"), person("old", mail="o@b"))
    error = rejected(
        either, MERGE, person("bob", mail="a@b"), person("c", mail="x"), "", person("d", mail="x")
    )
    found = {(fault.value, fault.ids) for fault in error.faults}
    assert found == {("a@b", ("ada", "bob")), ("x", ("c", "d"))}
    # A row that is replaced holds nothing any more.
    either.put(MERGE, person("old"), person("bob", mail="o@b"))
    assert either.tables()["Person"]["bob"]["mail"] == "o@b"


def test_ends_are_looked_for_in_the_input_and_in_what_is_there(either: Loader) -> None:
    either.put(APPEND, person("ada"))
    error = rejected(either, APPEND, person("bob"), knows("ada", "bob"), knows("bob", "nobody"))
    (fault,) = error.faults
    assert (fault.line, fault.property_name, fault.value) == (3, "dst", "nobody")


def test_a_table_much_larger_than_the_input_is_asked_and_not_read(large: Loader) -> None:
    large.put(APPEND, *(person(f"p{number}") for number in range(60)))
    few = large.put(APPEND, knows("p1", "p2"), knows("p1", "p3"))
    assert "reading committed keys" not in few.timings_ms
    error = rejected(large, APPEND, knows("p1", "p4"), knows("p5", "nobody"))
    assert [(each.line, each.value) for each in error.faults] == [(2, "nobody"), (1, 3)]
    many = large.put(APPEND, *(knows(f"p{number}", "p1") for number in range(20, 40)))
    assert "reading committed keys" in many.timings_ms


def test_edges_are_counted_with_those_that_are_there(either: Loader) -> None:
    people = [person(each) for each in "abcd"]
    either.put(APPEND, *people, knows("a", "b", id="1"))
    error = rejected(either, APPEND, knows("a", "c"), knows("a", "d"))
    (fault,) = error.faults
    assert (fault.kind, fault.ids, fault.value) == ("cardinality", ("a",), 3)
    either.put(MERGE, knows("a", "c", id="1"), knows("a", "d"))
    assert len(either.tables()["Knows"]) == 2


def test_a_merged_edge_that_moves_away_leaves_its_source_short(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
) -> None:
    schema = "node N { name: String @key }  edge E: N -> N @card(2..3)"

    def edge(source: str, identity: str) -> object:
        return {"edge": "E", "from": source, "to": "a", "data": {"id": identity}}

    for number, bulk in enumerate((SMALL, LARGE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        loader = new_loader(folder, bulk, schema)
        nodes = [{"type": "N", "data": {"name": each}} for each in "ab"]
        loader.put(APPEND, *nodes, edge("a", "1"), edge("a", "2"), edge("b", "3"), edge("b", "4"))
        error = rejected(loader, MERGE, edge("b", "1"))
        assert [(fault.ids, fault.value) for fault in error.faults] == [(("a",), 1)]


# ── sources ──────────────────────────────────────────────────────────────────────────────────────


def test_any_split_and_order_of_the_input_gives_the_same_graph(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
) -> None:
    lines = [person(f"p{number}", age=number) for number in range(12)]
    lines += [knows(f"p{number}", f"p{number + 1}", id=f"e{number}") for number in range(8)]
    seen = []
    for number, (bulk, parts) in enumerate([(SMALL, 1), (LARGE, 1), (LARGE, 3)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        loader = new_loader(folder, bulk)
        ordered = lines if number != 1 else lines[::-1]
        files = [loader.write(*ordered[part::parts], name=f"{part}.jsonl") for part in range(parts)]
        loader.load(APPEND, *files)
        seen.append(loader.tables())
    assert seen[0] == seen[1] == seen[2]


def test_compressed_files_and_folders_are_read(loader: Loader) -> None:
    inside = loader.folder / "inside"
    inside.mkdir()
    (inside / "a.jsonl.gz").write_bytes(gzip.compress(json.dumps(person("a")).encode()))
    loader.write(person("b"), name="inside/b.jsonl")
    loader.load(APPEND, str(inside))
    assert set(loader.tables()["Person"]) == {"a", "b"}


def test_a_file_that_breaks_off_is_told_by_name(loader: Loader) -> None:
    broken = loader.folder / "broken.jsonl.gz"
    broken.write_bytes(gzip.compress(b"{}\n" * 1000)[:-20])
    with pytest.raises(FileUnreadable, match=r"broken\.jsonl\.gz"):
        loader.load(APPEND, str(broken))


# ── branches and others ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", LoadMode)
def test_a_branch_forks_what_is_loaded_onto_it(large: Loader, mode: LoadMode) -> None:
    large.put(APPEND, person("ada"))
    path = large.write(person("bob"))
    result = large.load(mode, path, branch=SIDE, from_branch=MAIN)
    assert result.branch_created
    assert set(large.tables()["Person"]) == {"ada"}
    kept = set() if mode is OVERWRITE else {"ada"}
    assert set(large.tables(SIDE)["Person"]) == {"bob"} | kept
    again = large.load(APPEND, large.write(person("eve")), branch=SIDE, from_branch=MAIN)
    assert not again.branch_created
    assert set(large.tables(SIDE)["Person"]) == {"bob", "eve"} | kept
    assert check_graph(stores_at(Path(large.graph.uri))) == []


def test_a_branch_that_another_load_makes_at_the_same_time_is_as_good(loader: Loader) -> None:
    def gate(
        actor: str | None,
        action: Action,
        branch: BranchName | None,
        target: BranchName | None = None,
    ) -> None:
        del actor, branch, target
        if action is Action.BRANCH_CREATE:
            loader.graph.create_branch(SIDE)

    racing = replace(loader, graph=open_graph(loader.graph.uri, gate=gate))
    loaded = racing.load(APPEND, racing.write(person("ada")), branch=SIDE, from_branch=MAIN)
    assert not loaded.branch_created
    assert set(racing.tables(SIDE)["Person"]) == {"ada"}


def test_a_branch_that_is_not_there_is_not_made_up(loader: Loader) -> None:
    with pytest.raises(BranchNotFound):
        loader.put(APPEND, person("ada"), branch=SIDE)


def test_a_graph_opened_for_reading_is_not_loaded(loader: Loader) -> None:
    graph = open_graph(loader.graph.uri, mode=Mode.READ_ONLY)
    with pytest.raises(OpenedReadOnly):
        graph.load(LoadRequest((loader.write(),), APPEND), SMALL)


def test_a_load_leaves_no_record_and_no_files_aside(either: Loader) -> None:
    either.put(MERGE, person("ada"))
    rejected(either, MERGE, "{")
    assert list((Path(either.graph.uri) / STAGING).iterdir()) == []


# ── others who write meanwhile ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Meddled:
    """Bulk work in the middle of which somebody else writes."""

    bulk: BulkLoader
    meddle: Callable[[], object]

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with self.bulk.ingest(job) as ingested:
            self.meddle()
            yield ingested


def load_while(
    loader: Loader, meddle: Callable[[], object], mode: LoadMode, *lines: object
) -> None:
    order = LoadRequest((loader.write(*lines),), mode)
    loader.graph.load(order, Meddled(loader.bulk, meddle))


def test_appends_and_merges_go_on_top_of_what_came_meanwhile(either: Loader) -> None:
    def insert(name: str) -> None:
        either.graph.write_rows("Person", [{"name": name}], existing=Existing.REFUSE)

    load_while(either, lambda: insert("first"), APPEND, person("ada"))
    load_while(either, lambda: insert("second"), MERGE, person("ada", age=1))
    assert set(either.tables()["Person"]) == {"ada", "first", "second"}
    assert check_graph(stores_at(Path(either.graph.uri))) == []


def test_what_came_meanwhile_is_part_of_the_checks(either: Loader) -> None:
    def take() -> None:
        either.graph.write_rows(
            "Person", [{"name": "ada", "mail": "a@b"}], existing=Existing.REFUSE
        )

    with pytest.raises(KeyConflict):
        load_while(either, take, APPEND, person("ada"))
    either.graph.remove_rows("Person", ["ada"])
    with pytest.raises(LoadRejected, match="a@b"):
        load_while(either, take, MERGE, person("bob", mail="a@b"))


def test_an_end_that_went_meanwhile_is_missed(either: Loader) -> None:
    either.put(APPEND, person("ada"), note(id="n"))
    with pytest.raises(LoadRejected, match="'n' not found in Note"):
        load_while(
            either, lambda: either.graph.remove_rows("Note", ["n"]), APPEND, wrote("ada", "n")
        )


def test_an_overwrite_of_a_table_that_moved_is_refused(either: Loader) -> None:
    def insert() -> None:
        either.graph.write_rows("Person", [{"name": "mine"}], existing=Existing.REFUSE)

    with pytest.raises(ExpectedVersionMismatch):
        load_while(either, insert, OVERWRITE, person("ada"))
    assert set(either.tables()["Person"]) == {"mine"}


def test_an_overwrite_does_not_mind_tables_it_leaves_alone(either: Loader) -> None:
    def insert() -> None:
        either.graph.write_rows("Note", [{"id": "n"}], existing=Existing.REFUSE)

    load_while(either, insert, OVERWRITE, person("ada"))
    assert set(either.tables()["Note"]) == {"n"}


# ── tasks that die ───────────────────────────────────────────────────────────────────────────────


def test_a_task_that_was_killed_is_tried_again_and_leaves_only_files_nobody_names(
    large: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = large.folder / "died"

    def run_mortal(spark: SparkSession, work: Work, count: int, **rest: Any) -> Any:
        mortal = DiesOnce(work, str(marker)) if isinstance(work, Ingest) else work
        return run_tasks(spark, mortal, count, **rest)

    monkeypatch.setattr("omnigraph.pipeline.stage.read_input.run_tasks", run_mortal)
    large.put(APPEND, *[person(f"p{number}") for number in range(10)])
    assert marker.exists()
    assert len(large.tables()["Person"]) == 10
    named = large.graph.snapshot().pins[PERSON]
    written = list((Path(large.graph.uri) / named.path / "data").glob("*.lance"))
    handle = large.graph.open_table(large.graph.snapshot(), PERSON)
    fragments = stores_at(Path(large.graph.uri)).tables.inspect(handle).fragments
    assert len(written) > len(fragments)
    assert check_graph(stores_at(Path(large.graph.uri))) == []


def test_a_job_that_dies_for_good_is_one_line_and_changes_nothing(
    large: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_broken(spark: SparkSession, work: Work, count: int, **rest: Any) -> Any:
        del work
        return run_tasks(spark, fill_the_disk, count, **rest)

    monkeypatch.setattr("omnigraph.pipeline.stage.read_input.run_tasks", run_broken)
    before = large.graph.snapshot()
    with pytest.raises(JobFailed, match="reading the input failed: ValueError: the disk is full"):
        large.put(APPEND, person("ada"))
    assert large.graph.snapshot() == before
