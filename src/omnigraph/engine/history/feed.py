"""The change feed: the changes of every commit of a branch, in the order of its history.

A consumer polls with a cursor and gets the next cursor. A cursor stands after a whole commit. A
consumer that saves a cursor only after it has processed everything before it sees every commit at
least once, whichever process dies. A commit with more changes than a page holds is split over
several pages with page tokens; a cursor follows when the commit is complete.

1. Commits are ordered by first parents. The changes of a merge appear once, with the merge commit.
2. Commits without a wanted change, such as upkeep, are skipped.
3. A cursor or token names its graph, branch incarnation and filter, and is refused for others.
4. A commit that can no longer be read is a gap: the feed raises `ChangeFeedGap` and never skips it.
5. The members of a group have blocks of their own, with the changes of the entities they touched.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.groups import read_touched
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, snapshot_at_commit
from omnigraph.engine.history.diff import ChangeFilter, EntityChange, GraphDiff, find_diff
from omnigraph.engine.settings import CHANGES_DEFAULT, COMMITS_DEFAULT
from omnigraph.errors import (
    ChangeFeedGap,
    ChangesRefused,
    CommitNotFound,
    CursorInvalid,
    NotFoundError,
    TableCorrupt,
    UsageError,
)
from omnigraph.ids import BranchName, CommitId, Version
from omnigraph.jsontext import read_json
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle

COMMITS_MAX: Final = 512
"""The most commits that one poll reads."""

CHANGES_MAX: Final = 8_192
"""The most changes of one page."""

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Position:
    """(3) The position of a consumer in the feed of one branch."""

    graph: str
    """The id of the graph; a copy of the graph has another one."""
    branch: BranchName
    incarnation: str
    where: str
    """The filter, as a short hash."""
    commit: CommitId | None
    """The last complete commit; None before the first."""
    told: int = 0
    """How many changes of the next commit were delivered; 0 for a cursor."""

    def encode(self) -> str:
        body = json.dumps([_VERSION, *asdict(self).values()], separators=(",", ":")).encode()
        check = hashlib.sha256(body).digest()[:6]
        return base64.urlsafe_b64encode(check + body).decode().rstrip("=")


def decode_position(text: str) -> Position:
    """Raises CursorInvalid."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        check, body = raw[:6], raw[6:]
        is_whole = hashlib.sha256(body).digest()[:6] == check
        version, *facts = read_json(body) if is_whole else [0]
        if version == _VERSION and _are_facts(facts):
            return Position(*facts)
    except (ValueError, TypeError):
        pass
    raise CursorInvalid("it is not one of ours, or was cut")


def _are_facts(found: list[object]) -> bool:
    """Anybody can write a text with the right check, so the fields may be anything."""
    *texts, commit, told = found
    is_told = type(told) is int and told >= 0
    return (
        all(isinstance(each, str) for each in texts) and isinstance(commit, str | None) and is_told
    )


