"""What changed and who did it, asked of an embedded graph: diffs, feeds, baselines, commits."""

from collections.abc import Collection

from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.graph import CommitFilter, Graph
from omnigraph.engine.history.diff import GraphDiff
from omnigraph.engine.history.feed import (
    CHANGES_DEFAULT,
    COMMITS_DEFAULT,
    CommitPage,
    FeedPage,
    Poll,
)
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, CommitId, parse_branch
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
    ) -> GraphDiff:
        """What differs between two states: branches, commits, or `branch@version`.

        Its `counts` say how much, by table; its `changes()` tell every entity, as one reads on.
        Raises BranchNotFound, CommitNotFound, VersionNotFound, TypeUnknown, ChangesRefused.
        """
        sides = [self._graph.find_snapshot(each) for each in (before, after)]
        return self._graph.diff(sides[0], sides[1], reviewing.read_filter(kinds, types, ops))

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
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. `actor=""` finds commits without one.

        Raises BranchNotFound, UsageError.
        """
        if limit is not None and limit < 0:
            raise UsageError("a limit is 0 or more")
        where = CommitFilter(actor=actor, since_us=since_us, limit=limit)
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
