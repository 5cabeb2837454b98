"""The bytes of one blob: whole, a range, or only if the caller has another version.

The server never fetches an external blob, because the server may reach places that its callers may
not. It redirects the caller to addresses that the configuration allows.
"""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import Response, StreamingResponse

from omnigraph.engine.query.blob import OpenBlob
from omnigraph.errors import ExternalBlob
from omnigraph.server.request_context import Context, GraphRoute, RequestContext
from omnigraph.server.responses.answers import Stream
from omnigraph.server.responses.byte_ranges import find_span, is_known
from omnigraph.server.responses.error_mapping import problem
from omnigraph.server.responses.openapi import BLOB_GET, BLOB_HEAD
from omnigraph.server.routes.querying import SelectedSnapshot
from omnigraph.wire.formats import TYPE
from omnigraph.wire.media import SNAPSHOT_ID

BYTES: Final = "application/octet-stream"

_PLAIN: Final = {"X-Content-Type-Options": "nosniff"}
"""Stored bytes must not be interpreted as a page or a script."""

router = APIRouter(route_class=GraphRoute)


def _open_blob(
    context: Context,
    *,
    entity: Annotated[Literal["node", "edge"], Query(description="A node or an edge.")],
    type_: Annotated[
        str, Query(alias="type", description="Its node or edge type.", json_schema_extra=TYPE)
    ],
    identity: Annotated[str, Query(alias="id", description="Its id.")],
    property_: Annotated[str, Query(alias="property", description="The property.")],
    selector: SelectedSnapshot,
) -> OpenBlob:
    return context.graph.blob(entity, type_, identity, property_, **selector)


async def _declare_conditions(
    if_match: Annotated[
        str | None, Header(description="Only if one of these tags matches.")
    ] = None,
    if_none_match: Annotated[
        str | None, Header(description="Only if none of these tags matches.")
    ] = None,
) -> None:
    """Declares the headers in the OpenAPI document."""


async def _declare_range(
    range_: Annotated[
        str | None, Header(alias="Range", description="Which bytes, e.g. `bytes=0-9`.")
    ] = None,
    if_range: Annotated[
        str | None,
        Header(description="The range if this tag matches; else the whole blob."),
    ] = None,
) -> None:
    """Declares the headers in the OpenAPI document."""


Found = Annotated[OpenBlob, Depends(_open_blob)]


@router.get(
    "/blob",
    operation_id="cluster_getBlob",
    response_class=StreamingResponse,
    responses=BLOB_GET,
    dependencies=[Depends(_declare_conditions), Depends(_declare_range)],
)
def read_blob(context: Context, blob: Found) -> Response:
    """The bytes of a Blob property, or a range of them."""
    return _answer(context, blob)


@router.head(
    "/blob",
    operation_id="cluster_headBlob",
    response_class=Response,
    responses=BLOB_HEAD,
    dependencies=[Depends(_declare_conditions)],
)
def describe_blob(context: Context, blob: Found) -> Response:
    """The length and the tag of a Blob property."""
    return _answer(context, blob)


def _answer(context: RequestContext, blob: OpenBlob) -> Response:
    headers = {} if blob.commit_id is None else {SNAPSHOT_ID: str(blob.commit_id)}
    if blob.uri is not None:
        response = _redirect(context, blob.uri)
    else:
        headers |= {"ETag": f'"{blob.etag}"', "Accept-Ranges": "bytes", **_PLAIN}
        response = _serve(context, blob, headers["ETag"])
    response.headers.update(headers)
    return response


def _redirect(context: RequestContext, uri: str) -> Response:
    settings = context.state.settings.graphs[context.served_graph.id]
    if any(each.holds(uri) for each in settings.blob_bases):
        return Response(status_code=302, headers={"Location": uri})
    reason = "the server fetches no external blob, and its external_blobs.allow does not name it"
    return problem(ExternalBlob(uri, reason=reason))


def _serve(context: RequestContext, blob: OpenBlob, tag: str) -> Response:
    """Raises BlobChanged, BlobRangeInvalid."""
    assert blob.length is not None, "an external blob is redirected"
    given = context.request.headers
    if is_known(given, tag):
        return Response(status_code=304)
    if context.request.method == "HEAD":
        return _sized(Response(media_type=BYTES), blob.length)
    span = find_span(given, tag, blob.length)
    chunks = blob.chunks(span.start, span.end - span.start)
    status = 206 if span.is_part else 200
    response = Stream(chunks, status, media_type=BYTES, stall_s=context.stall_s)
    if span.is_part:
        response.headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{blob.length}"
    return _sized(response, span.end - span.start)


def _sized(response: Response, length: int) -> Response:
    response.headers["Content-Length"] = str(length)
    return response
