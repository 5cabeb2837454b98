"""Input for the benchmark of loads: people with eight properties, and whom they know."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
  name: String @key  age: I32?  city: String?  score: F64?  active: Bool?  born: Date?
  note: String?  mail: String? @unique
}
edge Knows: Person -> Person @card(0..1000) { since: Date?  weight: F32? }
"""
VECTOR_SCHEMA = "node Item { name: String @key  vector: Vector(384) }"
EDGES_PER_NODE = 5


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    edges_per_node: int = EDGES_PER_NODE

    def times(self, factor: int) -> "Size":
        return Size(self.nodes * factor, self.edges_per_node)


def plain_key(number: int) -> str:
    return f"p{number:08}"


def scattered_key(number: int) -> str:
    """Looks like a random UUID: no two that follow each other have anything in common."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
    text = f"{mixed:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def write_graph(
    path: Path, size: Size, key: Callable[[int], str] = plain_key, *, first: int = 0
) -> Path:
    """Nodes, each followed by its edges."""
    draw = random.Random(first)
    with path.open("w") as file:
        for number in range(first, first + size.nodes):
            file.write(_person(number, key(number), draw.random()))
            for nth in range(size.edges_per_node):
                target = key(first + draw.randrange(size.nodes))
                file.write(
                    f'{{"edge":"Knows","from":"{key(number)}","to":"{target}",'
                    f'"data":{{"since":"20{nth:02}-01-02","weight":{draw.random():.3f}}}}}\n'
                )
    return path


def add_faults(path: Path, size: Size) -> Path:
    """An edge to nobody, and two people with one address: all else is right."""
    with path.open("a") as file:
        file.write(f'{{"edge":"Knows","from":"{plain_key(0)}","to":"nobody","data":{{}}}}\n')
        for number in (size.nodes, size.nodes + 1):
            file.write(_person(0, plain_key(number), 0.5))
    return path


def write_people(path: Path, numbers: list[int]) -> Path:
    with path.open("w") as file:
        file.writelines(_person(each, plain_key(each), 0.5) for each in numbers)
    return path


def _person(number: int, key: str, chance: float) -> str:
    return (
        f'{{"type":"Person","data":{{"name":"{key}","age":{number % 90},'
        f'"city":"city-{number % 5000}","score":{100 * chance:.4f},'
        f'"active":{"true" if number % 2 else "false"},'
        f'"born":"19{number % 100:02}-0{1 + number % 9}-1{number % 10}",'
        f'"note":"some text about {number}","mail":"m{number}@example.org"}}}}\n'
    )


def write_vectors(path: Path, count: int) -> Path:
    draw = random.Random(7)
    vectors = [",".join(f"{draw.random():.6f}" for _ in range(384)) for _ in range(50)]
    with path.open("w") as file:
        for number in range(count):
            file.write(
                f'{{"type":"Item","data":{{"name":"{plain_key(number)}",'
                f'"vector":[{vectors[number % 50]}]}}}}\n'
            )
    return path


TINY_SCHEMA = "node Person { name: String @key  age: I32? }"


def write_tiny(path: Path, names: str = "abcdefghij") -> Path:
    lines = [f'{{"type":"Person","data":{{"name":"{each}","age":3}}}}\n' for each in names]
    path.write_text("".join(lines))
    return path


PARQUET_SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { weight: F64? }
"""


def write_parquet(folder: Path, size: Size) -> tuple[Path, Path]:
    """People, and twice as many edges to each as elsewhere."""
    folder.mkdir()
    names = pa.array([plain_key(number) for number in range(size.nodes)])
    ages = pa.array([number % 90 for number in range(size.nodes)], pa.int64())
    pq.write_table(pa.table({"name": names, "age": ages}), folder / "people.parquet")
    draw = random.Random(3)
    count = size.nodes * size.edges_per_node * 2
    sources = names.take(pa.array([number % size.nodes for number in range(count)]))
    targets = names.take(pa.array([draw.randrange(size.nodes) for _ in range(count)]))
    weights = pa.array([0.5] * count)
    edges = pa.table({"from": sources, "to": targets, "weight": weights})
    pq.write_table(edges, folder / "knows.parquet")
    return folder / "people.parquet", folder / "knows.parquet"


NODE_FILES, EDGE_FILES = 10, 21


@dataclass(frozen=True, slots=True)
class Many:
    """Many small CSV files, one for each type of nodes and of edges."""

    nodes: tuple[Path, ...]
    edges: tuple[tuple[Path, str, str], ...]
    """Each with the types at its ends."""

    @property
    def schema(self) -> str:
        nodes = (
            f"node {path.stem} {{ name: String @key  age: I64?  note: String? }}"
            for path in self.nodes
        )
        edges = (
            f"edge {path.stem}: {source} -> {target} {{ weight: F64? }}"
            for path, source, target in self.edges
        )
        return "\n".join([*nodes, *edges])

    @property
    def pipeline(self) -> str:
        nodes = (f"  - {{data: {path}, type: {path.stem}}}" for path in self.nodes)
        edges = (f"  - {{data: {path}, edge: {path.stem}}}" for path, _, _ in self.edges)
        return "\n".join(["mode: append", "inputs:", *nodes, *edges, ""])


def write_many(folder: Path, size: Size) -> Many:
    folder.mkdir()
    draw = random.Random(5)
    each = size.nodes // NODE_FILES
    nodes = []
    for kind in range(NODE_FILES):
        path = folder / f"T{kind}.csv"
        rows = (f"{plain_key(n)},{n % 90},some text about {n}\n" for n in range(each))
        path.write_text("name,age,note\n" + "".join(rows))
        nodes.append(path)
    edges = []
    count = size.nodes * size.edges_per_node // EDGE_FILES
    for kind in range(EDGE_FILES):
        path = folder / f"E{kind}.csv"
        ends = (
            f"{plain_key(draw.randrange(each))},{plain_key(draw.randrange(each))}"
            for _ in range(count)
        )
        path.write_text("from,to,weight\n" + "".join(f"{pair},0.5\n" for pair in ends))
        edges.append((path, f"T{kind % NODE_FILES}", f"T{kind * 3 % NODE_FILES}"))
    return Many(tuple(nodes), tuple(edges))
