"""Several steps, one commit: each step sees the ones before it, and all hold or none."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.engine.graph import Graph
from omnigraph.engine.opening import create
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep
from omnigraph.errors import ConstraintViolation, KeyConflict
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph

SCHEMA = """
node Room { code: String @key  title: String  floor: I32? @unique }
node Work { name: String @key }
edge Hangs: Work -> Room @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = create(str(tmp_path / "g"), SCHEMA)
    made.write([insert("Room", *[{"code": each, "title": each} for each in "abc"])])
    made.write([insert("Work", {"name": "w"}), insert("Hangs", {"from": "w", "to": "a"})])
    return made


def insert(name: str, *rows: Mapping[str, object]) -> RowsStep:
    return RowsStep(name, rows, Existing.REFUSE)


def upsert(name: str, *rows: Mapping[str, object]) -> RowsStep:
    return RowsStep(name, rows, Existing.REPLACE)


def run(text: str) -> ProgramStep:
    return ProgramStep(Source("<q>", f"query q() {{ {text} }}"))


def shown(graph: Graph) -> dict[str, list[str]]:
    local = LocalGraph(graph)
    rooms = local.query("query q() { match { $r: Room } return { $r.code, $r.title } }").rows()
    hangs = local.query(
        "query q() { match { $w: Work  $w hangs $r  $r: Room } return { $w.name, $r.code } }"
    ).rows()
    return {
        "rooms": sorted(f"{each['r.code']}:{each['r.title']}" for each in rooms),
        "hangs": sorted(f"{each['w.name']}-{each['r.code']}" for each in hangs),
    }


def test_steps_are_one_commit_and_see_each_other(graph: Graph) -> None:
    before = len(graph.commits())
    steps: list[WriteStep] = [
        insert("Room", {"code": "d", "title": "d"}),
        run('update Room set { title: "new" } where code = "d"'),
        DeleteStep("Room", ["b"]),
        upsert("Room", {"code": "c", "title": "other"}),
    ]
    done = graph.write(steps)
    assert (done.affected_nodes, done.query_name) == (4, None)
    assert len(graph.commits()) == before + 1
    assert shown(graph)["rooms"] == ["a:a", "c:other", "d:new"]


def test_a_row_may_be_deleted_and_inserted_again(graph: Graph) -> None:
    graph.write([DeleteStep("Room", ["a"]), insert("Room", {"code": "a", "title": "again"})])
    assert shown(graph) == {"rooms": ["a:again", "b:b", "c:c"], "hangs": []}
    graph.write([run('delete Room where code = "a"'), upsert("Room", {"code": "a", "title": "3"})])
    assert shown(graph)["rooms"][0] == "a:3"


def test_a_row_may_be_written_and_deleted_again(graph: Graph) -> None:
    new = {"code": "n", "title": "n"}
    before = graph.snapshot().pins
    done = graph.write([insert("Room", new), DeleteStep("Room", ["n"])])
    assert done.commit is None
    assert graph.snapshot().pins == before
    graph.write([upsert("Room", {"code": "b", "title": "x"}), run('delete Room where title = "x"')])
    assert shown(graph)["rooms"] == ["a:a", "c:c"]
    graph.write([run('update Room set { title: "y" } where code = "c"'), DeleteStep("Room", ["c"])])
    assert shown(graph)["rooms"] == ["a:a"]


def test_edges_go_with_nodes_also_if_both_are_pending(graph: Graph) -> None:
    steps: list[WriteStep] = [
        insert("Work", {"name": "v"}),
        insert("Hangs", {"from": "v", "to": "b"}),
        DeleteStep("Room", ["a", "b"]),
    ]
    graph.write(steps)
    assert shown(graph) == {"rooms": ["c:c"], "hangs": []}
    with pytest.raises(ConstraintViolation, match="not found in Room"):
        graph.write([DeleteStep("Room", ["c"]), insert("Hangs", {"from": "v", "to": "c"})])


def test_an_edge_that_moves_is_counted_where_it_is(graph: Graph) -> None:
    (edge,) = LocalGraph(graph).export_lines(types=["Hangs"])
    identity = edge.decode().split('"id":"')[1].split('"')[0]
    graph.write([DeleteStep("Hangs", [identity]), insert("Hangs", {"from": "w", "to": "b"})])
    assert shown(graph)["hangs"] == ["w-b"]
    with pytest.raises(ConstraintViolation, match="@card"):
        graph.write([insert("Hangs", {"from": "w", "to": "c"}), DeleteStep("Room", ["a"])])


CONFLICTS: list[list[WriteStep]] = [
    [insert("Room", {"code": "n", "title": "1"}), insert("Room", {"code": "n", "title": "2"})],
    [upsert("Room", {"code": "a", "title": "1"}), insert("Room", {"code": "a", "title": "2"})],
    [insert("Room", {"code": "a", "title": "1"}), DeleteStep("Room", ["a"])],
    [DeleteStep("Room", ["b"]), insert("Room", {"code": "a", "title": "1"})],
]


@pytest.mark.parametrize("steps", CONFLICTS)
def test_an_insert_is_strict_against_what_earlier_steps_left(
    graph: Graph, steps: list[WriteStep]
) -> None:
    before = shown(graph)
    with pytest.raises(KeyConflict):
        graph.write(steps)
    assert shown(graph) == before


def test_a_unique_value_may_pass_from_a_deleted_row(graph: Graph) -> None:
    graph.write([upsert("Room", {"code": "a", "title": "a", "floor": 1})])
    moved = {"code": "z", "title": "z", "floor": 1}
    with pytest.raises(ConstraintViolation, match="@unique"):
        graph.write([insert("Room", moved), DeleteStep("Room", ["b"])])
    graph.write([insert("Room", moved), DeleteStep("Room", ["a"])])
    assert shown(graph)["rooms"] == ["b:b", "c:c", "z:z"]
