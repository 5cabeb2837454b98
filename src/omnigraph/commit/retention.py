"""What must stay: everything a branch shows, a retained commit shows, or an operation may need.

Policies retain commits, and commits retain versions of tables. Of each branch the newest commits
are retained, as many or as young as the policy says, and always its head; whatever the policy says,
so is the point a branch was forked from and what was last merged from where, because merging needs
them (D7).

A branch's manifest lists every version it ever showed. Those at or above the versions shown by the
oldest retained commit are the versions its retained commits show, so two readings of a manifest
tell what thousands of commits retain. Only where the schema changed in between do keys mean other
tables, and there a further reading is made.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.commit.leases.staging import find_staging
from omnigraph.commit.manifest.base import Base, Bases, manifest_ref, read_past
from omnigraph.commit.manifest.branches import find_branches
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
    """Which commits are retained. Of two limits both must be exceeded for a commit to go."""

    keep: int | None = None
    older_than_ms: int | None = None

    def select(self, commits: Sequence[Commit], now_ms: int) -> list[Commit]:
        """The commits that stay, of those given newest first. The newest always does."""
        return [
            commit
            for at, commit in enumerate(commits)
            if at == 0 or not (self._is_beyond(at) and self._is_old(commit, now_ms))
        ]

    def _is_beyond(self, at: int) -> bool:
        return self.keep is None or at >= self.keep

    def _is_old(self, commit: Commit, now_ms: int) -> bool:
        if self.older_than_ms is None:
            return True
        return now_ms - commit.created_at_us // 1000 > self.older_than_ms


@dataclass
class Retained:
    """What must stay."""

    branches: tuple[BranchName, ...]
    versions: dict[TableRef, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Of tables and of the manifest itself, on each of their branches."""
    keys: dict[str, TableKey] = field(default_factory=dict)
    """The paths of all tables some retained commit shows, and a key of each."""
    busy: set[TableRef] = field(default_factory=set)
    """Tables an unresolved operation names: nothing of theirs may go."""
    staging: set[str] = field(default_factory=set)
    """The paths of tables that a bulk job under way may have written files of."""

    def show(self, manifest: Manifest) -> None:
        """Everything a manifest shows stays."""
        for pin in manifest.pins.values():
            self.keys.setdefault(pin.path, pin.key)
            self.versions[TableRef(pin.path, lance_branch(pin.owner))].add(pin.version)


def find_retained(stores: Stores, bases: Bases, policy: RetentionPolicy) -> Retained:
    """Raises whatever reading a manifest raises: then nothing may go."""
    retained = Retained(find_branches(stores))
    now_ms = stores.effects.now_ms()
    read = {branch: bases.reread(branch) for branch in retained.branches}
    for branch, base in read.items():
        own = [each for each in reversed(base.manifest.log.commits) if each.branch == branch]
        kept = policy.select(own, now_ms)
        retained.versions[manifest_ref(branch)].add(base.manifest.version)
        retained.show(base.manifest)
        for each in kept:
            retained.versions[manifest_ref(branch)].add(each.manifest_version)
        _retain_window(stores, retained, base, kept)
    _retain_points(stores, retained, read)
    _retain_forks(stores, retained)
    _retain_operations(stores, retained, read)
    return retained


def _retain_window(stores: Stores, retained: Retained, base: Base, kept: Sequence[Commit]) -> None:
    """Every version the retained commits of a branch show, newest commit first."""
    samples = [base.manifest]
    for at, commit in enumerate(kept):
        is_oldest = at == len(kept) - 1
        # Under another schema than the next one, keys may have meant other tables.
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
    """Where branches came from, and what was last merged from where."""
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


def _retain_forks(stores: Stores, retained: Retained) -> None:
    """The version a fork of a table starts from holds files that the fork reads."""
    for path in list(retained.keys):
        for fork in stores.tables.find_branches(path):
            retained.versions[TableRef(path, fork.parent)].add(fork.parent_version)


def _retain_operations(stores: Stores, retained: Retained, read: Mapping[BranchName, Base]) -> None:
    """What sidecars name is not touched at all; what a bulk job started from stays."""
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
    for note in find_staging(stores.objects):
        base = read.get(note.branch)
        if not note.is_alive or base is None:
            continue
        for key, version in note.tables.items():
            noted = base.manifest.pins.get(key)
            if noted is not None:
                ref = TableRef(noted.path, lance_branch(noted.owner))
                retained.versions[ref].add(version)
                retained.staging.add(noted.path)
