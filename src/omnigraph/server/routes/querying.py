"""Queries, answered in the media type the caller accepts: JSON, JSON lines, or Arrow."""

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import pyarrow as pa
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.engine.query.result import QueryResult
from omnigraph.errors import RequestInvalid
from omnigraph.ids import MAIN, parse_branch
from omnigraph.server.request_context import BranchQuery, Context, ReadRoute, RequestContext
from omnigraph.server.responses.answers import Stream, answer, deprecate
from omnigraph.server.responses.negotiation import choose_form
from omnigraph.server.responses.openapi import READING_BODY, Responses
from omnigraph.wire.formats import TIME, TYPE, VERSION_MAX
from omnigraph.wire.media import ARROW, HEADER, JSON, NDJSON
from omnigraph.wire.replies import ExplainReply, ReadReply
from omnigraph.wire.requests import ExplainBody, QueryBody

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PIECE_ROWS: Final = 1000
BATCH_ROWS: Final = 65_536

READS: Final[Responses] = {
    **READING_BODY,
    200: {
        "description": "The rows.",
        "content": {
            NDJSON: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
}

router = APIRouter(route_class=ReadRoute, responses=READS)


@router.post("/query", operation_id="cluster_query", response_model=ReadReply)
def query(context: Context, body: QueryBody) -> Response:
    """Run a query on one snapshot: the head of a branch, a commit, a version or a time."""
    return render(context, run_query(context, body))


@router.post("/read", operation_id="cluster_read", response_model=ReadReply, deprecated=True)
def read(context: Context, body: QueryBody) -> Response:
    """Deprecated name of query."""
    return deprecate(render(context, run_query(context, body)), "/read")


def run_query(context: RequestContext, body: QueryBody) -> QueryResult:
    with context.reading(body.timeout):
        branch = find_branch(body.branch, body.snapshot)
        return context.graph.query(
            body.query,
            name=body.name,
            params=body.params,
            branch=branch,
            commit=body.snapshot,
            version=body.version,
            at=body.at,
        )


@router.post("/explain", operation_id="cluster_explain", response_model=ExplainReply)
def explain(context: Context, body: ExplainBody) -> Response:
    """The plan of a query; with `analyze`, run it and report what each operator did."""
    with context.reading(body.timeout):
        found = context.graph.explain(
            body.query,
            name=body.name,
            params=body.params,
            branch=find_branch(body.branch, body.snapshot),
            snapshot=body.snapshot,
            analyze=body.analyze,
        )
    return answer(
        {
            "query_name": found.query_name,
            "plan": [*found.text.splitlines()],
            "row_count": found.row_count,
            "steps": [*found.steps],
        }
    )


class SnapshotSelector(TypedDict):
    """The snapshot to read, as keywords of the methods of a graph."""

    branch: str | None
    commit: str | None
    version: int | None
    at: str | None


async def _find_selector(
    *,
    branch: BranchQuery = None,
    snapshot: Annotated[str | None, Query(description="The state at this commit.")] = None,
    version: Annotated[int | None, Query(ge=1, le=VERSION_MAX)] = None,
    at: Annotated[
        str | None,
        Query(
            description="The state at this time, e.g. 2026-06-01T00:00:00Z.",
            max_length=100,
            json_schema_extra=TIME,
        ),
    ] = None,
) -> SnapshotSelector:
    name = find_branch(branch, snapshot)
    return {"branch": name, "commit": snapshot, "version": version, "at": at}


SelectedSnapshot = Annotated[SnapshotSelector, Depends(_find_selector)]
"""For routes that take the snapshot from the query string."""


@router.get("/entity", operation_id="cluster_getEntity", response_model=ReadReply)
def look_up(
    context: Context,
    *,
    type_: Annotated[
        str, Query(alias="type", description="Its node or edge type.", json_schema_extra=TYPE)
    ],
    identity: Annotated[str, Query(alias="id", description="Its id.")],
    selector: SelectedSnapshot,
) -> Response:
    """One node or edge by its id: a result of one row, or of none."""
    with context.reading():
        found = context.graph.look_up(type_, identity, **selector)
    return render(context, found)


def find_branch(branch: str | None, snapshot: str | None) -> str | None:
    """The branch to read; None if a commit is read. Raises RequestInvalid, BranchNameInvalid."""
    if snapshot is None:
        return parse_branch(branch or MAIN)
    if branch is not None:
        raise RequestInvalid("name a branch or a snapshot, not both")
    return None


def render(context: RequestContext, result: QueryResult) -> Response:
    kind = choose_form(context.request.headers.getlist("accept"), tuple(_FORMS))
    pieces = _FORMS[kind](result)
    if kind == NDJSON:
        kind = f"{NDJSON}; charset=utf-8"
    if len(result) <= PIECE_ROWS:  # each piece of a stream costs a switch of threads
        return Response(b"".join(pieces), media_type=kind)
    return Stream(pieces, media_type=kind, stall_s=context.stall_s)


def _header(result: QueryResult) -> JsonObject:
    return {
        "query_name": result.query_name,
        "target": result.target.document(),
        "row_count": len(result),
        **({"columns": list(result.columns)} if result.columns else {}),
        "graph_commit_id": result.commit_id,
    }


def _document(result: QueryResult) -> Iterator[bytes]:
    yield _dump(_header(result))[:-1] + b',"rows":['
    for number, piece in enumerate(result.pieces(PIECE_ROWS)):
        rows = _dump([*piece.json_rows()])[1:-1]
        yield b"," + rows if number else rows
    yield b"]}"


def _lines(result: QueryResult) -> Iterator[bytes]:
    yield _dump({"kind": "metadata", **_header(result)}) + b"\n"
    for piece in result.pieces(PIECE_ROWS):
        yield b"".join(_dump(row) + b"\n" for row in piece.json_rows())


def _arrow(result: QueryResult) -> Iterator[bytes]:
    """The table; the rest of the document is in the metadata of its schema."""
    table = result.arrow()
    metadata = {**(table.schema.metadata or {}), HEADER: _dump(_header(result))}
    sink = _Sink()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as writer:
        for batch in table.replace_schema_metadata(metadata).to_batches(BATCH_ROWS):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """Buffers what is written until `take`."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        self._written.append(bytes(data))
        return len(self._written[-1])

    def take(self) -> bytes:
        taken = b"".join(self._written)
        self._written.clear()
        return taken


_FORMS: Final = {JSON: _document, ARROW: _arrow, NDJSON: _lines}
"""The media types of an answer; among equally preferred types, the first."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _dump(document: JsonValue) -> bytes:
    return _ENCODER.encode(document).encode()
