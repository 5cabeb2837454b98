"""Errors as answers: the lines of the table that no request can provoke on purpose."""

import json

import pytest

from omnigraph.errors import (
    ChangesRefused,
    HeadMoved,
    OmnigraphError,
    QueryMemoryExceeded,
    RecoveryPending,
)
from omnigraph.server.responses.error_mapping import problem


def told(error: OmnigraphError) -> tuple[int, dict[str, object]]:
    answer = problem(error)
    return answer.status_code, json.loads(bytes(answer.body))


def test_a_read_that_needs_too_much_is_told_the_limit() -> None:
    error = QueryMemoryExceeded("sort", needed=20, allowed=10, setting="OMNIGRAPH_QUERY_MEMORY")
    status, body = told(error)
    assert status == 413
    assert body["resource_limit"] == {"resource": "query_memory_bytes", "limit": 10, "actual": 20}
    assert "code" not in body


def test_a_write_that_waits_for_a_recovery_may_be_sent_again() -> None:
    status, body = told(RecoveryPending("01X"))
    assert (status, body["retryable"]) == (503, True)
    assert body["recovery_required"] == {"operation_id": "01X", "action": "repair"}
    assert "code" not in body


@pytest.mark.parametrize(
    ("error", "detail", "missing"),
    [
        (HeadMoved("main", expected="a", actual=None), "precondition_failure", "actual"),
        (ChangesRefused("parentless_commit", commit_id="c"), "change_diff_refusal", "type_name"),
    ],
    ids=["head", "diff"],
)
def test_a_fact_that_nobody_knows_is_left_out(
    error: OmnigraphError, detail: str, missing: str
) -> None:
    facts = told(error)[1][detail]
    assert isinstance(facts, dict)
    assert facts
    assert missing not in facts
