import pyarrow as pa

from omnigraph.catalog.arrow import edge_schema, node_schema
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.lang.source import Source


def compiled(text: str) -> Catalog:
    return compile_schema(Source("test.pg", text))


def column(
    name: str, kind: pa.DataType, *, nullable: bool, metadata: dict[str, str] | None = None
) -> "pa.Field[pa.DataType]":
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def test_every_type_has_its_column() -> None:
    catalog = compiled(
        "node A { a: String b: enum(x, y)? c: Bool d: I32 e: I64 f: U32 g: U64 h: F32 i: F64 "
        "j: Date k: DateTime l: Vector(3)? m: [DateTime] n: [String]? o: Blob? }"
    )
    blob = pa.struct(
        [pa.field("data", pa.large_binary()), pa.field("uri", pa.string())],
    )
    item = pa.field("item", pa.float32(), nullable=True)
    fields = [
        column("id", pa.string(), nullable=False),
        column("a", pa.string(), nullable=False),
        column("b", pa.string(), nullable=True),
        column("c", pa.bool_(), nullable=False),
        column("d", pa.int32(), nullable=False),
        column("e", pa.int64(), nullable=False),
        column("f", pa.uint32(), nullable=False),
        column("g", pa.uint64(), nullable=False),
        column("h", pa.float32(), nullable=False),
        column("i", pa.float64(), nullable=False),
        column("j", pa.date32(), nullable=False),
        column("k", pa.date64(), nullable=False),
        column("l", pa.list_(item, 3), nullable=True),
        column("m", pa.list_(pa.field("item", pa.date64())), nullable=False),
        column("n", pa.list_(pa.field("item", pa.string())), nullable=True),
        column("o", blob, nullable=True, metadata={"ARROW:extension:name": "lance.blob.v2"}),
    ]
    assert node_schema(catalog.nodes[0]).equals(pa.schema(fields), check_metadata=True)


def test_columns_stand_in_byte_order_behind_the_implicit_ones() -> None:
    catalog = compiled(
        "interface I { m: Date? } node A implements I { z: I32 _a: I32 aB: I32 ab: I32 } "
        "edge E: A -> A { w: F32 a: I32? }"
    )
    assert node_schema(catalog.nodes[0]).names == ["id", "_a", "aB", "ab", "m", "z"]
    schema = edge_schema(catalog.edges[0])
    assert schema.names == ["id", "src", "dst", "a", "w"]
    assert [field.nullable for field in schema] == [False, False, False, True, False]


def test_an_instant_survives_when_seen_as_date64_and_not_cast() -> None:
    """Why the column is made by `view`: the rule this module states of Arrow."""
    instant = 1_714_550_400_123
    seen = pa.array([instant, None], pa.int64()).view(pa.date64())
    assert seen.view(pa.int64()).to_pylist() == [instant, None]
