"""What a program needs to know of an error beyond its text, under names that clients know.

The same objects stand in an answer of the server and in what a command prints.
"""

from collections.abc import Callable, Mapping
from typing import Final

from omnigraph import errors
from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.errors import OmnigraphError
from omnigraph.ids import TableKey, split_table_key
from omnigraph.wire.causes import cause_document, clash_document

Details = Callable[[OmnigraphError], JsonObject]


def find_details(error: OmnigraphError) -> JsonObject:
    """By the class of the error, or the nearest of its ancestors that has any."""
    found = next((DETAILS[each] for each in type(error).__mro__ if each in DETAILS), None)
    return {} if found is None else found(error)


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


def _time_limit(error: OmnigraphError) -> JsonObject:
    return {"resource_limit": {"resource": "query_seconds", "limit": _fact(error, "seconds")}}


def _schema_locked(error: OmnigraphError) -> JsonObject:
    return {"schema_locked": {"owner": _fact(error, "owner"), "age_ms": _fact(error, "age_ms")}}


def _merge_conflicts(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.MergeConflicts)
    return {"merge_conflicts": [clash_document(each) for each in error.conflicts]}


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


DETAILS: Final[Mapping[type, Details]] = {
    errors.ChangesRefused: _diff_refusal,
    errors.ChangeFeedGap: _feed_gap,
    errors.QueryMemoryExceeded: _resource_limit,
    errors.QueryTimeout: _time_limit,
    errors.BlobRangeInvalid: _blob_range,
    errors.ExternalBlob: _external_blob,
    errors.BlobChanged: _precondition,
    errors.HeadMoved: _precondition,
    errors.ExpectedVersionMismatch: _manifest_conflict,
    errors.KeyConflict: _key_conflict,
    errors.MergeConflicts: _merge_conflicts,
    errors.SchemaLocked: _schema_locked,
    errors.RecoveryPending: _recovery_required,
    errors.DriftFound: _recovery_required,
    errors.OutcomeUnknown: _outcome_unknown,
    errors.SidecarCorrupt: _recovery_required,
    errors.SidecarTooNew: _recovery_required,
    errors.InvariantViolated: _recovery_required,
}
