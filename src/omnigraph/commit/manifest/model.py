"""The manifest: which version of every table a branch shows, and the commits that led there.

`__manifest` is a table of rows keyed by `object_id`. A `Manifest` is what those rows mean at one
version of one branch; `updates` makes its successors. Nothing here does I/O.

1. A table shows the row with its greatest version number, whatever branch owns it, unless a
   tombstone of at least that number hides it.
2. A version row is never replaced, with one exception: ownership of the very same version moves to
   another branch, and the row count stays. A number lower than the greatest is never published,
   because rule 1 would hide it.
3. The head is the commit row with the greatest (manifest version, time, id). The row
   `graph_head:{branch}` is only the one that every publish touches, so that two cannot both land.
4. Rows of a type we do not know are skipped, so that this reader survives newer writers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.idempotency_index import IdempotencyIndex
from omnigraph.commit.manifest.records import (
    UPKEEP,
    Commit,
    Extension,
    VersionFile,
    decode_commit,
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
            # Makes the table format compare the keys of racing merge-inserts; without it both land.
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
ANCESTOR_PREFIX: Final = "ancestor:"

LOG_COLUMNS: Final = ("object_id", "table_branch", "table_version", "metadata")
"""What a commit is decoded from."""

CHUNKS_MAX: Final = 64

T = TypeVar("T")

# ── what a manifest says ─────────────────────────────────────────────────────────────────────────


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
    """What a snapshot shows of one table."""

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
    """The greatest version of each table, hidden or not."""
    tombstones: Mapping[TableKey, Version]
    """The greatest tombstone of each table that has one."""
    log: "CommitLog"

    @cached_property
    def pins(self) -> Mapping[TableKey, Pin]:
        """What the branch shows, in the order of the table keys."""
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
        """What an expectation is compared with: the version shown, else the tombstone, else 0."""
        pin = self.pins.get(key)
        return self.tombstones.get(key, Version(0)) if pin is None else pin.version

    def check_expected(self, expected: Mapping[TableKey, Version]) -> None:
        """Raises ExpectedVersionMismatch for the first table, by key, that is elsewhere."""
        for key, version in sorted(expected.items()):
            if (actual := self.version_of(key)) != version:
                raise ExpectedVersionMismatch(key, expected=version, actual=actual)

    def check_head(self, expected: CommitId | None) -> None:
        """Raises HeadMoved if the newest commit is another one. Upkeep changes no row."""
        if expected is None:
            return
        commit = self.head
        while commit is not None and commit.id != expected:
            parent = commit.parent if commit.actor == UPKEEP else None
            commit = None if parent is None else self.log.find(parent)
        if commit is None:
            actual = None if self.head is None else self.head.id
            raise HeadMoved(self.branch, expected=expected, actual=actual)

    def check_schema(self, expected: str | None) -> None:
        """Raises SchemaChanged if the branch is under another schema than somebody worked with."""
        actual = self.log.schema_hash
        if expected is not None and actual is not None and actual != expected:
            raise SchemaChanged(expected=expected, actual=actual)


@dataclass(frozen=True)
class CommitLog:
    """The commits a manifest holds.

    They stay Arrow rows until somebody asks: a publish needs the head and perhaps one other, and
    decoding ten thousand to find it would cost more than the publish.
    """

    rows: pa.Table
    ancestor_rows: pa.Table
    added: tuple[Commit, ...] = ()
    """Known from elsewhere than the manifest."""
    newest: Commit | None = None
    """The head, where it is known without looking."""
    inherited_keys: IdempotencyIndex | None = field(default=None, repr=False, compare=False)
    """The keys of these commits, where the log before this one knew its own."""

    def extended(self, rows: pa.Table, ancestor_rows: pa.Table, newest: Commit) -> "CommitLog":
        """The log after more rows were published, the newest of them already decoded."""
        keys = self.inherited_keys or vars(self).get("given_keys")
        if keys is not None:
            keys.add(rows)
        ancestors = _joined(self.ancestor_rows, ancestor_rows)
        return CommitLog(_joined(self.rows, rows), ancestors, self.added, newest, keys)

    @cached_property
    def head(self) -> Commit | None:
        if self.newest is not None:
            return self.newest
        newest = list(self.added)
        if self.rows.num_rows:
            numbers = self.rows["table_version"]
            newest += _decode_commits(self.rows.filter(pc.equal(numbers, pc.max(numbers))))
        return max(newest, key=_rank, default=None)

    @cached_property
    def schema_hash(self) -> str | None:
        """The schema the newest commit was made under.

        Recoveries and upkeep do not say, and change nothing about it. None where a program wrote
        that never says: then only the schema files know.
        """
        commit = self.head
        while commit is not None and commit.extension != Extension():
            if commit.extension.schema_hash is not None:
                return commit.extension.schema_hash
            commit = None if commit.parent is None else self.find(commit.parent)
        return None

    def find(self, commit_id: CommitId) -> Commit | None:
        """A commit of this branch's history, by id."""
        for commit in self.added:
            if commit.id == commit_id:
                return commit
        at = pc.index(self.rows["object_id"], pa.scalar(str(commit_id))).as_py()
        return None if at < 0 else _decode_commits(self.rows.slice(at, 1))[0]

    def find_key(self, key: str, *, actor: str | None, branch: BranchName) -> Commit | None:
        """The write of a branch that an actor gave this idempotency key.

        What a branch inherited was not written on it, so keys may be used again there.
        """
        for commit_id in self.given_keys.find(key):
            commit = self.find(commit_id)
            if commit is not None and (commit.actor, commit.branch) == (actor, branch):
                return commit
        return None

    @cached_property
    def given_keys(self) -> IdempotencyIndex:
        return self.inherited_keys or IdempotencyIndex(self.rows)

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """The branch's history, oldest first."""
        return tuple(sorted((*_decode_commits(self.rows), *self.added), key=_rank))

    @cached_property
    def ancestors(self) -> tuple[Commit, ...]:
        """Commits of branches that were merged in, kept so that ancestry never dangles."""
        return tuple(_decode_commits(self.ancestor_rows))


