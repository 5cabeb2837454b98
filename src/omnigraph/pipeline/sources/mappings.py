"""Which column of a table supplies which property of a row, decided before any row is read.

A property takes its values from the column that the mapping names, else from the column of the
same name. Edges also take `from` and `to`, which may be called `src` and `dst`; rows that bring
their own ids take `id`. A column whose type can never fit its property is a fault of the table as a
whole, and so is a required property without a column. Without a mapping, an unused column is a
fault; a mapping states which columns are meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import STRING
from omnigraph.compiler.spelling import suggest
from omnigraph.engine.load.bulk import COLUMN, Fault
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.violations import clip
from omnigraph.errors import TypeUnknown, UsageError

ENDS: Final = {"from": "src", "to": "dst"}
"""What edges are fed besides their properties, and what tables call it."""

IDENTITIES: Final = frozenset({"id", *ENDS})


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The rows of a table, as rows of one type."""

    type: Type
    columns: Mapping[str, str]
    """The column that feeds each property, `id`, `from` or `to`."""
    are_texts: bool = False
    """Every column holds texts, which spell numbers and dates too."""


@dataclass(slots=True)
class Fitting:
    """What became of the columns of one table."""

    mapping: ColumnMapping
    faults: list[Fault] = field(default_factory=list)
    unused: tuple[str, ...] = ()


def find_table_type(catalog: Catalog, source: Input) -> Type:
    """What the rows of a table are. Raises UsageError, TypeUnknown."""
    if source.type is not None and source.edge is not None:
        raise UsageError("a table feeds one type of nodes or one type of edges, not both")
    if source.type is not None:
        node = catalog.node(source.type)
        if node is None:
            raise TypeUnknown(source.type, hint=suggest(source.type, _names(catalog.nodes)))
        return node
    if source.edge is not None:
        edge = catalog.edge_named(source.edge)
        if edge is None:
            raise TypeUnknown(source.edge, hint=suggest(source.edge, _names(catalog.edges)))
        return edge
    raise UsageError(f"{source.data} is a table: say which type of nodes or edges it feeds")


def _names(types: Sequence[Type]) -> list[str]:
    return [each.name for each in types]


def fit_columns(
    type_: Type, source: Input, schema: pa.Schema, *, shown: str, are_texts: bool
) -> Fitting:
    """Decide what feeds what; `shown` is the table's name in messages."""
    return _ColumnFitter(type_, source.mapping, schema, shown, are_texts=are_texts).run()


class _ColumnFitter:
    def __init__(
        self,
        type_: Type,
        mapping: Mapping[str, str],
        schema: pa.Schema,
        shown: str,
        *,
        are_texts: bool,
    ) -> None:
        self.type = type_
        self.mapping = mapping
        self.schema = schema
        self.shown = shown
        self.are_texts = are_texts
        self.faults: list[Fault] = []
        self.targets = targets_of(type_)

    def run(self) -> Fitting:
        columns = self._mapped()
        for target in self.targets:
            namesakes = (target, ENDS.get(target, target))
            if target not in columns:
                found = next((name for name in namesakes if name in self.schema.names), None)
                if found is not None and found not in self.mapping.values():
                    columns[target] = found
        unused = tuple(name for name in self.schema.names if name not in columns.values())
        self._check_unused(unused)
        for target, column in columns.items():
            self._check_column(target, column)
        for target, wanted in self.targets.items():
            uses_lookup = any(self._target(given) == target for given in self.mapping)
            if target not in columns and not wanted.nullable and not uses_lookup:
                self._report(target, f"no column feeds '{target}' of {self.type.name}")
        mapping = ColumnMapping(self.type, columns, self.are_texts)
        return Fitting(mapping, self.faults, unused)

    def _target(self, given: str) -> str:
        if not isinstance(self.type, EdgeType):
            return given
        return next((name for name, stored in ENDS.items() if stored == given), given)

    def _mapped(self) -> dict[str, str]:
        columns: dict[str, str] = {}
        for given, column in self.mapping.items():
            target = self._target(given)
            if target not in self.targets:
                hint = suggest(given, self.targets)
                text = f"{self.type.name} has no property {clip(given)}"
                self._report(given, text if hint is None else f"{text}; {hint}")
            elif target in columns:
                self._report(target, f"two columns are to feed '{target}' of {self.type.name}")
            elif column not in self.schema.names:
                hint = suggest(column, self.schema.names)
                listed = hint or f"there are {', '.join(self.schema.names)}"
                self._report(target, f"there is no column {clip(column)}; {listed}")
            else:
                columns[target] = column
        return columns

    def _check_unused(self, unused: Sequence[str]) -> None:
        if self.mapping:
            return
        for name in unused:
            hint = suggest(name, self.targets) or "give a mapping to leave it out"
            text = f"the column {clip(name)} feeds nothing of {self.type.name}; {hint}"
            self._report(name, text)

    def _check_column(self, target: str, column: str) -> None:
        if self.schema.names.count(column) > 1:
            self._report(target, f"several columns are called {clip(column)}")
            return
        wanted = self.targets[target]
        given = self.schema.field(column).type
        if self.are_texts and arrow.is_string(given):
            return
        if not can_hold(given, wanted, is_identity=target in IDENTITIES):
            text = (
                f"the column {clip(column)} is {given}, and {self.type.name}.{target} is {wanted}"
            )
            self._report(target, text)

    def _report(self, name: str, message: str) -> None:
        self.faults.append(
            Fault(COLUMN, message, self.shown, type_name=self.type.name, property_name=name)
        )


