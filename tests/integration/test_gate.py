"""Writers and readers ask the gate before they do anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.gate import Action
from omnigraph.engine.opening import create, open_graph
from omnigraph.errors import Forbidden
from omnigraph.ids import BranchName
from omnigraph.sdk.embedded.graph import LocalGraph

Asked = tuple[str | None, Action, str | None, str | None]


class Record:
    """A gate that remembers what it was asked, and says no."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def __call__(
        self,
        actor: str | None,
        action: Action,
        branch: BranchName | None,
        target: BranchName | None = None,
    ) -> None:
        self.asked.append((actor, action, branch, target))
        raise Forbidden(actor, action=action, branch=target or branch)


WRITES: dict[str, tuple[Callable[[LocalGraph], object], Asked]] = {
    "insert": (
        lambda graph: graph.insert("Person", [{"name": "Ada"}], actor="eve"),
        ("eve", Action.CHANGE, "main", None),
    ),
    "mutate": (
        lambda graph: graph.mutate('query q() { insert Person { name: "A" } }', actor="eve"),
        ("eve", Action.CHANGE, "main", None),
    ),
    "create": (
        lambda graph: graph.branches.create("b", actor="eve"),
        ("eve", Action.BRANCH_CREATE, "main", "b"),
    ),
    "delete": (
        lambda graph: graph.branches.delete("b", actor="eve"),
        ("eve", Action.BRANCH_DELETE, None, "b"),
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_the_gate_refuses_changes_nothing(write: str, tmp_path: Path) -> None:
    root = str(tmp_path / "g")
    create(root, "node Person { name: String @key }")
    gate = Record()
    graph = LocalGraph(open_graph(root, gate=gate))
    before = omnigraph.open(root).snapshot()
    attempt, expected = WRITES[write]
    with pytest.raises(Forbidden, match="eve may not"):
        attempt(graph)
    assert gate.asked == [expected]
    assert omnigraph.open(root).snapshot() == before
    assert omnigraph.open(root).branches.list() == ("main",)


QUERY = "query q() { match { $p: Person } return { $p.name } }"
READS: dict[str, tuple[Callable[[LocalGraph], object], Action, str | None]] = {
    "query": (lambda graph: graph.query(QUERY), Action.READ, "main"),
    "find": (lambda graph: graph.find("Person", "Ada"), Action.READ, "main"),
    "snapshot": (lambda graph: graph.snapshot("b"), Action.READ, "b"),
    "export": (lambda graph: list(graph.export_lines()), Action.EXPORT, "main"),
    "baseline": (lambda graph: graph.baseline(), Action.EXPORT, "main"),
    "diff": (lambda graph: graph.diff("main", "main"), Action.READ, "main"),
    "changes": (lambda graph: graph.changes(start="beginning"), Action.READ, "main"),
    "commits": (lambda graph: graph.commits("b"), Action.READ, "b"),
    "commit": (lambda graph: graph.commit("01"), Action.READ, None),
    "branches": (lambda graph: graph.branches.list(), Action.READ, None),
    "schema": (lambda graph: graph.schema_source, Action.READ, None),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_asks_the_gate_for_the_actor_it_is_made_by(read: str, tmp_path: Path) -> None:
    """Through the engine, without a route; and before it is known what exists."""
    root = str(tmp_path / "g")
    create(root, "node Person { name: String @key }")
    gate = Record()
    graph = LocalGraph(open_graph(root, gate=gate)).acting_as("eve")
    attempt, action, branch = READS[read]
    with pytest.raises(Forbidden, match="eve may not"):
        attempt(graph)
    assert gate.asked == [("eve", action, branch, None)]
