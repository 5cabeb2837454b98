"""What a query returns and which tables it touches, as clients that generate code want it.

Touching is told conservatively: an edge is never read without the types at its ends, and a node is
never deleted without the edges that may hang on it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import Scalar, Vector
from omnigraph.compiler.ir import (
    Delete,
    EachPath,
    Expand,
    ExpandAny,
    IdOf,
    Insert,
    Measured,
    Mutation,
    ObjectOf,
    Optionally,
    Output,
    Query,
    Scan,
    ScanAny,
    Stage,
    Statement,
    Step,
    Update,
    Where,
    Within,
    Without,
)
from omnigraph.ids import TypeKind
from omnigraph.lang.query import ast

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "nullable": self.nullable,
        }
        if self.item_kind is not None:
            document["item_kind"] = self.item_kind
        if self.vector_dim is not None:
            document["vector_dim"] = self.vector_dim
        return document


@dataclass(frozen=True, slots=True, order=True)
class TypeUse:
    kind: TypeKind
    type_name: str

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "type_name": self.type_name}


@dataclass(frozen=True, slots=True)
class Operation:
    result: tuple[ResultColumn, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "result": [each.to_json() for each in self.result],
            "reads": [each.to_json() for each in self.reads],
            "writes": [each.to_json() for each in self.writes],
        }


def describe_operation(query: ast.Query, resolved: Query, catalog: Catalog) -> Operation:
    """Describe a query that is right. The tree is asked for the names the author gave."""
    if isinstance(resolved, Mutation):
        reads = (use for each in resolved.statements for use in _read_by(each, catalog))
        writes = (use for each in resolved.statements for use in _written_by(each, catalog))
        return Operation((), _canonical(reads), _canonical(writes))
    assert isinstance(query.body, ast.Read)
    columns = tuple(
        _column(projection, output)
        for projection, output in zip(query.body.returns, resolved.outputs, strict=True)
    )
    walked = (use for part in resolved.parts for use in _walked(part.steps, catalog))
    return Operation(columns, _canonical(walked), ())


def _canonical(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(set(uses)))


# ── result ───────────────────────────────────────────────────────────────────────────────────────


def _column(projection: ast.Projection, output: Output) -> ResultColumn:
    name = _static_name(projection, output)
    value_type = output.type
    if isinstance(output.expression, IdOf | ObjectOf):
        return ResultColumn(name, "object", value_type.nullable)
    if isinstance(value_type.base, Vector):
        dimension = value_type.base.dimension
        return ResultColumn(name, "vector", value_type.nullable, vector_dim=dimension)
    if value_type.is_list:
        kind = _KINDS[value_type.scalar]
        return ResultColumn(name, "list", value_type.nullable, item_kind=kind)
    return ResultColumn(name, _KINDS[value_type.scalar], value_type.nullable)


def _static_name(projection: ast.Projection, output: Output) -> str:
    """The alias; else the property or function alone, which generated code can spell."""
    if projection.alias is not None:
        return projection.alias.text
    match projection.expression:
        case ast.PropertyRef(name=name):
            return name.text.removeprefix("@")
        case ast.Aggregate(function=function):
            return function.value
        case _:
            return output.name


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _walked(steps: Iterable[Step], catalog: Catalog) -> Iterator[TypeUse]:
    for step in steps:
        match step:
            case Scan(type_name=type_name):
                yield TypeUse("node", type_name)
            case ScanAny(types=types):
                yield from (TypeUse("node", each) for each in types)
            case Expand(edge=edge):
                yield from _edge_and_ends(edge, catalog)
            case ExpandAny():
                for each in step.edges:
                    yield from _edge_and_ends(each, catalog)
            case Without(inner) | Within(inner) | Measured(inner) | Optionally(inner):
                yield from _walked(inner, catalog)
            case Where() | EachPath() | Stage():
                pass  # a stage is a part of its own, and a path is walked before
            case _:
                assert_never(step)


def _edge_and_ends(name: str, catalog: Catalog) -> Iterator[TypeUse]:
    edge = catalog.edge(name)
    assert edge is not None, "resolved edges are in the catalog"
    yield TypeUse("edge", edge.name)
    yield TypeUse("node", edge.source)
    yield TypeUse("node", edge.target)


def _read_by(statement: Statement, catalog: Catalog) -> Iterator[TypeUse]:
    if isinstance(statement, Insert) and statement.kind == "edge":
        yield from _edge_and_ends(statement.type_name, catalog)
    yield from _written_by(statement, catalog)


def _written_by(statement: Statement, catalog: Catalog) -> Iterator[TypeUse]:
    match statement:
        case Update(type_name=type_name):
            yield TypeUse("node", type_name)
        case Insert(kind, type_name):
            yield TypeUse(kind, type_name)
        case Delete(kind, type_name):
            yield TypeUse(kind, type_name)
            if kind == "node":
                for edge in catalog.edges_at(type_name):
                    yield TypeUse("edge", edge.name)
        case _:
            assert_never(statement)
