"""What the OpenAPI document says about answers that are errors."""

from http import HTTPStatus
from typing import Any, Final

from omnigraph.wire.problems import Problem
from omnigraph.wire.replies import JobReply

Responses = dict[int | str, dict[str, Any]]

_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_PLAIN: Final = frozenset({400, 408, 413, 415, 422})
"""A request that cannot even be read is answered in plain text."""

_ALWAYS: Final = (400, 401, 403, 404, 422, 500, 503)
_WITH_BODY: Final = (408, 413, 415)


def _describe(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status in _PLAIN:
        described["content"] = dict(_TEXT)
    if status == 429:
        described["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    if status == 400 or status not in _PLAIN:
        described["model"] = Problem
    return described


READING: Final[Responses] = {status: _describe(status) for status in _ALWAYS}
"""The problems of a route without a body."""

ASKING: Final[Responses] = {status: _describe(status) for status in (*_ALWAYS, *_WITH_BODY)}
"""The problems of a route that reads, and has a body."""

ACCEPTED: Final[Responses] = {
    202: {"description": "A job, to be asked for at `Location`.", "model": JobReply}
}

GONE: Final[Responses] = {status: _describe(status) for status in (409, 410)}
"""What changed can no longer be told, or never could."""

WRITING: Final[Responses] = {
    status: _describe(status) for status in (*_ALWAYS, *_WITH_BODY, 409, 412, 429)
}
