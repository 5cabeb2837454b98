"""What a bulk load costs beside the least that others do with the same files, and how it grows.

Every run of Spark is a process of its own, warmed up with a small load unless it is the start that
is measured. Ratios are of one run of this program; absolute times say more about the machine.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import load_input
import load_rivals
import pyarrow as pa
from load_input import Size
from load_runs import Order, apart, apart_twice, tables_of
from measure import Figure, report, timed

from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.opening import create
from omnigraph.pipeline.spark.connect import find_server, start_server, stop_server

INGEST_MAX, WHOLE_MAX, GROWTH_MAX, MERGE_MAX, PARQUET_MAX, FILES_MAX = 1.0, 4.0, 4.5, 2.0, 3.0, 2.5
MEMORY_MB_MAX, CORES_MIN, COLD_S_MAX, WARM_S_MAX, CONNECT_S_MAX = 100, 1.6, 12.0, 1.5, 5.0
CONNECT_PORT = 15_402


# ── what is measured ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Bench:
    folder: Path
    size: Size
    vectors: int
    merge_rows: int

    def order(self, source: Path, schema: str = load_input.SCHEMA) -> Order:
        return Order((Input(str(source)),), schema, self.folder / "run")

    def graph(self) -> list[Figure]:
        source = load_input.write_graph(self.folder / "graph.jsonl", self.size)
        took = apart(self.order(source))
        arrow_s = timed(lambda: load_rivals.arrow_and_lance(source, self.folder / "arrow"))
        duck_s = timed(lambda: load_rivals.duck(source, self.folder / "duck"))
        return [
            Figure("pyarrow.json + Lance, one process", arrow_s),
            at_most("ingest stage", took.ingest_s, "pyarrow.json + Lance", arrow_s, INGEST_MAX),
            Figure("checks", took.check_s),
            Figure("DuckDB to Parquet, and the checks", duck_s),
            at_most("whole load", took.whole_s, "DuckDB", duck_s, WHOLE_MAX),
        ]

    def refused(self) -> list[Figure]:
        """What it costs to say what is wrong with three lines."""
        source = load_input.write_graph(self.folder / "refused.jsonl", self.size)
        right = apart(self.order(source))
        load_input.add_faults(source, self.size)
        wrong = apart(replace(self.order(source), is_refused=True))
        return [
            Figure("checks of a load that is right", right.check_s),
            compared("checks of one with three faults", wrong.check_s, "right", right.check_s),
        ]

    def keys(self) -> list[Figure]:
        key = load_input.scattered_key
        source = load_input.write_graph(self.folder / "keys.jsonl", self.size, key)
        took = apart(self.order(source))
        duck_s = timed(lambda: load_rivals.duck(source, self.folder / "duck"))
        return [compared("whole load, UUID-like keys", took.whole_s, "DuckDB", duck_s)]

    def wide(self) -> list[Figure]:
        source = load_input.write_vectors(self.folder / "vectors.jsonl", self.vectors)
        took = apart(self.order(source, load_input.VECTOR_SCHEMA))
        rate = source.stat().st_size / 2**20 / took.whole_s
        return [
            Figure(f"whole load, {self.vectors:,} vectors of 384 ({rate:.0f} MB/s)", took.whole_s)
        ]

    def growth(self) -> list[Figure]:
        source = load_input.write_graph(self.folder / "one.jsonl", self.size)
        large = load_input.write_graph(self.folder / "four.jsonl", self.size.times(4))
        one, four = apart(self.order(source)), apart(self.order(large))
        more_mb = four.driver_mb - one.driver_mb
        return [
            at_most("four times the input", four.whole_s, "once", one.whole_s, GROWTH_MAX),
            Figure(
                f"driver memory, {one.driver_mb:.0f} then {four.driver_mb:.0f} MB",
                four.whole_s,
                "MB more",
                more_mb,
                f"≤ {MEMORY_MB_MAX}",
                more_mb <= MEMORY_MB_MAX,
            ),
            Figure(
                f"a worker's memory, {one.workers_mb:.0f} then {four.workers_mb:.0f} MB",
                four.whole_s,
                "once",
                four.workers_mb / max(one.workers_mb, 1),
            ),
        ]

    def cores(self) -> list[Figure]:
        source = load_input.write_graph(self.folder / "cores.jsonl", self.size)
        # In turns: whoever comes first finds the file still being written out.
        took = [
            apart(replace(self.order(source), master=master)).whole_s
            for master in ("local[1]", "local[2]") * 2
        ]
        one_s, two_s = min(took[::2]), min(took[1::2])
        ratio = one_s / two_s
        return [
            Figure("local[1]", one_s),
            Figure(
                "local[2]", two_s, "local[1] in it", ratio, f"≥ {CORES_MIN}", ratio >= CORES_MIN
            ),
        ]

    def merge(self) -> list[Figure]:
        """Half of the rows exist, spread over all of the table."""
        there = self.merge_rows * 5
        before = load_input.write_people(self.folder / "there.jsonl", list(range(there)))
        numbers = [*range(0, there, 10), *range(there, there + self.merge_rows // 2)]
        source = load_input.write_people(self.folder / "merge.jsonl", numbers)
        order = replace(self.order(source), mode=LoadMode.MERGE, before=before)
        driver = apart(replace(order, memory_bytes=2**40))
        workers = apart(replace(order, memory_bytes=0))
        bare_s = self._bare_merge(before, source)
        return [
            Figure("bare merge_insert of the same rows", bare_s),
            compared("merge: checks", driver.check_s, "bare", bare_s),
            at_most("merge: staging and commit", driver.commit_s, "bare", bare_s, MERGE_MAX),
            compared("merge by workers: staging and commit", workers.commit_s, "bare", bare_s),
            Figure(
                f"driver memory, {driver.driver_mb:.0f} MB, by workers {workers.driver_mb:.0f} MB",
                workers.whole_s,
            ),
        ]

    def _bare_merge(self, before: Path, source: Path) -> float:
        """On a table that Lance made of the same rows."""
        folder = self.folder / "bare"
        shutil.rmtree(folder, ignore_errors=True)
        rows = load_rivals.people_of(before)
        load_rivals.write_table(folder, rows)
        coming: pa.Table = load_rivals.people_of(source)
        return timed(lambda: load_rivals.bare_merge(folder, coming))

    def tables(self) -> list[Figure]:
        people, knows = load_input.write_parquet(self.folder / "parquet", self.size)
        order = Order(tables_of(people, knows), load_input.PARQUET_SCHEMA, self.folder / "run")
        took = apart(order)
        rival_s = timed(lambda: load_rivals.ladybug_copy(people, knows, self.folder / "ladybug"))
        return [
            Figure("ladybug COPY", rival_s),
            at_most("load from Parquet", took.whole_s, "ladybug", rival_s, PARQUET_MAX),
        ]

    def files(self) -> list[Figure]:
        """Many small CSV files as one commit, by a command that starts cold."""
        many = load_input.write_many(self.folder / "files", self.size)
        pipeline = self.folder / "pipeline.yaml"
        pipeline.write_text(many.pipeline)
        uri = str(self.folder / "graph")
        create(uri, many.schema)
        whole_s = timed(lambda: _cli("pipeline", "run", uri, str(pipeline)))
        rival_s = timed(lambda: load_rivals.ladybug_copies(many, self.folder / "ladybug"))
        name = f"{len(many.nodes) + len(many.edges)} CSV files, the whole command"
        return [
            Figure("ladybug COPY of the same files", rival_s),
            at_most(name, whole_s, "ladybug", rival_s, FILES_MAX),
        ]

    def tiny(self) -> list[Figure]:
        source = load_input.write_tiny(self.folder / "tiny.jsonl")
        uri = str(self.folder / "tiny")
        create(uri, load_input.TINY_SCHEMA)
        cold_s = timed(lambda: _cli("load", uri, "--data", str(source), "--mode", "merge"))
        warm_s = apart_twice(uri, str(source))
        return [
            limited("ten lines: the whole command", cold_s, COLD_S_MAX),
            limited("ten lines in a warm process", warm_s, WARM_S_MAX),
            *self._connected(uri, source),
        ]

    def _connected(self, uri: str, source: Path) -> list[Figure]:
        """On a Connect server that is up already. One that is not ours is left alone."""
        if find_server() is not None:
            return []
        server = start_server(CONNECT_PORT)
        remote = ("--spark-remote", server.address)
        try:
            load = partial(_cli, "load", uri, "--data", str(source), "--mode", "merge", *remote)
            load()
            return [limited("ten lines on a Connect server", timed(load), CONNECT_S_MAX)]
        finally:
            stop_server()


def _cli(*arguments: str) -> None:
    command = [sys.executable, "-c", "from omnigraph.cli.app import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def compared(name: str, seconds: float, baseline: str, baseline_s: float) -> Figure:
    return Figure(name, seconds, baseline, seconds / baseline_s)


def at_most(name: str, seconds: float, baseline: str, baseline_s: float, limit: float) -> Figure:
    figure = compared(name, seconds, baseline, baseline_s)
    return replace(figure, target=f"≤ {limit}", met=seconds / baseline_s <= limit)


def limited(name: str, seconds: float, limit_s: float) -> Figure:
    return Figure(name, seconds, target=f"≤ {limit_s} s", met=seconds <= limit_s)


SECTIONS: dict[str, Callable[[Bench], list[Figure]]] = {
    "graph": Bench.graph,
    "refused": Bench.refused,
    "keys": Bench.keys,
    "wide": Bench.wide,
    "growth": Bench.growth,
    "cores": Bench.cores,
    "merge": Bench.merge,
    "tables": Bench.tables,
    "files": Bench.files,
    "tiny": Bench.tiny,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000, help="each with five edges")
    parser.add_argument("--vectors", type=int, default=4_000)
    parser.add_argument("--merge-rows", type=int, default=20_000, help="into five times as many")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    chosen = parser.parse_args(arguments)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        for name in chosen.only:
            place = Path(folder) / name
            place.mkdir()
            context = Bench(place, Size(chosen.nodes), chosen.vectors, chosen.merge_rows)
            figures += SECTIONS[name](context)
            shutil.rmtree(place)
            print(json.dumps([name, [each.name for each in figures]]), file=sys.stderr)
    report("load", figures)


if __name__ == "__main__":
    main()
