"""The manifest: which version of every table a branch shows, and the commits that led there.

`__manifest` is a table of rows keyed by `object_id`. A `Manifest` is the meaning of those rows at
one version of one branch; `updates` makes its successors. Nothing here does I/O.

1. A table shows the row with its greatest version number, whatever branch owns that version, unless
   a tombstone of at least that number hides the table.
2. A version row is never replaced, with one exception: ownership of the same version moves to
   another branch, and the row count stays. A number below the greatest is never published, because
   rule 1 would hide it.
3. The head is the commit row with the greatest (manifest version, time, id). Every publish also
   writes the row `graph_head:{branch}`, so that of two racing publishes only one can land.
4. A reader skips rows of an unknown type, so that it survives newer writers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.commit_log import LOG_COLUMNS, CommitLog, decode_commits, rank
from omnigraph.commit.manifest.records import (
    UPKEEP,
    Commit,
    VersionFile,
    decode_version_file,
)
from omnigraph.errors import ExpectedVersionMismatch, HeadMoved, ManifestCorrupt, SchemaChanged
from omnigraph.ids import BranchName, CommitId, TableKey, Version, graph_branch

SCHEMA: Final = pa.schema(
    [
        pa.field(
            "object_id",
            pa.string(),
            nullable=False,
            # The table format compares the keys of racing merge-inserts only with this mark.
            # Without it both land.
            metadata={b"lance-schema:unenforced-primary-key": b"true"},
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.string()))),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)

TABLE: Final = "table"
TABLE_VERSION: Final = "table_version"
TOMBSTONE: Final = "table_tombstone"
COMMIT: Final = "graph_commit"
HEAD: Final = "graph_head"
ANCESTOR: Final = "graph_ancestor"

T = TypeVar("T")

# ── values ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table, and the branch whose files hold it."""

    key: TableKey
    version: Version
    owner: BranchName
    row_count: int
    file: VersionFile


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of one table that a snapshot shows."""

    key: TableKey
    path: str
    version: Version
    owner: BranchName
    row_count: int


@dataclass(frozen=True)
class Manifest:
    """One branch at one version of its manifest."""

    branch: BranchName
    version: Version
    paths: Mapping[TableKey, str]
    latest: Mapping[TableKey, TableVersion]
    """The greatest version of each table, also of a hidden one."""
    tombstones: Mapping[TableKey, Version]
    """The greatest tombstone of each table that has one."""
    log: CommitLog

    @cached_property
    def pins(self) -> Mapping[TableKey, Pin]:
        """The tables that the branch shows, in the order of their keys."""
        return MappingProxyType(
            {
                key: Pin(key, self.paths[key], shown.version, shown.owner, shown.row_count)
                for key, shown in sorted(self.latest.items())
                if self.tombstones.get(key, 0) < shown.version
            }
        )

    @property
    def head(self) -> Commit | None:
        return self.log.head

    def version_of(self, key: TableKey) -> Version:
        """The version that an expectation is compared with: the one shown, the tombstone, or 0."""
        pin = self.pins.get(key)
        return self.tombstones.get(key, Version(0)) if pin is None else pin.version

    def check_expected(self, expected: Mapping[TableKey, Version]) -> None:
        """Raises ExpectedVersionMismatch for the first table, by key, at another version."""
        for key, version in sorted(expected.items()):
            if (actual := self.version_of(key)) != version:
                raise ExpectedVersionMismatch(key, expected=version, actual=actual)

    def check_head(self, expected: CommitId | None) -> None:
        """Raises HeadMoved if the head is another commit. Upkeep commits on top do not count."""
        if expected is None:
            return
        for commit in self.log.first_parents():
            if commit.id == expected:
                return
            if commit.actor != UPKEEP:
                break
        actual = None if self.head is None else self.head.id
        raise HeadMoved(self.branch, expected=expected, actual=actual)

    def check_schema(self, expected: str | None) -> None:
        """Raises SchemaChanged if another schema than the expected one is in force."""
        actual = self.log.schema_hash
        if expected is not None and actual is not None and actual != expected:
            raise SchemaChanged(expected=expected, actual=actual)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_manifest(rows: pa.Table, *, branch: BranchName, version: Version) -> Manifest:
    """The manifest that the rows of `__manifest` mean. Raises ManifestCorrupt."""
    paths = _read_paths(rows)
    return Manifest(
        branch=branch,
        version=version,
        paths=paths,
        latest=_read_latest(rows, paths),
        tombstones=_read_tombstones(rows),
        log=CommitLog(_of_kind(rows, COMMIT), _of_kind(rows, ANCESTOR)),
    )


def extend_manifest(known: Manifest, rows: pa.Table, *, version: Version) -> Manifest | None:
    """A later version of a known manifest, from rows that include every new row.

    The rows may include known rows too. None if a known commit row has changed. Raises
    ManifestCorrupt.
    """
    commits = _find_new(known.log.rows, _of_kind(rows, COMMIT))
    ancestors = _find_new(known.log.ancestor_rows, _of_kind(rows, ANCESTOR))
    if commits is None or ancestors is None:
        return None
    paths = {**known.paths, **_read_paths(rows)}
    newest = max(decode_commits(commits), key=rank, default=known.head)
    assert newest is not None, "nothing is published without a commit"
    return Manifest(
        branch=known.branch,
        version=version,
        paths=paths,
        latest=_greatest(known.latest, _read_latest(rows, paths), lambda each: each.version),
        tombstones=_greatest(known.tombstones, _read_tombstones(rows), lambda each: each),
        log=known.log.extended(commits, ancestors, newest),
    )


def _greatest(
    known: Mapping[TableKey, T], found: Mapping[TableKey, T], number: Callable[[T], Version]
) -> dict[TableKey, T]:
    """The greater version of each table; of two equal ones the one just read (2)."""
    later = {
        key: each
        for key, each in found.items()
        if key not in known or number(each) >= number(known[key])
    }
    return {**known, **later}


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    """The rows of one type, with the columns of a log."""
    return rows.select(LOG_COLUMNS).filter(_is_kind(rows, kind))


def _find_new(known: pa.Table, rows: pa.Table) -> pa.Table | None:
    """The rows that are not known; None if a known row has changed."""
    positions = pc.index_in(known["object_id"], value_set=rows["object_id"].combine_chunks())
    again = pc.indices_nonzero(pc.is_valid(positions))
    seen = positions.take(again)
    if not known.take(again).equals(rows.take(seen)):
        return None
    fresh = np.ones(rows.num_rows, bool)
    fresh[seen.to_numpy()] = False
    return rows.filter(pa.array(fresh))


def _is_kind(rows: pa.Table, kind: str) -> pa.BooleanArray:
    return pc.equal(rows["object_type"], pa.scalar(kind))


def _read_paths(rows: pa.Table) -> dict[TableKey, str]:
    paths: dict[TableKey, str] = {}
    found = rows.select(["table_key", "location"]).filter(_is_kind(rows, TABLE))
    for row in found.to_pylist():
        if row["location"] is None:
            raise ManifestCorrupt(row["table_key"], reason="a table without a location")
        paths[TableKey(row["table_key"])] = row["location"]
    return paths


def _read_latest(rows: pa.Table, paths: Mapping[TableKey, str]) -> dict[TableKey, TableVersion]:
    columns = ("table_key", "table_version", "object_id", "table_branch", "row_count", "metadata")
    latest = {}
    for key, number, object_id, owner, row_count, metadata in _last_of_each_key(
        rows, TABLE_VERSION, columns
    ):
        if key not in paths:
            raise ManifestCorrupt(object_id, reason="a version of a table that is not registered")
        if row_count is None:
            raise ManifestCorrupt(object_id, reason="a version without a row count")
        latest[TableKey(key)] = TableVersion(
            TableKey(key),
            Version(number),
            graph_branch(owner),
            row_count,
            decode_version_file(metadata, object_id=object_id),
        )
    return latest


def _read_tombstones(rows: pa.Table) -> dict[TableKey, Version]:
    found = _last_of_each_key(rows, TOMBSTONE, ("table_key", "table_version"))
    return {TableKey(key): Version(number) for key, number in found}


def _last_of_each_key(
    rows: pa.Table, kind: str, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """For each table key, the given columns of its row of this kind with the greatest version.

    Reads the other columns only of the chosen rows: a manifest has a row for every version that a
    table ever had.
    """
    positions = pc.indices_nonzero(_is_kind(rows, kind)).to_numpy()
    numbers = rows["table_version"].take(positions)
    if numbers.null_count:
        raise ManifestCorrupt(kind, reason="one of them has no version")
    keys = rows["table_key"].take(positions).combine_chunks().dictionary_encode()
    ascending = np.argsort(numbers.to_numpy(), kind="stable")
    last = np.empty(len(keys.dictionary), np.int64)
    # If one index is assigned several times, the last assignment stays: the greatest version.
    last[keys.indices.to_numpy()[ascending]] = ascending
    chosen = rows.select(columns).take(positions[last])
    yield from zip(*(column.to_pylist() for column in chosen.columns), strict=True)


def accept(manifest: Manifest) -> None:
    """The recheck of a change that may be published on any manifest."""


def is_same_version(left: Pin | None, right: Pin | None) -> bool:
    """Do both pins show the same version of the same table?"""
    if left is None or right is None:
        return left is right
    return (left.path, left.owner, left.version) == (right.path, right.owner, right.version)
