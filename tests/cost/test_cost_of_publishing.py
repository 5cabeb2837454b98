"""What publishing and branching cost: calls, files and I/O operations. Never seconds."""

from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.branches import create_branch
from omnigraph.commit.manifest.publish import Published, publish
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.storage.lance.store import LanceHandle
from omnigraph.storage.lance.swap import SEALED_MANY, SEALED_ROWS
from omnigraph.storage.stores import Stores
from omnigraph.testing.faults import Recorder, watch_stores
from support.publishing import Place, advance, chain, grow_history, lineage_only

A = TableKey("node:T0")
SWAP = "tables.single_step.swap_rows"
SIDE = BranchName("side")


def make(folder: Path, *, tables: int = 2, commits: int = 0) -> Place:
    place = Place(str(folder / f"{tables}-{commits}"))
    schema = "  ".join(f"node T{number} {{ name: String @key }}" for number in range(tables))
    create(place.uri, schema, settings=Settings(durability=place.durability))
    if commits:
        grow_history(place.open(), commits, A)
    return place


def watched_stores(place: Place) -> tuple[Stores, Recorder]:
    watched = Recorder()
    return watch_stores(place.open(), watched), watched


def files_below(place: Place) -> set[Path]:
    return {each for each in Path(place.uri).rglob("*") if each.is_file()}


# ── publishing ───────────────────────────────────────────────────────────────────────────────────


def test_a_publish_after_our_own_is_one_probe_and_one_swap(tmp_path: Path) -> None:
    stores, watched = watched_stores(make(tmp_path))
    bases = Bases(stores)
    publish(stores, bases, advance(bases, A))
    for _ in range(20):
        publication = advance(bases, A)
        watched.calls.clear()
        publish(stores, bases, publication)
        assert watched.calls == ["tables.probe", SWAP]


def test_on_a_branch_it_is_one_more_look(tmp_path: Path) -> None:
    stores, watched = watched_stores(make(tmp_path))
    bases = Bases(stores)
    create_branch(stores, SIDE, bases.current(MAIN).handle)
    publish(stores, bases, lineage_only(SIDE))
    watched.calls.clear()
    publish(stores, bases, lineage_only(SIDE))
    assert watched.calls == ["tables.find_branch", "tables.probe", SWAP]


def test_a_publish_after_a_foreign_commit_is_one_scan(tmp_path: Path) -> None:
    place = make(tmp_path)
    stores, watched = watched_stores(place)
    bases = Bases(stores)
    bases.current(MAIN)
    other = place.open()
    publish(other, Bases(other), lineage_only())
    watched.calls.clear()
    publish(stores, bases, lineage_only())
    assert watched.calls.count("tables.read") == 1
    assert watched.calls.count(SWAP) == 1


class Overtaken(Recorder):
    """Somebody publishes before each of the first few swaps."""

    def __init__(self, place: Place, times: int) -> None:
        super().__init__()
        self.place = place
        self.times = times

    def before(self, call: str, *, is_write: bool) -> None:
        super().before(call, is_write=is_write)
        if call == SWAP and self.times:
            self.times -= 1
            other = self.place.open()
            publish(other, Bases(other), lineage_only())


def test_every_lost_race_costs_one_scan(tmp_path: Path) -> None:
    place = make(tmp_path)
    watched = Overtaken(place, times=3)
    stores = watch_stores(place.open(), watched)
    bases = Bases(stores)
    bases.current(MAIN)
    watched.calls.clear()
    publish(stores, bases, lineage_only())
    assert watched.calls.count(SWAP) == 4
    assert watched.calls.count("tables.read") == 3
    assert watched.calls.count("tables.open_at") == 3


