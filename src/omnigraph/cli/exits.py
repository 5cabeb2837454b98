"""Exit codes, and which error ends a command with which."""

from enum import IntEnum

from omnigraph.errors import OmnigraphError, UsageError


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """An error, or a report that found errors."""
    USAGE = 2
    """The command line itself was wrong."""
    INTERRUPTED = 130


def exit_for(error: OmnigraphError) -> Exit:
    return Exit.USAGE if isinstance(error, UsageError) else Exit.FAILED
