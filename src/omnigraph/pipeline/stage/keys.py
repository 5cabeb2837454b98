"""The keys of rows: all that checks across rows need to know of them, and no more.

For each row its id, its ordinal, the ends of an edge, and for each unique constraint one text that
two rows share exactly if they share the values. Keys of the input and keys of committed tables have
the same columns, so that the checks can put them side by side. They are kept as Parquet, which
Spark reads on its own, and column by column in buckets (`buckets`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Cardinality, EdgeType
from omnigraph.catalog.precision import to_single
from omnigraph.catalog.types import FLOATS, Scalar, ValueType
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.write.base_rows import Type, uniques_of
from omnigraph.pipeline.stage.buckets import BucketColumn, own_buckets
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID

ORDINAL_KEY: Final = "ordinal"
ROW_ID_KEY: Final = "row_id"
ADDRESS_KEY: Final = "address"

ROWS_OF_KEYS: Final = "rows_of_keys"
BUCKETS: Final = "buckets"
"""Where a task says that it put keys."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Where keys were put: as rows, and each column of texts in buckets."""

    rows: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()

    @classmethod
    def gather(cls, answers: Sequence[Mapping[str, Any]]) -> Self:
        """From what tasks said; those that found no rows wrote no files."""
        rows, buckets = (
            tuple(each[name] for each in answers if each.get(name) is not None)
            for name in (ROWS_OF_KEYS, BUCKETS)
        )
        return cls(rows, buckets)


_STORED: Final[dict[Scalar, Any]] = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}


def unique_name(number: int) -> str:
    """The column that holds the text of one unique constraint."""
    return f"unique_{number}"


def text_columns(type_: Type) -> tuple[str, ...]:
    """The columns of keys that are compared, all of them texts."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    return ("id", *ends, *(unique_name(number) for number in range(len(uniques_of(type_)))))


def bucket_columns(type_: Type, *, with_partners: bool) -> tuple[BucketColumn, ...]:
    """What is put into buckets: each column of texts. Where rows may replace others it also has to
    be known who holds a unique value, which edges leave a source, and which source an edge leaves.
    """
    own = own_buckets(*text_columns(type_))
    if not with_partners:
        return own
    holders = [BucketColumn("id", unique_name(number)) for number in range(len(uniques_of(type_)))]
    is_counted = isinstance(type_, EdgeType) and type_.cardinality != Cardinality()
    edges = [BucketColumn("id", "src"), BucketColumn("src", "id")] if is_counted else []
    return (*own, *holders, *edges)


def keys_of(type_: Type, rows: pa.Table, ordinals: "pa.ChunkedArray[Any] | None") -> pa.Table:
    """The keys of rows. Committed rows have no ordinals."""
    made: dict[str, Any] = {"id": rows["id"]}
    if isinstance(type_, EdgeType):
        made |= {"src": rows["src"], "dst": rows["dst"]}
    for number, group in enumerate(uniques_of(type_)):
        made[unique_name(number)] = texts_of(type_, rows, group)
    made[ORDINAL_KEY] = pa.nulls(rows.num_rows, pa.int64()) if ordinals is None else ordinals
    return pa.table(made)


def places_of(rows: pa.Table) -> pa.Table:
    """Where committed rows are; Spark knows no numbers without a sign."""
    return pa.table(
        {
            ROW_ID_KEY: rows[ROW_ID].cast(pa.int64()),
            ADDRESS_KEY: rows[ROW_ADDRESS].cast(pa.int64()),
        }
    )


def texts_of(type_: Type, rows: pa.Table, group: tuple[str, ...]) -> Any:
    """One text for the values of a group; null where one of them is."""
    parts: list[Any] = []
    for name in group:
        text = _text_of(rows[name], column_type(type_, name))
        parts += [pc.cast(pc.binary_length(text), pa.string()), ":", text]
    # Each text follows its length, so that no two tuples of texts look alike.
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _text_of(column: "pa.ChunkedArray[Any]", value_type: ValueType) -> Any:
    base = value_type.base
    assert isinstance(base, Scalar), "a vector cannot be unique"
    if base in _STORED:
        stored = _STORED[base]
        column = pa.chunked_array([chunk.view(stored) for chunk in column.chunks], stored)
    if base in FLOATS:
        # There are two zeros, and they are equal.
        column = pc.add(column, pa.scalar(0.0, column.type))
    return pc.cast(column, pa.string())


def cells_of(type_: Type, group: tuple[str, ...], text: str) -> tuple[Cell, ...]:
    """The values that a text was made of."""
    types = (column_type(type_, name) for name in group)
    return tuple(_cell_of(each, kind) for each, kind in zip(_split(text), types, strict=True))


def _split(text: str) -> Iterator[str]:
    data = text.encode()
    while data:
        size, _, rest = data.partition(b":")
        yield rest[: int(size)].decode()
        data = rest[int(size) :]


def _cell_of(text: str, value_type: ValueType) -> Cell:
    match value_type.base:
        case Scalar.STRING:
            return text
        case Scalar.BOOL:
            return text == "true"
        case Scalar.F32:
            # The shortest text of a single names another double.
            return to_single(float(text))
        case Scalar.F64:
            return float(text)
        case _:
            return int(text)
