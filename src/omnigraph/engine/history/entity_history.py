"""The history of one node or edge: the commits that changed it, and the one that set each property.

1. A row knows the table version that last wrote it, and table versions rise along a branch. So the
   commit that wrote a row is found by bisection, and commits that did not touch it are not read.
2. A deleted row knows nothing. Its deletion is found commit by commit, and rows are read only
   where a commit moved the table.
3. A property that arrived by a merge was set on the merged branch, and is looked for there. If the
   state of that branch can no longer be read, the merge itself is named.
4. History ends where cleanup removed it. What was set before has no commit.
5. The members of a group share one state. The last of them stands for it, and the change of an
   entity belongs to the member that touched the entity (D29).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.groups import read_touched
from omnigraph.commit.manifest.model import Pin, is_same_version
from omnigraph.commit.manifest.records import Commit, JsonObject, JsonValue
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, snapshot_at_commit
from omnigraph.engine.history.diff import ChangeOp
from omnigraph.engine.history.images import read_rows, spell_row
from omnigraph.engine.tables.row_refs import Type, fetch, find_row_refs
from omnigraph.errors import ManifestCorrupt, NotFoundError
from omnigraph.ids import BranchName, CommitId, TableKey
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class EntityRevision:
    """One commit that changed the entity. An image of an edge holds `from` and `to` too."""

    commit: Commit
    op: ChangeOp
    before: JsonObject | None
    after: JsonObject | None

    @property
    def changed(self) -> tuple[str, ...]:
        """The properties whose values differ; all of them where the entity came or went."""
        before, after = self.before, self.after
        if before is None or after is None:
            return tuple(after or before or ())
        names = dict.fromkeys([*after, *before])
        return tuple(each for each in names if before.get(each) != after.get(each))


@dataclass(frozen=True, slots=True)
class PropertyOrigin:
    """Which commit gave a property the value that it has."""

    name: str
    value: JsonValue
    commit: Commit | None
    """(4) None if the value is older than the history that cleanup left."""
    merged_by: Commit | None = None
    """The merge through which the value came to the branch."""


@dataclass(frozen=True, slots=True)
class _State:
    """The entity as one commit shows it."""

    image: JsonObject
    updated: int
    """The table version that last wrote the row."""
    path: str


@dataclass(slots=True)
class EntityHistory:
    """The history of one entity. Reads each commit at most once."""

    stores: Stores
    bases: Bases
    catalog_at: Callable[[ManifestSnapshot], Catalog]
    find_type: Callable[[Catalog], Type | None]
    """The type of the entity in a schema; None if that schema lacks it."""
    find_commit: Callable[[CommitId], Commit]
    open_pin: Callable[[Pin], Handle]
    key: TableKey
    id: str
    _snapshots: dict[CommitId, ManifestSnapshot | None] = field(default_factory=dict)

    def revisions(self, branch: BranchName) -> Iterator[EntityRevision]:
        """The commits of a branch that changed the entity, newest first. Raises BranchNotFound."""
        return self._walk(self.bases.current(branch).manifest.log.commits)

    def blame(self, branch: BranchName) -> tuple[PropertyOrigin, ...]:
        """The origin of every property at the head; empty if the entity does not exist."""
        commits = self.bases.current(branch).manifest.log.commits
        shown = self._state(commits[-1]) if commits else None
        if shown is None:
            return ()
        found = self._origins(commits, dict(shown.image))
        return tuple(found[name] for name in shown.image)

    # ── one branch ───────────────────────────────────────────────────────────────────────────────

    def _walk(self, history: Sequence[Commit]) -> Iterator[EntityRevision]:
        commits = [each for each in history if not _is_inner_member(each)]
        at = len(commits) - 1
        while at >= 0:
            state = self._state(commits[at])
            if state is None:
                at = self._find_deletion(commits, at)
            else:
                at = self._find_writer(commits, at, state)
            if at < 1:
                break
            before, after = self._state(commits[at - 1]), self._state(commits[at])
            is_readable = self._snapshot(commits[at - 1]) is not None
            old, new = (None if each is None else each.image for each in (before, after))
            if is_readable and old != new:
                author = self._find_member(history, commits[at])
                yield EntityRevision(author, _op(old, new), old, new)
            at -= 1

    def _find_member(self, history: Sequence[Commit], commit: Commit) -> Commit:
        """(5) The member that touched the entity, of the group that a commit is the last of."""
        place = commit.extension.group
        if place is None:
            return commit
        for each in history:
            own = each.extension.group
            if own is not None and own.id == place.id:
                touched = read_touched(self.stores.objects, each) or {}
                if self.id in touched.get(self.key, ()):
                    return each
        return commit

    def _find_writer(self, commits: Sequence[Commit], at: int, state: _State) -> int:
        """(1) The first commit that shows the table version that wrote the row."""
        low, high = 0, at
        while low < high:
            middle = (low + high) // 2
            pin = self._pin(commits[middle])
            if pin is not None and pin.path == state.path and pin.version >= state.updated:
                high = middle
            else:
                low = middle + 1
        return high

    def _find_deletion(self, commits: Sequence[Commit], at: int) -> int:
        """(2) The commit after the newest one that shows the row; 0 if none does."""
        while at > 0:
            before, now = self._pin(commits[at - 1]), self._pin(commits[at])
            if not is_same_version(before, now) and self._state(commits[at - 1]) is not None:
                return at
            at -= 1
        return 0

    # ── the state at a commit ────────────────────────────────────────────────────────────────────

    def _state(self, commit: Commit) -> _State | None:
        pin, snapshot = self._pin(commit), self._snapshot(commit)
        if pin is None or snapshot is None:
            return None
        type_ = self.find_type(self.catalog_at(snapshot))
        if type_ is None:
            return None
        handle, tables = self.open_pin(pin), self.stores.tables
        _, refs = find_row_refs(tables, handle, "id", pa.array([self.id], pa.string()))
        if not len(refs):
            return None
        (row,) = read_rows(type_, fetch(tables, type_, handle, refs.addresses))
        return _State(spell_row(type_, row), int(refs.updated[0]), pin.path)

    def _pin(self, commit: Commit) -> Pin | None:
        snapshot = self._snapshot(commit)
        return None if snapshot is None else snapshot.pins.get(self.key)

    def _snapshot(self, commit: Commit) -> ManifestSnapshot | None:
        """(4) None if the state of the commit can no longer be read."""
        if commit.id not in self._snapshots:
            try:
                self._snapshots[commit.id] = snapshot_at_commit(self.stores, commit)
            except (NotFoundError, ManifestCorrupt):
                self._snapshots[commit.id] = None
        return self._snapshots[commit.id]

    # ── origins ──────────────────────────────────────────────────────────────────────────────────

    def _origins(
        self, commits: Sequence[Commit], wanted: Mapping[str, JsonValue]
    ) -> dict[str, PropertyOrigin]:
        """The origin of each of these values, which the last of the commits shows."""
        left = dict(wanted)
        found: dict[str, PropertyOrigin] = {}
        for revision in self._walk(commits):
            if not left or revision.after is None:
                break
            arrived = {each: left.pop(each) for each in revision.changed if each in left}
            if (merged := revision.commit.merged_parent) is not None:
                found |= self._merged(revision.commit, merged, arrived)
            for name in arrived.keys() - found.keys():
                found[name] = PropertyOrigin(name, arrived[name], revision.commit)
        return found | {name: PropertyOrigin(name, value, None) for name, value in left.items()}

    def _merged(
        self, merge: Commit, head: CommitId, arrived: Mapping[str, JsonValue]
    ) -> dict[str, PropertyOrigin]:
        """(3) The origins of the values that the merged branch had too."""
        commits = self._history_of(head)
        state = self._state(commits[-1]) if commits else None
        if state is None:
            return {}
        theirs = {
            name: value
            for name, value in arrived.items()
            if name in state.image and state.image[name] == value
        }
        return {
            name: PropertyOrigin(name, each.value, each.commit, each.merged_by or merge)
            for name, each in self._origins(commits, theirs).items()
            if each.commit is not None
        }

    def _history_of(self, head: CommitId) -> Sequence[Commit]:
        """The commits of the branch that made a commit, up to that commit; empty if it is gone."""
        try:
            branch = self.find_commit(head).branch
            commits = self.bases.current(branch).manifest.log.commits
        except NotFoundError:
            return ()
        ids = [each.id for each in commits]
        return commits[: ids.index(head) + 1] if head in ids else ()


def _is_inner_member(commit: Commit) -> bool:
    """Is the state of the commit that of a later member of its group?"""
    place = commit.extension.group
    return place is not None and place.index < place.size - 1


def _op(before: JsonObject | None, after: JsonObject | None) -> ChangeOp:
    if before is None:
        return ChangeOp.INSERT
    return ChangeOp.DELETE if after is None else ChangeOp.UPDATE
