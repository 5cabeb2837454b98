"""Exit codes, and the exit code of each error."""

from enum import IntEnum

from omnigraph.errors import HeadMoved, OmnigraphError, UsageError


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """An error, or a report that found errors."""
    USAGE = 2
    """The command line itself was wrong."""
    HEAD_MOVED = 4
    """The branch is not at the commit that `--if-commit` named."""
    INTERRUPTED = 130


def exit_for(error: OmnigraphError) -> Exit:
    match error:
        case UsageError():
            return Exit.USAGE
        case HeadMoved():
            return Exit.HEAD_MOVED
        case _:
            return Exit.FAILED
