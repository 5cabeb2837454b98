"""Reads of a graph with skewed edges, beside an embedded graph database and an SQL engine.

Persons know persons; few are known by very many, and know very many. All three programs hold the
same rows and answer the same questions in turns, each in its own language; the median of several
answers counts, after warming up. The answers are compared before anything is timed. Documents with
texts and vectors are searched in the same way; `query_documents` says by what means.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import ladybug
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Figure, report, timed
from query_documents import (
    ASKED,
    KINDS,
    SCHEMA as DOCUMENTS,
    Documents,
    Searches,
    fill_rivals,
    make_documents,
)

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.effects import REAL
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.engine.write.upkeep import write_indexes
from omnigraph.ids import MAIN, TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, IndexScope, Mark, Staged

SCHEMA = """
node Person { name: String @key  age: I32  city: String  score: F64  place: I64 }
edge Knows: Person -> Person
"""
PERSON, KNOWS, DOC = TableKey("node:Person"), TableKey("edge:Knows"), TableKey("node:Doc")
EDGES_PER_NODE = 10
CITIES = 100
ROWS_PER_FILE = 100_000
BUILD_SECONDS_MAX, BUILD_MEGABYTES_MAX = 5.0, 800
AGREEMENT_MIN = 0.95

Numbers = npt.NDArray[np.int64]


# ── the data ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Data:
    """Persons by number, and who knows whom, nobody twice."""

    persons: pa.Table
    sources: Numbers
    targets: Numbers

    def edges(self) -> Iterator[pa.Table]:
        names: Any = self.persons["name"].combine_chunks()
        for start in range(0, len(self.sources), 10 * ROWS_PER_FILE):
            part = slice(start, start + 10 * ROWS_PER_FILE)
            ends = {"src": self.sources[part], "dst": self.targets[part]}
            yield pa.table({name: names.take(pa.array(each)) for name, each in ends.items()})

    @property
    def start(self) -> str:
        """Somebody who knows as many as most do."""
        degrees = np.bincount(self.sources, minlength=self.persons.num_rows)
        return str(self.persons["name"][int(np.argmax(degrees == EDGES_PER_NODE))])


def make_data(nodes: int) -> Data:
    dice = np.random.default_rng(7)
    places = dice.permutation(nodes)
    persons = pa.table(
        {
            "name": pa.array([f"p{number:07}" for number in range(nodes)]),
            "age": pa.array(dice.integers(0, 100, nodes), pa.int32()),
            "city": pa.array([f"city{number}" for number in dice.integers(0, CITIES, nodes)]),
            "score": pa.array(dice.random(nodes)),
            "place": pa.array(places),
        }
    )
    wanted = nodes * EDGES_PER_NODE
    sources, targets = (
        places[(nodes * dice.random(wanted * 11 // 10) ** power).astype(np.int64)]
        for power in (1.5, 2.0)
    )
    pairs = np.unique(sources * nodes + targets)
    pairs = dice.permutation(pairs)[:wanted]
    return Data(persons, pairs // nodes, pairs % nodes)


# ── the three programs ───────────────────────────────────────────────────────────────────────────


def fill_graph(folder: Path, data: Data) -> None:
    create(str(folder), SCHEMA, settings=Settings(durability=Durability.RELAXED))
    stores = open_stores(str(folder), REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))
    catalog = open_graph(str(folder)).catalog
    for key, parts in ((PERSON, persons_of(data)), (KNOWS, edges_of(data))):
        write_table(context, key, partial(stage_rows, stores, parts), WriterKind.LOAD)
        indexes = partial(stage_indexes, stores, catalog, key)
        write_table(context, key, indexes, WriterKind.ENSURE_INDICES)


def fill_documents(folder: Path, documents: Documents) -> None:
    create(str(folder), DOCUMENTS, settings=Settings(durability=Durability.RELAXED))
    stores = open_stores(str(folder), REAL, durability=Durability.RELAXED)
    rows = documents.rows.append_column("id", documents.rows["slug"])
    stage = partial(stage_rows, stores, iter((rows,)))
    write_table(WriteContext(stores, Bases(stores)), DOC, stage, WriterKind.LOAD)
    reopen(folder).ensure_indices()
    reopen(folder).optimize()


def reopen(folder: Path, access: AccessMode = AccessMode.AUTO) -> LocalGraph:
    settings = Settings(durability=Durability.RELAXED, query_access=access)
    return LocalGraph(open_graph(str(folder), settings=settings))


def persons_of(data: Data) -> Iterator[pa.Table]:
    yield data.persons.append_column("id", data.persons["name"])


def edges_of(data: Data) -> Iterator[pa.Table]:
    number = 0
    for part in data.edges():
        ids = [f"e{at:09}" for at in range(number, number + part.num_rows)]
        number += part.num_rows
        yield part.append_column("id", pa.array(ids))


def stage_rows(stores: Stores, parts: Iterator[pa.Table], handle: Handle, mark: Mark) -> Staged:
    schema = handle.schema
    batches = (
        batch
        for part in parts
        for batch in part.select(schema.names).cast(schema).to_batches(ROWS_PER_FILE)
    )
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    return stores.tables.stage_append(handle, reader, mark)


def stage_indexes(
    stores: Stores, catalog: Catalog, key: TableKey, handle: Handle, mark: Mark
) -> Staged | None:
    specs = write_indexes(catalog, key)
    return stores.tables.stage_indices(handle, specs, IndexScope.UNCOVERED, mark)


def write_table(context: WriteContext, key: TableKey, stage: Stage, kind: WriterKind) -> None:
    with acquire_write_locks(context, MAIN, [key]) as lock:
        version = lock.base.manifest.pins[key].version
        run(lock, Change(kind, MAIN, (TableWrite(key, version, (stage,)),)))


def fill_ladybug(folder: Path) -> None:
    connection = open_ladybug(folder)
    connection.execute(
        "CREATE NODE TABLE Person(name STRING, age INT32, city STRING, score DOUBLE, "
        "place INT64, PRIMARY KEY (name))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person)")
    connection.execute(f"COPY Person FROM '{folder / 'persons.parquet'}'")
    connection.execute(f"COPY Knows FROM '{folder / 'knows.parquet'}'")


def open_ladybug(folder: Path) -> Any:
    return ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))


def fill_duckdb(folder: Path) -> None:
    connection = open_duckdb(folder)
    for name in ("persons", "knows"):
        path = folder / f"{name}.parquet"
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
    connection.execute("CREATE INDEX by_name ON persons(name)")
    connection.execute("CREATE INDEX by_src ON knows(src)")
    connection.close()


def open_duckdb(folder: Path) -> Any:
    return duckdb.connect(str(folder / "duck.db"))


# ── the questions ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Question:
    """One question in three languages, and what the answer may cost."""

    name: str
    gq: str
    cypher: str
    sql: str
    params: Mapping[str, object] = field(default_factory=dict)
    ms_max: float | None = None
    ladybug_max: float | None = None
    duckdb_max: float | None = None


def hops(many: int) -> tuple[str, str, str]:
    """Count the ends of all walks of so many steps from `p`, in three languages."""
    names = ["p", *(f"x{at}" for at in range(1, many + 1))]
    walks = " ".join(f"${a} knows ${b}" for a, b in pairwise(names))
    path = "".join(f"-[:Knows]->({name}:Person)" for name in names[1:])
    joins = "".join(f" JOIN knows k{at} ON k{at}.src = k{at - 1}.dst" for at in range(2, many + 1))
    return walks, path, f"knows k1{joins}"


def from_one(many: int, start: str, ms_max: float) -> Question:
    walks, path, joins = hops(many)
    last = f"x{many}"
    return Question(
        f"{many} hops from one node",
        f"query q($n: String) {{ match {{ $p: Person {{ name: $n }} {walks} }} "
        f"return {{ count(${last}) as n }} }}",
        f"MATCH (p:Person {{name: $n}}){path} RETURN count({last})",
        f"SELECT count(*) FROM {joins} WHERE k1.src = $n",
        {"n": start},
        ms_max=ms_max,
    )


def questions(data: Data) -> Sequence[Question]:
    many = min(10_000, data.persons.num_rows // 10)
    sample = many // 10
    walks, path, joins = hops(2)
    return (
        Question(
            "point look-up by key",
            "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }",
            "MATCH (p:Person {name: $n}) RETURN p.name, p.age",
            "SELECT name, age FROM persons WHERE name = $n",
            {"n": data.start},
            ms_max=1.0,
        ),
        Question(
            "1 hop from one node, with properties",
            "query q($n: String) { match { $p: Person { name: $n } $p knows $x } "
            "return { $x.name, $x.age } }",
            "MATCH (p:Person {name: $n})-[:Knows]->(x:Person) RETURN x.name, x.age",
            "SELECT x.name, x.age FROM knows k JOIN persons x ON x.name = k.dst WHERE k.src = $n",
            {"n": data.start},
            ms_max=1.5,
        ),
        from_one(2, data.start, 3.0),
        from_one(3, data.start, 3.0),
        Question(
            f"2-hop counts from {many:,} nodes",
            f"query q($k: I64) {{ match {{ $p: Person $p.place < $k {walks} }} "
            "return { count($x2) as n } }",
            f"MATCH (p:Person){path} WHERE p.place < $k RETURN count(x2)",
            f"SELECT count(*) FROM {joins} JOIN persons p ON p.name = k1.src WHERE p.place < $k",
            {"k": many},
            ladybug_max=1.0,
        ),
        Question(
            f"2-hop counts by node from {many:,} nodes",
            f"query q($k: I64) {{ match {{ $p: Person $p.place < $k {walks} }} "
            "return { $p.name, count($x2) as n } order { n desc } limit 10 }",
            f"MATCH (p:Person){path} WHERE p.place < $k RETURN p.name, count(x2) AS n "
            "ORDER BY n DESC, p.name LIMIT 10",
            f"SELECT p.name, count(*) AS n FROM {joins} JOIN persons p ON p.name = k1.src "
            "WHERE p.place < $k GROUP BY p.name ORDER BY n DESC, p.name LIMIT 10",
            {"k": many},
            ladybug_max=1.0,
        ),
        Question(
            f"triangles at {sample:,} nodes",
            "query q($k: I64) { match { $a: Person $a.place < $k $a knows $b $b knows $c "
            "$c knows $a } return { count($c) as n } }",
            "MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person)-[:Knows]->(a) "
            "WHERE a.place < $k RETURN count(*)",
            "SELECT count(*) FROM persons a JOIN knows k1 ON k1.src = a.name "
            "JOIN knows k2 ON k2.src = k1.dst JOIN knows k3 ON k3.src = k2.dst "
            "AND k3.dst = a.name WHERE a.place < $k",
            {"k": sample},
            ladybug_max=1.0,
        ),
        Question(
            "filtered aggregate over all nodes",
            "query q() { match { $p: Person $p.age >= 30 } return { $p.city, count($p) as n, "
            "avg($p.score) as mean, max($p.age) as oldest } }",
            "MATCH (p:Person) WHERE p.age >= 30 RETURN p.city, count(*), avg(p.score), max(p.age)",
            "SELECT city, count(*), avg(score), max(age) FROM persons WHERE age >= 30 "
            "GROUP BY city",
            ladybug_max=1.0,
            duckdb_max=3.0,
        ),
    )


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Programs:
    graph: LocalGraph
    bug: Any
    duck: Any

    def ask(self, question: Question) -> "dict[str, Callable[[], list[tuple[Any, ...]]]]":
        params = dict(question.params)
        prepared = self.bug.prepare(question.cypher)
        return {
            "omnigraph": lambda: list(
                zip(
                    *self.graph.query(question.gq, params=params).arrow().to_pydict().values(),
                    strict=True,
                )
            ),
            "ladybug": lambda: [tuple(row) for row in self.bug.execute(prepared, params)],
            "duckdb": lambda: self.duck.execute(question.sql, params or None).fetchall(),
        }


def check_answers(question: Question, answers: Mapping[str, Callable[[], Any]]) -> None:
    found = {name: sorted(map(rounded, answer())) for name, answer in answers.items()}
    assert found["omnigraph"] == found["ladybug"] == found["duckdb"], (question.name, found)


Answers = Mapping[str, Callable[[], Any]]


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(each, 6) if isinstance(each, float) else each for each in row)


def in_turns(rounds: Sequence[Answers]) -> tuple[float, float, float]:
    seconds: dict[str, list[float]] = {name: [] for name in rounds[0]}
    for answers in rounds:
        for name, answer in answers.items():
            seconds[name].append(timed(answer))
    ours, bug, duck = (median(seconds[name]) for name in ("omnigraph", "ladybug", "duckdb"))
    return ours, bug, duck


def measure(programs: Programs, question: Question, rounds: int) -> list[Figure]:
    answers = programs.ask(question)
    check_answers(question, answers)
    for answer in answers.values():
        answer()
    ours, bug, duck = in_turns([answers] * rounds)
    met = None if question.ms_max is None else ours * 1000 <= question.ms_max
    target = None if question.ms_max is None else f"≤ {question.ms_max} ms"
    return [
        Figure(question.name, ours, target=target, met=met),
        against(question.name, "ladybug", ours, bug, question.ladybug_max),
        against(question.name, "duckdb", ours, duck, question.duckdb_max),
    ]


def against(name: str, other: str, ours: float, theirs: float, ratio_max: float | None) -> Figure:
    ratio = ours / theirs
    met = None if ratio_max is None else ratio <= ratio_max
    target = None if ratio_max is None else f"≤ {ratio_max}"
    return Figure(f"  {other}: {name}", theirs, "omnigraph / it", ratio, target, met)


def measure_searches(folder: Path, documents: Documents, rounds: int) -> Iterator[Figure]:
    """Searches, and how many of the ten that a look at everything finds are found by index."""
    graph = reopen(folder / "g", AccessMode.AUTO)
    searches = Searches(documents, graph, open_ladybug(folder), open_duckdb(folder))
    for kind, name in KINDS.items():
        share = searches.agreement(kind)
        answers = searches.ask(kind, 0)
        assert answers["ladybug"]() == answers["duckdb"](), name
        fresh = [searches.ask(kind, ASKED + number % ASKED) for number in range(rounds)]
        for when, turns in (("", fresh), (", asked before", [answers] * rounds)):
            ours, bug, duck = in_turns(turns)
            yield Figure(name + when, ours)
            yield against(name + when, "ladybug", ours, bug, None)
            yield against(name + when, "duckdb", ours, duck, None)
        met = share >= AGREEMENT_MIN
        yield Figure("  share of the right ten", 0.0, "duckdb", share, f"≥ {AGREEMENT_MIN}", met)


def measure_indexed(folder: Path, asked: Sequence[Question], rounds: int) -> Iterator[Figure]:
    """The same by the indexes of the tables, with nothing kept in memory."""
    graph = reopen(folder, AccessMode.INDEXED)
    for question in asked:
        answer = partial(graph.query, question.gq, params=dict(question.params))
        answer()
        seconds = median(timed(answer) for _ in range(rounds))
        yield Figure(f"{question.name}, by index", seconds)


def measure_build(folder: Path) -> list[Figure]:
    """Columns and adjacency from nothing, in a process of its own, whose memory can be told."""
    command = [sys.executable, __file__, "--build", str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = json.loads(printed)
    return [
        Figure("build of the adjacency", seconds, target="≤ 5 s", met=seconds <= BUILD_SECONDS_MAX),
        Figure(
            f"  its peak, {megabytes:.0f} MB",
            0.0,
            target="≤ 800 MB",
            met=megabytes <= BUILD_MEGABYTES_MAX,
        ),
    ]


def build(folder: Path) -> None:
    graph = reopen(folder, AccessMode.RESIDENT)
    graph.query("query q() { match { $p: Person } return { count($p) as n } }")
    before = memory("VmRSS")
    seconds = timed(
        lambda: graph.query(
            'query q() { match { $p: Person { name: "p0000001" } $p knows $x } '
            "return { count($x) as n } }"
        )
    )
    print(json.dumps([seconds, memory("VmHWM") - before]))


def memory(kind: str) -> float:
    """What this process holds, or held at most, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


