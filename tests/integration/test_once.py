"""Asking again with the same key: the same answer, and nothing done twice."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import BranchExists, BranchNotFound, HeadMoved, KeyReused, OpenedReadOnly
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.layout import PROMISES

SCHEMA = "node Note { text: String }\nnode Person { name: String @key age: I32? }"
ADD = "query add($t: String) { insert Note { text: $t } }"


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA)


def notes(graph: LocalGraph, branch: str = "main") -> int:
    return sum(
        pin.row_count for pin in graph.snapshot(branch).pins.values() if pin.key == "node:Note"
    )


def test_a_repeated_write_answers_as_before_in_another_process_too(graph: LocalGraph) -> None:
    first = graph.mutate(ADD, params={"t": "x"}, actor="ada", idempotency_key="k1")
    graph.insert("Note", [{"text": "y"}])
    for again in (graph, omnigraph.open(graph.uri)):
        answered = again.mutate(ADD, params={"t": "x"}, actor="ada", idempotency_key="k1")
        assert answered == first
    assert notes(graph) == 2


def test_every_kind_of_row_write_has_keys(graph: LocalGraph) -> None:
    for _ in range(3):
        graph.insert("Person", [{"name": "ada"}], idempotency_key="a")
        graph.upsert("Person", [{"name": "bo"}], idempotency_key="b")
        deleted = graph.delete("Person", ["bo"], idempotency_key="c")
        assert deleted.affected_nodes == 1
    assert len(graph.commits()) == 4


def test_a_key_that_comes_back_with_another_request_is_refused(graph: LocalGraph) -> None:
    graph.mutate(ADD, params={"t": "x"}, idempotency_key="k")
    with pytest.raises(KeyReused, match="'k'"):
        graph.mutate(ADD, params={"t": "y"}, idempotency_key="k")
    with pytest.raises(KeyReused):
        graph.insert("Note", [{"text": "x"}], idempotency_key="k")
    assert notes(graph) == 1


def test_a_key_is_an_actors_own_and_a_branchs_own(graph: LocalGraph) -> None:
    graph.mutate(ADD, params={"t": "x"}, actor="ada", idempotency_key="k")
    graph.mutate(ADD, params={"t": "z"}, actor="bo", idempotency_key="k")
    graph.branches.create("b")
    graph.mutate(ADD, params={"t": "y"}, actor="ada", branch="b", idempotency_key="k")
    assert (notes(graph), notes(graph, "b")) == (2, 3)


def test_a_key_that_is_part_of_another_is_another(graph: LocalGraph) -> None:
    for key in ("k", "k1", '"k"', "k\\", "ключ", '","key":"k'):
        graph.mutate(ADD, params={"t": key}, idempotency_key=key)
        graph.mutate(ADD, params={"t": key}, idempotency_key=key)
    assert notes(graph) == 6


def test_a_write_without_effect_is_remembered_too(graph: LocalGraph) -> None:
    first = graph.delete("Person", ["nobody"], idempotency_key="k")
    assert first.commit is not None
    graph.insert("Person", [{"name": "nobody"}])
    assert graph.delete("Person", ["nobody"], idempotency_key="k") == first
    assert graph.snapshot().pins == graph.snapshot(commit=graph.commits()[0].id).pins


def test_a_condition_that_held_when_it_was_asked_first_holds_for_ever(graph: LocalGraph) -> None:
    head = graph.commits()[0].id
    first = graph.insert("Note", [{"text": "x"}], if_commit=head, idempotency_key="k")
    assert graph.insert("Note", [{"text": "x"}], if_commit=head, idempotency_key="k") == first
    with pytest.raises(HeadMoved):
        graph.insert("Note", [{"text": "x"}], if_commit=head, idempotency_key="other")


def test_many_who_ask_at_once_get_one_answer(graph: LocalGraph) -> None:
    graphs = [graph, omnigraph.open(graph.uri)]

    def ask(at: int) -> str:
        result = graphs[at % 2].mutate(ADD, params={"t": "x"}, idempotency_key="k")
        assert result.commit is not None
        return result.commit.id

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(ask, range(16)))
    assert len(answers) == 1
    assert notes(graph) == 1


# ── branches leave no commit ─────────────────────────────────────────────────────────────────────


def test_a_branch_is_made_and_deleted_once(graph: LocalGraph) -> None:
    for _ in range(2):
        graph.branches.create("b", idempotency_key="make")
    with pytest.raises(BranchExists):
        graph.branches.create("b", idempotency_key="another")
    for _ in range(2):
        graph.branches.delete("b", idempotency_key="drop")
    with pytest.raises(BranchNotFound):
        graph.branches.delete("b", idempotency_key="another drop")
    with pytest.raises(KeyReused):
        graph.branches.create("c", idempotency_key="make")
    graph.branches.create("b", idempotency_key="make")
    assert graph.branches.list() == ("main",), "it was made, and deleted since"
    graph.branches.create("b", idempotency_key="another")
    assert graph.branches.list() == ("main", "b")


def test_a_branch_that_is_asked_for_by_many_at_once_is_made_and_deleted_once(
    graph: LocalGraph,
) -> None:
    asking = [omnigraph.open(graph.uri).branches for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for name in ("a", "b", "c"):
            made = [threads.submit(each.create, name, idempotency_key=name) for each in asking]
            assert {each.result() for each in made} == {name}
            gone = [threads.submit(each.delete, name, idempotency_key=name * 2) for each in asking]
            assert {each.result().name for each in gone} == {name}
    assert graph.branches.list() == ("main",)


def test_whoever_was_interrupted_between_making_a_branch_and_saying_so_may_ask_again(
    graph: LocalGraph,
) -> None:
    graph.branches.create("b", idempotency_key="make")
    (note,) = (Path(graph.uri) / PROMISES).iterdir()
    note.write_text(note.read_text().replace("true", "false"))
    assert graph.branches.create("b", idempotency_key="make") == "b"
    with pytest.raises(OpenedReadOnly):
        omnigraph.open(graph.uri, read_only=True).branches.create("b", idempotency_key="make")
