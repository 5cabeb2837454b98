"""Law: a graph that was moved or cloned shows the same, in every commit of every branch."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

import omnigraph
from omnigraph import Durability, LocalGraph
from omnigraph.errors import OmnigraphError
from support.moving import SCHEMA, open_relaxed, people, poison, read_all

Step = tuple[str, int, int]

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "delete", "branch", "merge", "index", "optimize"]),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    min_size=4,
    max_size=9,
)


def take(graph: LocalGraph, step: Step) -> None:
    """One step, on one of the branches there are; some steps are refused, which is fine."""
    kind, at, number = step
    branches = graph.branches.list()
    branch = branches[at % len(branches)]
    try:
        match kind:
            case "insert":
                graph.upsert("Person", people(f"p{number}", age=number + at), branch=branch)
            case "delete":
                graph.delete("Person", [f"p{number}"], branch=branch)
            case "branch":
                graph.branches.create(f"b{number}", source=branch)
            case "merge":
                graph.merge(branch, branches[number % len(branches)], on_conflict="ours")
            case "index":
                graph.ensure_indices(branch)
            case _:
                graph.optimize(branch)
    except OmnigraphError:
        return


def make_random(root: Path, steps: list[Step]) -> dict[str, bytes]:
    graph = omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    graph.insert("Person", people("p0", "p1", "p2"))
    graph.branches.create("first")
    for step in steps:
        take(graph, step)
    return read_all(graph)


@settings(max_examples=4, deadline=None)
@given(steps=STEPS)
def test_a_moved_copy_and_a_clone_export_identically_on_every_commit(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        shown = make_random(old, steps)
        omnigraph.clone(old, Path(folder) / "clone", durability=Durability.RELAXED)
        shutil.copytree(old, new)
        poison(old)
        assert read_all(open_relaxed(new, read_only=True)) == shown
        graph = open_relaxed(new)
        assert read_all(graph) == shown
        assert graph.doctor(deep=True) == []
        clone = open_relaxed(Path(folder) / "clone")
        assert read_all(clone) == shown
        assert clone.doctor(deep=True) == []