def test_the_io_of_a_publish_does_not_depend_on_history(tmp_path: Path) -> None:
    """Until its tail is sealed, and with that."""
    costs = []
    for commits in (10, 10_000):
        place = make(tmp_path, commits=commits)
        stores = place.open()
        bases = Bases(stores)
        io_of(publish(stores, bases, advance(bases, A)))
        cost = []
        for _ in range(SEALED_ROWS // 2 + 4):
            before = files_below(place)
            published = publish(stores, bases, advance(bases, A))
            cost.append((*io_of(published), len(files_below(place) - before)))
        costs.append(cost)
    for cost in costs:
        # The transaction, read back to see that it is ours, counts for a dataset of its own.
        assert {read for read, _, _ in cost} == {0}
        # The tail, what was sealed of it, the version, its transaction, the hint at the newest.
        assert {written for _, written, _ in cost} == {4, 5}
        assert [written for _, written, _ in cost].count(5) == 1
        assert max(files for _, _, files in cost) <= 5


def test_a_first_publish_looks_once_at_the_keys_of_what_is_sealed(tmp_path: Path) -> None:
    read = []
    for commits in (1_000, 10_000):
        place = make(tmp_path, commits=commits)
        stores = place.open()
        bases = Bases(stores)
        io_of(publish(stores, bases, chain(SEALED_ROWS)))
        stranger = place.open()
        fresh = Bases(stranger)
        known = fresh.current(MAIN).handle
        assert isinstance(known, LanceHandle)
        known.dataset.io_stats_incremental()
        read.append(io_of(publish(stranger, fresh, lineage_only()))[0])
    assert max(read) <= 12
    assert read[1] <= read[0] + 4


def io_of(published: Published) -> tuple[int, int]:
    """Reads and writes since last asked, as the table format counts them."""
    handle = published.base.handle
    assert isinstance(handle, LanceHandle)
    counted = handle.dataset.io_stats_incremental()
    return counted.read_iops, counted.write_iops


def test_reading_on_after_a_foreign_commit_does_not_depend_on_history(tmp_path: Path) -> None:
    """It reads the tail, which has no more rows than fit before it is sealed."""
    read_bytes = []
    for commits in (10, 1_000):
        place = make(tmp_path, commits=commits)
        stores, other = place.open(), place.open()
        reader, writer = Bases(stores), Bases(other)
        publish(other, writer, chain(SEALED_ROWS))
        publish(other, writer, lineage_only())
        known = reader.current(MAIN).handle
        assert isinstance(known, LanceHandle)
        known.dataset.io_stats_incremental()
        publish(other, writer, lineage_only())
        seen = reader.current(MAIN).handle
        assert isinstance(seen, LanceHandle)
        read_bytes.append(seen.dataset.io_stats_incremental().read_bytes)
    assert 0 < read_bytes[1] < 1.2 * read_bytes[0]


def test_the_manifest_never_has_many_fragments_and_nobody_sweeps(tmp_path: Path) -> None:
    stores, watched = watched_stores(make(tmp_path))
    bases = Bases(stores)
    counts = []
    for _ in range(70):
        handle = publish(stores, bases, chain(SEALED_ROWS)).base.handle
        counts.append(len(stores.tables.inspect(handle).fragments))
    assert max(counts) < 2 * SEALED_MANY
    assert counts[-1] > 1, "what is sealed is left alone"
    assert {call for call in watched.calls if "compact" in call} == set()


def test_a_publish_writes_rows_only_for_what_it_changes(tmp_path: Path) -> None:
    stores = make(tmp_path, tables=40).open()
    bases = Bases(stores)
    before = bases.current(MAIN).handle.row_count
    after = publish(stores, bases, advance(bases, A)).base.handle.row_count
    assert after - before == 2, "a version and a commit; the head is replaced"


# ── branching ────────────────────────────────────────────────────────────────────────────────────


def cost_of_branching(place: Place) -> tuple[list[str], int]:
    stores, watched = watched_stores(place)
    source = Bases(stores).current(MAIN).handle
    before = files_below(place)
    watched.calls.clear()
    create_branch(stores, SIDE, source)
    return list(watched.calls), len(files_below(place) - before)


def test_a_branch_costs_the_same_whatever_the_graph_holds(tmp_path: Path) -> None:
    small = cost_of_branching(make(tmp_path, tables=2))
    assert cost_of_branching(make(tmp_path, tables=40)) == small
    assert cost_of_branching(make(tmp_path, tables=2, commits=1_000)) == small
    assert small[1] == 4, "the ref, the version, its transaction, and a hint at the newest version"


@pytest.mark.slow
def test_a_branch_costs_the_same_after_ten_thousand_commits(tmp_path: Path) -> None:
    small = cost_of_branching(make(tmp_path, tables=2))
    assert cost_of_branching(make(tmp_path, tables=2, commits=10_000)) == small


def test_nothing_is_copied_to_a_branch(tmp_path: Path) -> None:
    place = make(tmp_path, tables=2, commits=1_000)
    before = files_below(place)
    cost_of_branching(place)
    added = sum(each.stat().st_size for each in files_below(place) - before)
    assert added < 4_096