def prepare(folder: Path, nodes: int) -> Data:
    data = make_data(nodes)
    if not (folder / "g").exists():
        pq.write_table(data.persons, folder / "persons.parquet")
        pq.write_table(pa.concat_tables(data.edges()), folder / "knows.parquet")
        fill_graph(folder / "g", data)
        fill_ladybug(folder)
        fill_duckdb(folder)
    return data


def prepare_documents(folder: Path, count: int) -> Documents:
    documents = make_documents(count)
    if not (folder / "g").exists():
        folder.mkdir(exist_ok=True)
        fill_documents(folder / "g", documents)
        fill_rivals(folder, documents)
    return documents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--documents", type=int, help="as many as nodes, if not said")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where to keep the data for another run")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build is not None:
        build(given.build)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        data = prepare(folder, given.nodes)
        figures = measure_build(folder / "g")
        graph = reopen(folder / "g", AccessMode.RESIDENT)
        programs = Programs(graph, open_ladybug(folder), open_duckdb(folder))
        for each in questions(data):
            figures += measure(programs, each, given.rounds)
        figures += measure_indexed(folder / "g", questions(data)[:2], given.rounds)
        documents = prepare_documents(folder / "documents", given.documents or given.nodes)
        figures += measure_searches(folder / "documents", documents, given.rounds)
        report("query", figures)


if __name__ == "__main__":
    main()
