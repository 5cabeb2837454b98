"""A graph with branches and history, everything that it shows, and an original that lies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import omnigraph
from omnigraph import Durability, LocalGraph

SCHEMA: Final = """
node Person { name: String @key  age: I64? @index  photo: Blob? }
edge Knows: Person -> Person { since: I64? }
"""


def open_relaxed(root: Path | str, *, read_only: bool = False) -> LocalGraph:
    return omnigraph.open(root, read_only=read_only, durability=Durability.RELAXED)


def people(*names: str, age: int = 1) -> list[dict[str, object]]:
    return [{"name": each, "age": age} for each in names]


def make_graph(uri: Path) -> LocalGraph:
    """Main, a branch of main, a branch of that branch; rows, edges, deletions and indexes."""
    graph = omnigraph.init(uri, SCHEMA, durability=Durability.RELAXED)
    graph.insert("Person", people("ann", "bob", "carl"))
    graph.insert("Knows", [{"from": "ann", "to": "bob", "since": 1}])
    graph.ensure_indices()
    graph.branches.create("team/side")
    side = graph.branch("team/side")
    side.insert("Person", people("sid", age=2))
    side.delete("Person", ["carl"])
    graph.insert("Person", people("main2"))
    graph.branches.create("deep", source="team/side")
    deep = graph.branch("deep")
    deep.insert("Person", people("dora", age=3))
    deep.insert("Knows", [{"from": "sid", "to": "dora", "since": 2}])
    graph.ensure_indices("deep")
    return graph


def read_all(graph: LocalGraph) -> dict[str, bytes]:
    """The export of every commit of every branch, and of every branch."""
    return dict(_read_all(graph))


def _read_all(graph: LocalGraph) -> Iterator[tuple[str, bytes]]:
    for branch in graph.branches.list():
        yield branch, b"".join(graph.export_lines(branch=branch))
        for commit in graph.commits(branch):
            yield commit.id, b"".join(graph.export_lines(commit=commit.id))


def poison(root: Path) -> None:
    """Replace the content of every file: a read of any of them fails or is noticed."""
    for file in root.rglob("*"):
        if file.is_file():
            file.write_bytes(b"poison")


def check_alive(graph: LocalGraph) -> None:
    """Everything a graph can do, works, on every branch."""
    for number, branch in enumerate(graph.branches.list()):
        graph.branch(branch).insert("Person", people(f"new{number}", age=50))
        graph.branch(branch).upsert("Person", people("ann", age=60 + number))
    shown = [graph.branch(each).entity("Person", "ann") for each in graph.branches.list()]
    assert all(shown)
    graph.optimize("deep")
    graph.merge("deep", "team/side", on_conflict="theirs")
    graph.merge("team/side", on_conflict="theirs")
    before = read_heads(graph)
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    assert read_heads(graph) == before
    assert graph.doctor(deep=True) == []
    graph.branches.delete("deep")
    graph.branches.delete("team/side")
    assert graph.doctor(deep=True) == []


def read_heads(graph: LocalGraph) -> dict[str, bytes]:
    return {each: b"".join(graph.export_lines(branch=each)) for each in graph.branches.list()}
