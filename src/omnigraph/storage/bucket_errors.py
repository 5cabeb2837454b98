"""Why a bucket cannot be used, from the errors of obstore.

obstore gives few failures a type of their own; the code of S3 stands in the text. A test in
`tests/contract/test_bucket_errors.py` checks every text of this module against real answers.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.errors import (
    BucketForbidden,
    BucketNotFound,
    BucketUnreachable,
    ConditionalWritesIgnored,
    OmnigraphError,
    StorageFailure,
)
from omnigraph.storage.bucket_options import BucketAccess
from omnigraph.storage.translate import is_panic, summarize

WRONG_REGION: Final = "incorrectly configured region"
NO_ANSWER: Final = "error sending request"
_NO_ROLE: Final = re.compile(r"169\.254\.1(69\.254|70\.2)|/latest/api/token|security-credentials")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_STATUS: Final = re.compile(r"status code: (\d{3})")

_OTHER_REGION: Final = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"})
_EXPIRED: Final = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})

_SILENCES: Final = {
    "dns error": "the name of its host is unknown",
    "Connection refused": "the connection is refused",
    "TimedOut": "no answer in time",
}

_KEYS: Final = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE"
)


@contextmanager
def explaining(access: BucketAccess) -> Iterator[None]:
    """Failures of the first request become errors that name the bucket and the remedy."""
    try:
        yield
    except BaseException as error:
        cause = _cause_of(error)
        ours = explain(cause, access)
        if ours is None and isinstance(cause, FileNotFoundError):
            ours = BucketNotFound(access.bucket, endpoint=access.endpoint)
        if ours is None:
            raise
        raise ours from cause


def is_busy(error: BucketUnreachable) -> bool:
    """Did the store answer that it cannot answer now?"""
    status = _STATUS.search(str(error.__cause__))
    return status is not None and (status[1] == "429" or status[1].startswith("5"))


def _cause_of(error: BaseException) -> BaseException:
    is_translated = isinstance(error, StorageFailure) and error.__cause__ is not None
    return error.__cause__ or error if is_translated else error


def explain(error: BaseException, access: BucketAccess) -> OmnigraphError | None:
    """None for an error of ours, and for an object that exists, changed or is missing."""
    if isinstance(error, OmnigraphError) or not _is_of_store(error):
        return None
    text = str(error)
    found, status = _CODE.search(text), _STATUS.search(text)
    code = None if found is None else found[1]
    if code == "NoSuchBucket":
        return BucketNotFound(access.bucket, endpoint=access.endpoint)
    if code in _OTHER_REGION or WRONG_REGION in text:
        return _unreachable(access, "the bucket is in another region", "set AWS_REGION to it")
    if code == "NotImplemented":
        return ConditionalWritesIgnored(access.uri, condition="conditional puts")
    if not access.has_credentials and _NO_ROLE.search(text):
        return _forbidden(access, "no credentials were found", _KEYS)
    if code in _EXPIRED:
        return _forbidden(access, summarize(error), "get new credentials")
    is_refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    if is_refused or (status is not None and status[1] in ("401", "403")):
        return _forbidden(access, summarize(error), f"{_KEYS}, and the rights that they have")
    if isinstance(error, FileNotFoundError):
        return None
    if NO_ANSWER in text and "ertificate" in text:
        remedy = "SSL_CERT_FILE names the file of the authorities that you trust"
        return _unreachable(access, "its certificate is not trusted", remedy)
    reason = _why_silent(text) if NO_ANSWER in text else summarize(error)
    return _unreachable(access, reason, "check the endpoint (AWS_ENDPOINT_URL) and the network")


def _why_silent(text: str) -> str:
    """The cause of a request that was not answered stands deep in the text of the error."""
    return next((reason for sign, reason in _SILENCES.items() if sign in text), "no answer")


def _is_of_store(error: BaseException) -> bool:
    return isinstance(error, OSError | BaseError) or is_panic(error)


def _unreachable(access: BucketAccess, reason: str, remedy: str) -> BucketUnreachable:
    return BucketUnreachable(access.bucket, endpoint=access.endpoint, reason=reason, remedy=remedy)


def _forbidden(access: BucketAccess, reason: str, remedy: str) -> BucketForbidden:
    return BucketForbidden(access.bucket, endpoint=access.endpoint, reason=reason, remedy=remedy)
