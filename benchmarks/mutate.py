"""What a small write costs beside the bare table format, and what makes it dearer.

The floor is what cannot be left out: writing a fragment and committing it to each table, merging
the same number of rows into a manifest (or, every sixteenth time, overwriting it whole), and one
small file that is put and removed. It works on copies of the very tables the graph has, with plain
calls of Lance, and is tidied up as often. Durable adds the flush of every file that was written,
and of its folder. Write and floor take turns, so that whatever else the machine does disturbs both
alike.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from measure import Figure, percentile, report, timed

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph, open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.upkeep import write_indexes
from omnigraph.ids import MAIN, TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, IndexScope, Mark, Staged
from omnigraph.testing.faults import watch_stores
from support.processes import launch, race, values_of

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { name: String @key }
edge Joined: Person -> Team
node A { name: String @key }
node B { name: String @key }
node C { name: String @key }
node D { name: String @key }
"""
PERSON, JOINED = TableKey("node:Person"), TableKey("edge:Joined")
JOIN = """query q($n: String) {
  insert Person { name: $n, age: 1 }
  insert Joined { from: $n, to: "team" }
}"""
FOLD_AT = 16
TIDY_EVERY = 32
ROWS_PER_FILE = 100_000
WARM_UPS = 5
DURABILITIES = (Durability.RELAXED, Durability.DURABLE)

NEW_MAX, REPLACE_MAX, PAIR_MAX, DEPTH_MAX, SIZE_MAX, SPREAD_MAX = 1.5, 2.0, 1.6, 1.3, 1.3, 5.0


# ── the floor ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Copy:
    """A table of the graph, copied, and written with plain calls."""

    folder: Path
    dataset: LanceDataset = field(init=False)

    def __post_init__(self) -> None:
        self.dataset = lance.dataset(str(self.folder))

    def append(self, rows: pa.Table) -> None:
        fragments = write_fragments(
            rows,
            self.dataset,
            mode="append",
            data_storage_version="2.2",
            enable_stable_row_ids=True,
        )
        operation = LanceOperation.Append(fragments)
        transaction = Transaction(self.dataset.version, operation)
        self.dataset = LanceDataset.commit(self.dataset, transaction, max_retries=0)

    def tidy(self) -> None:
        self.dataset = lance.dataset(str(self.folder))
        self.dataset.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FILE)
        self.dataset = lance.dataset(str(self.folder))

    def swap(self, rows: pa.Table) -> None:
        table = lance.dataset(str(self.folder))
        if len(table.get_fragments()) < FOLD_AT:
            merge = table.merge_insert("object_id").when_matched_update_all()
            merge = merge.when_not_matched_insert_all().use_index(use_index=False)
            merge.conflict_retries(0).execute(rows)
        else:
            kept = table.to_table()
            kept = kept.filter(pc.invert(pc.is_in(kept["object_id"], rows["object_id"])))
            lance.write_dataset(pa.concat_tables([kept, rows]), table, mode="overwrite")

    def files(self) -> set[Path]:
        return {each for each in self.folder.rglob("*") if each.is_file()}


