"""Retention: which versions cleanup must keep.

Cleanup keeps every version that a branch shows, a retained commit shows, or an operation may need.
A policy retains the newest commits of each branch by count or by age, and always the head. The
fork point of every branch, and the commits last merged, are always retained: a merge needs them
(D7). So is every commit that has a tag.

The manifest of a branch lists every version that the branch ever showed. The versions at or above
those of the oldest retained commit are the versions of the retained commits. Two readings of a
manifest therefore cover thousands of commits. A change of schema may give a key another table, so
each such change costs one more reading.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.commit.leases.staging import find_staging
from omnigraph.commit.manifest.base import Base, Bases, manifest_ref, read_past
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.commit_tags import CommitTag, find_tags
from omnigraph.commit.manifest.model import TABLE_VERSION, Manifest
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import find_sidecars, read_sidecar
from omnigraph.errors import NotFoundError
from omnigraph.ids import MAIN, BranchName, TableKey, Version, graph_branch, lance_branch
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ScanRequest, TableRef


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which commits are retained. A commit is dropped only if it exceeds both limits."""

    keep: int | None = None
    older_than_ms: int | None = None

    def select(self, commits: Sequence[Commit], now_ms: int) -> list[Commit]:
        """The retained commits, of commits given newest first. The newest is always retained.

        A group is retained whole, and with it the commit before it: the changes of each member are
        found by comparing the group with that state (D29).
        """
        kept = {
            at
            for at, commit in enumerate(commits)
            if at == 0 or not (self._is_beyond(at) and self._is_old(commit, now_ms))
        }
        groups = {place.id for at in kept if (place := commits[at].extension.group) is not None}
        for at, commit in enumerate(commits):
            place = commit.extension.group
            if place is not None and place.id in groups:
                kept |= {at} if place.index else {at, at + 1}
        return [commit for at, commit in enumerate(commits) if at in kept]

    def _is_beyond(self, at: int) -> bool:
        return self.keep is None or at >= self.keep

    def _is_old(self, commit: Commit, now_ms: int) -> bool:
        if self.older_than_ms is None:
            return True
        return now_ms - commit.created_at_us // 1000 > self.older_than_ms


