"""A fresh process maps what `optimize` kept, and answers the same with it and without it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from social_data import fill_graph, make_network
from social_questions import QUESTIONS, Parameters

from omnigraph.effects import REAL
from omnigraph.engine.graph.state import Mode
from omnigraph.engine.maintain.optimize import OptimizeResult
from omnigraph.engine.opening import open_graph, open_in
from omnigraph.engine.tables.metered import ON_READ, TableRead
from omnigraph.errors import StorageFailure
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.layout import MAPPED
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.faults import watch_stores

PERSONS = 60
FRIENDS = (
    "query q($p: String) { match { $p: Person { name: $p } $p <knows> $f } return { $f.name } }"
)
NEWCOMER = """query add($p: String, $f: String) {
    insert Person { name: $p, first: "Zoe", born: 2000 }
    insert Knows { from: $p, to: $f, since: 2020 }
}"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("social") / "g"
    fill_graph(folder, make_network(PERSONS))
    return folder


def open_fresh(place: Path) -> LocalGraph:
    return LocalGraph(open_graph(str(place)))


def answers(place: Path) -> Iterator[tuple[str, list[str]]]:
    parameters = Parameters(make_network(PERSONS))
    graph = open_fresh(place)
    for question in QUESTIONS:
        rows = graph.query(parameters.program(question), parameters.of(question)).arrow()
        yield question.name, sorted(map(str, rows.to_pylist()))


def friends_of(place: Path, person: str, branch: str = "main") -> list[str]:
    found = open_fresh(place).query(FRIENDS, {"p": person}, branch=branch).arrow()
    return sorted(str(each) for each in found["f.name"].to_pylist())


def damage(place: Path) -> None:
    for file in (place / MAPPED).rglob("*.arrow"):
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 255
        file.write_bytes(data)


def test_answers_are_the_same_with_mapped_files_and_with_damaged_ones(place: Path) -> None:
    expected = dict(answers(place))
    open_fresh(place).optimize()
    seen: list[TableRead] = []
    token = ON_READ.set(seen.append)
    assert dict(answers(place)) == expected
    ON_READ.reset(token)
    assert seen == [], "no question reads a table"
    damage(place)
    assert dict(answers(place)) == expected
    shutil.rmtree(place / MAPPED)
    assert dict(answers(place)) == expected


def test_a_write_makes_files_stale_and_cleanup_removes_those(place: Path) -> None:
    friend = str(make_network(PERSONS).nodes["Person"]["name"][0])
    graph = open_fresh(place)
    graph.optimize()
    kept = {each.name for each in (place / MAPPED).iterdir()}
    before = friends_of(place, friend)
    graph.mutate(NEWCOMER, {"p": "newcomer", "f": friend})
    after = friends_of(place, friend)
    assert after == sorted([*before, "newcomer"])
    graph.optimize()
    assert kept < {each.name for each in (place / MAPPED).iterdir()}
    graph.cleanup(keep=1, confirm=True)
    left = {each.name for each in (place / MAPPED).iterdir()}
    assert len(left) == len(kept)
    assert left != kept
    assert friends_of(place, friend) == after


class FailingReads:
    """After so many calls that read a table, all others fail."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.begun = 0

    def before(self, call: str, *, is_write: bool) -> None:
        self.begun += call.startswith("tables.") and not is_write
        if self.begun > self.allowed:
            raise StorageFailure("read", subject=call, reason="the test said so")

    def after(self, call: str, *, is_write: bool) -> None:
        """Nothing fails once it has happened."""


def optimize_in(stores: Stores, faults: FailingReads) -> OptimizeResult:
    return open_in(watch_stores(stores, faults), Mode.READ_WRITE).optimize()


def test_an_optimize_that_was_published_succeeds_though_no_file_can_be_kept(place: Path) -> None:
    friend = str(make_network(PERSONS).nodes["Person"]["name"][0])
    before = friends_of(place, friend)
    open_fresh(place).mutate(NEWCOMER, {"p": "late", "f": friend})
    twin = open_stores(str(copytree(place, place.with_name("twin"))), REAL)
    unmapped = FailingReads(1_000_000)
    optimize_in(replace(twin, mapped=None), unmapped)
    faults = FailingReads(unmapped.begun)
    assert optimize_in(open_stores(str(place), REAL), faults).commits
    assert faults.begun > faults.allowed
    assert friends_of(place, friend) == sorted([*before, "late"])


def test_a_branch_has_files_of_its_own(place: Path) -> None:
    friend = str(make_network(PERSONS).nodes["Person"]["name"][0])
    graph = open_fresh(place)
    graph.branches.create("draft")
    graph.mutate(NEWCOMER, {"p": "another", "f": friend}, branch="draft")
    graph.optimize(branch="draft")
    graph.optimize()
    on_draft = friends_of(place, friend, "draft")
    assert on_draft == sorted([*friends_of(place, friend), "another"])
