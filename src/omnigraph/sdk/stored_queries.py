"""Stored queries: a folder of `.gq` files; callers run each query by its name.

The server checks them against the schema when it starts and at every reload. A file that cannot be
read, or a query that does not fit, is quarantined with the reason; the graph and the other queries
are served.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.compiler.compile import compile_tree
from omnigraph.compiler.ir import Mutation, Parameter
from omnigraph.errors import ConfigInvalid, OmnigraphError, StoredQueryNotFound
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source

_KINDS: Final[Mapping[Scalar, str]] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATETIME: "datetime",
    Scalar.DATE: "date",
}


@dataclass(frozen=True, slots=True)
class StoredQuery:
    name: str
    source: Source
    is_mutation: bool
    parameters: tuple[Parameter, ...]
    description: str | None
    instruction: str | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why a valid query is hard to call by its name."""
        vectors = [each.name for each in self.parameters if isinstance(each.type.base, Vector)]
        return tuple(
            f"parameter '${each}' is a vector, which agents cannot supply" for each in vectors
        )

    def document(self) -> JsonObject:
        document: JsonObject = {"name": self.name, "tool_name": self.name}
        if self.description is not None:
            document["description"] = self.description
        if self.instruction is not None:
            document["instruction"] = self.instruction
        document["mutation"] = self.is_mutation
        document["params"] = [_parameter(each) for each in self.parameters]
        return document


@dataclass(frozen=True, slots=True)
class RejectedQuery:
    """A query or a file that is not served."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoredQueries:
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    broken: tuple[RejectedQuery, ...] = ()

    def find(self, name: str) -> StoredQuery:
        """Raises StoredQueryNotFound."""
        found = self.queries.get(name)
        if found is None:
            raise StoredQueryNotFound(name)
        return found

    def document(self) -> JsonObject:
        listed = sorted(self.queries.values(), key=lambda each: each.name)
        return {
            "queries": [each.document() for each in listed],
            "quarantined": [{"source": each.source, "reason": each.reason} for each in self.broken],
        }


@dataclass(frozen=True, slots=True)
class QueryFile:
    path: str
    text: str
    error: str | None = None
    """Why the file could not be read."""


def read_query_files(folder: Path) -> tuple[QueryFile, ...]:
    """Raises ConfigInvalid if there is no such folder."""
    if not folder.is_dir():
        raise ConfigInvalid(str(folder), reason="there is no such folder of stored queries")
    return tuple(_read_file(path) for path in sorted(folder.rglob("*.gq")))


def _read_file(path: Path) -> QueryFile:
    try:
        return QueryFile(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return QueryFile(str(path), "", str(error))


def read_stored(folder: Path, catalog: Catalog) -> StoredQueries:
    """Raises ConfigInvalid if there is no such folder."""
    return check_stored(read_query_files(folder), catalog)


def check_stored(files: Iterable[QueryFile], catalog: Catalog) -> StoredQueries:
    """The queries that fit a schema, and the quarantined ones."""
    queries: dict[str, StoredQuery] = {}
    broken: list[RejectedQuery] = []
    for file in files:
        for found in _check_file(file, catalog):
            if isinstance(found, RejectedQuery):
                broken.append(found)
            elif found.name in queries:
                other = queries[found.name].source.name
                broken.append(
                    RejectedQuery(f"{file.path}:{found.name}", f"{other} has one of that name too")
                )
            else:
                queries[found.name] = found
    return StoredQueries(queries, tuple(broken))


def _check_file(file: QueryFile, catalog: Catalog) -> Iterator[StoredQuery | RejectedQuery]:
    if file.error is not None:
        yield RejectedQuery(file.path, file.error)
        return
    source = Source(file.path, file.text)
    try:
        tree = parse(source)
    except OmnigraphError as error:
        yield RejectedQuery(file.path, str(error))
        return
    for query in tree.queries:
        try:
            compiled = compile_tree(query, catalog, source)
        except OmnigraphError as error:
            yield RejectedQuery(f"{file.path}:{query.name.text}", str(error))
        else:
            yield StoredQuery(
                compiled.name,
                source,
                isinstance(compiled.ir, Mutation),
                compiled.parameters,
                query.description,
                query.instruction,
            )


def _parameter(parameter: Parameter) -> JsonObject:
    kind = parameter.type
    document: JsonObject = {"name": parameter.name, "kind": _kind(kind)}
    if kind.is_list:
        document["item_kind"] = _kind(kind.item)
    if isinstance(kind.base, Vector) and not kind.is_list:
        document["vector_dim"] = kind.base.dimension
    document["nullable"] = kind.nullable
    return document


def _kind(kind: ValueType) -> str:
    if kind.is_list:
        return "list"
    return "vector" if isinstance(kind.base, Vector) else _KINDS[kind.scalar]
