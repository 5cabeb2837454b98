"""Small loads that wait for other writes: members of a group, with their faults and results."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.commit.manifest.records import Commit, RowCounts
from omnigraph.effects import REAL
from omnigraph.engine.load.run import LoadResult
from omnigraph.errors import LoadRejected
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.grouping import Result, run_grouped

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  photo: Blob? }
edge Knows: Person -> Person @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[LocalGraph]:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "ann"}, {"name": "bob"}])
    yield made
    assert check_graph(open_stores(str(tmp_path / "g"), REAL)) == []


def put(graph: LocalGraph, name: str, **columns: object) -> Callable[[], Result]:
    return lambda: graph.insert("Person", [{"name": name, **columns}], actor=f"of {name}")


def load(
    graph: LocalGraph, tmp_path: Path, *lines: object, mode: str = "append", **extra: Any
) -> Callable[[], LoadResult]:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return lambda: graph.load(path, mode=mode, engine="local", actor="loader", **extra)


def person(name: str, **columns: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **columns}}


def members(graph: LocalGraph) -> list[Commit]:
    return [each for each in reversed(graph.commits()) if each.extension.group is not None]


def test_a_small_load_joins_a_group_and_sees_the_members_before_it(
    graph: LocalGraph, tmp_path: Path
) -> None:
    knows = {"edge": "Knows", "from": "cy", "to": "dan"}
    told = run_grouped(
        graph.engine,
        [
            put(graph, "cy"),
            load(graph, tmp_path, person("dan", photo="base64:aGk="), knows),
            load(graph, tmp_path, person("ann", age=3), person("eve"), mode="merge"),
        ],
    )
    assert [each.actor for each in members(graph)] == ["of cy", "loader", "loader"]
    assert [each.commit for each in told if not isinstance(each, Exception)] == members(graph)
    assert members(graph)[1].row_counts == RowCounts(inserted=2)
    assert members(graph)[2].row_counts == RowCounts(inserted=1, updated=1)
    assert graph.blob("node", "Person", "dan", "photo").read() == b"hi"
    assert isinstance(told[2], LoadResult)
    assert dict(told[2].counts) == {"node:Person": 2}


def test_a_load_that_a_member_contradicts_is_refused_with_its_line_and_every_fault(
    graph: LocalGraph, tmp_path: Path
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    lines = [person("dan"), person("eve", mail="c@x"), {"edge": "Knows", "from": "x", "to": "cy"}]
    told = run_grouped(
        graph.engine,
        [
            put(graph, "cy", mail="c@x"),
            load(graph, tmp_path, *lines, rejects=str(rejects)),
            put(graph, "fay"),
        ],
    )
    assert [each.actor for each in members(graph)] == ["of cy", "of fay"]
    assert isinstance(told[1], LoadRejected)
    assert {each.line for each in told[1].faults} == {2, 3}
    assert len(rejects.read_text().splitlines()) == 2


def test_a_load_that_repeats_the_key_of_a_member_has_its_result(
    graph: LocalGraph, tmp_path: Path
) -> None:
    keyed = load(graph, tmp_path, person("dan"), idempotency_key="once")
    one, two = run_grouped(graph.engine, [keyed, keyed])
    assert isinstance(one, LoadResult)
    assert isinstance(two, LoadResult)
    assert (one.commit, dict(one.counts), one.engine) == (two.commit, dict(two.counts), two.engine)
    assert len(graph.commits()) == 3


def test_an_overwrite_joins_no_group(graph: LocalGraph, tmp_path: Path) -> None:
    overwrite = load(graph, tmp_path, person("zoe"), mode="overwrite")
    run_grouped(graph.engine, [put(graph, "cy"), put(graph, "dan"), overwrite])
    assert [each.actor for each in members(graph)] == ["of cy", "of dan"]
