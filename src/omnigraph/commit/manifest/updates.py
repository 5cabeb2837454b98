"""Updates of a manifest, and the rows and the manifest that follow from them.

Values only: an update can be logged, compared, kept in a sidecar and replayed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import assert_never

import pyarrow as pa

from omnigraph.commit.manifest.commit_log import ANCESTOR_PREFIX
from omnigraph.commit.manifest.model import (
    ANCESTOR,
    COMMIT,
    HEAD,
    SCHEMA,
    TABLE,
    TABLE_VERSION,
    TOMBSTONE,
    Manifest,
    TableVersion,
)
from omnigraph.commit.manifest.records import Commit, Extension, Touched
from omnigraph.errors import UpdateRefused
from omnigraph.ids import BranchName, CommitId, TableKey, Version, lance_branch


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """Record the path of a table. A hidden table may be registered again at another path."""

    key: TableKey
    path: str


@dataclass(frozen=True, slots=True)
class SetVersion:
    table: TableVersion


@dataclass(frozen=True, slots=True)
class DropTable:
    """Hide a table, up to and including this version."""

    key: TableKey
    version: Version


Update = RegisterTable | SetVersion | DropTable


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """The commit that a publish records. Its id is minted before the first swap, so that the
    publisher recognises its commit after a lost reply. Each retry finds the parent again.
    """

    id: CommitId
    created_at_us: int
    actor: str | None = None
    merged_parent: CommitId | None = None
    extension: Extension = field(default_factory=Extension)
    carried: tuple[Commit, ...] = ()
    """Commits of the merged branch that the target's history lacks (D7)."""
    touched: Touched | None = None
    """What a member of a group touched, if that is too long for its row (`groups`)."""


@dataclass(frozen=True, slots=True)
class Successor:
    """The rows that a publish writes, and the manifest that they lead to."""

    rows: pa.Table
    manifest: Manifest
    commits: tuple[Commit, ...]


def successor(
    base: Manifest, updates: Sequence[Update], intents: Sequence[CommitIntent]
) -> Successor:
    """Fold updates and commits into a manifest. Raises UpdateRefused.

    Every manifest version adds at least one commit. A roll-forward adds two: the intended commit
    and the recovery commit.
    """
    assert intents, "nothing is published without a commit"
    version = Version(base.version + 1)
    paths, latest, tombstones = dict(base.paths), dict(base.latest), dict(base.tombstones)
    ordered = sorted(updates, key=_update_order)
    for update in ordered:
        match update:
            case RegisterTable(key, path):
                if key in base.pins:
                    _check_path(paths.get(key), update)
                paths[key] = path
            case SetVersion(table):
                _check_version(table, paths, base.latest.get(table.key), latest.get(table.key))
                latest[table.key] = table
            case DropTable(key, number):
                _check_tombstone(update, paths, base.tombstones.get(key))
                tombstones[key] = number
            case _:
                assert_never(update)
    commits = _chain(base, intents, version)
    carried = [each for intent in intents for each in intent.carried]
    rows = [*map(_update_row, ordered), *map(_commit_row, commits)]
    rows += [_head_row(base.branch, commits[-1]), *map(_ancestor_row, carried)]
    written = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Successor(
        rows=written,
        manifest=Manifest(
            base.branch,
            version,
            MappingProxyType(paths),
            MappingProxyType(latest),
            MappingProxyType(tombstones),
            base.log.extended(
                written.slice(len(ordered), len(commits)),
                written.slice(written.num_rows - len(carried)),
                newest=commits[-1],
            ),
        ),
        commits=commits,
    )


def _chain(base: Manifest, intents: Sequence[CommitIntent], version: Version) -> tuple[Commit, ...]:
    """Each commit on top of the one before, the first on top of the head.

    All commits carry one manifest version, so the head rule compares their times. Each commit is
    at least one microsecond later than its predecessor, whatever the clocks of the writers (D29).
    """
    head = base.log.head
    parent = None if head is None else head.id
    after_us = 0
    commits = []
    for intent in intents:
        commits.append(
            Commit(
                id=intent.id,
                branch=base.branch,
                manifest_version=version,
                parent=parent,
                merged_parent=intent.merged_parent,
                actor=intent.actor,
                created_at_us=max(intent.created_at_us, after_us),
                extension=intent.extension,
            )
        )
        parent, after_us = intent.id, commits[-1].created_at_us + 1
    return tuple(commits)


def _update_order(update: Update) -> tuple[int, str]:
    match update:
        case RegisterTable(key):
            return 0, key
        case SetVersion(table):
            return 1, table.key
        case DropTable(key):
            return 2, key
    assert_never(update)


def _check_path(recorded: str | None, update: RegisterTable) -> None:
    if recorded is not None and recorded != update.path:
        raise UpdateRefused(
            update.key, reason=f"it is registered at {recorded!r}, not at {update.path!r}"
        )


def _check_version(
    table: TableVersion,
    paths: Mapping[TableKey, str],
    before: TableVersion | None,
    current: TableVersion | None,
) -> None:
    if table.key not in paths:
        raise UpdateRefused(table.key, reason="it is not registered")
    if current is not before:
        raise UpdateRefused(table.key, reason="it is given two versions in one commit")
    if before is None or table.version > before.version:
        return
    if table.version < before.version:
        raise UpdateRefused(
            table.key,
            reason=f"version {table.version} would stay hidden behind version {before.version}",
        )
    if table.owner == before.owner or table.row_count != before.row_count:
        raise UpdateRefused(table.key, reason=f"version {table.version} is published already")


def _check_tombstone(
    update: DropTable, paths: Mapping[TableKey, str], recorded: Version | None
) -> None:
    if update.key not in paths:
        raise UpdateRefused(update.key, reason="it is not registered")
    if recorded is not None and recorded >= update.version:
        raise UpdateRefused(update.key, reason=f"it is dropped already, at version {recorded}")


def encode_commits(commits: Sequence[Commit], *, branch: BranchName, head: Commit) -> pa.Table:
    """The rows of these commits, and the row of the branch's head."""
    rows = [*map(_commit_row, commits), _head_row(branch, head)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _update_row(update: Update) -> dict[str, object]:
    match update:
        case RegisterTable(key, path):
            return {
                "object_id": key,
                "object_type": TABLE,
                "location": path,
                "table_key": key,
            }
        case SetVersion(table):
            return {
                "object_id": f"{table.key}${table.version:020}",
                "object_type": TABLE_VERSION,
                "metadata": table.file.encode(),
                "table_key": table.key,
                "table_version": table.version,
                "table_branch": lance_branch(table.owner),
                "row_count": table.row_count,
            }
        case DropTable(key, number):
            return {
                "object_id": f"{key}$tombstone${number:020}",
                "object_type": TOMBSTONE,
                "table_key": key,
                "table_version": number,
            }
    assert_never(update)


def _commit_row(commit: Commit) -> dict[str, object]:
    return {
        "object_id": commit.id,
        "object_type": COMMIT,
        "metadata": commit.encode(),
        "table_key": "",
        "table_version": commit.manifest_version,
        "table_branch": lance_branch(commit.branch),
    }


def _ancestor_row(commit: Commit) -> dict[str, object]:
    return {
        **_commit_row(commit),
        "object_id": f"{ANCESTOR_PREFIX}{commit.id}",
        "object_type": ANCESTOR,
    }


def _head_row(branch: BranchName, commit: Commit) -> dict[str, object]:
    return {
        "object_id": f"graph_head:{branch}",
        "object_type": HEAD,
        "metadata": commit.encode_as_head(),
        "table_key": "",
    }
