"""Every error as an answer, in one table.

The first line that fits wins, so what is special stands before what is general. A line without a
code is a status that the closed set of codes has no word for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from omnigraph import errors
from omnigraph.commit.records import JsonObject, JsonValue
from omnigraph.errors import OmnigraphError
from omnigraph.ids import TableKey, split_table_key
from omnigraph.server import metrics
from omnigraph.server.answers import JsonResponse
from omnigraph.wire.causes import cause_document
from omnigraph.wire.problems import WireCode

Details = Callable[[OmnigraphError], JsonObject]


def _nothing(error: OmnigraphError) -> JsonObject:  # noqa: ARG001 - a table entry
    return {}


def _fact(error: OmnigraphError, name: str) -> JsonValue:
    facts = cause_document(error)["facts"]
    assert isinstance(facts, dict)
    return facts.get(name)


def _manifest_conflict(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.ExpectedVersionMismatch)
    kind, name = split_table_key(TableKey(error.table_key))
    return {
        "manifest_conflict": {
            "table_key": error.table_key,
            "expected": error.expected,
            "actual": error.actual,
        },
        "published_dataset_version_conflict": {
            "entity_kind": kind,
            "type_name": name,
            "expected_published_dataset_version": error.expected,
            "actual_published_dataset_version": error.actual,
        },
    }


def _known(facts: JsonObject) -> JsonObject:
    """What is not known is left out."""
    return {name: value for name, value in facts.items() if value is not None}


def _precondition(error: OmnigraphError) -> JsonObject:
    expected, actual = _fact(error, "expected"), _fact(error, "actual")
    return {"precondition_failure": _known({"expected": expected, "actual": actual})}


def _key_conflict(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.KeyConflict)
    return {
        "key_conflict": {
            "entity_kind": error.kind,
            "type_name": error.type_name,
            "entity_id": error.ids[0],
        }
    }


def _resource_limit(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.QueryMemoryExceeded)
    return {
        "resource_limit": {
            "resource": "query_memory_bytes",
            "limit": error.allowed,
            "actual": error.needed,
        }
    }


def _schema_locked(error: OmnigraphError) -> JsonObject:
    return {"schema_locked": {"owner": _fact(error, "owner"), "age_ms": _fact(error, "age_ms")}}


def _merge_conflicts(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.MergeConflicts)
    return {"merge_conflicts": [_clash(each) for each in error.conflicts]}


def _clash(clash: errors.Clash) -> JsonObject:
    kind, name = split_table_key(TableKey(clash.table))
    return {
        "table_key": clash.table,
        "row_id": clash.row_id,
        "entity_kind": kind,
        "type_name": name,
        "entity_id": clash.row_id,
        "property": clash.property_name,
        "kind": str(clash.kind),
        "message": clash.message,
    }


def _diff_refusal(error: OmnigraphError) -> JsonObject:
    return {
        "change_diff_refusal": _known(
            {
                "reason": _fact(error, "reason"),
                "graph_commit_id": _fact(error, "commit_id"),
                "type_name": _fact(error, "type_name"),
            }
        )
    }


def _feed_gap(error: OmnigraphError) -> JsonObject:
    return {
        "change_feed_gap": _known(
            {
                "cursor": _fact(error, "cursor"),
                "first_unreadable_commit_id": _fact(error, "first_unreadable"),
            }
        )
    }


def _recovery_required(error: OmnigraphError) -> JsonObject:
    return {"recovery_required": {"operation_id": _fact(error, "operation_id"), "action": "repair"}}


def _outcome_unknown(error: OmnigraphError) -> JsonObject:
    return {
        "outcome_unknown": {
            "operation_id": _fact(error, "operation_id"),
            "commit_id": _fact(error, "commit_id"),
        }
    }


def _blob_range(error: OmnigraphError) -> JsonObject:
    return {"blob_range": {name: _fact(error, name) for name in ("start", "end", "length")}}


def _external_blob(error: OmnigraphError) -> JsonObject:
    return {"external_blob_source": {name: _fact(error, name) for name in ("uri", "reason")}}


@dataclass(frozen=True, slots=True)
class Line:
    error: type[OmnigraphError]
    status: int
    code: WireCode | None
    details: Details = _nothing
    retryable: bool | None = None
    """May the very same request succeed later?"""


TABLE: Final = (
    Line(errors.Unauthorized, 401, "unauthorized"),
    Line(errors.Forbidden, 403, "forbidden"),
    Line(errors.TooManyRequests, 429, "too_many_requests", retryable=True),
    Line(errors.KeyReused, 409, "conflict", retryable=False),
    Line(errors.ChangesRefused, 409, "conflict", _diff_refusal, retryable=False),
    Line(errors.ChangeFeedGap, 410, None, _feed_gap, retryable=False),
    Line(errors.QueryMemoryExceeded, 413, None, _resource_limit, retryable=False),
    Line(errors.BlobRangeInvalid, 416, None, _blob_range),
    Line(errors.ExternalBlob, 424, None, _external_blob),
    Line(errors.BlobChanged, 412, None, _precondition),
    Line(errors.InputError, 400, "bad_request"),
    Line(errors.NotFoundError, 404, "not_found"),
    Line(errors.HeadMoved, 412, None, _precondition),
    Line(errors.ExpectedVersionMismatch, 409, "conflict", _manifest_conflict, retryable=True),
    Line(errors.KeyConflict, 409, "conflict", _key_conflict, retryable=False),
    Line(errors.MergeConflicts, 409, "conflict", _merge_conflicts, retryable=False),
    Line(errors.SchemaLocked, 409, "conflict", _schema_locked, retryable=True),
    Line(errors.RecoveryPending, 503, None, _recovery_required, retryable=True),
    Line(errors.DriftFound, 503, None, _recovery_required, retryable=False),
    Line(errors.AlreadyDone, 409, "conflict", retryable=True),
    Line(errors.Contention, 409, "conflict", retryable=True),
    Line(errors.LeaseHeld, 409, "conflict", retryable=True),
    Line(errors.LeaseLost, 409, "conflict", retryable=True),
    Line(errors.Fenced, 409, "conflict", retryable=True),
    Line(errors.ConflictError, 409, "conflict", retryable=False),
    Line(errors.OutcomeUnknown, 503, None, _outcome_unknown, retryable=True),
    Line(errors.SidecarCorrupt, 503, None, _recovery_required, retryable=False),
    Line(errors.SidecarTooNew, 503, None, _recovery_required, retryable=False),
    Line(errors.InvariantViolated, 503, None, _recovery_required, retryable=False),
    Line(OmnigraphError, 500, "internal"),
)


def line_for(error: OmnigraphError) -> Line:
    return next(line for line in TABLE if isinstance(error, line.error))


def problem_document(error: OmnigraphError) -> JsonObject:
    """The body that tells of an error."""
    line = line_for(error)
    document: JsonObject = {"error": str(error)}
    if line.code is not None:
        document["code"] = line.code
    document |= line.details(error)
    if line.retryable is not None:
        document["retryable"] = line.retryable
    document["cause"] = cause_document(error)
    return document


def problem(error: OmnigraphError) -> Response:
    line = line_for(error)
    if isinstance(error, errors.ConflictError):
        metrics.CONFLICTS.labels(error.code.value).inc()
    headers = {}
    if isinstance(error, errors.TooManyRequests):
        metrics.REFUSALS.inc()
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, errors.BlobRangeInvalid):
        headers["Content-Range"] = f"bytes */{error.length}"
    if line.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JsonResponse(problem_document(error), status_code=line.status, headers=headers)