@dataclass(frozen=True, slots=True)
class Block:
    """The changes of one commit, or a part of them."""

    cause: Commit
    changes: tuple[EntityChange, ...]


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The result of a poll: a cursor, or a token for the rest of an incomplete commit."""

    blocks: tuple[Block, ...]
    cursor: str | None
    next_page_token: str | None
    caught_up: bool
    """Is the last commit of the branch reached?"""


@dataclass(frozen=True, slots=True)
class Poll:
    """The position, the filter and the limits of a poll."""

    where: ChangeFilter
    cursor: str | None = None
    """A cursor or a page token."""
    start: str | None = None
    """Where to start without a cursor: `now`, `beginning`, or `after:COMMIT`."""
    commits_max: int = COMMITS_DEFAULT
    changes_max: int = CHANGES_DEFAULT

    def check(self) -> None:
        """Raises UsageError."""
        if (self.cursor is None) == (self.start is None):
            raise UsageError("say where to go on: a cursor, or a start, and not both")
        if not 1 <= self.commits_max <= COMMITS_MAX:
            raise UsageError(f"a poll looks at 1 to {COMMITS_MAX} commits")
        if not 1 <= self.changes_max <= CHANGES_MAX:
            raise UsageError(f"a page tells 1 to {CHANGES_MAX} changes")


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The change feed of one branch."""

    stores: Stores
    graph_id: str
    catalog: Catalog
    """The schema in force."""
    base: Base
    open_pin: Callable[[Pin], Handle]
    catalog_at: Callable[[ManifestSnapshot], Catalog]
    """The schema of the time of a snapshot."""

    @property
    def history(self) -> Sequence[Commit]:
        return self.base.manifest.log.commits

    def position(self, where: ChangeFilter, commit: CommitId | None, told: int = 0) -> Position:
        return Position(
            self.graph_id,
            self.base.manifest.branch,
            self.base.identifier,
            hash_filter(where),
            commit,
            told,
        )

    def poll(self, asked: Poll) -> FeedPage:
        """Raises CursorInvalid, ChangeFeedGap, ChangesRefused, CommitNotFound, UsageError."""
        asked.check()
        asked.where.check_types(self.catalog)
        at = self.find_start(asked)
        pending = self._after(at.commit)
        blocks: list[Block] = []
        left = asked.changes_max
        diffs = CommitDiffs(self, asked.where)
        for before, commit in pending[: asked.commits_max]:
            try:
                found = _read(diffs.find(before, commit), asked, at, left)
            except (NotFoundError, TableCorrupt) as lost:
                raise ChangeFeedGap(commit.id, cursor=asked.cursor) from lost  # (4)
            except ChangesRefused:
                if commit is pending[0][1]:
                    raise
                break  # the commits before it can be delivered
            if found.changes:
                blocks.append(Block(commit, found.changes))
            if found.has_more:
                told = at.told + len(found.changes)
                here = self.position(asked.where, at.commit, told).encode()
                # Nothing of this commit was delivered, so the position is a cursor.
                is_between = not found.changes
                return FeedPage(
                    tuple(blocks),
                    cursor=here if is_between else None,
                    next_page_token=None if is_between else here,
                    caught_up=False,
                )
            left -= len(found.changes)
            at = self.position(asked.where, commit.id)
        is_last = not pending or at.commit == self.history[-1].id
        cursor = self.position(asked.where, at.commit).encode()
        return FeedPage(tuple(blocks), cursor, None, caught_up=is_last)

    def find_start(self, asked: Poll) -> Position:
        """Where a poll starts. Raises CursorInvalid, UsageError."""
        if asked.cursor is not None:
            return self._check(decode_position(asked.cursor), asked.where)
        assert asked.start is not None
        match asked.start.partition(":"):
            case ("now", "", _):
                commit: CommitId | None = self.history[-1].id
            case ("beginning", "", _):
                commit = None
            case ("after", ":", commit_id):
                commit = CommitId(commit_id)
            case _:
                raise UsageError(
                    f"a feed starts at now, beginning or after:COMMIT, not at '{asked.start}'"
                )
        return self.position(asked.where, commit)

    def _check(self, at: Position, where: ChangeFilter) -> Position:
        """(3) Raises CursorInvalid."""
        own = self.position(where, at.commit, at.told)
        reasons = {
            "graph": "it is of another graph",
            "branch": f"it is of the branch '{at.branch}'",
            "incarnation": f"the branch '{at.branch}' was deleted and made again",
            "where": "it was made with another filter",
        }
        for name, reason in reasons.items():
            if getattr(at, name) != getattr(own, name):
                raise CursorInvalid(reason)
        return at

    def _after(self, commit: CommitId | None) -> list[tuple[Commit, Commit]]:
        """(1) The commits after a commit, each with the commit whose state it started from (5)."""
        pairs = [
            (self.history[at - 1 - _index(commit)], commit)
            for at, commit in enumerate(self.history)
            if at
        ]
        if commit is None:
            return pairs
        ids = [each.id for each in self.history]
        if commit not in ids:
            raise CommitNotFound(commit)
        return pairs[ids.index(commit) :]

    def compare(
        self, snapshots: tuple[ManifestSnapshot, ManifestSnapshot], where: ChangeFilter
    ) -> GraphDiff:
        """Raises ChangesRefused."""
        catalogs = (self.catalog_at(snapshots[0]), self.catalog_at(snapshots[1]))
        return find_diff(self.stores.tables, self.open_pin, catalogs, snapshots, where)


