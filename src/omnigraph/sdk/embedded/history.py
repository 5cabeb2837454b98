"""Undoing, picking, blaming and tagging in an embedded graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from omnigraph.engine.graph import Graph
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, CommitId, parse_branch
from omnigraph.sdk.embedded.proposals import LocalProposals
from omnigraph.sdk.history import REVISIONS_DEFAULT, PickOptions

if TYPE_CHECKING:
    from omnigraph.commit.manifest.commit_tags import CommitTag
    from omnigraph.engine.history.entity_history import EntityRevision, PropertyOrigin
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.merge.sources import PickKind


class LocalTags:
    """The tags of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> Sequence[CommitTag]:
        """By name."""
        return self._graph.tags()

    def create(
        self,
        name: str,
        commit: str,
        *,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommitTag:
        """Give a commit a name. Cleanup keeps the commit while it has one.

        Raises TagExists, CommitNotFound, VersionNotFound, UsageError, OpenedReadOnly.
        """
        from omnigraph.engine.write.idempotency import parse_key

        key = parse_key(idempotency_key, "tag create", name, commit)
        return self._graph.create_tag(
            name, CommitId(commit), actor=actor, message=message, idempotency=key
        )

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> None:
        """Raises TagNotFound, OpenedReadOnly."""
        from omnigraph.engine.write.idempotency import parse_key

        key = parse_key(idempotency_key, "tag delete", name)
        self._graph.delete_tag(name, actor=actor, idempotency=key)


class LocalHistory:
    """The part of an embedded graph that looks at single commits and entities of the past."""

    _graph: Graph

    @property
    def tags(self) -> LocalTags:
        """The tags: `list`, `create`, `delete`."""
        return LocalTags(self._graph)

    @property
    def proposals(self) -> LocalProposals:
        """The proposals: `open`, `list`, `show`, `approve`, `merge` and others."""
        return LocalProposals(self._graph)

    def revert(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult:
        """Undo what a commit changed, as a new commit. Later changes to other rows stay.

        Rows that were changed again since are conflicts, as in a merge. Raises MergeConflicts,
        CommitNotFound, VersionNotFound, ChangesRefused, HeadMoved, UsageError, OpenedReadOnly.
        """
        from omnigraph.engine.merge.sources import PickKind

        return self._pick(PickKind.REVERT, commit, **options)

    def cherry_pick(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult:
        """Apply to a branch what a commit of another branch changed, as a new commit.

        Raises what `revert` raises.
        """
        from omnigraph.engine.merge.sources import PickKind

        return self._pick(PickKind.CHERRY_PICK, commit, **options)

    def _pick(self, kind: PickKind, commit: str, **options: Unpack[PickOptions]) -> MergeResult:
        from omnigraph.engine.merge.sources import Pick
        from omnigraph.sdk.embedded.merging import parse_pick, pick

        chosen = Pick(kind, self._graph.commit(CommitId(commit)).id, options.get("mainline"))
        return pick(self._graph, chosen, parse_pick(chosen, options))

    def blame(
        self, type_name: str, identity: str, *, branch: str = MAIN
    ) -> Sequence[PropertyOrigin]:
        """The commit that set each property of one node or edge; empty if it does not exist.

        Raises TypeUnknown, BranchNotFound.
        """
        return self._graph.blame(type_name, identity, parse_branch(branch))

    def revisions(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str = MAIN,
        limit: int = REVISIONS_DEFAULT,
    ) -> Sequence[EntityRevision]:
        """The commits of a branch that changed one node or edge, newest first.

        Raises TypeUnknown, BranchNotFound, UsageError.
        """
        if limit < 0:
            raise UsageError("a limit is 0 or more")
        found = self._graph.revisions(type_name, identity, parse_branch(branch))
        return tuple(islice(found, limit))
