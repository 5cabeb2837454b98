"""The small names everything else is addressed by, and the rules for the ones people choose."""

import re
from typing import Final, Literal, NewType

from omnigraph.errors import BranchNameInvalid

TypeKind = Literal["node", "edge"]

TableKey = NewType("TableKey", str)
"""`node:Person` or `edge:Knows`: one table of a graph."""

BranchName = NewType("BranchName", str)
"""A branch of the graph. Main is called `main` here, and has no name on disk."""

CommitId = NewType("CommitId", str)
"""A ULID: 26 characters that sort by time."""

OperationId = NewType("OperationId", str)
"""A ULID: one attempt at changing the graph."""

Version = NewType("Version", int)
"""A state of one table; counts up from 1 along a branch."""

MAIN: Final = BranchName("main")

SCHEMA_LOCK: Final = "__schema_apply_lock__"
"""The branch that stands for «a schema change is under way». Not a branch of the graph."""

BRANCH_NAME_MAX: Final = 150
"""Files are called after branches, with slashes spelled %2F, and have names of 255 at most."""

_SEGMENT: Final = re.compile(r"[\w.-]+")


def is_encodable(text: str) -> bool:
    """JSON and command lines can name half a character; no file and no table can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def table_key(kind: TypeKind, name: str) -> TableKey:
    return TableKey(f"{kind}:{name}")


def split_table_key(key: TableKey) -> tuple[str, str]:
    """The kind and the type name."""
    kind, _, name = key.partition(":")
    return kind, name


def parse_branch(text: str) -> BranchName:
    """A branch name as people write it. Raises BranchNameInvalid.

    Segments between slashes are letters, digits, dots, dashes and underscores; the table format
    refuses the rest, and this says why before anything is touched.
    """
    name = text.strip()
    reason = _find_fault(name)
    if reason is not None:
        raise BranchNameInvalid(text, reason=reason)
    return BranchName(name)


def _find_fault(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) + 2 * name.count("/") > BRANCH_NAME_MAX:
        return f"it is longer than {BRANCH_NAME_MAX} characters, where a slash counts for three"
    if name.lstrip("/") == SCHEMA_LOCK:
        return "it is reserved for schema changes"
    if name.startswith("/") or name.endswith("/") or "//" in name:
        return "a slash must stand between two segments"
    if ".." in name:
        return "it must not hold '..'"
    if name.endswith(".lock"):
        return "it must not end in '.lock'"
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            return f"'{segment}' has characters other than letters, digits, '.', '-' and '_'"
        if segment == ".":
            return "a segment must not be '.'"
    return None


def find_overlap(
    name: BranchName, others: "frozenset[BranchName] | set[BranchName]"
) -> BranchName | None:
    """A live branch whose path this name would nest in, or the other way round.

    Branch files nest as the slashes do, and the table format cannot delete one branch that lies
    inside another's folder.
    """
    for other in sorted(others):
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            return other
    return None


def lance_branch(branch: BranchName) -> str | None:
    """How tables and manifest rows spell a branch: main has no name there."""
    return None if branch == MAIN else branch


def graph_branch(spelled: str | None) -> BranchName:
    """The branch that `lance_branch` spelled."""
    return MAIN if spelled is None else BranchName(spelled)
