"""Undoing, picking, blaming and tagging, as callers ask for it and as documents tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.ids import MAIN
from omnigraph.sdk.documents import commit_document, iso_time
from omnigraph.sdk.proposals import ProposalsClient

if TYPE_CHECKING:
    from omnigraph.commit.manifest.commit_tags import CommitTag
    from omnigraph.engine.history.entity_history import EntityRevision, PropertyOrigin
    from omnigraph.engine.merge.run import MergeResult

REVISIONS_DEFAULT = 100


class PickOptions(TypedDict, total=False):
    """The keywords of `revert` and `cherry_pick`."""

    into: str
    """The branch that is changed; main if it is left out."""
    mainline: int | None
    """For a merge: the parent, 1 or 2, from which its changes count."""
    actor: str | None
    message: str | None
    """Why; by default, what was done to which commit."""
    detect: str
    """`row` or `property`, as for a merge."""
    on_conflict: str | Mapping[str, str] | None
    """`ours` or `theirs`, for all types or by type."""
    resolutions: str | Path | None
    """A conflict file in which every conflict is resolved."""
    dry_run: bool
    idempotency_key: str | None


class TagsClient(Protocol):
    def list(self) -> Sequence[CommitTag]: ...

    def create(
        self,
        name: str,
        commit: str,
        *,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommitTag: ...

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> None: ...


class HistoryClient(Protocol):
    """The part of a graph that looks at single commits and entities of the past."""

    @property
    def tags(self) -> TagsClient: ...

    @property
    def proposals(self) -> ProposalsClient: ...

    def revert(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult: ...

    def cherry_pick(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult: ...

    def blame(
        self, type_name: str, identity: str, *, branch: str = MAIN
    ) -> Sequence[PropertyOrigin]: ...

    def revisions(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str = MAIN,
        limit: int = REVISIONS_DEFAULT,
    ) -> Sequence[EntityRevision]: ...


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def tag_document(tag: CommitTag) -> JsonObject:
    return {
        "name": tag.name,
        "graph_commit_id": tag.commit_id,
        "actor_id": tag.actor,
        "created_at": tag.created_at_us,
        "created_at_iso": iso_time(tag.created_at_us),
        "message": tag.message,
    }


def origin_document(origin: PropertyOrigin) -> JsonObject:
    commit, merge = origin.commit, origin.merged_by
    return {
        "property": origin.name,
        "value": origin.value,
        "commit": None if commit is None else commit_document(commit),
        "merged_by": None if merge is None else commit_document(merge),
    }


def revision_document(revision: EntityRevision) -> JsonObject:
    return {
        "op": revision.op.value,
        "commit": commit_document(revision.commit),
        "changed": list(revision.changed),
        "before": revision.before,
        "after": revision.after,
    }
