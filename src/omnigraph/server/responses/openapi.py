"""The error answers and the blob answers in the OpenAPI document."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from omnigraph.wire.media import SNAPSHOT_ID
from omnigraph.wire.problems import Problem
from omnigraph.wire.replies import JobReply

Responses = dict[int | str, dict[str, Any]]

_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_PLAIN: Final = frozenset({400, 408, 413, 415, 422})
"""A request that cannot be parsed is answered in plain text."""

_EITHER: Final = frozenset({400, 408, 413})
"""These statuses also have the JSON document of an engine error."""

_ALWAYS: Final = (400, 401, 403, 404, 422, 500, 503)
_WITH_BODY: Final = (408, 413, 415)


def _describe(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status in _PLAIN:
        described["content"] = dict(_TEXT)
    if status == 429:
        described["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    if status in _EITHER or status not in _PLAIN:
        described["model"] = Problem
    return described


READING: Final[Responses] = {status: _describe(status) for status in _ALWAYS}
"""The errors of a route without a body."""

READING_BODY: Final[Responses] = {status: _describe(status) for status in (*_ALWAYS, *_WITH_BODY)}
"""The errors of a route that reads and takes a body."""

ACCEPTED: Final[Responses] = {
    202: {"description": "A job; its state is at `Location`.", "model": JobReply}
}

GONE: Final[Responses] = {status: _describe(status) for status in (409, 410)}
"""The changes are no longer known, or cannot be computed."""

WRITING: Final[Responses] = {
    status: _describe(status) for status in (*_ALWAYS, *_WITH_BODY, 409, 412, 429)
}


_TEXT_HEADER: Final = {"schema": {"type": "string"}}
_SNAPSHOT: Final = {SNAPSHOT_ID: _TEXT_HEADER}
_BLOB: Final = {"ETag": _TEXT_HEADER, "Accept-Ranges": _TEXT_HEADER} | _SNAPSHOT
_PART: Final = {"Content-Range": _TEXT_HEADER}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

_BLOB_MET: Final[Responses] = {
    302: {"description": "The blob is stored elsewhere.", "headers": {"Location": _TEXT_HEADER}},
    304: {"description": "The caller has this version.", "headers": _BLOB},
}

BLOB_GET: Final[Responses] = {
    **READING,
    **_BLOB_MET,
    200: {"description": "The whole blob.", "content": _BYTES, "headers": _BLOB},
    206: {"description": "A range of the blob.", "content": _BYTES, "headers": _BLOB | _PART},
    412: _describe(412),
    416: _describe(416) | {"headers": _PART},
    424: _describe(424) | {"headers": _SNAPSHOT},
}
"""The answers to GET of a blob."""

BLOB_HEAD: Final[Responses] = {
    **{status: {"description": HTTPStatus(status).phrase} for status in (*_ALWAYS, 412, 424)},
    **_BLOB_MET,
    200: {"description": "The blob exists.", "headers": _BLOB},
}
"""The answers to HEAD of a blob: no bodies."""


def find_methods(document: Mapping[str, Any], path: str) -> list[str]:
    """The methods of an address, with or without the prefix of a graph."""
    found: dict[str, list[str]] = {}
    for template, operations in document["paths"].items():
        spelled = re.sub(r"\\{branch\\}", ".+", re.escape(template))
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", spelled)
        if any(re.fullmatch(pattern, each) for each in (path, f"/graphs/g{path}")):
            found[template] = sorted(each.upper() for each in operations)
    # A literal address has precedence over one with parameters.
    return found[min(found, key=lambda each: each.count("{"))] if found else []
