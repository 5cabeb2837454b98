"""Writers ask the gate before they do anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.engine.gate import Action
from omnigraph.engine.opening import create, open_graph
from omnigraph.errors import Forbidden
from omnigraph.ids import BranchName
from omnigraph.sdk.local import LocalGraph

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
    before = graph.snapshot()
    attempt, expected = WRITES[write]
    with pytest.raises(Forbidden, match="eve may not"):
        attempt(graph)
    assert gate.asked == [expected]
    assert graph.snapshot() == before
    assert graph.branches.list() == ("main",)
