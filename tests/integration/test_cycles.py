"""A cycle lists the neighbours of the end that has fewer, and yields the rows it always yielded."""

import numpy as np
import pytest

import omnigraph
from omnigraph.engine.query.columns.csr import Adjacency, build_neighbours
from omnigraph.engine.query.columns.rows import Ordinals
from omnigraph.engine.query.operators import intersect, walk
from omnigraph.engine.query.operators.walk import Places
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Person { name: String @key  age: I32 }
edge Knows: Person -> Person
"""
COUNT = 150
TRIANGLES = """query q() { match { $a: Person $a knows $b $b knows $c $a knows $c
    $c.age > 3 } return { $a.name as a, $b.name as b, $c.name as c } }"""
NEVER = float("inf")


def pairs() -> set[tuple[int, int]]:
    """Person 0 knows everybody and is known by everybody; the others know two more."""
    hub = {(0, at) for at in range(COUNT)} | {(at, 0) for at in range(COUNT)}
    return hub | {(at, (at * 7 + more) % COUNT) for at in range(COUNT) for more in (1, 5)}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    """Every edge is there twice, and still each neighbour is met once."""
    root = tmp_path_factory.mktemp("cycles")
    made = omnigraph.init(root / "g", SCHEMA, durability=Durability.RELAXED)
    lines = [
        f'{{"type": "Person", "data": {{"name": "p{at:03}", "age": {at}}}}}' for at in range(COUNT)
    ]
    lines += [
        f'{{"edge": "Knows", "from": "p{a:03}", "to": "p{b:03}", "data": {{}}}}'
        for a, b in sorted(pairs()) * 2
    ]
    (root / "data.jsonl").write_text("\n".join(lines))
    made.load(str(root / "data.jsonl"), mode="append", engine="local")
    return omnigraph.open(made.uri)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many neighbours each step listed."""
    counts: list[int] = []
    spread = walk.spread

    def counted(adjacency: Adjacency, at: Ordinals) -> tuple[Places, Places]:
        found = spread(adjacency, at)
        counts.append(len(found[0]))
        return found

    monkeypatch.setattr(walk, "spread", counted)
    return counts


def test_triangles_around_a_hub_list_the_neighbours_of_its_friends(
    graph: LocalGraph, touched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = graph.query(TRIANGLES).rows()
    shorter = sum(touched)
    touched.clear()
    monkeypatch.setattr(intersect, "GAIN_MIN", NEVER)
    assert graph.query(TRIANGLES).rows() == found, "in the same order"
    known = pairs()
    after = {at: [b for a, b in known if a == at] for at in range(COUNT)}
    wanted = [
        (f"p{a:03}", f"p{b:03}", f"p{c:03}")
        for a, b in known
        for c in after[b]
        if (a, c) in known and c > 3
    ]
    assert sorted((row["a"], row["b"], row["c"]) for row in found) == sorted(wanted)
    assert sum(touched) > COUNT * COUNT
    assert shorter < 12 * len(known)


def test_a_check_beside_a_hub_does_not_list_its_neighbours(touched: list[int]) -> None:
    count = 10_000
    everybody = np.arange(count, dtype=np.int32)
    evens = everybody[::2]
    hub = build_neighbours(count, np.zeros(len(evens), np.int32), evens)
    asked = everybody[::19]
    met = walk.meets(hub, np.zeros(len(asked), np.int32), asked)
    assert met.tolist() == [int(each) % 2 == 0 for each in asked]
    assert sum(touched) == 0
    assert not walk.meets(hub, asked[1:], asked[1:]).any(), "the others have no neighbours"
