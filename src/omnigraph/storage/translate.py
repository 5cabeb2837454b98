"""Errors of Lance, Arrow and obstore become errors of ours, in this module only.

Of Lance's errors only `CommitConflictError` has a type; the others are recognised by their text.
This module holds the texts, and a test in `tests/guards` checks each one, so that an upgrade with
another text fails in that test and not in a recovery. The cause is always kept.

Our own errors and programming mistakes pass through unchanged.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from lance.commit import CommitConflictError
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from omnigraph.errors import (
    ForkExists,
    ForkInUse,
    ForkNotFound,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    OmnigraphError,
    StorageFailure,
    TableCorrupt,
    TableNotFound,
    VersionNotFound,
)

MISSING: Final = "was not found"
MISSING_FILE: Final = "Not found:"
MANIFEST_SUFFIX: Final = ".manifest"
BLOB_SUFFIX: Final = ".blob"
TABLE_TAKEN: Final = "Dataset already exists"
TABLE_TAKEN_LATE: Final = "_versions/0.manifest was not found"
BRANCH_TAKEN: Final = "Clone operation should not enter build_manifest"
BRANCH_TAKEN_LATE: Final = "Ref conflict error"
BRANCH_MISSING: Final = "Ref not found"
BRANCH_REFERENCED: Final = "is referenced by"
MERGE_LOST: Final = "Too many concurrent writers"
OVERTAKEN: Final = "Incompatible transaction"
PREEMPTED: Final = "Retryable commit conflict"
UNREADABLE_REWRITE: Final = "RewrittenIndex"
INTERRUPTED: Final = "External error: KeyboardInterrupt"
CUT_SHORT: Final = (
    "file size is too small",
    "Invalid range",
    "does not have sufficient data",
    "failed to fill whole buffer",
)

_ANSWER: Final = re.compile(r"status code: (\d{3} [\w -]+?): .*?<Code>(\w+)</Code>", re.DOTALL)
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")


# --- objects --------------------------------------------------------------------------------


@contextmanager
def translating_objects(action: str, key: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        ours = _object_error(error, action, key)
        if ours is None:
            raise
        raise ours from error


def _object_error(error: BaseException, action: str, key: str) -> OmnigraphError | None:
    match error:
        case OmnigraphError():
            return None
        case FileNotFoundError() | IsADirectoryError() | NotADirectoryError() if action == "read":
            return ObjectNotFound(key)
        case AlreadyExistsError():
            return ObjectExists(key)
        case PreconditionError():
            return ObjectChanged(key)
        case OSError() | BaseError():
            return StorageFailure(action, subject=key, reason=summarize(error))
        case _ if is_panic(error):
            return StorageFailure(action, subject=key, reason=summarize(error))
        case _:
            return None


# --- tables ---------------------------------------------------------------------------------


@contextmanager
def translating_tables(
    action: str, path: str, *, branch: str | None, version: int | None = None
) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        ours = _table_error(error, action, path=path, branch=branch, version=version)
        if ours is None:
            raise
        raise ours from error


def _table_error(
    error: BaseException, action: str, *, path: str, branch: str | None, version: int | None
) -> OmnigraphError | None:
    if not is_foreign(error):
        return None
    text = str(error)
    if version is not None and MISSING in text and MANIFEST_SUFFIX in text:
        return VersionNotFound(path, branch=branch, version=version)
    if isinstance(error, pa.ArrowInvalid) and MISSING_FILE in text:
        return TableCorrupt(action, subject=path, reason=summarize(error))
    if MISSING_FILE in text and BLOB_SUFFIX in text:
        # Lance reports this in the words for a missing table.
        return TableCorrupt(action, subject=path, reason=summarize(error))
    if any(sign in text for sign in CUT_SHORT):
        return TableCorrupt(action, subject=path, reason=summarize(error))
    if isinstance(error, ValueError) and (MISSING in text or MISSING_FILE in text):
        return TableNotFound(path, branch=branch)
    return StorageFailure(action, subject=path, reason=summarize(error))


def branch_error(error: BaseException, *, path: str, branch: str) -> OmnigraphError | None:
    """The error of ours for a failed operation on branches; None if the text is not known."""
    text = str(error)
    # First, because Lance reports this as a conflict of refs too.
    if isinstance(error, OSError) and BRANCH_REFERENCED in text:
        children = re.findall(r'"([^"]+)"', text.partition(BRANCH_REFERENCED)[2])
        return ForkInUse(path, branch=branch, children=children)
    taken = (BRANCH_TAKEN, BRANCH_TAKEN_LATE, TABLE_TAKEN)
    if isinstance(error, OSError | ValueError) and any(sign in text for sign in taken):
        return ForkExists(path, branch=branch)
    if isinstance(error, ValueError) and BRANCH_MISSING in text:
        return ForkNotFound(path, branch=branch)
    return None


def is_refusal(error: BaseException) -> bool:
    """Did Lance refuse the commit, so that it published nothing?"""
    text = str(error)
    match error:
        case CommitConflictError():
            return True
        case OSError():
            signs = (MERGE_LOST, OVERTAKEN, PREEMPTED, TABLE_TAKEN, TABLE_TAKEN_LATE)
            return any(sign in text for sign in signs)
        case _:
            return False


def is_unreadable_rewrite(error: BaseException) -> bool:
    """Lance's Python package cannot read the record of a compaction that remapped indices."""
    return isinstance(error, TypeError) and UNREADABLE_REWRITE in str(error)


def is_foreign(error: BaseException) -> bool:
    """Is this a failure of Lance, Arrow or the disk, and not an error or a mistake of ours?"""
    if isinstance(error, OmnigraphError) or is_interrupt(error):
        return False
    return isinstance(error, OSError | ValueError | RuntimeError | KeyError) or is_panic(error)


def is_interrupt(error: BaseException) -> bool:
    """Ctrl-C during a read: Lance reports Python's KeyboardInterrupt as an error of its stream."""
    return isinstance(error, ValueError | OSError) and INTERRUPTED in str(error)


def is_panic(error: BaseException) -> bool:
    """A Rust panic. Its class derives from BaseException and cannot be imported."""
    return type(error).__name__ == "PanicException"


def summarize(error: BaseException) -> str:
    """One line. Of an answer of S3 only the status, the code and the message.

    Such an answer may quote the whole request, with the session token in its headers.
    """
    text = str(error).strip()
    answer = _ANSWER.search(text)
    if answer is not None:
        message = _MESSAGE.search(text)
        return f"{answer[1]}, {answer[2]}" + (f": {message[1]}" if message else "")
    return text.splitlines()[0] if text else type(error).__name__
