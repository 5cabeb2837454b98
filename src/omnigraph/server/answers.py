"""Answers that are not errors: documents as JSON, and the headers of old names."""

import json
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from omnigraph.commit.records import JsonObject

SUCCESSORS: Final = {"/read": "query", "/change": "mutate", "/ingest": "load"}
"""Routes of old, and what they are called now."""


class JsonResponse(Response):
    media_type = "application/json"

    def __init__(
        self,
        document: JsonObject,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        super().__init__(body.encode("utf-8", "replace"), status_code, dict(headers or {}))


def answer(document: JsonObject) -> Response:
    return JsonResponse(document)


def deprecate(response: Response, route: str) -> Response:
    """Say that a route is called something else now."""
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'<{SUCCESSORS[route]}>; rel="successor-version"'
    return response
