"""The command or flag that helps with an error.

Errors are the same on every surface, so their texts name no commands; these hints do.
"""

from collections.abc import Mapping
from typing import Final

from omnigraph import errors

HINTS: Final[Mapping[type[errors.OmnigraphError], str]] = {
    errors.BranchNotFound: "omnigraph branch list shows the branches there are",
    errors.CommitNotFound: "omnigraph commit list shows the commits of a branch",
    errors.MergeConflicts: "--on-conflict ours|theirs decides by a rule; or one by one: "
    "--dry-run --conflicts FILE writes them down, --resolutions FILE applies what was decided",
    errors.OperationNotFound: "omnigraph recovery list shows the operations that are known",
    errors.QueryMemoryExceeded: "--engine spark --output FOLDER runs it on Spark, whose workers "
    "share the memory",
    errors.ServerUnreachable: "is it running there? omnigraph serve --graph ID=URI starts one",
    errors.Unauthorized: "omnigraph login NAME remembers the token of a server",
}


def find_hint(error: errors.OmnigraphError) -> str | None:
    return HINTS.get(type(error))
