"""The bytes of one blob: whole, in part, or only if they are others than the caller has.

A blob that is kept elsewhere is never fetched by the server, which may reach places that its
callers may not. Whoever asks is sent there, if the address is one that a client can be sent to.
"""

import re
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

_REDIRECTED: Final = re.compile(r"https?://[!-~]+", re.IGNORECASE)
"""Addresses that a client may be sent to: others would have it open files, or do worse."""

_PLAIN: Final = {"X-Content-Type-Options": "nosniff"}
"""Bytes that anybody may have stored are not to be taken for a page or a script."""

router = APIRouter(route_class=GraphRoute)


def _open_blob(
    context: Context,
    *,
    entity: Annotated[Literal["node", "edge"], Query(description="What has the blob.")],
    type_: Annotated[
        str, Query(alias="type", description="Its node or edge type.", json_schema_extra=TYPE)
    ],
    identity: Annotated[str, Query(alias="id", description="Its id.")],
    property_: Annotated[str, Query(alias="property", description="The property.")],
    selector: SelectedSnapshot,
) -> OpenBlob:
    return context.graph.blob(entity, type_, identity, property_, **selector)


def _declare_conditions(
    if_match: Annotated[str | None, Header(description="Only if it has one of these tags.")] = None,
    if_none_match: Annotated[
        str | None, Header(description="Only if it has none of these tags.")
    ] = None,
) -> None:
    """Only so that the document mentions them."""


def _declare_range(
    range_: Annotated[
        str | None, Header(alias="Range", description="Which bytes, e.g. `bytes=0-9`.")
    ] = None,
    if_range: Annotated[
        str | None, Header(description="Those bytes only if it has this tag; else all of them.")
    ] = None,
) -> None:
    """Only so that the document mentions them."""


Found = Annotated[OpenBlob, Depends(_open_blob)]


@router.get(
    "/blob",
    operation_id="cluster_getBlob",
    response_class=StreamingResponse,
    responses=BLOB_GET,
    dependencies=[Depends(_declare_conditions), Depends(_declare_range)],
)
def read_blob(context: Context, blob: Found) -> Response:
    """What a Blob of one node or edge holds, or a range of it, in pieces."""
    return _answer(context, blob)


@router.head(
    "/blob",
    operation_id="cluster_headBlob",
    response_class=Response,
    responses=BLOB_HEAD,
    dependencies=[Depends(_declare_conditions)],
)
def describe_blob(context: Context, blob: Found) -> Response:
    """How long a Blob is, and its tag."""
    return _answer(context, blob)


def _answer(context: RequestContext, blob: OpenBlob) -> Response:
    headers = {} if blob.commit_id is None else {SNAPSHOT_ID: str(blob.commit_id)}
    if blob.uri is not None:
        response = _send_elsewhere(blob.uri)
    else:
        headers |= {"ETag": f'"{blob.etag}"', "Accept-Ranges": "bytes", **_PLAIN}
        response = _serve(context, blob, headers["ETag"])
    response.headers.update(headers)
    return response


def _send_elsewhere(uri: str) -> Response:
    if _REDIRECTED.fullmatch(uri):
        return Response(status_code=302, headers={"Location": uri})
    reason = "a server sends callers to http and https, and fetches nothing itself"
    return problem(ExternalBlob(uri, reason=reason))


def _serve(context: RequestContext, blob: OpenBlob, tag: str) -> Response:
    """Raises BlobChanged, BlobRangeInvalid."""
    assert blob.length is not None, "it is here"
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
