"""A bucket that cannot be used says so at once, with its name and the remedy."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.effects import REAL
from omnigraph.errors import (
    BucketForbidden,
    BucketNotFound,
    BucketUnreachable,
    ConditionalWritesIgnored,
    FileUnreadable,
    OmnigraphError,
)
from omnigraph.storage.inputs import find_inputs
from omnigraph.storage.objects_cloud import FIRST_PAUSES_MS
from omnigraph.storage.stores import open_stores
from support.s3_stub import Stub, run_stub

SECRET = "hidden-secret"


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with run_stub() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def options_of(address: str) -> dict[str, str]:
    return {
        "aws_access_key_id": "key",
        "aws_secret_access_key": SECRET,
        "endpoint": address,
        "allow_http": "true",
    }


def open_badly(address: str, *, is_written: bool) -> OmnigraphError:
    begun = time.monotonic()
    with pytest.raises(OmnigraphError) as caught:
        open_stores("s3://buck/g", REAL, storage_options=options_of(address), is_written=is_written)
    assert time.monotonic() - begun < 20  # without a limit it would try for minutes
    assert SECRET not in str(caught.value)
    assert "buck" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize(
    ("status", "code", "expected", "remedy"),
    [
        (403, "InvalidAccessKeyId", BucketForbidden, "check AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", BucketForbidden, "AWS_SECRET_ACCESS_KEY"),
        (403, "AccessDenied", BucketForbidden, "the rights that they have"),
        (401, "Unauthorized", BucketForbidden, "AWS_PROFILE"),
        (400, "ExpiredToken", BucketForbidden, "get new credentials"),
        (404, "NoSuchBucket", BucketNotFound, "make it first"),
        (301, "PermanentRedirect", BucketUnreachable, "set AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", BucketUnreachable, "set AWS_REGION"),
        (501, "NotImplemented", ConditionalWritesIgnored, "such as Amazon S3"),
        (500, "InternalError", BucketUnreachable, "check the endpoint"),
    ],
)
def test_what_a_store_answers_is_explained(
    stub: Stub,
    status: int,
    code: str,
    expected: type[OmnigraphError],
    remedy: str,
    *,
    is_written: bool,
) -> None:
    stub.status, stub.code = status, code
    error = open_badly(stub.address, is_written=is_written)
    assert type(error) is expected
    assert remedy in str(error)
    assert "<Code>" not in str(error)


def test_a_store_that_is_busy_is_asked_again(stub: Stub) -> None:
    stub.status, stub.code, stub.requests = 503, "SlowDown", 0
    error = open_badly(stub.address, is_written=False)
    assert type(error) is BucketUnreachable
    assert "503 Service Unavailable, SlowDown: of SlowDown" in str(error)
    assert stub.requests == 1 + len(FIRST_PAUSES_MS)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://127.0.0.1:9", "the connection is refused"),
        ("http://no-such-host.invalid:9000", "the name of its host is unknown"),
    ],
)
@pytest.mark.parametrize("is_written", [True, False])
def test_an_endpoint_that_does_not_answer_is_named(
    address: str, reason: str, *, is_written: bool
) -> None:
    error = open_badly(address, is_written=is_written)
    assert type(error) is BucketUnreachable
    assert error.retryable
    assert f"at {address}: {reason}; check the endpoint" in str(error)


def test_without_credentials_the_variables_are_named(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role of a machine is asked for at an address of its own, here one that refuses."""
    stub.status, stub.code = 403, "Forbidden"
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", stub.address)
    options = {"endpoint": stub.address, "allow_http": "true"}
    with pytest.raises(BucketForbidden, match="no credentials were found; check AWS_ACCESS_KEY_ID"):
        open_stores("s3://buck/g", REAL, storage_options=options)


def test_inputs_say_the_same_of_their_bucket(stub: Stub) -> None:
    stub.status, stub.code = 404, "NoSuchBucket"
    with pytest.raises(FileUnreadable, match="there is no bucket 'buck'"):
        find_inputs("s3://buck/in/*.jsonl", options_of(stub.address))
    begun = time.monotonic()
    with pytest.raises(FileUnreadable, match="the connection is refused"):
        find_inputs("s3://buck/in", options_of("http://127.0.0.1:9"))
    assert time.monotonic() - begun < 20  # without a limit it would try for minutes
