"""Random schemas, and small random graphs that fit them.

All values are drawn from small pools, so that values repeat, comparisons hit, and different types
use the same ids. Edges may be parallel, loop, or dangle: a query must also survive a graph that no
write of ours could make.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.catalog.model import (
    Cardinality,
    Catalog,
    Constraint,
    EdgeType,
    IndexConstraint,
    Key,
    NodeType,
    Property,
)
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler.ir import Scalarish, Value
from support.interpreter import Edge, Graph

IDS = ("a", "ab", "b", "c")
DANGLING = "nowhere"
ENDS = (*IDS, *IDS, *IDS, DANGLING)
INSTANT_MS = 1_700_000_000_000

SCALARS: dict[Scalar, tuple[Scalarish, ...]] = {
    Scalar.STRING: ("a", "ab", "b a", "C", ""),
    Scalar.BOOL: (False, True),
    Scalar.I32: (-1, 0, 1, 2),
    Scalar.I64: (-1, 0, 1, 2, 2**53 + 1),
    Scalar.U32: (0, 1, 2),
    Scalar.U64: (0, 1, 2, 2**53),
    Scalar.F32: (-1.0, 0.0, 0.5, 2.0),
    Scalar.F64: (-1.0, 0.0, 1.0, 1.5, 2.0**53),
    Scalar.DATE: (0, 1, 19_000),
    Scalar.DATETIME: (0, INSTANT_MS, INSTANT_MS + 1),
}
ENUM = ("a", "b")
COMPONENTS = (-1.0, 0.5, 1.0)

NODE_PROPERTIES: dict[str, ValueType] = {
    "age": ValueType(Scalar.I32, nullable=True),
    "born": ValueType(Scalar.DATE, nullable=True),
    "kind": ValueType(Scalar.STRING, enum_values=ENUM),
    "size": ValueType(Scalar.F64, nullable=True),
    "tags": ValueType(Scalar.STRING, nullable=True, is_list=True),
    "text": ValueType(Scalar.STRING, nullable=True),
    "total": ValueType(Scalar.I64),
    "vec": ValueType(Vector(2), nullable=True),
}
EDGE_PROPERTIES: dict[str, ValueType] = {
    "far": ValueType(Scalar.U32, nullable=True),
    "note": ValueType(Scalar.STRING, nullable=True),
    "since": ValueType(Scalar.I32, nullable=True),
}
KEY = Property("code", ValueType(Scalar.STRING))


def values(kind: ValueType) -> SearchStrategy[Value]:
    """A value of this type, null among them if it may be."""
    return st.sampled_from(_pool(kind))


ONE_TYPE = Catalog(
    nodes=(NodeType("Ant", tuple(Property(name, each) for name, each in NODE_PROPERTIES.items())),)
)
"""Every kind of property on one type, for whoever wants to try conditions and nothing else."""


TWO_TYPES = Catalog(
    nodes=(*ONE_TYPE.nodes, NodeType("Bee", ONE_TYPE.nodes[0].properties[:2])),
    edges=(EdgeType("Eats", "Ant", "Ant"), EdgeType("Follows", "Ant", "Bee")),
)
"""An edge that can be chained and one that cannot, for whoever wants to try walks."""


def dense_graph(catalog: Catalog, seed: int) -> Graph:
    """Four nodes of each type and ten edges of each, always the same ones for the same seed.

    With some of these at hand, all that is left to draw is the query.
    """
    dice = _dice(seed)
    nodes = {
        node.name: {
            each: _roll(node.properties, dice) | ({KEY.name: each} if node.key else {})
            for each in IDS
        }
        for node in catalog.nodes
    }
    edges = {
        edge.name: [
            Edge(
                f"e{number}",
                ENDS[next(dice) % len(ENDS)],
                ENDS[next(dice) % len(ENDS)],
                _roll(edge.properties, dice),
            )
            for number in range(10)
        ]
        for edge in catalog.edges
    }
    return Graph(nodes, edges)


def _dice(seed: int) -> Iterator[int]:
    """A linear congruential generator, by its better bits."""
    state = seed
    while True:
        state = (state * 1_103_515_245 + 12_345) % 2**31
        yield state >> 12


def _roll(properties: Sequence[Property], dice: Iterator[int]) -> dict[str, Value]:
    pools = {each.name: _pool(each.type) for each in properties}
    return {name: pool[next(dice) % len(pool)] for name, pool in pools.items()}


def _pool(kind: ValueType) -> tuple[Value, ...]:
    if isinstance(kind.base, Vector):
        pairs = tuple(product(COMPONENTS, repeat=kind.base.dimension))
        return (*pairs, None) if kind.nullable else pairs
    scalars = kind.enum_values or SCALARS[kind.scalar]
    known: tuple[Value, ...] = ((), scalars[:1], scalars[1:3]) if kind.is_list else scalars
    return (*known, None) if kind.nullable else known


@st.composite
def catalogs(draw: DrawFn) -> Catalog:
    """One to three node types, one to three edge types among them."""
    nodes = tuple(
        draw(_node_types(name)) for name in ("Ant", "Bee", "Cow")[: draw(st.integers(1, 3))]
    )
    names = st.sampled_from([each.name for each in nodes])
    edges = tuple(
        EdgeType(
            name,
            source := draw(names),
            # An edge within one type is the one that can loop, chain and be walked both ways.
            draw(st.one_of(st.just(source), names)),
            _properties(draw(st.sets(st.sampled_from(sorted(EDGE_PROPERTIES)))), EDGE_PROPERTIES),
            draw(st.sampled_from([Cardinality(), Cardinality(0, 1)])),
        )
        for name in ("Eats", "Follows", "Greets")[: draw(st.integers(1, 3))]
    )
    return Catalog(nodes=nodes, edges=edges)


@st.composite
def _node_types(draw: DrawFn, name: str) -> NodeType:
    names = draw(st.sets(st.sampled_from(sorted(NODE_PROPERTIES)), min_size=2, max_size=5))
    properties = _properties(names, NODE_PROPERTIES)
    constraints: list[Constraint] = [IndexConstraint((each,)) for each in sorted(names - {"tags"})]
    if draw(st.booleans()):
        properties = tuple(sorted((*properties, KEY), key=lambda each: each.name))
        constraints.append(Key((KEY.name,)))
    return NodeType(name, properties, tuple(constraints))


def _properties(names: set[str], types: dict[str, ValueType]) -> tuple[Property, ...]:
    return tuple(Property(name, types[name]) for name in sorted(names))


@st.composite
def graphs(draw: DrawFn, catalog: Catalog) -> Graph:
    nodes = {each.name: draw(_node_tables(each)) for each in catalog.nodes}
    edges = {each.name: draw(_edge_tables(each)) for each in catalog.edges}
    return Graph(nodes, edges)


@st.composite
def _node_tables(draw: DrawFn, node: NodeType) -> dict[str, dict[str, Value]]:
    ids = IDS[: draw(st.integers(2, len(IDS)))]
    columns = {each.name: draw(_columns(each.type, len(ids))) for each in node.properties}
    if node.key:
        columns[KEY.name] = ids
    return {each: {name: columns[name][at] for name in columns} for at, each in enumerate(ids)}


@st.composite
def _edge_tables(draw: DrawFn, edge: EdgeType) -> list[Edge]:
    ends = st.sampled_from(ENDS)
    pairs = draw(st.lists(st.tuples(ends, ends), min_size=4, max_size=9))
    columns = {each.name: draw(_columns(each.type, len(pairs))) for each in edge.properties}
    return [
        Edge(f"e{at}", source, target, {name: columns[name][at] for name in columns})
        for at, (source, target) in enumerate(pairs)
    ]


def _columns(kind: ValueType, length: int) -> SearchStrategy[tuple[Value, ...]]:
    """A column that runs through the values of its type: two choices, however long it is."""
    pool = _pool(kind)
    return st.builds(
        lambda start, stride: tuple(
            pool[(start + at * stride) % len(pool)] for at in range(length)
        ),
        st.integers(0, len(pool) - 1),
        st.integers(0, 3),
    )
