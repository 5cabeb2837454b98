"""Schema changes that the reference left half done are finished, forgotten, or left to somebody."""

from pathlib import Path

import pytest

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.opening import open_graph
from omnigraph.engine.schema.staged_leftovers import STAGED
from omnigraph.errors import SchemaFilesInvalid
from omnigraph.ids import SCHEMA_LOCK
from support.breaking import stores_at
from support.old_graphs import SCHEMA, V4, write_old_graph

LIVE = ("_schema.pg", "_schema.ir.json", "__schema_state.json")
SMALLER = SCHEMA.replace("    since: Date?\n", "")
LARGER = SCHEMA.replace("    age: I32? @index\n", "    age: I32? @index\n    mail: String?\n")
REWORDED = SCHEMA.replace("node Company {", 'node Company @description("who pays") {')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Its tables are as `SCHEMA` has them."""
    return write_old_graph(tmp_path / "g", V4).root


def write(root: Path, schema: str, names: tuple[str, ...]) -> None:
    files = compile_active_schema(schema, name="<schema>").files()
    for name, text in zip(names, (files.source, files.ir, files.encode_state()), strict=True):
        if name:
            (root / name).write_text(text)


def left(root: Path) -> list[str]:
    return [each for each in STAGED if (root / each).exists()]


def in_force(root: Path) -> str:
    """As anybody reads it from the three files alone."""
    return open_graph(str(root), mode=Mode.READ_ONLY).schema_source


def test_a_change_that_was_never_published_is_forgotten(root: Path) -> None:
    write(root, LARGER, STAGED)
    graph = open_graph(str(root))
    assert (graph.schema_source, in_force(root), left(root)) == (SCHEMA, SCHEMA, [])
    assert graph.examine() == []


def test_a_change_that_was_published_is_finished(root: Path) -> None:
    write(root, SMALLER, LIVE)
    write(root, SCHEMA, STAGED)
    assert in_force(root) == SMALLER, "a reader leaves it alone"
    graph = open_graph(str(root))
    assert (graph.schema_source, in_force(root), left(root)) == (SCHEMA, SCHEMA, [])
    assert graph.examine(is_deep=True) == []


@pytest.mark.parametrize("renamed", [1, 2])
def test_renames_that_were_begun_are_finished(root: Path, renamed: int) -> None:
    write(root, SMALLER, LIVE)
    write(root, SCHEMA, (*LIVE[:renamed], *[""] * (3 - renamed)))
    write(root, SCHEMA, (*[""] * renamed, *STAGED[renamed:]))
    with pytest.raises(SchemaFilesInvalid):
        in_force(root)
    graph = open_graph(str(root))
    assert (graph.schema_source, in_force(root), left(root)) == (SCHEMA, SCHEMA, [])


def test_what_nobody_can_tell_is_left_reported_and_cleaned_up(root: Path) -> None:
    write(root, REWORDED, STAGED)
    graph = open_graph(str(root))
    assert graph.schema_source == SCHEMA
    assert [each.subject for each in graph.examine()] == list(STAGED)
    clean = CleanupRequest(RetentionPolicy(keep=9))
    assert graph.cleanup(clean).residue_bytes == 0, "it may be somebody's work in progress"
    confirmed = CleanupRequest(RetentionPolicy(keep=9), is_confirmed=True, debris_age_ms=-60_000)
    assert graph.cleanup(confirmed).residue_bytes > 0
    assert left(root) == []
    assert graph.examine() == []


def test_the_files_of_a_program_that_holds_the_lock_are_left_alone(root: Path) -> None:
    write(root, LARGER, STAGED)
    tables = stores_at(root).tables
    graph = open_graph(str(root), mode=Mode.READ_ONLY)
    tables.fork(graph._bases.current(graph.branches()[0]).handle, SCHEMA_LOCK)
    assert open_graph(str(root)).schema_source == SCHEMA
    assert left(root) == list(STAGED)
