"""What changed and who did it, asked of an embedded graph: diffs, feeds, baselines, commits."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.graph import CommitFilter, Graph
from omnigraph.engine.settings import CHANGES_DEFAULT, COMMITS_DEFAULT
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, CommitId, parse_branch

if TYPE_CHECKING:
    from omnigraph.engine.history.diff import GraphDiff
    from omnigraph.engine.history.feed import CommitPage, FeedPage
    from omnigraph.sdk import reviewing


class LocalReview:
    """The part of an embedded graph that looks back."""

    _graph: Graph

    def find_snapshot(self, text: str) -> ManifestSnapshot:
        """What a text names, as `diff` reads it: a branch, a commit, or `branch@version`.

        Raises BranchNotFound, CommitNotFound, VersionNotFound.
        """
        return self._graph.find_snapshot(text)

    def diff(
        self,
        before: str,
        after: str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> GraphDiff:
        """What differs between two states: branches, commits, or `branch@version`.

        `since_merge_base` compares `after` with the state at which the two histories parted: what
        a merge of `after` would bring. Its `counts` say how much, by table; its `changes()` tell
        every entity, as one reads on. Raises BranchNotFound, CommitNotFound, VersionNotFound,
        TypeUnknown, ChangesRefused; UsageError if they have no commit in common.
        """
        from omnigraph.sdk import reviewing

        was, will_be = (self._graph.find_snapshot(each) for each in (before, after))
        if since_merge_base:
            was = self._graph.find_merge_base(was, will_be)
        return self._graph.diff(was, will_be, reviewing.read_filter(kinds, types, ops))

    def commit_changes(
        self,
        commit_id: str,
        *,
        page_token: str | None = None,
        limit: int = CHANGES_DEFAULT,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
    ) -> CommitPage:
        """What one commit changed since its first parent, so many changes at a time.

        Raises CommitNotFound, ChangesRefused, ChangeFeedGap, CursorInvalid, TypeUnknown.
        """
        from omnigraph.sdk import reviewing

        where = reviewing.read_filter(kinds, types, ops)
        return reviewing.commit_page(self._graph, commit_id, where, page_token, limit)

    def changes(
        self,
        cursor: str | None = None,
        *,
        start: str | None = None,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        commits_max: int = COMMITS_DEFAULT,
        limit: int = CHANGES_DEFAULT,
    ) -> FeedPage:
        """What the commits of a branch changed, after a cursor, or from `start` on.

        `start` is `now`, `beginning` or `after:COMMIT`. Keep the cursor of a page once everything
        before it is dealt with; go on with `next_page_token` while there is one.

        Raises BranchNotFound, CommitNotFound, CursorInvalid, ChangeFeedGap, ChangesRefused,
        TypeUnknown, UsageError.
        """
        from omnigraph.engine.history.feed import Poll
        from omnigraph.sdk import reviewing

        where = reviewing.read_filter(kinds, types, ops)
        asked = Poll(where, cursor, start, commits_max, limit)
        return self._graph.changes(parse_branch(branch), asked)

    def baseline(
        self,
        *,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
    ) -> reviewing.Baseline:
        """Everything a branch shows now, and the cursor from which its changes follow.

        Read its `lines()` to the end before the cursor is used. Raises BranchNotFound, TypeUnknown.
        """
        from omnigraph.sdk import reviewing

        where = reviewing.read_filter(kinds, types, ())
        return reviewing.take_baseline(self._graph, parse_branch(branch), where)

    # commits

    def commits(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since_us: int | None = None,
        limit: int | None = None,
        merged: bool = False,
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. `actor=""` finds commits without one.

        `merged` lists the commits of merged branches too, each after all its children.
        Raises BranchNotFound, UsageError.
        """
        if limit is not None and limit < 0:
            raise UsageError("a limit is 0 or more")
        where = CommitFilter(actor=actor, since_us=since_us, limit=limit, merged=merged)
        return self._graph.commits(parse_branch(branch), where)

    def find_write(
        self, key: str, *, branch: str = MAIN, actor: str | None = None
    ) -> Commit | None:
        """The commit of the write that had this idempotency key, if it is there.

        Raises BranchNotFound.
        """
        return self._graph.find_write(key, branch=parse_branch(branch), actor=actor)

    def commit(self, commit_id: str) -> Commit:
        """A commit of any branch. Raises CommitNotFound."""
        return self._graph.commit(CommitId(commit_id))