class Floor:
    """The least a write of some tables can be."""

    def __init__(self, graph: LocalGraph, keys: Sequence[TableKey], folder: Path) -> None:
        root, pins = Path(graph.uri), graph.snapshot().pins
        shutil.copytree(root / MANIFEST, folder / MANIFEST)
        for key in keys:
            shutil.copytree(root / pins[key].path, folder / pins[key].path)
        self._manifest = Copy(folder / MANIFEST)
        self._tables = [Copy(folder / pins[key].path) for key in keys]
        self._note = folder / "note.json"
        self._published = self._template(len(keys))
        self._numbers = count()

    def _template(self, table_count: int) -> pa.Table:
        """Rows as a publish writes them: a version for each table, a commit, the head."""
        rows = self._manifest.dataset.to_table()
        parts = [
            rows.filter(pc.equal(rows["object_type"], pa.scalar(kind))).slice(0, how_many)
            for kind, how_many in (("table_version", table_count), ("graph_commit", 1))
        ]
        head = rows.filter(pc.equal(rows["object_type"], pa.scalar("graph_head")))
        return pa.concat_tables([*parts, head])

    def write(self, durability: Durability) -> float:
        """How long the bare calls take for the next row of each table."""
        number = next(self._numbers)
        is_durable = durability is Durability.DURABLE
        inserts = [self._row(each.dataset.schema, number) for each in self._tables]
        published = self._rows_to_publish(number)
        took = timed(partial(self._put_note, is_durable=is_durable))
        took += self._watched(partial(self._append, inserts), self._tables, is_durable=is_durable)
        swap = partial(self._manifest.swap, published)
        took += self._watched(swap, [self._manifest], is_durable=is_durable)
        took += timed(partial(self._remove_note, is_durable=is_durable))
        if number % TIDY_EVERY == TIDY_EVERY - 1:
            for each in self._tables:
                each.tidy()
        return took

    def _append(self, inserts: Sequence[pa.Table]) -> None:
        for table, rows in zip(self._tables, inserts, strict=True):
            table.append(rows)

    def _watched(
        self, work: Callable[[], None], tables: Sequence[Copy], *, is_durable: bool
    ) -> float:
        if not is_durable:
            return timed(work)
        before = {path for each in tables for path in each.files()}
        took = timed(work)
        fresh = {path for each in tables for path in each.files()} - before
        return took + timed(partial(flush, [*fresh, *{each.parent for each in fresh}]))

    def _put_note(self, *, is_durable: bool) -> None:
        temporary = self._note.with_name("note.json#1")
        temporary.write_bytes(b"x" * 800)
        if is_durable:
            flush([temporary])
        temporary.replace(self._note)
        if is_durable:
            flush([self._note.parent])

    def _remove_note(self, *, is_durable: bool) -> None:
        self._note.unlink()
        if is_durable:
            flush([self._note.parent])

    def _row(self, schema: pa.Schema, number: int) -> pa.Table:
        made = {
            each.name: [f"floor-{number}" if pa.types.is_string(each.type) else 1]
            for each in schema
        }
        return pa.table(made, schema=schema)

    def _rows_to_publish(self, number: int) -> pa.Table:
        ids = map(str, self._published["object_id"].to_pylist())
        fresh = [each if each.startswith("graph_head") else f"{each}-{number}" for each in ids]
        at = self._published.schema.get_field_index("object_id")
        return self._published.set_column(
            at, self._published.schema.field(at), pa.array(fresh, pa.string())
        )


