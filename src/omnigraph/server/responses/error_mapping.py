"""The HTTP status and the wire code of every error, in one table.

The first entry whose class fits wins, so a special class stands before its parent. An entry without
a code has a status that the closed set of wire codes does not cover.
"""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from omnigraph import errors
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.errors import OmnigraphError
from omnigraph.server.responses.answers import JsonResponse
from omnigraph.server.telemetry import metrics
from omnigraph.wire.causes import cause_document
from omnigraph.wire.details import find_details
from omnigraph.wire.problems import WireCode


@dataclass(frozen=True, slots=True)
class ErrorMapping:
    error: type[OmnigraphError]
    status: int
    code: WireCode | None


TABLE: Final = (
    ErrorMapping(errors.Unauthorized, 401, "unauthorized"),
    ErrorMapping(errors.Forbidden, 403, "forbidden"),
    ErrorMapping(errors.TooManyRequests, 429, "too_many_requests"),
    ErrorMapping(errors.WriteQueueFull, 429, "too_many_requests"),
    ErrorMapping(errors.TooManyFailedLogins, 429, "too_many_requests"),
    ErrorMapping(errors.CrossSite, 403, "forbidden"),
    ErrorMapping(errors.KeyReused, 409, "conflict"),
    ErrorMapping(errors.ChangesRefused, 409, "conflict"),
    ErrorMapping(errors.ChangeFeedGap, 410, None),
    ErrorMapping(errors.QueryMemoryExceeded, 413, None),
    ErrorMapping(errors.QueryTimeout, 408, None),
    ErrorMapping(errors.QueryCancelled, 503, None),
    ErrorMapping(errors.BlobRangeInvalid, 416, None),
    ErrorMapping(errors.ExternalBlob, 424, None),
    ErrorMapping(errors.BlobChanged, 412, None),
    ErrorMapping(errors.InputError, 400, "bad_request"),
    ErrorMapping(errors.NotFoundError, 404, "not_found"),
    ErrorMapping(errors.HeadMoved, 412, None),
    ErrorMapping(errors.RecoveryPending, 503, None),
    ErrorMapping(errors.DriftFound, 503, None),
    ErrorMapping(errors.ConflictError, 409, "conflict"),
    ErrorMapping(errors.OutcomeUnknown, 503, None),
    ErrorMapping(errors.SidecarCorrupt, 503, None),
    ErrorMapping(errors.SidecarTooNew, 503, None),
    ErrorMapping(errors.InvariantViolated, 503, None),
    ErrorMapping(OmnigraphError, 500, "internal"),
)


def find_mapping(error: OmnigraphError) -> ErrorMapping:
    return next(each for each in TABLE if isinstance(error, each.error))


def problem_document(error: OmnigraphError) -> JsonObject:
    mapping = find_mapping(error)
    document: JsonObject = {"error": str(error)}
    if mapping.code is not None:
        document["code"] = mapping.code
    document |= find_details(error)
    document["retryable"] = error.retryable
    document["cause"] = cause_document(error)
    return document


def problem(error: OmnigraphError) -> Response:
    mapping = find_mapping(error)
    if isinstance(error, errors.ConflictError):
        metrics.CONFLICTS.labels(error.code.value).inc()
    headers = {}
    if isinstance(error, errors.TooManyRequests | errors.WriteQueueFull):
        metrics.REFUSALS.inc()
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, errors.TooManyFailedLogins):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, errors.BlobRangeInvalid):
        headers["Content-Range"] = f"bytes */{error.length}"
    if mapping.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JsonResponse(problem_document(error), status_code=mapping.status, headers=headers)
