"""The body of an answer that is an error.

The codes are a closed set: clients parse them into an enumeration. New facts become further
objects beside `error`, which older clients skip.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

WireCode = Literal[
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
]


class ManifestConflict(BaseModel):
    table_key: str
    expected: int
    actual: int


class Cause(BaseModel):
    """The code and the facts of our error; the client restores the error from them."""

    code: str
    facts: dict[str, Any]


class Problem(BaseModel):
    model_config = ConfigDict(extra="allow")

    error: str
    code: WireCode | None = None
    manifest_conflict: ManifestConflict | None = None
    merge_conflicts: list[dict[str, Any]] | None = None
    retryable: bool | None = None
    cause: Cause | None = None
    request_id: str | None = None
