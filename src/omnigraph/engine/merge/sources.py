"""Where a merge takes its changes from: a branch, or one commit.

A merge applies to the target what the source has and the base has not. The source of a merge of
branches is the head of a branch, and the base a common ancestor. A cherry-pick takes a commit as
the source and its parent as the base; a revert takes the parent as the source and the commit as the
base. Everything else, conflicts included, is the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.groups import read_touched
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit, Touched
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, open_pin, snapshot_at_commit
from omnigraph.commit.manifest.updates import SetVersion, Update
from omnigraph.engine.merge.bases import Ancestry, find_ancestry
from omnigraph.errors import ChangesRefused, UsageError
from omnigraph.ids import BranchName, CommitId, TableKey
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle


class MergeSource(Protocol):
    @property
    def pins(self) -> Mapping[TableKey, Pin]: ...

    @property
    def is_branch(self) -> bool:
        """Does the merge commit get a second parent?"""
        ...

    def open(self, key: TableKey) -> Handle: ...

    def find_ancestry(self, target: Manifest) -> Ancestry: ...

    def find_touched(self, key: TableKey) -> frozenset[str] | None:
        """The ids whose changes count; None for all."""
        ...

    def pointer(self, key: TableKey) -> Update | None:
        """What makes the target show the source's version of a table itself (D6)."""
        ...


@dataclass(frozen=True, slots=True)
class BranchSource:
    """The head of a branch."""

    context: WriteContext
    base: Base
    named_base: CommitId | None = None
    """The merge base that the caller chose."""

    @property
    def pins(self) -> Mapping[TableKey, Pin]:
        return self.base.manifest.pins

    @property
    def is_branch(self) -> bool:
        return True

    def open(self, key: TableKey) -> Handle:
        return self.context.open_pin(self.pins[key], self.base)

    def find_ancestry(self, target: Manifest) -> Ancestry:
        return find_ancestry(self.context.stores, self.base.manifest, target, base=self.named_base)

    def find_touched(self, key: TableKey) -> frozenset[str] | None:  # noqa: ARG002 - the protocol's
        return None

    def pointer(self, key: TableKey) -> Update | None:
        return SetVersion(self.base.manifest.latest[key])


# ── one commit ───────────────────────────────────────────────────────────────────────────────────


class PickKind(StrEnum):
    CHERRY_PICK = "cherry-pick"
    """Apply what the commit changed."""
    REVERT = "revert"
    """Undo what the commit changed."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One commit, and what to do with its changes."""

    kind: PickKind
    commit_id: CommitId
    mainline: int | None = None
    """For a merge: the parent, 1 or 2, whose difference to the commit counts as its changes."""

    @property
    def label(self) -> BranchName:
        """Stands for the source branch in results, conflicts and conflict files."""
        return BranchName(f"{self.kind.value}:{self.commit_id}")

    def default_message(self, commit: Commit) -> str:
        said = "" if commit.message is None else f": {commit.message}"
        return f"{self.kind.value} {commit.id}{said}"


@dataclass(frozen=True, slots=True)
class CommitSource:
    """The changes of one commit, or their inverse."""

    stores: Stores
    base: ManifestSnapshot
    source: ManifestSnapshot
    touched: Touched | None = None
    """What the commit touched, if it is a member of a group: the states hold the whole group."""

    @property
    def pins(self) -> Mapping[TableKey, Pin]:
        return self.source.pins

    @property
    def is_branch(self) -> bool:
        return False

    def open(self, key: TableKey) -> Handle:
        return open_pin(self.stores, self.pins[key])

    def find_ancestry(self, target: Manifest) -> Ancestry:
        assert self.base.commit is not None
        assert self.source.commit is not None
        if target.head is None:
            raise UsageError("a branch without commits has nothing to change")
        return Ancestry(self.source.commit, target.head, (self.base.commit,), (self.base.pins,), ())

    def find_touched(self, key: TableKey) -> frozenset[str] | None:
        return None if self.touched is None else frozenset(self.touched.get(key, ()))

    def pointer(self, key: TableKey) -> Update | None:  # noqa: ARG002 - the protocol's
        """None: the version holds the changes of other commits too."""
        return None


def find_commit_source(
    stores: Stores,
    pick: Pick,
    find_commit: Callable[[CommitId], Commit],
    find_before: Callable[[Commit], Commit | None],
) -> CommitSource:
    """Raises CommitNotFound, VersionNotFound, BranchNotFound, ChangesRefused, UsageError."""
    commit = find_commit(pick.commit_id)
    parent = find_commit(_parent_of(commit, pick))
    if commit.extension.group is not None:
        parent = find_before(commit) or parent
    before = snapshot_at_commit(stores, parent)
    after = snapshot_at_commit(stores, commit)
    touched = read_touched(stores.objects, commit)
    if pick.kind is PickKind.REVERT:
        return CommitSource(stores, base=after, source=before, touched=touched)
    return CommitSource(stores, base=before, source=after, touched=touched)


def _parent_of(commit: Commit, pick: Pick) -> CommitId:
    parents = commit.parents
    if not parents:
        raise ChangesRefused("parentless_commit", commit_id=commit.id)
    if pick.mainline is None and len(parents) > 1:
        raise UsageError(
            f"commit {commit.id} is a merge; say which parent its changes count from: "
            f"mainline 1 ({parents[0]}, the branch it was merged into) "
            f"or mainline 2 ({parents[1]}, the branch that was merged)"
        )
    mainline = 1 if pick.mainline is None else pick.mainline
    if not 1 <= mainline <= len(parents):
        count = "one parent" if len(parents) == 1 else "two parents"
        raise UsageError(f"commit {commit.id} has {count}, so mainline cannot be {mainline}")
    return parents[mainline - 1]
