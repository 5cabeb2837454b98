"""Many writers publish to one branch: one history comes of it, with every commit in it once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.snapshot import snapshot_at_commit
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.ids import MAIN, BranchName, TableKey, Version
from omnigraph.storage.stores import Stores
from omnigraph.testing.invariants import check_manifests
from support.processes import launch, race, values_of
from support.publishing import (
    Place,
    advance,
    lineage_only,
    new_intent,
    pin_at,
    publish_patiently,
)

A, B, C = TableKey("node:A"), TableKey("node:B"), TableKey("node:C")
DISJOINT = ((A,), (B,), (C,))
OVERLAPPING = ((A, B), (B, C), (C, A))


@dataclass(frozen=True)
class Acknowledged:
    """What a writer was told, and which table it moved, if any."""

    commit_id: str
    manifest_version: int
    pins: dict[TableKey, int]
    moved: TableKey | None


# ── inside the writers ───────────────────────────────────────────────────────────────────────────


def publish_many(
    place: Place, tables: tuple[TableKey, ...], count: int, branch: BranchName = MAIN
) -> list[Acknowledged]:
    """One table after the other, and every fifth commit without any."""
    stores = place.open()
    bases = Bases(stores)
    return [
        acknowledge(publish_patiently(stores, bases, lineage_only(branch)), None)
        if number % 5 == 4
        else move(stores, bases, tables[number % len(tables)], branch)
        for number in range(count)
    ]


def move(stores: Stores, bases: Bases, key: TableKey, branch: BranchName) -> Acknowledged:
    """Move a table on by one, deciding again whenever somebody else did."""
    while True:
        try:
            published = publish_patiently(stores, bases, advance(bases, key, branch))
        except ExpectedVersionMismatch:
            continue
        return acknowledge(published, key)


def acknowledge(published: Published, moved: TableKey | None) -> Acknowledged:
    (commit,) = published.commits
    pins = {key: int(pin.version) for key, pin in published.base.manifest.pins.items()}
    return Acknowledged(commit.id, commit.manifest_version, pins, moved)


def publish_against(place: Place, version: int) -> tuple[str, str, int, int] | str:
    """Move both tables, if A is where we think it is; the losers tell what they were told."""
    stores = place.open()
    publication = Publication(
        MAIN,
        (intent := new_intent(),),
        (pin_at(A, version + 1), pin_at(B, version + 1)),
        expected={A: Version(version)},
    )
    try:
        publish_patiently(stores, Bases(stores), publication)
    except ExpectedVersionMismatch as error:
        return type(error).__name__, error.table_key, error.expected, error.actual
    return intent.id


# ── the races ────────────────────────────────────────────────────────────────────────────────────


def check_history(place: Place, acknowledged: list[Acknowledged], *, branch: BranchName) -> None:
    """Everything acknowledged is there, once, where it was said to be; and nothing else is."""
    stores = place.open()
    assert check_manifests(stores) == []
    base = Bases(stores).current(branch)
    history = base.manifest.log.commits
    before = [each for each in history if each.parent is None or each.branch != branch]
    told = [each.commit_id for each in acknowledged]
    assert sorted(each.id for each in history[len(before) :]) == sorted(told)
    commits = {str(each.id): each for each in history}
    for each in acknowledged:
        commit = commits[each.commit_id]
        assert commit.manifest_version == each.manifest_version
        snapshot = snapshot_at_commit(stores, commit)
        assert snapshot.commit == commit
        assert {key: pin.version for key, pin in snapshot.pins.items()} == each.pins
    for key in (A, B, C):
        moves = sum(each.moved == key for each in acknowledged)
        assert base.manifest.version_of(key) == 1 + moves, "an update was lost, or came twice"
    assert len(stores.tables.inspect(base.handle).fragments) < 20


@pytest.mark.slow
@pytest.mark.parametrize("tables", [DISJOINT, OVERLAPPING], ids=["disjoint", "overlapping"])
def test_eight_processes_make_one_chain_of_two_hundred_commits(
    place: Place, tables: tuple[tuple[TableKey, ...], ...]
) -> None:
    writers = [launch(publish_many, place, tables[n % 3], 25) for n in range(8)]
    acknowledged = [each for done in values_of(race(writers, timeout_s=300)) for each in done]
    assert len(acknowledged) == 200
    check_history(place, acknowledged, branch=MAIN)


def test_four_processes_make_one_chain_on_a_branch(place: Place) -> None:
    stores = place.open()
    side = BranchName("side")
    stores.tables.fork(Bases(stores).current(MAIN).handle, side)
    writers = [launch(publish_many, place, OVERLAPPING[n % 3], 6, side) for n in range(4)]
    acknowledged = [each for done in values_of(race(writers)) for each in done]
    check_history(place, acknowledged, branch=side)
    assert len(Bases(stores).current(MAIN).manifest.log.commits) == 1, "main did not move"


@pytest.mark.slow
@pytest.mark.parametrize("tables", [DISJOINT, OVERLAPPING], ids=["disjoint", "overlapping"])
def test_four_processes_make_one_chain_in_a_bucket(
    cloud_place: Place, tables: tuple[tuple[TableKey, ...], ...]
) -> None:
    writers = [launch(publish_many, cloud_place, tables[n % 3], 8) for n in range(4)]
    acknowledged = [each for done in values_of(race(writers, timeout_s=300)) for each in done]
    assert len(acknowledged) == 32
    check_history(cloud_place, acknowledged, branch=MAIN)


def test_threads_that_share_a_cache_make_one_chain(place: Place) -> None:
    stores = place.open()
    bases = Bases(stores)

    def write(number: int) -> list[Acknowledged]:
        return [move(stores, bases, OVERLAPPING[number % 3][k % 2], MAIN) for k in range(8)]

    with ThreadPoolExecutor(4) as threads:
        acknowledged = [each for done in threads.map(write, range(4)) for each in done]
    check_history(place, acknowledged, branch=MAIN)


# ── expectations ─────────────────────────────────────────────────────────────────────────────────


def one_winner(answers: list[tuple[str, str, int, int] | str], place: Place, version: int) -> str:
    (winner,) = [each for each in answers if isinstance(each, str)]
    losers = [each for each in answers if not isinstance(each, str)]
    assert losers == [("ExpectedVersionMismatch", A, version, version + 1)] * (len(answers) - 1)
    manifest = Bases(place.open()).current(MAIN).manifest
    assert (manifest.version_of(A), manifest.version_of(B)) == (version + 1, version + 1)
    return winner


def test_of_processes_with_one_expectation_one_wins_and_the_others_are_told_what_moved(
    place: Place,
) -> None:
    racers = [launch(publish_against, place, 1) for _ in range(6)]
    winner = one_winner(values_of(race(racers)), place, 1)
    head = Bases(place.open()).current(MAIN).manifest.head
    assert head is not None
    assert head.id == winner


def test_of_threads_with_one_expectation_one_wins_every_round(place: Place) -> None:
    for version in range(1, 6):
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(partial(publish_against, place), [version] * 6))
        one_winner(answers, place, version)
    assert check_manifests(place.open()) == []


def test_of_processes_with_one_expectation_in_a_bucket_one_wins(cloud_place: Place) -> None:
    racers = [launch(publish_against, cloud_place, 1) for _ in range(4)]
    one_winner(values_of(race(racers)), cloud_place, 1)


def test_a_table_that_is_not_there_is_expected_at_zero(place: Place) -> None:
    stores = place.open()
    unknown = TableKey("node:Unknown")

    def expecting(version: int) -> Publication:
        return Publication(MAIN, (new_intent(),), expected={unknown: Version(version)})

    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(stores, Bases(stores), expecting(3))
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == (unknown, 3, 0)
    publish(stores, Bases(stores), expecting(0))