def flush(paths: Sequence[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


# ── graphs to measure ────────────────────────────────────────────────────────────────────────────


def new_graph(folder: Path) -> Path:
    """A graph with a row in each table that is measured."""
    create(str(folder), SCHEMA, settings=Settings(durability=Durability.RELAXED))
    graph = reopen(folder, Durability.RELAXED)
    graph.insert("Team", [{"name": "team"}])
    graph.insert("Person", [{"name": "somebody", "age": 1}])
    graph.insert("Joined", [{"from": "somebody", "to": "team"}])
    return folder


def filled_graph(folder: Path, rows: int) -> Path:
    """So many persons, in files of the usual size, and indexed."""
    new_graph(folder)
    stores = open_stores(str(folder), REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))
    catalog = open_graph(str(folder)).catalog

    def stage(handle: Handle, mark: Mark) -> Staged:
        batches = pa.RecordBatchReader.from_batches(handle.schema, make_rows(handle.schema, rows))
        return stores.tables.stage_append(handle, batches, mark)

    write_table(context, PERSON, stage, WriterKind.LOAD)
    for key in (PERSON, JOINED):
        write_table(
            context, key, partial(stage_indexes, stores, catalog), WriterKind.ENSURE_INDICES
        )
    return folder


def write_table(context: WriteContext, key: TableKey, stage: Stage, kind: WriterKind) -> None:
    with acquire_write_locks(context, MAIN, [key]) as lock:
        version = lock.base.manifest.pins[key].version
        run(lock, Change(kind, MAIN, (TableWrite(key, version, (stage,)),)))


def stage_indexes(stores: Stores, catalog: Catalog, handle: Handle, mark: Mark) -> Staged | None:
    key = PERSON if "age" in handle.schema.names else JOINED
    specs = write_indexes(catalog, key)
    return stores.tables.stage_indices(handle, specs, IndexScope.UNCOVERED, mark)


def make_rows(schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, ROWS_PER_FILE):
        names = [f"p{number:09}" for number in range(start, min(rows, start + ROWS_PER_FILE))]
        columns = {"id": names, "name": names, "age": [1] * len(names)}
        yield from pa.table(columns).select(schema.names).cast(schema).to_batches()


def reopen(folder: Path, durability: Durability) -> LocalGraph:
    return LocalGraph(open_graph(str(folder), settings=Settings(durability=durability)))


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


Write = Callable[[LocalGraph, int], object]


def insert_new(graph: LocalGraph, number: int) -> object:
    return graph.insert("Person", [{"name": f"new-{number}", "age": 1}])


def replace_one(graph: LocalGraph, number: int) -> object:
    return graph.upsert("Person", [{"name": f"p{number * 7:09}", "age": number}])


def insert_pair(graph: LocalGraph, number: int) -> object:
    return graph.mutate(JOIN, params={"n": f"pair-{number}"})


@dataclass
class Subject:
    """A kind of write on a graph that stays open, its floor, and what was measured of both."""

    name: str
    write: Write
    graph: LocalGraph
    floor: Floor
    durability: Durability
    write_s: list[float] = field(default_factory=list)
    floor_s: list[float] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def measure(self, *, floor_first: bool) -> None:
        work = partial(self.write, self.graph, next(self.numbers))
        if floor_first:
            self.floor_s.append(self.floor.write(self.durability))
        self.write_s.append(timed(work))
        if not floor_first:
            self.floor_s.append(self.floor.write(self.durability))

    @property
    def p50(self) -> float:
        return median(self.write_s)

    def against_floor(self, ratio_max: float | None) -> list[Figure]:
        ratio = self.p50 / median(self.floor_s)
        target = None if ratio_max is None else f"≤ {ratio_max}"
        met = None if ratio_max is None else ratio <= ratio_max
        p95, floor_p95 = percentile(self.write_s, 0.95), percentile(self.floor_s, 0.95)
        return [
            Figure(f"{self.name}, p50", self.p50, "floor, p50", ratio, target, met),
            Figure("  p95", p95, "floor, p95", p95 / floor_p95),
        ]

    def against(self, other: "Subject", ratio_max: float) -> Figure:
        ratio = self.p50 / other.p50
        return Figure(
            f"{self.name}, p50", self.p50, other.name, ratio, f"≤ {ratio_max}", ratio <= ratio_max
        )


def subject(
    name: str,
    write: Write,
    folder: Path,
    durability: Durability,
    keys: Sequence[TableKey] = (PERSON,),
) -> Subject:
    """A subject on a copy of a graph, so that none inherits what another wrote."""
    place = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(folder, place / "graph")
    graph = reopen(place / "graph", durability)
    return Subject(name, write, graph, Floor(graph, keys, place / "floor"), durability)


def take_turns(subjects: Sequence[Subject], rounds: int) -> None:
    for number in range(WARM_UPS + rounds):
        for each in subjects:
            each.measure(floor_first=number % 2 == 0)
    for each in subjects:
        del each.write_s[:WARM_UPS], each.floor_s[:WARM_UPS]


def measure_writes(folder: Path, sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Each kind of write against its floor, and large tables against small ones."""
    graphs = {size: filled_graph(folder / f"rows-{size}", size) for size in sizes}
    figures: list[Figure] = []
    for durability in DURABILITIES:
        inserts = [
            subject(f"insert at {size:,} rows, {durability.value}", insert_new, place, durability)
            for size, place in graphs.items()
        ]
        smallest, word = graphs[sizes[0]], durability.value
        replaced = subject(f"replace, {word}", replace_one, smallest, durability)
        pair = subject(f"node + edge, {word}", insert_pair, smallest, durability, (PERSON, JOINED))
        take_turns([*inserts, replaced, pair], rounds)
        figures += inserts[0].against_floor(NEW_MAX)
        figures += replaced.against_floor(REPLACE_MAX)
        figures += pair.against_floor(PAIR_MAX)
        for each in inserts[1:]:
            figures += [each.against(inserts[0], SIZE_MAX), *each.against_floor(None)]
    return figures


def measure_depth(folder: Path, depths: Sequence[int], rounds: int) -> list[Figure]:
    """A long history against a short one, both made write by write, tidied up on the way."""
    places = []
    for depth in depths:
        place = new_graph(folder / f"depth-{depth}")
        graph = reopen(place, Durability.RELAXED)
        for number in range(depth):
            graph.insert("Person", [{"name": f"old-{number}", "age": 1}])
        places.append(place)
    figures: list[Figure] = []
    for durability in DURABILITIES:
        subjects = [
            subject(f"insert after {depth:,}, {durability.value}", insert_new, place, durability)
            for depth, place in zip(depths, places, strict=True)
        ]
        take_turns(subjects, rounds)
        figures += [each.against(subjects[0], DEPTH_MAX) for each in subjects[1:]]
    return figures


# ── step by step ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class Stopwatch:
    """Adds up what each call to the stores takes."""

    spent_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    started_s: float = 0.0

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self.started_s = time.perf_counter()

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self.spent_s[call] += time.perf_counter() - self.started_s


def measure_steps(folder: Path, rounds: int) -> list[Figure]:
    """Where the time of an insert goes: the calls to the stores, and our own work."""
    figures: list[Figure] = []
    for durability in DURABILITIES:
        place = filled_graph(folder / f"steps-{durability.value}", 1_000)
        watch = Stopwatch()
        stores = watch_stores(open_stores(str(place), REAL, durability=durability), watch)
        graph = LocalGraph(open_in(stores, Mode.READ_WRITE, Settings(durability=durability)))
        spent: dict[str, list[float]] = defaultdict(list)
        for number in range(WARM_UPS + rounds):
            watch.spent_s.clear()
            whole = timed(partial(insert_new, graph, number))
            if number >= WARM_UPS:
                for call, seconds in watch.spent_s.items():
                    spent[call].append(seconds)
                spent["our own work"].append(whole - sum(watch.spent_s.values()))
                spent["whole"].append(whole)
        figures += steps_of(spent, durability)
    return figures


def steps_of(spent: Mapping[str, list[float]], durability: Durability) -> list[Figure]:
    whole = median(spent["whole"])
    # What only some inserts do, such as folding the manifest, belongs to the p95.
    usual = {
        call: median(each) for call, each in spent.items() if len(each) > len(spent["whole"]) / 2
    }
    del usual["whole"]
    ranked = sorted(usual.items(), key=lambda each: -each[1])
    return [Figure(f"insert step by step, {durability.value}, p50", whole)] + [
        Figure(f"  {call}", seconds, "whole", seconds / whole) for call, seconds in ranked
    ]


# ── many processes ───────────────────────────────────────────────────────────────────────────────


def insert_many(folder: str, type_name: str, prefix: str, how_many: int) -> list[float]:
    """How long each insert of one process took."""
    graph = LocalGraph(open_graph(folder, settings=Settings(durability=Durability.RELAXED)))
    rows = [{"name": f"{prefix}-{number}"} for number in range(how_many)]
    return [timed(partial(graph.insert, type_name, [each])) for each in rows]


def measure_processes(folder: Path, *, processes: int, how_many: int) -> list[Figure]:
    figures: list[Figure] = []
    alone_place = new_graph(folder / "alone")
    alone = median(insert_many(str(alone_place), "A", "x", how_many))
    for name, types in (("one table", "A"), ("a table each", "ABCD")):
        place = new_graph(folder / f"race-{len(types)}")
        runners = [
            launch(insert_many, str(place), types[each % len(types)], f"x{each}", how_many)
            for each in range(processes)
        ]
        taken = values_of(race(runners, timeout_s=600))
        everything = [took for each in taken for took in each]
        rate = processes * how_many / max(map(sum, taken))
        p50, p95 = median(everything), percentile(everything, 0.95)
        spread = p95 / p50
        figures += [
            Figure(
                f"{processes} processes, {name}: {rate:.0f} commits/s, p50",
                p50,
                "alone",
                p50 / alone,
            ),
            Figure("  p95", p95, "p50", spread, f"≤ {SPREAD_MAX}", spread <= SPREAD_MAX),
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--depths", type=int, nargs="+", default=[10, 1_000])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--inserts", type=int, default=40, help="of each process")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = measure_writes(folder, asked.rows, asked.rounds)
        figures += measure_depth(folder, asked.depths, asked.rounds)
        figures += measure_processes(folder, processes=asked.processes, how_many=asked.inserts)
        figures += measure_steps(folder, asked.rounds)
    report("mutate", figures)


if __name__ == "__main__":
    main()
