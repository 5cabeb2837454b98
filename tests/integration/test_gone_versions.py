"""Reading what is no longer there: the error says that it was, and what became of it."""

import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.effects import REAL
from omnigraph.errors import TableNotFound, UsageError, VersionNotFound
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Person { name: String @key  age: I64?  note: String? }
node Pet { name: String @key }
"""
NOTES = "query q() { match { $p: Person } return { $p.name, $p.note } }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"
PETS = "query q() { match { $p: Pet } return { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    for number in range(3):
        graph.insert("Person", [{"name": f"p{number}", "note": "x"}])
    graph.insert("Pet", [{"name": "rex"}])
    return graph


def test_a_reader_from_before_data_was_dropped_is_told_so(graph: LocalGraph) -> None:
    reader = omnigraph.open(graph.uri, read_only=True)
    before = reader.snapshot()
    assert len(reader.query(NAMES, snapshot=before)) == 3
    assert len(reader.query(PETS, snapshot=before)) == 1
    graph.apply_schema("node Person { name: String @key  age: I64? }", allow_data_loss=True)
    for handle in (reader, omnigraph.open(graph.uri, read_only=True)):
        with pytest.raises(VersionNotFound, match="any more: a cleanup removed it, or a schema"):
            handle.query(NOTES, snapshot=before)
        with pytest.raises((VersionNotFound, TableNotFound), match="schema change"):
            handle.find("Pet", "rex", snapshot=before)


def test_a_commit_that_was_cleaned_up_is_told_apart_from_one_that_never_was(
    graph: LocalGraph,
) -> None:
    second = graph.commits()[-2]
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(VersionNotFound, match="any more: a cleanup removed it") as gone:
        graph.query(NAMES, commit=second.id)
    assert gone.value.newest is not None
    newest = graph.snapshot().manifest_version
    with pytest.raises(VersionNotFound, match=f"no version 999 .*; the newest is {newest}"):
        graph.query(NAMES, version=999)


@pytest.mark.parametrize("age", ["1" + "0" * 20 + "w", "5300w", "9" * 5_000, "٣d"])
def test_an_age_beyond_a_hundred_years_is_refused(
    graph: LocalGraph, capsys: pytest.CaptureFixture[str], age: str
) -> None:
    assert run(["cleanup", graph.uri, "--older-than", age]) == 2
    assert "no more than a hundred years" in capsys.readouterr().err


@pytest.mark.parametrize("age", [1e30, float("inf"), float("nan"), -1])
def test_an_age_that_is_none_is_refused(graph: LocalGraph, age: float) -> None:
    with pytest.raises(UsageError, match="which is a hundred years"):
        graph.cleanup(older_than_s=age)


def test_a_hundred_years_are_an_age(graph: LocalGraph) -> None:
    assert run(["cleanup", graph.uri, "--older-than", "36525d"]) == 0


def test_doctor_says_when_a_cleanup_will_remove_what_a_dead_job_staged(graph: LocalGraph) -> None:
    note = Path(graph.uri) / "__staging" / "01JZ8Q4T9K6V3M2N7R5W1X0ABD.json"
    note.parent.mkdir(exist_ok=True)
    note.write_bytes(b"{}")

    def age(minutes: int) -> list[str]:
        """What doctor recommends, so long after it was written."""
        seconds = REAL.now_ms() / 1_000 - minutes * 60
        os.utime(note, (seconds, seconds))
        return [each.remedy for each in graph.doctor()]

    assert age(50) == [
        "omnigraph cleanup --keep 10 --confirm, 60 minutes after it was written",
    ]
    graph.cleanup(keep=10, confirm=True)
    assert note.exists()
    assert len(age(61)) == 1
    graph.cleanup(keep=10, confirm=True)
    assert not note.exists()
    assert graph.doctor() == []
