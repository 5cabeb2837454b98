"""What a publish costs beside the bare swap, and whether history makes it dearer.

The floor is what cannot be left out: opening a bare table and merging the same rows into it, and
every sixteenth time overwriting it whole, so that it has as many fragments as the manifest. Durable
adds the flush of the files that were written. Graphs of all sizes, and their floors, take turns,
so that whatever else the machine does disturbs all of them alike.

Histories are made in one write, or, with `--real`, publish by publish.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa
import pyarrow.compute as pc
from measure import Figure, report

from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.updates import successor
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from support.processes import launch, race, values_of
from support.publishing import (
    Place,
    advance,
    grow_history,
    lineage_only,
    publish_patiently,
)

A = TableKey("node:A")
SCHEMA = "  ".join(f"node {name} {{ name: String @key }}" for name in "ABCDEFGHIJ")
FOLD_AT = 16
TARGETS = {1_000: 1.3, 10_000: 2.0}
REREAD_MS_MAX = 15


@dataclass
class Floor:
    """A bare table with the rows of a manifest."""

    folder: Path
    is_durable: bool
    seen: set[Path] = field(default_factory=set)

    def swap(self, rows: pa.Table) -> float:
        """Merge rows in, or fold; how long that took."""
        self.seen = self._files()
        start = time.perf_counter()
        table = lance.dataset(str(self.folder))
        if len(table.get_fragments()) < FOLD_AT:
            merge = table.merge_insert("object_id").when_matched_update_all()
            merge = merge.when_not_matched_insert_all().use_index(use_index=False)
            merge.conflict_retries(0).execute(rows)
        else:
            kept = table.to_table()
            kept = kept.filter(pc.invert(pc.is_in(kept["object_id"], rows["object_id"])))
            lance.write_dataset(pa.concat_tables([kept, rows]), table, mode="overwrite")
        took = time.perf_counter() - start
        return took + (self._flush() if self.is_durable else 0)

    def _files(self) -> set[Path]:
        return {each for each in self.folder.rglob("*") if each.is_file()}

    def _flush(self) -> float:
        fresh = self._files() - self.seen
        start = time.perf_counter()
        for path in [*fresh, *{each.parent for each in fresh}]:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        return time.perf_counter() - start


@dataclass
class Subject:
    """A graph with a history, its floor, and what was measured of both."""

    commits: int
    stores: Stores
    bases: Bases
    floor: Floor
    publish_s: list[float] = field(default_factory=list)
    floor_s: list[float] = field(default_factory=list)

    def measure(self, *, floor_first: bool) -> None:
        publication = advance(self.bases, A)
        base = self.bases.current(MAIN).manifest
        rows = successor(base, publication.updates, publication.intents).rows
        if floor_first:
            self.floor_s.append(self.floor.swap(rows))
        self.publish_s.append(
            timed(lambda: publish(self.stores, self.bases, publication)),
        )
        if not floor_first:
            self.floor_s.append(self.floor.swap(rows))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def new_place(folder: Path, durability: Durability) -> Place:
    place = Place(str(folder), durability=durability)
    create(place.uri, SCHEMA, settings=Settings(durability=durability))
    return place


def prepare(folder: Path, commits: int, durability: Durability, *, real: bool) -> Subject:
    place = new_place(folder / f"{durability.value}-{commits}", durability)
    if real:
        stores = Place(place.uri).open()
        bases = Bases(stores)
        for _ in range(commits):
            publish(stores, bases, advance(bases, A))
    else:
        grow_history(place.open(), commits, A)
    bare = folder / f"{durability.value}-{commits}-floor"
    rows = lance.dataset(f"{place.uri}/{MANIFEST}").to_table()
    lance.write_dataset(rows, str(bare), data_storage_version="2.2", enable_stable_row_ids=True)
    stores = place.open()
    return Subject(commits, stores, Bases(stores), Floor(bare, durability is Durability.DURABLE))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def figures_of(subjects: list[Subject], durability: Durability) -> list[Figure]:
    smallest = subjects[0]
    base_s = median(smallest.publish_s)
    figures = []
    for each in subjects:
        name = f"publish at {each.commits:,}, {durability.value}"
        p50, floor = median(each.publish_s), median(each.floor_s)
        target = TARGETS.get(each.commits)
        ratio = p50 / base_s
        if each is smallest:
            figures.append(Figure(f"{name}, p50", p50))
        else:
            wanted = None if target is None else f"≤ {target}"
            met = None if target is None else ratio <= target
            against = f"p50 at {smallest.commits:,}"
            figures.append(Figure(f"{name}, p50", p50, against, ratio, wanted, met))
        figures.append(Figure("  against the floor", p50, "bare swap, p50", p50 / floor))
        p95, floor_p95 = percentile(each.publish_s, 0.95), percentile(each.floor_s, 0.95)
        figures.append(Figure("  p95", p95, "bare swap, p95", p95 / floor_p95))
    return figures


def measure_durability(
    folder: Path, sizes: list[int], durability: Durability, *, rounds: int, real: bool
) -> list[Figure]:
    subjects = [prepare(folder, size, durability, real=real) for size in sizes]
    for number in range(rounds):
        for subject in subjects:
            subject.measure(floor_first=number % 2 == 0)
    for subject in subjects:  # the first few warm caches up
        del subject.publish_s[:3], subject.floor_s[:3]
    return figures_of(subjects, durability)


def measure_reading(folder: Path, sizes: list[int]) -> list[Figure]:
    """How long until a foreign commit is seen, by a handle that lives and by a new one."""
    figures = []
    for size in sizes:
        place = new_place(folder / f"read-{size}", Durability.RELAXED)
        grow_history(place.open(), size, A)
        reader_stores, writer_stores = place.open(), place.open()
        reader, writer = Bases(reader_stores), Bases(writer_stores)
        reader.current(MAIN)
        on_s, all_s = [], []
        for _ in range(2 * FOLD_AT):
            publish(writer_stores, writer, lineage_only())
            on_s.append(timed(partial(reader.current, MAIN)))
            all_s.append(timed(partial(read_base, reader_stores, MAIN)))
        seen_s = median(on_s)
        limit = f"≤ {REREAD_MS_MAX} ms"
        met = seen_s * 1000 <= REREAD_MS_MAX
        name = f"reading on after a foreign commit, at {size:,}"
        ratio = seen_s / median(all_s)
        figures.append(Figure(name, seen_s, "reading all", ratio, limit, met))
    return figures


def publish_many(place: Place, count: int) -> float:
    stores = place.open()
    bases = Bases(stores)
    bases.current(MAIN)
    return timed(
        lambda: [publish_patiently(stores, bases, lineage_only()) for _ in range(count)],
    )


def measure_processes(folder: Path, *, processes: int, count: int) -> list[Figure]:
    figures = []
    for durability in (Durability.RELAXED, Durability.DURABLE):
        alone = publish_many(new_place(folder / f"alone-{durability.value}", durability), count)
        place = new_place(folder / f"many-{durability.value}", durability)
        runners = [launch(publish_many, place, count) for _ in range(processes)]
        together_s = max(values_of(race(runners, timeout_s=600)))
        commits = processes * count
        name = f"{processes} processes, {durability.value}: {commits / together_s:.0f} commits/s"
        per_commit = together_s / commits
        figures.append(Figure(name, per_commit, "one process", per_commit / (alone / count)))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=6 * FOLD_AT)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--commits", type=int, default=25, help="of each process")
    parser.add_argument("--real", action="store_true", help="make histories commit by commit")
    asked = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for durability in (Durability.RELAXED, Durability.DURABLE):
            figures += measure_durability(
                folder, asked.sizes, durability, rounds=asked.rounds, real=asked.real
            )
        figures += measure_reading(folder, asked.sizes)
        figures += measure_processes(folder, processes=asked.processes, count=asked.commits)
    report("publish", figures)


if __name__ == "__main__":
    main()
