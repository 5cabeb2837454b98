"""The tools and resources of one graph: queries, mutations, branches, history, the schema."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import UsageError
from omnigraph.mcp.paging import PAGED, PageCursor, cut_page, read_cursor
from omnigraph.mcp.review_tools import ReviewTools
from omnigraph.mcp.search_tool import SearchTool, find_commit
from omnigraph.mcp.stored_query_tools import StoredQuerySource, stored_tools
from omnigraph.mcp.tools import (
    KEY,
    KEY_SCHEMA,
    MAX_ROWS,
    ROWS_DEFAULT,
    ROWS_SCHEMA,
    Arguments,
    Resource,
    Schema,
    Tool,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.describing import SAMPLES_MAX, outline_document
from omnigraph.sdk.documents import (
    commit_document,
    load_document,
    merge_document,
    mutation_document,
    schema_result_document,
    snapshot_document,
)

COMMITS_DEFAULT: Final = 20
LANGUAGE: Final = "omnigraph://language"
ON_A_BRANCH: Final = frozenset({"change", "ingest", "branches_create", "branches_delete"})
"""Tools that may be of use to a caller who cannot change main."""

_TEXT: Final[Schema] = {"type": "string"}
_QUERY: Final[Mapping[str, Schema]] = {
    "query": {"type": "string", "description": "The text of the query."},
    "name": {"type": "string", "description": "Which query, if the text holds several."},
    "params": {"type": "object", "description": "The values of its parameters, by name."},
    "branch": {"type": "string", "description": "The branch; main by default."},
}


_OUTLINE: Final[Mapping[str, Schema]] = {
    "question": {"type": "string", "description": "What you want to know."},
    "types": {"type": "array", "items": _TEXT, "description": "Only these types."},
    "budget": {"type": "integer", "minimum": 1, "description": "At most so many tokens."},
    "samples": {"type": "integer", "minimum": 0, "maximum": SAMPLES_MAX},
}


@dataclass(frozen=True, slots=True)
class GraphToolbox:
    """The tools of one graph. With `only_stored`, the stored queries and nothing else."""

    graph: GraphClient
    stored: StoredQuerySource | None = None
    actor: str | None = None
    read_only: bool = False
    only_stored: bool = False
    title: str | None = None
    """What the graph is called; its address by default."""
    may_write: bool = True
    """Does a policy allow the caller to change main? If not, only `change` and proposing stay."""
    may_propose: bool = True

    @property
    def instructions(self) -> str:
        place = f"at {self.graph.uri}" if self.title is None else f"called {self.title}"
        if self.only_stored:
            return f"Stored queries of a typed property graph {place}."
        return (
            f"A typed property graph {place}. Read the resource {LANGUAGE} once. Call `describe` "
            "with your question before you write a query. A write is one commit or nothing. To "
            "change something that people should review: `task_begin`, `change` on its branch, "
            "`diff`, `proposal_open`."
        )

    def tools(self) -> Sequence[Tool]:
        plain = [] if self.only_stored else self._plain_tools()
        if self.stored is None:
            return plain
        taken = frozenset(each.name for each in plain)
        return [*plain, *stored_tools(self.stored, read_only=self.read_only, taken=taken)]

    def resources(self) -> Sequence[Resource]:
        if self.only_stored:
            return []
        return [
            Resource(LANGUAGE, "language", "text/markdown", read_language),
            Resource(
                "omnigraph://schema", "schema", "text/plain", lambda: self.graph.schema_source
            ),
            Resource(
                "omnigraph://branches",
                "branches",
                "application/json",
                lambda: json.dumps(self._branches({})),
            ),
        ]

    def _plain_tools(self) -> list[Tool]:
        review = ReviewTools(self.graph, self.actor)
        reading = [*self._reading(), SearchTool(self.graph).tool(), *review.reading()]
        if self.read_only:
            return reading
        writing = self._writing()
        if not self.may_write:
            writing = [each for each in writing if each.name in ON_A_BRANCH]
        return [*reading, *writing, *(review.proposing() if self.may_propose else [])]

    def _reading(self) -> list[Tool]:
        past = {"snapshot": {"type": "string", "description": "Read the state at this commit."}}
        limit = {"limit": {"type": "integer", "minimum": 1, "default": COMMITS_DEFAULT}}
        branch = {"branch": _QUERY["branch"]}
        return [
            Tool(
                "schema_get",
                "The schema of the graph: its types and their properties.",
                self._schema,
            ),
            Tool(
                "describe",
                "The schema in few tokens; with `question`, only the types that its words touch.",
                self._describe,
                _OUTLINE,
            ),
            Tool(
                "read",
                "Run a query that reads.",
                self._read,
                {**_QUERY, **past, MAX_ROWS: ROWS_SCHEMA, **PAGED},
                ("query",),
            ),
            Tool(
                "snapshot",
                "Every table of a branch, with its version and row count.",
                self._snapshot,
                branch,
            ),
            Tool("branches_list", "The branches of the graph.", self._branches),
            Tool("commits_list", "The newest commits of a branch.", self._commits, branch | limit),
            Tool("commits_get", "One commit.", self._commit, {"commit_id": _TEXT}, ("commit_id",)),
        ]

    def _writing(self) -> list[Tool]:
        records: dict[str, Schema] = {
            "data": {"type": "string", "description": "Nodes and edges, one JSON record a line."},
            "mode": {"type": "string", "enum": ["merge", "append", "overwrite"]},
            "branch": _QUERY["branch"],
            "from": {"type": "string", "description": "Create the branch from this one first."},
        }
        named = {"name": _TEXT, "from": {"type": "string", "description": "main by default."}}
        merged = {"source": _TEXT, "target": {"type": "string", "description": "main by default."}}
        gone = {"name": _TEXT}
        schema = {
            "schema_source": _TEXT,
            "allow_data_loss": {"type": "boolean"},
            "portable": {"type": "boolean"},
        }
        program = "Run a query that inserts, updates or deletes."
        return [
            _writer("change", program, self._change, _QUERY, "query", loses=True),
            _writer(
                "ingest", "Load records, in one commit.", self._ingest, records, "data", loses=True
            ),
            _writer("branches_create", "Create a branch.", self._create_branch, named, "name"),
            _writer(
                "branches_delete", "Delete a branch.", self._delete_branch, gone, "name", loses=True
            ),
            _writer(
                "branches_merge", "Merge a branch into another.", self._merge, merged, "source"
            ),
            _writer(
                "schema_apply",
                "Change the schema.",
                self._apply_schema,
                schema,
                "schema_source",
                loses=True,
            ),
        ]

    # reading

    def _schema(self, _: Arguments) -> dict[str, Any]:
        return {"schema_source": self.graph.schema_source}

    def _describe(self, given: Arguments) -> dict[str, Any]:
        outline = self.graph.describe(
            types=given.get("types", ()),
            question=given.get("question"),
            budget=given.get("budget"),
            samples=given.get("samples", 0),
        )
        return outline_document(outline)

    def _read(self, given: Arguments) -> dict[str, Any]:
        cursor = read_cursor(given)
        commit = cursor.commit or given.get("snapshot")
        if commit is None:
            commit = find_commit(self.graph, given.get("branch"))
        document = self.graph.query(
            given["query"], name=given.get("name"), params=given.get("params"), snapshot=commit
        ).document()
        rows_max = given.get(MAX_ROWS, ROWS_DEFAULT)
        return cut_page(document, "rows", given, PageCursor(cursor.offset, commit), rows_max)

    def _snapshot(self, given: Arguments) -> dict[str, Any]:
        return snapshot_document(self.graph.snapshot(given.get("branch")))

    def _branches(self, _: Arguments) -> dict[str, Any]:
        return {"branches": list(self.graph.branches.list())}

    def _commits(self, given: Arguments) -> dict[str, Any]:
        limit = given.get("limit", COMMITS_DEFAULT)
        found = self.graph.commits(given.get("branch", "main"), limit=limit)
        return {"commits": [commit_document(each) for each in found]}

    def _commit(self, given: Arguments) -> dict[str, Any]:
        return commit_document(self.graph.commit(given["commit_id"]))

    # writing

    def _change(self, given: Arguments) -> dict[str, Any]:
        result = self.graph.mutate(
            given["query"],
            name=given.get("name"),
            params=given.get("params"),
            branch=given.get("branch", "main"),
            actor=self.actor,
            idempotency_key=_key_of(given),
        )
        return mutation_document(result)

    def _ingest(self, given: Arguments) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="omnigraph-mcp-") as folder:
            records = Path(folder) / "records.jsonl"
            records.write_bytes(_encode(given["data"]))
            result = self.graph.load(
                records,
                mode=given.get("mode", "merge"),
                branch=given.get("branch", "main"),
                from_branch=given.get("from"),
                actor=self.actor,
                idempotency_key=_key_of(given),
            )
        return load_document(result)

    def _create_branch(self, given: Arguments) -> dict[str, Any]:
        source = given.get("from", "main")
        name = self.graph.branches.create(
            given["name"], source=source, actor=self.actor, idempotency_key=_key_of(given)
        )
        return {"name": name, "from": source}

    def _delete_branch(self, given: Arguments) -> dict[str, Any]:
        self.graph.branches.delete(given["name"], actor=self.actor, idempotency_key=_key_of(given))
        return {"name": given["name"]}

    def _merge(self, given: Arguments) -> dict[str, Any]:
        target = given.get("target", "main")
        return merge_document(
            self.graph.merge(
                given["source"], target, actor=self.actor, idempotency_key=_key_of(given)
            )
        )

    def _apply_schema(self, given: Arguments) -> dict[str, Any]:
        result = self.graph.apply_schema(
            given["schema_source"],
            allow_data_loss=given.get("allow_data_loss", False),
            portable=given.get("portable", False),
            actor=self.actor,
            idempotency_key=_key_of(given),
        )
        return schema_result_document(self.graph.uri, result)


def read_language() -> str:
    """The page that teaches the query language."""
    return resources.files("omnigraph.mcp").joinpath("language.md").read_text(encoding="utf-8")


def _writer(
    name: str,
    description: str,
    run: Callable[[Arguments], dict[str, Any]],
    takes: Mapping[str, Schema],
    needs: str,
    *,
    loses: bool = False,
) -> Tool:
    properties = {**takes, KEY: KEY_SCHEMA}
    return Tool(name, description, run, properties, (needs,), is_writing=True, is_destructive=loses)


def _encode(text: str) -> bytes:
    """Raises UsageError."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"'data' holds a lone surrogate at character {error.start}") from None


def _key_of(given: Arguments) -> str | None:
    key: str | None = given.get(KEY)
    return key
