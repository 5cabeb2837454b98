"""A social network with skew: persons, forums, messages, tags and places, made from a seed.

Few persons have very many friends, posts and likes, and few tags are on very many messages. Every
table is an Arrow table; the three programs of `social.py` store the same tables.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import ladybug
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from query import stage_indexes, stage_rows, write_table

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.effects import REAL
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Settings
from omnigraph.ids import TableKey
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores

SCHEMA = """
node Country { name: String @key }
node City { name: String @key }
node Tag { name: String @key  kind: String }
node Person { name: String @key  first: String  born: I32 }
node Forum { name: String @key  title: String }
node Post { name: String @key  created: I64  length: I32  language: String }
node Comment { name: String @key  created: I64  length: I32 }
edge PartOf: City -> Country
edge LivesIn: Person -> City
edge Knows: Person -> Person { since: I64 }
edge Interest: Person -> Tag
edge Member: Forum -> Person { joined: I64 }
edge Holds: Forum -> Post
edge PostBy: Post -> Person
edge CommentBy: Comment -> Person
edge ReplyTo: Comment -> Post
edge PostTag: Post -> Tag
edge CommentTag: Comment -> Tag
edge Likes: Person -> Post { at: I64 }
"""

EDGES_PER_PERSON = 80
"""About so many edges of all types belong to one person."""

DAYS = 1_000
"""Times are whole days of this range, with fractions as thousandths."""

TYPES = {pa.string(): "STRING", pa.int32(): "INT32", pa.int64(): "INT64"}

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Network:
    """The tables by name, and the ends of each edge table."""

    nodes: Mapping[str, pa.Table]
    edges: Mapping[str, pa.Table]
    ends: Mapping[str, tuple[str, str]]

    @property
    def edge_count(self) -> int:
        return sum(each.num_rows for each in self.edges.values())

    def usual_person(self) -> str:
        """The person whose number of friends is the median."""
        knows = self.edges["Knows"]
        degrees = Counter(chain(knows["src"].to_pylist(), knows["dst"].to_pylist()))
        ranked = sorted(degrees, key=lambda name: (degrees[name], str(name)))
        return str(ranked[len(ranked) // 2])


def make_network(persons: int) -> Network:
    return _Maker(persons).make()


class _Maker:
    def __init__(self, persons: int) -> None:
        self.dice = np.random.default_rng(11)
        self.counts = {
            "Country": 20,
            "City": 100,
            "Tag": 20 + persons // 50,
            "Person": persons,
            "Forum": max(10, persons // 5),
            "Post": 4 * persons,
            "Comment": 10 * persons,
        }
        self.names = {
            kind: pa.array([f"{kind[:2].lower()}{at:07}" for at in range(count)])
            for kind, count in self.counts.items()
        }
        self.nodes: dict[str, pa.Table] = {}
        self.edges: dict[str, pa.Table] = {}
        self.ends: dict[str, tuple[str, str]] = {}

    def make(self) -> Network:
        self._make_nodes()
        self._make_edges()
        return Network(self.nodes, self.edges, self.ends)

    def _make_nodes(self) -> None:
        count = self.counts
        self._node("Country")
        self._node("City")
        self._node("Tag", kind=self._texts("kind", 10, count["Tag"]))
        self._node(
            "Person",
            first=self._texts("first", 50, count["Person"]),
            born=pa.array(self.dice.integers(1940, 2010, count["Person"]), pa.int32()),
        )
        self._node("Forum", title=self._texts("forum", 10**6, count["Forum"]))
        for kind in ("Post", "Comment"):
            self._node(
                kind,
                created=self._times(count[kind]),
                length=pa.array(self.dice.integers(1, 500, count[kind]), pa.int32()),
                **({"language": self._texts("lang", 8, count[kind])} if kind == "Post" else {}),
            )

    def _make_edges(self) -> None:
        count = self.counts
        self._one_each("PartOf", "City", "Country")
        self._one_each("LivesIn", "Person", "City", power=2.0)
        self._one_each("PostBy", "Post", "Person", power=2.0)
        self._one_each("CommentBy", "Comment", "Person", power=1.5)
        self._one_each("ReplyTo", "Comment", "Post", power=1.5)
        self._many("Knows", "Person", "Person", 9 * count["Person"], "since")
        self._many("Interest", "Person", "Tag", 5 * count["Person"])
        self._many("Member", "Forum", "Person", 12 * count["Person"], "joined")
        self._many("PostTag", "Post", "Tag", 8 * count["Person"])
        self._many("CommentTag", "Comment", "Tag", 10 * count["Person"])
        self._many("Likes", "Person", "Post", 8 * count["Person"], "at")
        posts = np.arange(count["Post"])
        forums = self._skewed("Forum", len(posts), 2.0)
        self._edge("Holds", "Forum", "Post", forums, posts)

    # tables

    def _node(self, type_name: str, **columns: Any) -> None:
        self.nodes[type_name] = pa.table({"name": self.names[type_name], **columns})

    def _edge(
        self, kind: str, source: str, target: str, near: Numbers, far: Numbers, **columns: Any
    ) -> None:
        self.ends[kind] = (source, target)
        ends = {"src": self.names[source].take(near), "dst": self.names[target].take(far)}
        self.edges[kind] = pa.table({**ends, **columns})

    def _one_each(self, kind: str, source: str, target: str, power: float = 1.0) -> None:
        """Every source has one target."""
        near = np.arange(self.counts[source])
        self._edge(kind, source, target, near, self._skewed(target, len(near), power))

    def _many(self, kind: str, source: str, target: str, wanted: int, time: str = "") -> None:
        """Distinct pairs; between persons, each pair in one direction and no one with himself."""
        near = self._skewed(source, wanted * 5 // 4, 1.7)
        far = self._skewed(target, wanted * 5 // 4, 1.7)
        if source == target:
            near, far = np.minimum(near, far), np.maximum(near, far)
            near, far = near[near != far], far[near != far]
        size = self.counts[target]
        pairs = self.dice.permutation(np.unique(near * size + far))[:wanted]
        columns = {time: self._times(len(pairs))} if time else {}
        self._edge(kind, source, target, pairs // size, pairs % size, **columns)

    # values

    def _skewed(self, kind: str, many: int, power: float) -> Numbers:
        size = self.counts[kind]
        ranks = (size * self.dice.random(many) ** power).astype(np.int64)
        return np.random.default_rng(size).permutation(size)[ranks]

    def _texts(self, stem: str, choices: int, many: int) -> Any:
        return pa.array([f"{stem}{at}" for at in self.dice.integers(0, choices, many)])

    def _times(self, many: int) -> Any:
        return pa.array(self.dice.integers(0, 1000 * DAYS, many), pa.int64())


# ── the three programs ───────────────────────────────────────────────────────────────────────────


def store_network(folder: Path, network: Network) -> None:
    """The same rows in our graph, in ladybug and in DuckDB."""
    for name, table in chain(network.nodes.items(), network.edges.items()):
        pq.write_table(table, folder / f"{name}.parquet")
    fill_graph(folder / "g", network)
    open_graph(str(folder / "g")).optimize()
    fill_ladybug(folder, network)
    fill_duckdb(folder, network)


def fill_graph(folder: Path, network: Network) -> None:
    create(str(folder), SCHEMA, settings=Settings(durability=Durability.RELAXED))
    stores = open_stores(str(folder), REAL, durability=Durability.RELAXED)
    context = WriteContext(stores, Bases(stores))
    catalog = open_graph(str(folder)).catalog
    keyed = [
        *((TableKey(f"node:{name}"), each) for name, each in network.nodes.items()),
        *((TableKey(f"edge:{name}"), each) for name, each in network.edges.items()),
    ]
    for key, table in keyed:
        rows = partial(stage_rows, stores, _with_ids(table))
        write_table(context, key, rows, WriterKind.LOAD)
        indexes = partial(stage_indexes, stores, catalog, key)
        write_table(context, key, indexes, WriterKind.ENSURE_INDICES)


def _with_ids(table: pa.Table) -> Iterator[pa.Table]:
    is_node = "name" in table.column_names
    ids = table["name"] if is_node else pa.array([f"e{at:09}" for at in range(table.num_rows)])
    yield table.append_column("id", ids)


def fill_ladybug(folder: Path, network: Network) -> None:
    connection = open_ladybug(folder)
    for name, table in network.nodes.items():
        columns = ", ".join(f"{each.name} {TYPES[each.type]}" for each in table.schema)
        connection.execute(f"CREATE NODE TABLE {name}({columns}, PRIMARY KEY (name))")
        connection.execute(f"COPY {name} FROM '{folder / name}.parquet'")
    for name, table in network.edges.items():
        source, target = network.ends[name]
        more = "".join(f", {each.name} {TYPES[each.type]}" for each in list(table.schema)[2:])
        connection.execute(f"CREATE REL TABLE {name}(FROM {source} TO {target}{more})")
        connection.execute(f"COPY {name} FROM '{folder / name}.parquet'")


def open_ladybug(folder: Path) -> Any:
    return ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))


def fill_duckdb(folder: Path, network: Network) -> None:
    """Tables with indexes on keys and ends; `friends` holds who knows whom in both directions."""
    connection = open_duckdb(folder)
    for name in network.nodes:
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder / name}.parquet'")
        connection.execute(f"CREATE INDEX {name}_name ON {name}(name)")
    for name in network.edges:
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder / name}.parquet'")
        for end in ("src", "dst"):
            connection.execute(f"CREATE INDEX {name}_{end} ON {name}({end})")
    connection.execute(
        "CREATE TABLE friends AS SELECT src, dst, since FROM Knows "
        "UNION ALL SELECT dst, src, since FROM Knows"
    )
    connection.execute("CREATE INDEX friends_src ON friends(src)")
    connection.close()


def open_duckdb(folder: Path) -> Any:
    return duckdb.connect(str(folder / "duck.db"), read_only=(folder / "done").exists())
