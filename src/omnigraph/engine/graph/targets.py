"""Which snapshot and which schema a read uses.

A `Target` names a branch as it is now, a branch at a version or a time, a commit by its id or its
tag, or a snapshot.
Resolving a branch as it is now costs one probe of its manifest.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.base import BASES_KEPT_MAX, Base, Bases, find_incarnation
from omnigraph.commit.manifest.commit_tags import read_tag
from omnigraph.commit.manifest.records import Commit, Extension
from omnigraph.commit.manifest.snapshot import (
    ManifestSnapshot,
    find_commit,
    snapshot_at_commit,
    snapshot_at_version,
    snapshot_of,
)
from omnigraph.engine.active_schema import ActiveSchema, SchemaCache
from omnigraph.engine.query.reading import ReadView
from omnigraph.engine.query.result import ReadTarget
from omnigraph.engine.query.target import Target
from omnigraph.errors import CommitNotFound, NothingYet, TagNotFound
from omnigraph.ids import MAIN, BranchName, CommitId, Version, is_encodable, parse_branch
from omnigraph.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class TargetResolver:
    """Resolves targets of one graph. Asks no gate: `Graph` does."""

    stores: Stores
    bases: Bases
    schemas: SchemaCache
    _seen: dict[BranchName, tuple[Base, ReadView]] = field(default_factory=dict, repr=False)
    """The last view of each branch. As long as its base is the newest, the view is the same."""

    def branch_of(self, target: Target) -> BranchName:
        """The branch whose policy decides about a read. Raises CommitNotFound."""
        if target.snapshot is not None:
            return target.snapshot.branch
        if target.commit_id is not None:
            return self.commit(target.commit_id).branch
        return target.branch

    def named(self, text: str) -> Target:
        """A branch, a branch at a version as `branch@version`, or a commit.

        Raises BranchNameInvalid.
        """
        known = branches.find_branches(self.stores)
        if text in known:
            return Target(BranchName(text))
        name, at, number = text.rpartition("@")
        if at and number.isdecimal():
            return Target(parse_branch(name), version=Version(int(number)))
        try:
            return Target(commit_id=self.commit(CommitId(text)).id)
        except CommitNotFound:
            # A text that is neither is most often the name of a branch.
            return Target(parse_branch(text))

    def see(self, target: Target) -> tuple[ReadView, Catalog]:
        """The snapshot of a target, and the schema to read it by."""
        if target.is_past:
            view = self.view(target)
            return view, self.catalog_at(view.snapshot)
        base = self.bases.current(target.branch)
        found = self._seen.get(target.branch)
        view = found[1] if found is not None and found[0] is base else self._see_now(base)
        return view, self.schemas.for_manifest(base.manifest).catalog

    def _see_now(self, base: Base) -> ReadView:
        if len(self._seen) >= BASES_KEPT_MAX:
            self._seen.clear()
        view = self._view_now(base)
        self._seen[base.manifest.branch] = base, view
        return view

    def view(self, target: Target) -> ReadView:
        """Raises BranchNotFound, CommitNotFound, VersionNotFound, NothingYet."""
        if target.snapshot is not None:
            commit = target.snapshot.commit
            asked = ReadTarget(None, None if commit is None else commit.id)
            return ReadView(asked, target.snapshot, self._incarnation_of)
        if target.commit_id is not None:
            return self._view_at(self.commit(target.commit_id))
        if target.version is not None:
            past = snapshot_at_version(self.stores, target.branch, target.version)
            return ReadView(ReadTarget(target.branch, None), past, self._incarnation_of)
        if target.at_us is not None:
            return self._view_at(self._commit_at(target.branch, target.at_us))
        return self._view_now(self.bases.current(target.branch))

    def catalog_at(self, snapshot: ManifestSnapshot) -> Catalog:
        return self.schema_at(snapshot).catalog

    def schema_at(self, snapshot: ManifestSnapshot) -> ActiveSchema:
        """The schema under which a snapshot was committed."""
        schema_hash = self.schema_hash_at(snapshot.commit)
        self.schemas.for_manifest(self.bases.current(MAIN).manifest)
        return self.schemas.at(schema_hash)

    def schema_hash_at(self, commit: Commit | None) -> str | None:
        """The schema under which a commit was made; None if no commit records it."""
        while commit is not None and commit.extension.schema_hash is None:
            # Commits of recovery and upkeep record no schema, and change none.
            is_ours = commit.extension != Extension() and commit.parent is not None
            commit = self.commit(CommitId(str(commit.parent))) if is_ours else None
        return None if commit is None else commit.extension.schema_hash

    def commit(self, commit_id: CommitId) -> Commit:
        """A commit of any branch, by its id or its tag. Raises CommitNotFound."""
        if not is_encodable(commit_id):
            raise CommitNotFound(commit_id)
        known = branches.find_branches(self.stores)
        try:
            return find_commit(self.bases, known, commit_id)
        except CommitNotFound:
            with suppress(TagNotFound):
                tag = read_tag(self.stores.objects, commit_id)
                return find_commit(self.bases, known, tag.commit_id)
            raise

    def find_before(self, commit: Commit) -> Commit | None:
        """The commit whose state a commit started from: its first parent, or that of its group."""
        first = commit
        while first.extension.group is not None and first.extension.group.index > 0:
            first = self._parent_of(first)
        return None if first.parent is None else self.commit(first.parent)

    def find_last_member(self, commit: Commit) -> Commit:
        """The commit whose state a commit shows: itself, or the last member of its group.

        No state between two members of a group ever existed (D29).
        """
        place = commit.extension.group
        if place is None or place.index == place.size - 1:
            return commit
        for branch in branches.find_branches(self.stores):
            for each in self.bases.current(branch).manifest.log.commits:
                own = each.extension.group
                if own is not None and (own.id, own.index) == (place.id, place.size - 1):
                    return each
        return commit

    def _parent_of(self, commit: Commit) -> Commit:
        """Looks into the branch of the commit before all others: a group is on one branch."""
        assert commit.parent is not None, "a member has a parent"
        base = self.bases.known(commit.branch)
        found = None if base is None else base.manifest.log.find(commit.parent)
        return found or self.commit(commit.parent)

    def _commit_at(self, branch: BranchName, at_us: int) -> Commit:
        """The newest commit of a branch at a time. Raises BranchNotFound, NothingYet."""
        history = self.bases.current(branch).manifest.log.commits
        found = [each for each in history if each.created_at_us <= at_us]
        if not found:
            raise NothingYet(branch, at_us=at_us)
        return found[-1]

    def _view_at(self, commit: Commit) -> ReadView:
        snapshot = snapshot_at_commit(self.stores, commit)
        shown = self.find_last_member(commit)
        return ReadView(ReadTarget(None, shown.id), snapshot, self._incarnation_of)

    def _view_now(self, base: Base) -> ReadView:
        manifest = base.manifest

        def incarnation_of(branch: BranchName) -> str:
            is_known = branch == manifest.branch
            return base.identifier if is_known else self._incarnation_of(branch)

        return ReadView(ReadTarget(manifest.branch, None), snapshot_of(manifest), incarnation_of)

    def _incarnation_of(self, branch: BranchName) -> str:
        return find_incarnation(self.stores, branch)
