"""What a search costs with an index and without, and how much an index over vectors misses.

Texts are of words as frequent as those of a language. Vectors lie in clusters; or low, that is
without clusters yet close to a space of few dimensions, as those of models do; or anywhere at all,
which no index over partitions is good at and no model makes: what finds those finds any. The
baseline of a text search is the full-text index of the table format asked for ten rows; that of a
vector search is looking at every vector.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from measure import Figure, best_of, percentile, report, timed

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.compiler import ir
from omnigraph.effects import REAL
from omnigraph.engine.maintain.indexes import IndexRequest, ensure_indices
from omnigraph.engine.opening import create
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.ranking import (
    EVERY_ROW,
    Candidates,
    SearchedTable,
    SearchOptions,
    rank,
)
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import Handle, Mark, ScanRequest, Staged, TextQuery

DOC = TableKey("node:Doc")
VOCABULARY = 30_000
WORDS_PER_TEXT = 12
RECALL_MIN = 0.95
RUNS = 5
QUERIES = 50
FEW = 16
KINDS = ("clustered", "low", "anywhere")

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Data:
    rows: pa.Table
    vectors: dict[str, Matrix]
    asked: dict[str, Matrix]
    """Vectors of the same kind, which are not among them."""
    queries: Sequence[str]


def make(row_count: int, dimension: int, seed: int) -> Data:
    random = np.random.default_rng(seed)
    ranks = np.minimum(random.zipf(1.3, row_count * WORDS_PER_TEXT), VOCABULARY)
    words = [f"w{rank:x}q" for rank in range(VOCABULARY + 1)]
    texts = [" ".join(words[each] for each in row) for row in ranks.reshape(row_count, -1)]
    vectors = {kind: _make_vectors(kind, row_count + QUERIES, dimension, random) for kind in KINDS}
    columns = {
        "body": pa.array(texts),
        "id": pa.array([f"d{number:08}" for number in range(row_count)]),
        "slug": pa.array([f"d{number:08}" for number in range(row_count)]),
        "year": pa.array(random.integers(0, 100, row_count).astype(np.int32)),
        **{kind: _vectors(each[:row_count]) for kind, each in vectors.items()},
    }
    queries = [f"{words[40 + each]} {words[400 + each]}" for each in range(20)]
    return Data(
        pa.table(columns),
        {kind: each[:row_count] for kind, each in vectors.items()},
        {kind: each[row_count:] for kind, each in vectors.items()},
        queries,
    )


def _make_vectors(kind: str, count: int, dimension: int, random: np.random.Generator) -> Matrix:
    noise = random.normal(size=(count, dimension))
    match kind:
        case "clustered":
            centres = random.normal(size=(max(1, count // 500), dimension)) * 3
            made = centres[random.integers(len(centres), size=count)] + noise
        case "low":
            made = random.normal(size=(count, FEW)) @ random.normal(size=(FEW, dimension))
            made += 0.3 * noise
        case _:
            made = noise
    return made.astype(np.float32)


def _vectors(matrix: Matrix) -> "pa.Array[Any]":
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def schema_of(dimension: int) -> str:
    return f"""
    node Doc {{
      slug: String @key
      body: String @index
      year: I32 @index
      clustered: Vector({dimension}) @index
      low: Vector({dimension}) @index
      anywhere: Vector({dimension}) @index
    }}
    """


def fill(context: WriteContext, rows: pa.Table) -> None:
    with acquire_write_locks(context, MAIN, [DOC]) as lock:
        pin = lock.base.manifest.pins[DOC]

        def stage(handle: Handle, mark: Mark) -> Staged:
            ordered = rows.select(handle.schema.names).cast(handle.schema)
            return context.stores.tables.stage_append(handle, ordered, mark)

        write = TableWrite(DOC, pin.version, (stage,))
        run(lock, Change(WriterKind.LOAD, MAIN, (write,)))


def value_of(operand: ir.Operand) -> object:
    assert isinstance(operand, ir.Constant)
    return operand.value


def nearest(column: str, vector: Sequence[float]) -> ir.Nearest:
    target = ir.PropertyOf("d", column, ir.F64)
    return ir.Nearest(target, ir.Constant(tuple(vector), None))


def bm25(query: str) -> ir.Bm25:
    return ir.Bm25(ir.PropertyOf("d", "body", ir.STRING), ir.Constant(query, None))


def each_of(
    searched: SearchedTable, ranks: Sequence[ir.Rank], candidates: Candidates
) -> list[float]:
    """How long each ranking takes, once it was asked for."""
    for by in ranks[:2]:
        rank(searched, by, value_of, candidates, 10)
    return [
        timed(partial(rank, searched, by, value_of, candidates, 10)) for by in ranks for _ in "ab"
    ]


def recall(searched: SearchedTable, column: str, vectors: Matrix, asked: Matrix) -> float:
    """The share of the ten closest that are found."""
    hits = 0
    for vector in asked:
        distances = ((vectors - vector) ** 2).sum(axis=1)
        best = {f"d{number:08}" for number in np.argpartition(distances, 10)[:10]}
        by = nearest(column, [float(each) for each in vector])
        found = rank(searched, by, value_of, EVERY_ROW, 10).ids.to_pylist()
        hits += len(best.intersection(map(str, found)))
    return hits / (10 * len(asked))


def table_of(context: WriteContext) -> Handle:
    return open_pin(context.stores, Bases(context.stores).current(MAIN).manifest.pins[DOC])


def measure(root: Path, row_count: int, dimension: int, seed: int) -> list[Figure]:
    data = make(row_count, dimension, seed)
    relaxed = Settings(durability=Durability.RELAXED)
    graph = create(str(root), schema_of(dimension), settings=relaxed)
    stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))
    fill(context, data.rows)
    node = graph.catalog.node("Doc")
    assert node is not None
    plain = SearchedTable(stores.tables, table_of(context), node)
    figures = _without(plain, data)
    build_s = timed(lambda: ensure_indices(context, graph.catalog, IndexRequest()))
    figures.append(Figure(f"build every index of {row_count:,} rows", build_s))
    indexed = SearchedTable(stores.tables, table_of(context), node)
    figures += _with(indexed, data, {each.name: each for each in figures})
    optimize_s = timed(graph.optimize)
    figures.append(Figure("optimize, with nothing to compact", optimize_s))
    mapped = SearchedTable(stores.tables, table_of(context), node)
    return figures + _mapped(mapped, data, SearchOptions(kept=KeptTexts(), mapped=stores.mapped))


def _mapped(searched: SearchedTable, data: Data, options: SearchOptions) -> list[Figure]:
    """By postings in mapped files: no query was asked before."""
    first, *later = [
        timed(partial(rank, searched, bm25(query), value_of, EVERY_ROW, 10, options=options))
        for query in data.queries
    ]
    return [
        Figure("bm25, mapped postings, first query of a process", first),
        Figure("bm25, mapped postings, new words", percentile(later, 0.5)),
    ]


def _without(searched: SearchedTable, data: Data) -> list[Figure]:
    vectors = [nearest("low", list(map(float, each))) for each in data.asked["low"]]
    first = rank_cold(searched, data.queries[0])
    texts = each_of(searched, [bm25(each) for each in data.queries], EVERY_ROW)
    return [
        Figure("nearest 10, every vector", percentile(each_of(searched, vectors, EVERY_ROW), 0.5)),
        Figure("bm25, no index, first query of a process", first),
        Figure("bm25, no index, later queries", percentile(texts, 0.5)),
    ]


def rank_cold(searched: SearchedTable, query: str) -> float:
    """As the first query of a process, which has read no text yet."""
    options = SearchOptions(kept=KeptTexts())
    return timed(partial(rank, searched, bm25(query), value_of, EVERY_ROW, 10, options=options))


def _with(searched: SearchedTable, data: Data, before: dict[str, Figure]) -> list[Figure]:
    tables, handle = searched.tables, searched.handle
    floor = best_of(
        RUNS,
        lambda: tables.read(
            handle,
            ScanRequest(("id",), text=TextQuery("body", data.queries[0]), limit=10),
        ),
    )
    some = Candidates("year < 10", None)
    vectors = [nearest("low", list(map(float, each))) for each in data.asked["low"]]
    texts: list[ir.Rank] = [bm25(each) for each in data.queries]
    both: list[ir.Rank] = [
        ir.Rrf(bm25(query), vector, ir.Constant(60, None))
        for query, vector in zip(data.queries, vectors, strict=False)
    ]
    exact = before["nearest 10, every vector"]
    figures = [Figure("ten rows from the full-text index, bare", floor)]
    for name, seconds, base in (
        ("bm25, index, first query of a process", rank_cold(searched, data.queries[0]), floor),
        ("bm25, later queries", _median(searched, texts, EVERY_ROW), floor),
        ("bm25 with a filter", _median(searched, texts, some), floor),
        ("rrf of bm25 and nearest, with a filter", _median(searched, both, some), floor),
        ("nearest 10, index", _median(searched, vectors, EVERY_ROW), exact.seconds),
        ("nearest 10, index, with a filter", _median(searched, vectors, some), exact.seconds),
    ):
        of = "bare index" if base is floor else "every vector"
        figures.append(Figure(name, seconds, of, seconds / base))
    for kind in KINDS:
        share = recall(searched, kind, data.vectors[kind], data.asked[kind])
        figures.append(
            Figure(
                f"recall@10, vectors {kind}",
                0.0,
                "every vector",
                share,
                f">= {RECALL_MIN}",
                share >= RECALL_MIN,
            )
        )
    return figures


def _median(searched: SearchedTable, ranks: Sequence[ir.Rank], candidates: Candidates) -> float:
    return percentile(each_of(searched, ranks, candidates), 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report("search", measure(Path(folder) / "g", given.rows, given.dimension, given.seed))


if __name__ == "__main__":
    main()
