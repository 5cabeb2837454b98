"""The change feed: what every commit of a branch changed, in the order of its history.

A reader polls with a cursor and is given one in return, which it keeps. A cursor stands after a
whole commit: whoever saves it only once it has dealt with everything before it sees every commit at
least once, whatever dies. A commit with more changes than fit a page is told over several, with
page tokens; a cursor comes when it is complete.

1. The order is that of first parents. What a merge brought in is told once, as the change of the
   merge commit.
2. Commits that changed nothing that is wanted, such as upkeep, are passed over.
3. Cursors and tokens say for which graph, incarnation of a branch, and filter they are, and are
   refused for others.
4. A commit that can no longer be read is a gap. It is told, never skipped: `ChangeFeedGap`.
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
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, snapshot_at_commit
from omnigraph.engine.history.diff import ChangeFilter, EntityChange, GraphDiff, find_diff
from omnigraph.errors import (
    ChangeFeedGap,
    ChangesRefused,
    CommitNotFound,
    CursorInvalid,
    NotFoundError,
    TableCorrupt,
    UsageError,
)
from omnigraph.ids import BranchName, CommitId
from omnigraph.jsontext import read_json
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle

COMMITS_DEFAULT: Final = 128
COMMITS_MAX: Final = 512
"""How many commits one poll looks at."""

CHANGES_DEFAULT: Final = 1_000
CHANGES_MAX: Final = 8_192
"""How many changes one page tells."""

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Position:
    """(3) How far a reader has come, and in what."""

    graph: str
    """The first commit of the graph, which no other graph has."""
    branch: BranchName
    incarnation: str
    where: str
    """The filter, as a short hash."""
    commit: CommitId | None
    """The last commit that is dealt with; None before the first."""
    told: int = 0
    """How many changes of the next one were told already. A cursor has none."""

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
        if version == _VERSION:
            return Position(*facts)
    except (ValueError, TypeError):
        pass
    raise CursorInvalid("it is not one of ours, or was cut")


@dataclass(frozen=True, slots=True)
class Block:
    """What one commit changed, or a part of it."""

    cause: Commit
    changes: tuple[EntityChange, ...]


@dataclass(frozen=True, slots=True)
class FeedPage:
    """What a poll tells: a cursor, or a token for the rest of a commit that did not fit."""

    blocks: tuple[Block, ...]
    cursor: str | None
    next_page_token: str | None
    caught_up: bool
    """Is there nothing newer on the branch?"""


@dataclass(frozen=True, slots=True)
class Poll:
    """Where to go on, what is wanted, and how much of it."""

    where: ChangeFilter
    cursor: str | None = None
    """A cursor or a page token."""
    start: str | None = None
    """Without one: `now`, `beginning`, or `after:COMMIT`."""
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
    """One branch of a graph, as a feed sees it."""

    stores: Stores
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
            self.history[0].id,
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
        at = self._start(asked)
        pending = self._after(at.commit)
        first = pending[0][0].id if pending else None
        blocks: list[Block] = []
        left = asked.changes_max
        shown: dict[CommitId, ManifestSnapshot] = {}
        for before, commit in pending[: asked.commits_max]:
            try:
                # Each commit is the one before the next.
                shown = {
                    each.id: shown.get(each.id) or snapshot_at_commit(self.stores, each)
                    for each in (before, commit)
                }
                found = self._read((shown[before.id], shown[commit.id]), asked, at, left)
            except (NotFoundError, TableCorrupt) as lost:
                raise ChangeFeedGap(commit.id, cursor=asked.cursor) from lost  # (4)
            except ChangesRefused:
                if before.id == first:
                    raise
                break  # what comes before it can be told
            if found.changes:
                blocks.append(Block(commit, found.changes))
            if found.has_more:
                told = at.told + len(found.changes)
                here = self.position(asked.where, at.commit, told).encode()
                # With nothing told of this commit, all before it is complete.
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

    def _start(self, asked: Poll) -> Position:
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
        """(1) The commits after one, each with the one before it."""
        pairs = list(zip(self.history, self.history[1:], strict=False))
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

    def _read(
        self,
        snapshots: tuple[ManifestSnapshot, ManifestSnapshot],
        asked: Poll,
        at: Position,
        left: int,
    ) -> "_Told":
        """What a commit changed, as much of it as fits."""
        diff = self.compare(snapshots, asked.where)
        if len(diff) - at.told > left and left < asked.changes_max:
            # It is begun on a page of its own, where more of it fits.
            return _Told((), has_more=True)
        changes = tuple(islice(diff.changes(skip=at.told), left))
        return _Told(changes, has_more=at.told + len(changes) < len(diff))


@dataclass(frozen=True, slots=True)
class _Told:
    changes: tuple[EntityChange, ...]
    has_more: bool


def hash_filter(where: ChangeFilter) -> str:
    """The same for filters that mean the same."""
    facts = [sorted(set(each)) for each in (where.kinds, where.types, where.ops)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


# ── one commit ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CommitPage:
    """Some of what one commit changed."""

    cause: Commit
    changes: tuple[EntityChange, ...]
    next_page_token: str | None


def read_commit(feed: ChangeFeed, commit: Commit, parent: Commit | None, asked: Poll) -> CommitPage:
    """What a commit changed since its first parent. Raises ChangesRefused, CursorInvalid."""
    if parent is None:
        raise ChangesRefused("parentless_commit", commit_id=commit.id)
    told = 0
    if asked.cursor is not None:
        at = decode_position(asked.cursor)
        if (at.commit, at.where) != (commit.id, hash_filter(asked.where)):
            raise CursorInvalid("it is of another commit, or was made with another filter")
        told = at.told
    try:
        snapshots = (
            snapshot_at_commit(feed.stores, parent),
            snapshot_at_commit(feed.stores, commit),
        )
        asked.where.check_types(*map(feed.catalog_at, snapshots))
        diff = feed.compare(snapshots, asked.where)
        changes = tuple(islice(diff.changes(skip=told), asked.changes_max))
    except (NotFoundError, TableCorrupt) as lost:
        raise ChangeFeedGap(commit.id, cursor=asked.cursor) from lost
    token = None
    if told + len(changes) < len(diff):
        token = feed.position(asked.where, commit.id, told + len(changes)).encode()
    return CommitPage(commit, changes, token)
