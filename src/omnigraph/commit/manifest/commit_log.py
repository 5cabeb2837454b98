"""The commits of a manifest, and the index that finds one by its idempotency key.

The commits stay Arrow rows until they are needed. A publish needs the head and perhaps one other
commit; decoding ten thousand commits would cost more than the publish itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.records import Commit, Extension, decode_commit, dump_json
from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import BranchName, CommitId
from omnigraph.jsontext import read_json

ANCESTOR_PREFIX: Final = "ancestor:"

LOG_COLUMNS: Final = ("object_id", "table_branch", "table_version", "metadata")
"""The columns that a commit is decoded from."""

CHUNKS_MAX: Final = 64

_SPELLED: Final = r'"idempotency":\{"key":(?P<key>"(?:[^"\\]|\\.)*")'


class IdempotencyIndex:
    """Maps idempotency keys to commits, so that a lookup decodes no other commit.

    A log and its successors share one index. A publish that is refused and planned again gives one
    log several successors, so an entry is only a candidate: the caller looks the commit up in its
    own log. Entries are only added. Safe to share among threads.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._commits: dict[str, tuple[CommitId, ...]] = {}
        self.add(rows)

    def add(self, rows: pa.Table) -> None:
        """Add the keys of more commits, given as rows of a manifest."""
        spelled = pc.struct_field(pc.extract_regex(rows["metadata"], _SPELLED), [0])
        keyed = pc.is_valid(spelled)
        commits = rows["object_id"].filter(keyed).to_pylist()
        for text, commit_id in zip(spelled.filter(keyed).to_pylist(), commits, strict=True):
            key = read_json(text)
            known = self._commits.get(key, ())
            if commit_id not in known:
                self._commits[key] = (*known, CommitId(str(commit_id)))

    def find(self, key: str) -> tuple[CommitId, ...]:
        """The commits that may carry this key."""
        return self._commits.get(key, ())


@dataclass(frozen=True)
class CommitLog:
    """The commits of one manifest."""

    rows: pa.Table
    ancestor_rows: pa.Table
    added: tuple[Commit, ...] = ()
    """Commits that are not rows of the manifest: those of a graph older than format 4."""
    newest: Commit | None = None
    """The head, if it is known without a search."""
    inherited_index: IdempotencyIndex | None = field(default=None, repr=False, compare=False)
    """The index of the log before this one, if that log had built it."""

    def extended(self, rows: pa.Table, ancestor_rows: pa.Table, newest: Commit) -> "CommitLog":
        """The log after more rows were published; `newest` is the last of them, decoded."""
        index = self.inherited_index or vars(self).get("idempotency_index")
        if index is not None:
            index.add(rows)
        ancestors = _joined(self.ancestor_rows, ancestor_rows)
        return CommitLog(_joined(self.rows, rows), ancestors, self.added, newest, index)

    @cached_property
    def head(self) -> Commit | None:
        if self.newest is not None:
            return self.newest
        newest = list(self.added)
        if self.rows.num_rows:
            numbers = self.rows["table_version"]
            newest += decode_commits(self.rows.filter(pc.equal(numbers, pc.max(numbers))))
        return max(newest, key=rank, default=None)

    @cached_property
    def schema_hash(self) -> str | None:
        """The schema of the newest commit that records one.

        Recovery and upkeep commits record none and change no schema. None if another program
        wrote the newest commit: only the schema files know then.
        """
        for commit in self.first_parents():
            if commit.extension == Extension():
                return None
            if commit.extension.schema_hash is not None:
                return commit.extension.schema_hash
        return None

    def first_parents(self) -> Iterator[Commit]:
        """The head, its parent, the parent of that, and so on. Raises ManifestCorrupt."""
        commit, seen = self.head, set[CommitId]()
        while commit is not None:
            if commit.id in seen:
                raise ManifestCorrupt(commit.id, reason="it is among its own ancestors")
            seen.add(commit.id)
            yield commit
            commit = None if commit.parent is None else self.find(commit.parent)

    def find(self, commit_id: CommitId) -> Commit | None:
        """A commit of this branch's history, by id."""
        for commit in self.added:
            if commit.id == commit_id:
                return commit
        at = pc.index(self.rows["object_id"], pa.scalar(str(commit_id))).as_py()
        return None if at < 0 else decode_commits(self.rows.slice(at, 1))[0]

    def find_all(self, commit_ids: Sequence[CommitId]) -> tuple[Commit, ...]:
        """The same for several ids, in their order and in one pass; unknown ids are left out."""
        wanted = pa.array([str(each) for each in commit_ids], pa.string())
        there = self.rows.filter(pc.is_in(self.rows["object_id"], value_set=wanted))
        found = {each.id: each for each in (*self.added, *decode_commits(there))}
        return tuple(found[each] for each in commit_ids if each in found)

    def find_key(self, key: str, *, actor: str | None, branch: BranchName) -> Commit | None:
        """The commit that an actor wrote to a branch with this idempotency key.

        A commit that a branch inherited was written to another branch, so its key is free here.
        """
        for commit_id in self.idempotency_index.find(key):
            commit = self.find(commit_id)
            if commit is not None and (commit.actor, commit.branch) == (actor, branch):
                return commit
        return None

    def find_runs(self, name: str) -> list[Commit]:
        """The runs of a pipeline that remember what they loaded, oldest first."""
        spelled = f'"pipeline":{{"name":{dump_json(name)},'
        told = self.rows.filter(pc.match_substring(self.rows["metadata"], spelled))
        runs = [each for each in decode_commits(told) if each.extension.pipeline is not None]
        return sorted(runs, key=rank)

    @cached_property
    def idempotency_index(self) -> IdempotencyIndex:
        return self.inherited_index or IdempotencyIndex(self.rows)

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """The branch's history, oldest first."""
        return tuple(sorted((*decode_commits(self.rows), *self.added), key=rank))

    @cached_property
    def ids(self) -> "pa.Array[pa.StringScalar]":
        """The head and all its ancestors, by id, without decoding a commit.

        Every commit of a manifest is an ancestor of its head: a publish adds commits on top of the
        head, and a merge carries the history of its source over (D7).
        """
        carried = pc.utf8_slice_codeunits(self.ancestor_rows["object_id"], len(ANCESTOR_PREFIX))
        added = pa.chunked_array([[each.id for each in self.added]], pa.string())
        chunks = [*self.rows["object_id"].chunks, *carried.chunks, *added.chunks]
        return pa.concat_arrays(chunks).unique()

    def count_missing_in(self, other: "CommitLog") -> int:
        """How many commits of this log another log lacks."""
        return len(self.ids.filter(pc.invert(pc.is_in(self.ids, value_set=other.ids))))

    @cached_property
    def ancestors(self) -> tuple[Commit, ...]:
        """Commits of merged branches, kept so that ancestry never dangles (D7)."""
        return tuple(decode_commits(self.ancestor_rows))


def _joined(rows: pa.Table, more: pa.Table) -> pa.Table:
    """Rows and more rows, in few chunks: a search through many small chunks is slow."""
    if not more.num_rows:
        return rows
    joined = pa.concat_tables([rows, more.select(LOG_COLUMNS)])
    return joined.combine_chunks() if joined[0].num_chunks > CHUNKS_MAX else joined


def rank(commit: Commit) -> tuple[int, int, str]:
    """The head rule: the greatest (manifest version, time, id) is the head."""
    return commit.manifest_version, commit.created_at_us, commit.id


def decode_commits(rows: pa.Table) -> list[Commit]:
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
