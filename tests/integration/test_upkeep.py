"""Tables stay tidy by themselves, however many writers there are and however short they live."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph.catalog.build import compile_schema
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.effects import REAL
from omnigraph.engine.write.upkeep import FRAGMENTS_MAX, Upkeep
from omnigraph.ids import MAIN, TableKey
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores

SCHEMA = "node Person { name: String @key }"
PERSON = TableKey("node:Person")


def fragments_in(root: Path) -> int:
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    pin = Bases(stores).current(MAIN).manifest.pins[PERSON]
    return len(stores.tables.inspect(open_pin(stores, pin)).fragments)


def test_writers_that_make_one_write_each_tidy_up_too(tmp_path: Path) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    for number in range(FRAGMENTS_MAX + 3):
        graph = omnigraph.open(root, durability=Durability.RELAXED)
        graph.insert("Person", [{"name": f"p{number}"}])
    assert fragments_in(root) <= 4


def test_writers_that_take_turns_tidy_up_as_often_as_one_alone(tmp_path: Path) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    writers = [omnigraph.open(root, durability=Durability.RELAXED) for _ in range(4)]
    for number in range(2 * FRAGMENTS_MAX + 6):
        writers[number % 4].insert("Person", [{"name": f"p{number}"}])
        assert fragments_in(root) <= FRAGMENTS_MAX + 4
    upkeep = [each for each in writers[0].commits() if each.actor == "omnigraph:upkeep"]
    assert len(upkeep) == 2


def test_a_graph_opened_without_maintenance_is_left_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    graph = omnigraph.open(root, durability=Durability.RELAXED, maintenance=False)
    for number in range(FRAGMENTS_MAX + 3):
        graph.insert("Person", [{"name": f"p{number}"}])
    assert fragments_in(root) == FRAGMENTS_MAX + 3


def test_upkeep_waits_for_nobody(tmp_path: Path) -> None:
    """A table somebody else writes at that moment is left for another time."""
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    graph = omnigraph.open(root, durability=Durability.RELAXED, maintenance=False)
    for number in range(FRAGMENTS_MAX + 3):
        graph.insert("Person", [{"name": f"p{number}"}])
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    mine, theirs = WriteContext(stores, Bases(stores)), WriteContext(stores, Bases(stores))
    upkeep = Upkeep(mine, compile_schema(Source("s", SCHEMA)))
    with acquire_write_locks(theirs, MAIN, [PERSON]):
        started_ms = REAL.monotonic_ms()
        upkeep.after(MAIN, [PERSON])
        assert REAL.monotonic_ms() - started_ms < 5_000
    assert fragments_in(root) == FRAGMENTS_MAX + 3
    with mine.queues.hold([LockKey(PERSON, MAIN)]):
        assert not upkeep.tidy(MAIN, PERSON)
    assert upkeep.tidy(MAIN, PERSON)
    assert fragments_in(root) <= 4


def test_a_table_that_is_always_written_is_tidied_up_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    graph = omnigraph.open(root, durability=Durability.RELAXED, maintenance=False)
    for number in range(FRAGMENTS_MAX + 3):
        graph.insert("Person", [{"name": f"p{number}"}])
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    mine = WriteContext(stores, Bases(stores))
    mine.bases.current(MAIN)
    upkeep = Upkeep(mine, compile_schema(Source("s", SCHEMA)))
    monkeypatch.setattr("omnigraph.engine.write.upkeep.OVERDUE", 1)
    with ThreadPoolExecutor(1) as other:
        with mine.queues.hold([LockKey(PERSON, MAIN)]):
            tidied = other.submit(upkeep.after, MAIN, [PERSON])
            REAL.sleep_ms(300)
            assert not tidied.done(), "it stands in line"
        tidied.result()
    assert fragments_in(root) <= 4
