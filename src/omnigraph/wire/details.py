"""The details of an error, as further objects beside its text.

A server sends these objects with the error; a command prints the same objects with `--json`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from omnigraph import errors
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.errors import OmnigraphError
from omnigraph.ids import TableKey, split_table_key
from omnigraph.wire.causes import clash_document, encode

Details = Callable[[OmnigraphError], JsonObject]


def find_details(error: OmnigraphError) -> JsonObject:
    """By the class of the error, or the nearest of its ancestors that has details."""
    found = next((DETAILS[each] for each in type(error).__mro__ if each in DETAILS), None)
    return {} if found is None else found(error)


def _detail(name: str, constants: JsonObject | None = None, **facts: str) -> Details:
    """One object: its constants, and its fields with the fact that each of them holds.

    An error that was restored from a document of an older server may lack a fact: it is null.
    """

    def describe(error: OmnigraphError) -> JsonObject:
        fields = {field: encode(getattr(error, fact, None)) for field, fact in facts.items()}
        return {name: {**(constants or {}), **fields}}

    return describe


def _known(details: Details) -> Details:
    """The same objects without the fields that are null."""

    def describe(error: OmnigraphError) -> JsonObject:
        return {
            name: {field: value for field, value in detail.items() if value is not None}
            for name, detail in details(error).items()
            if isinstance(detail, dict)
        }

    return describe


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


def _key_conflict(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.KeyConflict)
    first = {"entity_kind": error.kind, "type_name": error.type_name, "entity_id": error.ids[0]}
    return {"key_conflict": {**first}}


def _merge_conflicts(error: OmnigraphError) -> JsonObject:
    assert isinstance(error, errors.MergeConflicts)
    return {"merge_conflicts": [clash_document(each) for each in error.conflicts]}


_PRECONDITION: Final = _known(_detail("precondition_failure", expected="expected", actual="actual"))
_RECOVERY: Final = _detail("recovery_required", {"action": "repair"}, operation_id="operation_id")

DETAILS: Final[Mapping[type, Details]] = {
    errors.ChangesRefused: _known(
        _detail(
            "change_diff_refusal",
            reason="reason",
            graph_commit_id="commit_id",
            type_name="type_name",
        )
    ),
    errors.ChangeFeedGap: _known(
        _detail("change_feed_gap", cursor="cursor", first_unreadable_commit_id="first_unreadable")
    ),
    errors.QueryMemoryExceeded: _detail(
        "resource_limit", {"resource": "query_memory_bytes"}, limit="allowed", actual="needed"
    ),
    errors.QueryTimeout: _detail("resource_limit", {"resource": "query_seconds"}, limit="seconds"),
    errors.BlobRangeInvalid: _detail("blob_range", start="start", end="end", length="length"),
    errors.ExternalBlob: _detail("external_blob_source", uri="uri", reason="reason"),
    errors.BlobChanged: _PRECONDITION,
    errors.HeadMoved: _PRECONDITION,
    errors.ExpectedVersionMismatch: _manifest_conflict,
    errors.KeyConflict: _key_conflict,
    errors.MergeConflicts: _merge_conflicts,
    errors.SchemaLocked: _detail("schema_locked", owner="owner", age_ms="age_ms"),
    errors.RecoveryPending: _RECOVERY,
    errors.DriftFound: _RECOVERY,
    errors.OutcomeUnknown: _detail(
        "outcome_unknown", operation_id="operation_id", commit_id="commit_id"
    ),
    errors.SidecarCorrupt: _RECOVERY,
    errors.SidecarTooNew: _RECOVERY,
    errors.InvariantViolated: _RECOVERY,
}