def targets_of(type_: Type) -> dict[str, ValueType]:
    """Everything that may be fed, with what it needs."""
    ends = dict.fromkeys(ENDS, STRING) if isinstance(type_, EdgeType) else {}
    own = {each.name: each.type for each in type_.properties}
    return {"id": STRING.optional(), **ends, **own}


# ── types ────────────────────────────────────────────────────────────────────────────────────────


def can_hold(given: pa.DataType, wanted: ValueType, *, is_identity: bool = False) -> bool:
    """May a column of this type hold such values? Which ones it does hold is seen row by row."""
    if isinstance(given, pa.DictionaryType):
        given = given.value_type
    if arrow.is_null(given):
        return True
    if wanted.is_list or wanted.is_vector:
        item = ValueType(Scalar.F64) if wanted.is_vector else ValueType(wanted.base)
        is_list = arrow.is_list(given) or arrow.is_large_list(given) or arrow.is_list_view(given)
        if not is_list and not arrow.is_fixed_size_list(given):
            return False
        assert isinstance(given, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
        return can_hold(given.value_type, item)
    assert isinstance(wanted.base, Scalar)
    return _can_hold_scalar(given, wanted.base) or (is_identity and arrow.is_integer(given))


def _can_hold_scalar(given: pa.DataType, base: Scalar) -> bool:
    match base:
        case Scalar.STRING:
            return is_text(given)
        case Scalar.BOOL:
            return arrow.is_boolean(given)
        case Scalar.DATE:
            return arrow.is_date32(given) or is_text(given) or arrow.is_integer(given)
        case Scalar.DATETIME:
            is_moment = arrow.is_timestamp(given) or arrow.is_date32(given)
            return is_moment or is_text(given) or arrow.is_integer(given)
        case Scalar.BLOB:
            is_bytes = arrow.is_binary(given) or arrow.is_large_binary(given)
            return is_bytes or arrow.is_fixed_size_binary(given) or is_text(given)
        case _ if base in INTEGERS:
            return arrow.is_integer(given) or is_whole_decimal(given)
        case _:
            assert base in FLOATS
            return arrow.is_integer(given) or arrow.is_floating(given) or arrow.is_decimal(given)


def is_text(given: pa.DataType) -> bool:
    return arrow.is_string(given) or arrow.is_large_string(given) or arrow.is_string_view(given)


def is_whole_decimal(given: pa.DataType) -> bool:
    """How Spark holds integers beyond 64 bits with a sign."""
    return isinstance(given, pa.Decimal128Type | pa.Decimal256Type) and given.scale == 0