@dataclass
class Retained:
    """What cleanup must keep."""

    branches: tuple[BranchName, ...]
    tags: frozenset[str] = frozenset()
    versions: dict[TableRef, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The versions to keep of tables and of the manifest, on each of their branches."""
    keys: dict[str, TableKey] = field(default_factory=dict)
    """The path of every table that a retained commit shows, and one key of it."""
    busy: set[TableRef] = field(default_factory=set)
    """Tables that a sidecar names: cleanup removes nothing of them."""
    groups: set[str] = field(default_factory=set)
    """The groups whose members are retained commits."""
    staging: set[str] = field(default_factory=set)
    """The paths of tables for which a running bulk job may have staged files."""

    def show(self, manifest: Manifest) -> None:
        """Keep every version that a manifest shows."""
        for pin in manifest.pins.values():
            self.keys.setdefault(pin.path, pin.key)
            self.versions[TableRef(pin.path, lance_branch(pin.owner))].add(pin.version)


def find_retained(stores: Stores, bases: Bases, policy: RetentionPolicy) -> Retained:
    """Raises if a manifest cannot be read; cleanup then removes nothing."""
    tags = find_tags(stores.objects)
    retained = Retained(find_branches(stores), frozenset(each.name for each in tags))
    now_ms = stores.effects.now_ms()
    read = {branch: bases.reread(branch) for branch in retained.branches}
    for branch, base in read.items():
        own = [each for each in reversed(base.manifest.log.commits) if each.branch == branch]
        kept = policy.select(own, now_ms)
        retained.versions[manifest_ref(branch)].add(base.manifest.version)
        retained.show(base.manifest)
        for each in kept:
            retained.versions[manifest_ref(branch)].add(each.manifest_version)
            if each.extension.group is not None:
                retained.groups.add(each.extension.group.id)
        _retain_window(stores, retained, base, kept)
    _retain_points(stores, retained, read)
    _retain_tags(stores, retained, read, tags)
    _retain_forks(stores, retained)
    _retain_operations(stores, retained, read)
    return retained


def _retain_window(stores: Stores, retained: Retained, base: Base, kept: Sequence[Commit]) -> None:
    """Keep every version that the retained commits of a branch show."""
    samples = [base.manifest]
    for at, commit in enumerate(kept):
        is_oldest = at == len(kept) - 1
        # Under another schema, a key may have named another table.
        is_edge = at > 0 and _hash(commit) != _hash(kept[at - 1])
        if not is_oldest and not is_edge:
            continue
        try:
            samples.append(read_past(stores, base.manifest.branch, commit.manifest_version))
        except NotFoundError:
            continue
    floors: dict[TableKey, int] = {}
    paths: dict[TableKey, set[str]] = defaultdict(set)
    for manifest in samples:
        retained.show(manifest)
        for key, pin in manifest.pins.items():
            floors[key] = min(pin.version, floors.get(key, pin.version))
            paths[key].add(pin.path)
    for key, version, owner in _published(stores, base):
        if version >= floors.get(key, version + 1):
            for path in paths[key]:
                retained.versions[TableRef(path, owner)].add(version)


def _hash(commit: Commit) -> str | None:
    return commit.extension.schema_hash


def _published(stores: Stores, base: Base) -> Iterator[tuple[TableKey, int, str | None]]:
    request = ScanRequest(
        columns=("table_key", "table_version", "table_branch"),
        where=f"object_type = '{TABLE_VERSION}'",
    )
    for row in stores.tables.read(base.handle, request).to_pylist():
        yield TableKey(row["table_key"]), int(row["table_version"]), row["table_branch"]


def _retain_points(stores: Stores, retained: Retained, read: Mapping[BranchName, Base]) -> None:
    """Keep the fork point of each branch, and the commits last merged."""
    points: set[tuple[BranchName, Version]] = set()
    for each in stores.tables.find_branches(MANIFEST):
        points.add((graph_branch(each.parent), Version(each.parent_version)))
    for base in read.values():
        log = base.manifest.log
        known = {commit.id: commit for commit in (*log.commits, *log.ancestors)}
        last: dict[BranchName, Commit] = {}
        for commit in log.commits:
            merged = known.get(commit.merged_parent) if commit.merged_parent else None
            if merged is not None:
                last[merged.branch] = merged
        points |= {(each.branch, each.manifest_version) for each in last.values()}
    for branch, version in points:
        if branch not in read:
            continue
        retained.versions[manifest_ref(branch)].add(version)
        try:
            retained.show(read_past(stores, branch, version))
        except NotFoundError:
            continue


def _retain_tags(
    stores: Stores,
    retained: Retained,
    read: Mapping[BranchName, Base],
    tags: Sequence[CommitTag],
) -> None:
    """Keep what every tagged commit shows."""
    for tag in tags:
        found = (base.manifest.log.find(tag.commit_id) for base in read.values())
        commit = next((each for each in found if each is not None), None)
        if commit is None or commit.branch not in read:
            continue
        retained.versions[manifest_ref(commit.branch)].add(commit.manifest_version)
        with suppress(NotFoundError):
            retained.show(read_past(stores, commit.branch, commit.manifest_version))


def _retain_forks(stores: Stores, retained: Retained) -> None:
    """Keep the version that a fork starts from: the fork reads its files."""
    for path in list(retained.keys):
        for fork in stores.tables.find_branches(path):
            retained.versions[TableRef(path, fork.parent)].add(fork.parent_version)


def _retain_operations(stores: Stores, retained: Retained, read: Mapping[BranchName, Base]) -> None:
    """Keep every table that a sidecar names, and the versions that bulk jobs started from."""
    main = read[MAIN].manifest
    for operation_id in find_sidecars(stores.objects):
        sidecar = read_sidecar(stores.objects, operation_id)
        if sidecar is None:
            continue
        if isinstance(sidecar, Sidecar):
            for write in sidecar.writes:
                retained.busy.add(TableRef(write.path, lance_branch(write.branch)))
                retained.keys.setdefault(write.path, write.key)
            continue
        for pin in sidecar.pins:
            path = main.paths.get(pin.key)
            if path is not None:
                retained.busy.add(TableRef(path, lance_branch(pin.branch)))
    for job in find_staging(stores.objects):
        base = read.get(job.branch)
        if not job.is_alive or base is None:
            continue
        for key, version in job.tables.items():
            shown = base.manifest.pins.get(key)
            if shown is not None:
                ref = TableRef(shown.path, lance_branch(shown.owner))
                retained.versions[ref].add(version)
                retained.staging.add(shown.path)
