"""Processes that merge into one branch at once: all of it lands, or it is told; nothing is lost."""

from pathlib import Path

import omnigraph
from omnigraph.effects import REAL
from omnigraph.ids import BranchName
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.mutations import read_tables
from support.processes import Raised, Returned, launch, race, values_of

SCHEMA = "node Person { name: String @key  age: I64? }  node Other { name: String @key }"


def merge(uri: str, source: str) -> str:
    graph = omnigraph.open(uri, durability=Durability.RELAXED, maintenance=False)
    return graph.merge(source, actor=source).outcome.value


def write(uri: str, count: int) -> str:
    graph = omnigraph.open(uri, durability=Durability.RELAXED, maintenance=False)
    for number in range(count):
        graph.upsert("Person", [{"name": f"w{number}", "age": number}])
    return "written"


def make(root: Path, ages: dict[str, dict[str, int]]) -> str:
    """A graph with one person, and a branch for every set of changes."""
    uri = str(root / "g")
    graph = omnigraph.init(uri, SCHEMA, durability=Durability.RELAXED)
    graph.insert("Person", [{"name": "shared", "age": 0}])
    for branch, changed in ages.items():
        graph.branches.create(branch)
        for name, age in changed.items():
            graph.upsert("Person", [{"name": name, "age": age}], branch=branch)
    return uri


def ages_of(uri: str) -> dict[str, int]:
    stores = open_stores(uri, REAL, durability=Durability.RELAXED)
    assert check_graph(stores) == []
    graph = omnigraph.open(uri, read_only=True)
    people = read_tables(graph._graph, stores, BranchName("main"))["Person"]
    return {name: row["age"] for name, row in people.items()}  # type: ignore[misc]


def test_two_branches_are_merged_into_main_at_once_and_one_of_them_twice(tmp_path: Path) -> None:
    uri = make(tmp_path, {"a": {"x": 1, "y": 2}, "b": {"z": 3}})
    outcomes = values_of(race([launch(merge, uri, each) for each in ("a", "b", "a")]))
    assert sorted(outcomes) == ["already_up_to_date", "fast_forward", "merged"]
    assert ages_of(uri) == {"shared": 0, "x": 1, "y": 2, "z": 3}
    graph = omnigraph.open(uri, read_only=True)
    assert sum(each.merged_parent is not None for each in graph.commits()) == 2


def test_of_two_branches_that_exclude_each_other_one_is_merged(tmp_path: Path) -> None:
    uri = make(tmp_path, {"a": {"shared": 1}, "b": {"shared": 2}})
    results = race([launch(merge, uri, "a"), launch(merge, uri, "b")])
    (won,) = [at for at, each in enumerate(results) if isinstance(each, Returned)]
    (lost,) = [each for each in results if isinstance(each, Raised)]
    assert lost.kind == "MergeConflicts"
    assert ages_of(uri) == {"shared": won + 1}


def test_a_merge_beside_a_busy_writer_loses_nothing_of_either(tmp_path: Path) -> None:
    uri = make(tmp_path, {"a": {f"m{number}": number for number in range(3)}})
    results = race([launch(write, uri, 15), launch(merge, uri, "a")])
    assert all(isinstance(each, Returned) for each in results), results
    expected = (
        {"shared": 0} | {f"w{at}": at for at in range(15)} | {f"m{at}": at for at in range(3)}
    )
    assert ages_of(uri) == expected