def _joined(rows: pa.Table, more: pa.Table) -> pa.Table:
    """Rows and more rows. Looking through many small chunks would cost more than joining them."""
    if not more.num_rows:
        return rows
    joined = pa.concat_tables([rows, more.select(LOG_COLUMNS)])
    return joined.combine_chunks() if joined[0].num_chunks > CHUNKS_MAX else joined


def _rank(commit: Commit) -> tuple[int, int, str]:
    return commit.manifest_version, commit.created_at_us, commit.id


def _decode_commits(rows: pa.Table) -> list[Commit]:
    return [
        decode_commit(
            object_id.removeprefix(ANCESTOR_PREFIX),
            branch=branch,
            manifest_version=version,
            metadata=metadata,
        )
        for object_id, branch, version, metadata in zip(
            *(rows[name].to_pylist() for name in LOG_COLUMNS), strict=True
        )
    ]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_manifest(rows: pa.Table, *, branch: BranchName, version: Version) -> Manifest:
    """What the rows of `__manifest` mean. Raises ManifestCorrupt."""
    paths = _read_paths(rows)
    return Manifest(
        branch=branch,
        version=version,
        paths=paths,
        latest=_read_latest(rows, paths),
        tombstones=_read_tombstones(rows),
        log=CommitLog(_of_kind(rows, COMMIT), _of_kind(rows, ANCESTOR)),
    )


def read_on(known: Manifest, rows: pa.Table, *, version: Version) -> Manifest | None:
    """What a later version means, from rows among which are all that the known one has not.

    Others may be among them, unchanged. None if a commit that was known says something else now.
    Raises ManifestCorrupt.
    """
    commits = _find_new(known.log.rows, _of_kind(rows, COMMIT))
    ancestors = _find_new(known.log.ancestor_rows, _of_kind(rows, ANCESTOR))
    if commits is None or ancestors is None:
        return None
    paths = {**known.paths, **_read_paths(rows)}
    newest = max(_decode_commits(commits), key=_rank, default=known.head)
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
    """Of each table the greater; of two that are equal the one just found (2)."""
    later = {
        key: each
        for key, each in found.items()
        if key not in known or number(each) >= number(known[key])
    }
    return {**known, **later}


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    """The commits among the rows, as a log keeps them."""
    return rows.select(LOG_COLUMNS).filter(_is_kind(rows, kind))


def _find_new(known: pa.Table, rows: pa.Table) -> pa.Table | None:
    """The rows that are not known; None if one of them is, and differs."""
    places = pc.index_in(known["object_id"], value_set=rows["object_id"].combine_chunks())
    again = pc.indices_nonzero(pc.is_valid(places))
    seen = places.take(again)
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
    """The given columns of the row with the greatest version, of each table key in rows of a kind.

    Numbers and keys first, and the rest only of the rows that are wanted: a manifest holds a row
    for every version a table ever had.
    """
    places = pc.indices_nonzero(_is_kind(rows, kind)).to_numpy()
    numbers = rows["table_version"].take(places)
    if numbers.null_count:
        raise ManifestCorrupt(kind, reason="one of them has no version")
    keys = rows["table_key"].take(places).combine_chunks().dictionary_encode()
    ascending = np.argsort(numbers.to_numpy(), kind="stable")
    last = np.empty(len(keys.dictionary), np.int64)
    # Of several values for one place the last assigned stays, which is the greatest.
    last[keys.indices.to_numpy()[ascending]] = ascending
    chosen = rows.select(columns).take(places[last])
    yield from zip(*(column.to_pylist() for column in chosen.columns), strict=True)


def accept(manifest: Manifest) -> None:
    """What a change asks of a manifest when it builds on any."""


def is_same_version(left: Pin | None, right: Pin | None) -> bool:
    """Do both show one version of one table?"""
    if left is None or right is None:
        return left is right
    return (left.path, left.owner, left.version) == (right.path, right.owner, right.version)