def _index(commit: Commit) -> int:
    """How many commits of the same group come before this one."""
    return 0 if commit.extension.group is None else commit.extension.group.index


class CommitDiffs:
    """The changes of commits, one after the other.

    (5) No reader ever saw a state between two members of a group. A member is compared with the
    state before its group, and the changes of the entities that it touched are its own.
    """

    def __init__(self, feed: ChangeFeed, where: ChangeFilter) -> None:
        self._feed = feed
        self._where = where
        self._shown: dict[tuple[BranchName, Version], ManifestSnapshot] = {}
        self._diffs: dict[tuple[CommitId, Version], GraphDiff] = {}

    def find(self, before: Commit, commit: Commit) -> GraphDiff:
        """Raises ChangesRefused, VersionNotFound, BranchNotFound, ObjectNotFound."""
        # The snapshot of a commit is read once for it and the next, the diff of a group once.
        self._shown = {
            (each.branch, each.manifest_version): self._show(each) for each in (before, commit)
        }
        pair = before.id, commit.manifest_version
        if pair not in self._diffs:
            snapshots = (self._show(before), self._show(commit))
            self._diffs = {pair: self._feed.compare(snapshots, self._where)}
        touched = read_touched(self._feed.stores.objects, commit)
        return self._diffs[pair] if touched is None else self._diffs[pair].only(touched)

    def _show(self, commit: Commit) -> ManifestSnapshot:
        known = self._shown.get((commit.branch, commit.manifest_version))
        return known or snapshot_at_commit(self._feed.stores, commit)


@dataclass(frozen=True, slots=True)
class _CommitPart:
    changes: tuple[EntityChange, ...]
    has_more: bool


def _read(diff: GraphDiff, asked: Poll, at: Position, left: int) -> _CommitPart:
    """The changes of a commit, as many as fit."""
    if len(diff) - at.told > left and left < asked.changes_max:
        # The commit starts on the next page, where more of it fits.
        return _CommitPart((), has_more=True)
    changes = tuple(islice(diff.changes(skip=at.told), left))
    return _CommitPart(changes, has_more=at.told + len(changes) < len(diff))


def hash_filter(where: ChangeFilter) -> str:
    """A hash that is equal for equivalent filters."""
    facts = [sorted(set(each)) for each in (where.kinds, where.types, where.ops)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


# ── one commit ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CommitPage:
    """A page of the changes of one commit."""

    cause: Commit
    changes: tuple[EntityChange, ...]
    next_page_token: str | None


def read_commit(feed: ChangeFeed, commit: Commit, before: Commit | None, asked: Poll) -> CommitPage:
    """The changes of a commit since its first parent, of a member since the state before its group.

    Raises ChangesRefused, CursorInvalid.
    """
    if before is None:
        raise ChangesRefused("parentless_commit", commit_id=commit.id)
    told = 0
    if asked.cursor is not None:
        at = decode_position(asked.cursor)
        if (at.commit, at.where) != (commit.id, hash_filter(asked.where)):
            raise CursorInvalid("it is of another commit, or was made with another filter")
        told = at.told
    try:
        diff = CommitDiffs(feed, asked.where).find(before, commit)
        asked.where.check_types(*map(feed.catalog_at, (diff.before, diff.after)))
        changes = tuple(islice(diff.changes(skip=told), asked.changes_max))
    except (NotFoundError, TableCorrupt) as lost:
        raise ChangeFeedGap(commit.id, cursor=asked.cursor) from lost
    token = None
    if told + len(changes) < len(diff):
        token = feed.position(asked.where, commit.id, told + len(changes)).encode()
    return CommitPage(commit, changes, token)
