"""The names of tables, branches, commits and versions, and the rules for branch names."""

import re
from functools import lru_cache
from typing import Final, Literal, NewType
from urllib.parse import quote

from omnigraph.errors import BranchNameInvalid

TypeKind = Literal["node", "edge"]

TableKey = NewType("TableKey", str)
"""`node:Person` or `edge:Knows`: one table of a graph."""

BranchName = NewType("BranchName", str)
"""A branch of the graph. The main branch is `main` here and has no name on disk."""

CommitId = NewType("CommitId", str)
"""A ULID: 26 characters that sort by time."""

OperationId = NewType("OperationId", str)
"""A ULID: one attempt at changing the graph."""

Version = NewType("Version", int)
"""A state of one table; counts up from 1 along a branch."""

MAIN: Final = BranchName("main")

SCHEMA_LOCK: Final = "__schema_apply_lock__"
"""The branch that locks the schema during a schema change. Not a branch of the graph."""

BRANCH_NAME_MAX: Final = 150
"""File names contain the branch name as `spell` writes it, and have at most 255 characters."""

_SEGMENT: Final = re.compile(r"[\w.-]+")


@lru_cache(maxsize=4_096)
def spell(name: str) -> str:
    """Any name as one path segment: a slash is `%2F`, and so is each byte outside ASCII."""
    return quote(name, safe="", errors="surrogatepass")


def is_encodable(text: str) -> bool:
    """False for half of a surrogate pair: JSON and command lines can pass it, files cannot."""
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
    """Parse a branch name. Raises BranchNameInvalid.

    Segments between slashes consist of letters, digits, dots, dashes and underscores. Lance refuses
    other names; this check gives the reason before anything is written.
    """
    name = text.strip()
    reason = _find_fault(name)
    if reason is not None:
        raise BranchNameInvalid(text, reason=reason)
    return BranchName(name)


def _find_fault(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(spell(name)) > BRANCH_NAME_MAX:
        return (
            f"it is longer than {BRANCH_NAME_MAX} characters, where a slash counts for three"
            " and a letter outside ASCII for six or more"
        )
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
    """A live branch that contains this name as a path prefix, or is a path prefix of it.

    The folder of branch a contains the folder of branch a/b, and Lance cannot delete a branch
    inside the folder of another branch.
    """
    for other in sorted(others):
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            return other
    return None


def lance_branch(branch: BranchName) -> str | None:
    """The branch as tables and manifest rows spell it: main is None."""
    return None if branch == MAIN else branch


def graph_branch(spelled: str | None) -> BranchName:
    """The inverse of `lance_branch`."""
    return MAIN if spelled is None else BranchName(spelled)
