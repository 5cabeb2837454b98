"""Stored queries as tools: each query under its name, with the parameters that it declares.

A server lists stored queries in its catalog; without a server they are a folder of `.gq` files. The
list is read again for every `tools/list` and `tools/call`, so a changed query takes effect at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from omnigraph.mcp.paging import PAGED, PageCursor, cut_page, read_cursor
from omnigraph.mcp.search_tool import find_commit
from omnigraph.mcp.tools import (
    KEY,
    KEY_SCHEMA,
    MAX_ROWS,
    ROWS_DEFAULT,
    ROWS_SCHEMA,
    Arguments,
    Schema,
    Tool,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.documents import mutation_document
from omnigraph.sdk.remote.graph import RemoteGraph
from omnigraph.sdk.stored_queries import read_stored

BRANCH: Final = "branch"

_SCHEMAS: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": ["integer", "string"], "description": "As a string of digits beyond 2^53."},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "blob": {"type": "string", "description": "`base64:` followed by the bytes, or a URI."},
}


class StoredQuerySource(Protocol):
    """A catalog of stored queries that can be run."""

    def catalog(self) -> Sequence[Mapping[str, Any]]: ...

    def read(
        self, name: str, params: Mapping[str, object], commit: str | None
    ) -> dict[str, Any]: ...

    def find_head(self, branch: str | None) -> str | None: ...

    def write(
        self, name: str, params: Mapping[str, object], branch: str | None, key: str | None
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ServerQueries:
    graph: RemoteGraph

    def catalog(self) -> Sequence[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.graph.stored_queries()["queries"]
        return found

    def read(self, name: str, params: Mapping[str, object], commit: str | None) -> dict[str, Any]:
        return self.graph.run_stored(name, params=params, commit=commit).document()

    def find_head(self, branch: str | None) -> str | None:
        return find_commit(self.graph, branch)

    def write(
        self, name: str, params: Mapping[str, object], branch: str | None, key: str | None
    ) -> dict[str, Any]:
        result = self.graph.mutate_stored(name, params=params, branch=branch, idempotency_key=key)
        return mutation_document(result)


@dataclass(frozen=True, slots=True)
class FolderQueries:
    graph: GraphClient
    folder: Path
    actor: str | None

    def catalog(self) -> Sequence[Mapping[str, Any]]:
        found = read_stored(self.folder, self.graph.catalog).queries
        return [found[name].document() for name in sorted(found)]

    def read(self, name: str, params: Mapping[str, object], commit: str | None) -> dict[str, Any]:
        return self.graph.query(
            self._text(name), name=name, params=params, snapshot=commit
        ).document()

    def find_head(self, branch: str | None) -> str | None:
        return find_commit(self.graph, branch)

    def write(
        self, name: str, params: Mapping[str, object], branch: str | None, key: str | None
    ) -> dict[str, Any]:
        result = self.graph.mutate(
            self._text(name),
            name=name,
            params=params,
            branch=branch or "main",
            actor=self.actor,
            idempotency_key=key,
        )
        return mutation_document(result)

    def _text(self, name: str) -> str:
        return read_stored(self.folder, self.graph.catalog).find(name).source.text


def stored_tools(
    stored: StoredQuerySource, *, read_only: bool, taken: frozenset[str]
) -> list[Tool]:
    """A tool for each stored query; without those that write if `read_only`."""
    return [
        _tool(stored, each, taken)
        for each in stored.catalog()
        if not (read_only and each["mutation"])
    ]


def _tool(stored: StoredQuerySource, entry: Mapping[str, Any], taken: frozenset[str]) -> Tool:
    name, params, is_writing = str(entry["name"]), entry["params"], entry["mutation"]
    declared = {each["name"]: _schema(each) for each in params}
    # Arguments that every tool takes. A parameter of the same name has precedence.
    added = {KEY: KEY_SCHEMA} if is_writing else {MAX_ROWS: ROWS_SCHEMA, **PAGED}
    added[BRANCH] = {"type": "string", "description": "The branch; main by default."}

    def run(arguments: Arguments) -> dict[str, Any]:
        given = {key: value for key, value in arguments.items() if key in declared}
        ours = {key: value for key, value in arguments.items() if key not in declared}
        if is_writing:
            return stored.write(name, given, ours.get(BRANCH), ours.get(KEY))
        cursor = read_cursor(ours)
        commit = cursor.commit or stored.find_head(ours.get(BRANCH))
        document = stored.read(name, given, commit)
        rows_max = ours.get(MAX_ROWS, ROWS_DEFAULT)
        return cut_page(document, "rows", ours, PageCursor(cursor.offset, commit), rows_max)

    words = [entry.get("description"), entry.get("instruction")]
    return Tool(
        name=f"stored_{name}" if name in taken else name,
        description="\n\n".join(each for each in words if each) or f"The stored query '{name}'.",
        run=run,
        properties=added | declared,
        required=tuple(each["name"] for each in params if not each["nullable"]),
        is_writing=is_writing,
        is_destructive=is_writing,  # a mutation may delete; the catalog does not say
    )


def _schema(parameter: Mapping[str, Any]) -> dict[str, Any]:
    kind = parameter["kind"]
    if kind == "list":
        schema: dict[str, Any] = {"type": "array", "items": dict(_SCHEMAS[parameter["item_kind"]])}
    elif kind == "vector":
        dimension = parameter["vector_dim"]
        numbers = {"items": {"type": "number"}, "minItems": dimension, "maxItems": dimension}
        schema = {"type": "array", **numbers}
    else:
        schema = dict(_SCHEMAS[kind])
    if parameter["nullable"]:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        schema["type"] = [*names, "null"]
    return schema
