"""The same code in a bucket: make a graph, write it, branch it, let a writer die, recover."""

import pytest

import omnigraph
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.effects import REAL
from omnigraph.errors import GraphExists, HeadMoved, KeyConflict
from omnigraph.ids import TableKey
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.faults import Crash, CrashOn, watch_stores
from omnigraph.testing.invariants import check_graph
from support.publishing import Place
from support.writing import mortal_bench, write

ADD = "query add($n: String) { insert A { name: $n }  insert B { name: $n } }"
KEYS = (TableKey("node:A"), TableKey("node:B"))


def stores_of(place: Place) -> Stores:
    return open_stores(place.uri, REAL, storage_options=place.storage_options)


def test_a_graph_lives_in_a_bucket_as_on_a_disk(cloud_place: Place) -> None:
    options = cloud_place.storage_options
    graph = omnigraph.open(cloud_place.uri, storage_options=options)
    first = graph.mutate(ADD, params={"n": "one"}, actor="dana").commit
    assert first is not None
    graph.branches.create("side/one")
    graph.mutate(ADD, params={"n": "two"}, branch="side/one")
    with pytest.raises(KeyConflict):
        graph.insert("A", [{"name": "one"}])
    with pytest.raises(HeadMoved):
        graph.mutate(ADD, params={"n": "late"}, if_commit="01NOTTHEHEAD")
    with pytest.raises(GraphExists):
        omnigraph.init(cloud_place.uri, "node A { name: String @key }", storage_options=options)

    again = omnigraph.open(cloud_place.uri, storage_options=options, read_only=True)
    assert again.snapshot().pins[KEYS[0]].row_count == 1
    assert again.snapshot("side/one").pins[KEYS[0]].row_count == 2
    assert again.snapshot(commit=first.id).pins[KEYS[1]].row_count == 1
    graph.branches.delete("side/one")
    assert again.branches.list() == ("main",)
    assert check_graph(stores_of(cloud_place)) == []


@pytest.mark.parametrize(
    ("call", "landed"),
    [("tables.commit_exact", False), ("tables.single_step.swap_rows", True)],
)
def test_a_writer_that_dies_in_a_bucket_is_recovered(
    cloud_place: Place, call: str, *, landed: bool
) -> None:
    dying = watch_stores(stores_of(cloud_place), CrashOn(call))
    with pytest.raises(Crash):
        write(mortal_bench(dying), "lost", keys=KEYS)
    (recovery,) = heal(mortal_bench(stores_of(cloud_place)))
    assert recovery.kind.value == ("RolledForward" if landed else "RolledBack")
    stores = stores_of(cloud_place)
    assert find_sidecars(stores.objects) == ()
    assert check_graph(stores) == []
    graph = omnigraph.open(cloud_place.uri, storage_options=cloud_place.storage_options)
    graph.mutate(ADD, params={"n": "next"})
    assert graph.snapshot().pins[KEYS[0]].row_count == (2 if landed else 1)
