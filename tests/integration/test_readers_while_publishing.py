"""Readers beside writers: every snapshot is one commit, whole."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.publish import Publication
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, snapshot_of
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.ids import MAIN, TableKey, Version
from omnigraph.testing.invariants import check_manifests
from support.processes import launch, race, values_of
from support.publishing import Place, new_intent, pin_at, publish_patiently

A, B = TableKey("node:A"), TableKey("node:B")
TOTAL = 1_000_000
COMMITS_PER_WRITER = 15
"""Four writers' worth folds the manifest at least twice."""


@dataclass(frozen=True)
class Seen:
    snapshots: int
    versions: int
    torn: list[str]


def transfer(place: Place, amount: int) -> int:
    """Keep two tables in step: equal versions, and row counts with one sum."""
    stores = place.open()
    bases = Bases(stores)
    done = 0
    while done < COMMITS_PER_WRITER:
        pins = bases.current(MAIN).manifest.pins
        at, left = pins[A].version, max(pins[A].row_count, amount)
        updates = (
            pin_at(A, at + 1, row_count=left - amount),
            pin_at(B, at + 1, row_count=TOTAL - left + amount),
        )
        expected = {A: at, B: pins[B].version}
        try:
            publish_patiently(stores, bases, Publication(MAIN, (new_intent(),), updates, expected))
        except ExpectedVersionMismatch:
            continue
        done += 1
    return done


def tear_in(snapshot: ManifestSnapshot) -> str | None:
    a, b = snapshot.pins[A], snapshot.pins[B]
    if a.version == b.version and (a.version == 1 or a.row_count + b.row_count == TOTAL):
        return None
    return f"version {snapshot.manifest_version}: {a} beside {b}"


def read_until(place: Place, stop: str, *, keep_handle: bool) -> Seen:
    """Take snapshots until told to stop; each must be whole, and none older than the one before."""
    graph = open_in(place.open(), Mode.READ_ONLY)
    torn: list[str] = []
    versions: list[Version] = []
    while not Path(stop).exists() or not versions:
        if not keep_handle:
            graph = open_in(place.open(), Mode.READ_ONLY)
        snapshot = graph.snapshot()
        if (tear := tear_in(snapshot)) is not None:
            torn.append(tear)
        if versions and snapshot.manifest_version < versions[-1]:
            torn.append(f"version {snapshot.manifest_version} after {versions[-1]}")
        if snapshot.commit is None or snapshot.commit.manifest_version != snapshot.manifest_version:
            torn.append(f"version {snapshot.manifest_version} shows {snapshot.commit}")
        versions.append(snapshot.manifest_version)
    return Seen(len(versions), len(set(versions)), torn)


def start_transfers(place: Place) -> None:
    """From here on the row counts add up."""
    stores = place.open()
    updates = (pin_at(A, 2, row_count=TOTAL), pin_at(B, 2))
    publish_patiently(stores, Bases(stores), Publication(MAIN, (new_intent(),), updates))


@pytest.mark.slow
def test_no_process_sees_half_a_commit_while_four_write(place: Place, tmp_path: Path) -> None:
    start_transfers(place)
    stop = str(tmp_path / "stop")
    readers = [
        launch(read_until, place, stop, keep_handle=keep_handle) for keep_handle in (True, False)
    ]
    writers = [launch(transfer, place, amount) for amount in (1, 2, 3, 5)]
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(race, readers, timeout_s=300)
        try:
            assert values_of(race(writers, timeout_s=300)) == [COMMITS_PER_WRITER] * 4
        finally:
            Path(stop).touch()
        seen = values_of(reading.result())
    assert [each.torn for each in seen] == [[], []]
    assert all(each.versions > 5 for each in seen), f"they read while others wrote: {seen}"
    check_whole_history(place)


def test_no_thread_that_shares_a_cache_sees_half_a_commit(place: Place, tmp_path: Path) -> None:
    start_transfers(place)
    stop = tmp_path / "stop"
    stores = place.open()
    bases = Bases(stores)

    def read() -> list[str]:
        torn = []
        while not stop.exists():
            tear = tear_in(snapshot_of(bases.current(MAIN).manifest))
            torn += [tear] if tear is not None else []
        return torn

    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        fresh = threads.submit(read_until, place, str(stop), keep_handle=False)
        writers = [threads.submit(transfer, place, amount) for amount in (1, 2)]
        try:
            assert [each.result() for each in writers] == [COMMITS_PER_WRITER] * 2
        finally:
            stop.touch()
        assert [each.result() for each in readers] == [[]] * 3
        assert fresh.result().torn == []
    check_whole_history(place)


def check_whole_history(place: Place) -> None:
    """No commit of the past is torn either, also those from before a fold."""
    stores = place.open()
    assert check_manifests(stores) == []
    graph = open_in(stores, Mode.READ_ONLY)
    snapshots = [graph.snapshot_at_commit(each.id) for each in graph.commits()]
    assert [tear for each in snapshots if (tear := tear_in(each)) is not None] == []
    assert len(stores.tables.inspect(Bases(stores).current(MAIN).handle).fragments) < 20
