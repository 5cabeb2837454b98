"""Cleanup: deletes versions and files that no branch, commit or unfinished operation needs.

1. What must stay is decided first, for the whole graph (`commit.retention`). If that fails, nothing
   is deleted. Then each table is cleaned under its lease, by an explicit list of versions made
   before; a version that is newer than the list is never deleted.
2. A branch or a tag that was created meanwhile may show a listed version. So both are read again
   before each table, under the lock that their creation takes; cleanup stops if there is a new one.
   A fork is deleted under its lease, if no branch shows it by then.
3. A file that no version names is deleted once it is too old to belong to a running write.
4. A failure of one table is reported, and cleanup continues with the next table.
5. Lance keeps a file of main that a branch inherits, if the branch records this place. So cleanup
   deletes nothing while a branch records another place (`commit.relocation`).
6. A clone copies every version, so cleanup deletes nothing while a clone runs. A clone that starts
   during a cleanup plans again if a file is gone.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Final

from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks, lock_branches
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.compat.legacy import has_legacy_commits
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.staging import find_staging
from omnigraph.commit.manifest.base import manifest_ref
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.commit_tags import find_tags
from omnigraph.commit.recovery.heal import heal, lease
from omnigraph.commit.retention import Retained, RetentionPolicy, find_retained
from omnigraph.engine.maintain.mapping import find_posting_folders
from omnigraph.engine.schema.staged_leftovers import STAGED
from omnigraph.engine.stages import stage
from omnigraph.errors import (
    CloneRunning,
    NotFoundError,
    ObjectNotFound,
    OmnigraphError,
    UsageError,
)
from omnigraph.ids import SCHEMA_LOCK, BranchName, TableKey, graph_branch, lance_branch
from omnigraph.storage.layout import (
    GROUPS,
    LEASES,
    LEGACY_COMMITS,
    LEGACY_RUNS,
    MANIFEST,
    STAGING,
    group_of,
    lease_line_prefix,
    parse_lease_key,
)
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables import TableRef

DEBRIS_AGE_MS: Final = 60 * 60 * 1000
"""No writer works this long on files without a staging record that protects them."""

WAIT_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class CleanupRequest:
    policy: RetentionPolicy
    is_confirmed: bool = False
    debris_age_ms: int = DEBRIS_AGE_MS


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """What was deleted of one table on one branch; without confirmation, what would be."""

    key: str
    branch: BranchName
    versions_removed: int = 0
    bytes_removed: int = 0
    """Without confirmation only the files that no version names."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CleanupResult:
    is_confirmed: bool
    policy: RetentionPolicy
    tables: tuple[CleanedTable, ...]
    forks: tuple[str, ...]
    """Forks no branch shows, as `path@branch`."""
    residue_bytes: int
    """The bytes left by dead loads, finished renames and old programs."""

    @property
    def bytes_removed(self) -> int:
        return self.residue_bytes + sum(each.bytes_removed for each in self.tables)


def cleanup(context: WriteContext, request: CleanupRequest) -> CleanupResult:
    """Delete what need not stay; without confirmation, report it.

    Raises SchemaLocked, GraphRelocated, CloneRunning, and what reading the manifests raises; then
    nothing was deleted.
    """
    if request.is_confirmed:
        heal(context)
        check_unlocked(context)
        _check_not_cloned(context)
    retained = _find_retained(context, request.policy)
    if request.is_confirmed:
        _check_rooted(context, retained)
    cleaner = _Cleaner(context, request, retained)
    forks = tuple(cleaner.forks())
    tables = tuple(cleaner.tables())
    manifests = tuple(cleaner.manifests())
    return CleanupResult(
        request.is_confirmed, request.policy, (*tables, *manifests), forks, cleaner.residue()
    )


def _find_retained(context: WriteContext, policy: RetentionPolicy) -> Retained:
    """Decided again if a branch was deleted while its manifests were read."""
    while True:
        branches = find_branches(context.stores)
        try:
            return find_retained(context.stores, context.bases, policy)
        except NotFoundError:
            if set(branches) <= set(find_branches(context.stores)):
                raise


def _check_not_cloned(context: WriteContext) -> None:
    """(6) Raises CloneRunning."""
    for job in find_staging(context.stores.objects):
        if job.is_clone and job.is_alive:
            raise CloneRunning(context.stores.root.uri, operation_id=job.operation_id)


def _check_rooted(context: WriteContext, retained: Retained) -> None:
    """(5) Raises GraphRelocated."""
    tables = context.stores.tables
    for path in retained.keys:
        for fork in tables.find_branches(path):
            with suppress(NotFoundError):
                tables.open_at(TableRef(path, fork.name))


@dataclass
class _Cleaner:
    context: WriteContext
    request: CleanupRequest
    retained: Retained
    gone: set[TableRef] = field(default_factory=set)
    """Forks that were deleted, or would be."""

    # forks

    def forks(self) -> Iterator[str]:
        """Forks that no branch shows, longer names first, because they may be children."""
        shown = {ref for ref, versions in self.retained.versions.items() if versions}
        orphans = [
            TableRef(path, each.name)
            for path in self.retained.keys
            for each in self.context.stores.tables.find_branches(path)
            if TableRef(path, each.name) not in shown
        ]
        for ref in sorted(orphans, key=lambda ref: (-len(ref.branch or ""), ref.path)):
            if ref not in self.retained.busy and self._remove_fork(ref):
                self.gone.add(ref)
                yield f"{ref.path}@{ref.branch}"
        if has_legacy_commits(self.context.stores):
            for each in self.context.stores.tables.find_branches(LEGACY_COMMITS):
                if each.name not in self.retained.branches:
                    if self.request.is_confirmed:
                        self.context.stores.tables.clear_branch(LEGACY_COMMITS, each.name)
                    yield f"{LEGACY_COMMITS}@{each.name}"

    def _remove_fork(self, ref: TableRef) -> bool:
        assert ref.branch is not None, "main is no fork"
        if not self.request.is_confirmed:
            return True
        key = self.retained.keys[ref.path]
        try:
            with (
                lease(self.context, LockKey(key, ref.branch), wait_ms_max=WAIT_MS),
                self._nothing_new(),
            ):
                if self._is_shown(ref):
                    return False
                self.context.stores.tables.clear_branch(ref.path, ref.branch)
        except OmnigraphError:
            return False
        return True

    def _is_shown(self, ref: TableRef) -> bool:
        """(2) Does a branch show the fork by now? The first write of a branch creates it."""
        return any(
            TableRef(pin.path, lance_branch(pin.owner)) == ref
            for branch in find_branches(self.context.stores)
            for pin in self.context.bases.current(branch).manifest.pins.values()
        )

    # tables

    def tables(self) -> Iterator[CleanedTable]:
        for path, key in sorted(self.retained.keys.items(), key=lambda item: item[1]):
            try:
                forks = [each.name for each in self.context.stores.tables.find_branches(path)]
            except NotFoundError:
                continue
            refs = [TableRef(path), *(TableRef(path, each) for each in forks)]
            for ref in refs:
                if ref not in self.gone:
                    with stage(f"cleaning up {key}"):
                        cleaned = self._clean(key, ref)
                    yield cleaned

    def _clean(self, key: TableKey, ref: TableRef) -> CleanedTable:
        branch = graph_branch(ref.branch)
        if ref in self.retained.busy:
            return CleanedTable(key, branch, error="an unfinished operation names it")
        try:
            old = self._find_old(ref)
            debris = [] if ref.branch is not None else self._find_debris(ref.path)
            if not self.request.is_confirmed or not (old or debris):
                size = sum(each.size_bytes for each in debris)
                return CleanedTable(key, branch, len(old), size)
            with self._holding(key, branch):
                with self._nothing_new():
                    size = self._delete_versions(ref, old)
                if ref.branch is None:
                    size += self._delete(self._find_debris(ref.path))
        except OmnigraphError as trouble:
            return CleanedTable(key, branch, error=str(trouble))
        return CleanedTable(key, branch, len(old), size)

    def _find_old(self, ref: TableRef) -> list[int]:
        """(1) The versions to delete. The newest version always stays."""
        tables = self.context.stores.tables
        head = tables.open_at(ref)
        wanted = self.retained.versions.get(ref, {head.version})
        # Versions above every shown version are drift, which repair handles.
        newest = min(head.version, max(wanted))
        found = (each.version for each in tables.find_versions(head))
        return [each for each in found if each < newest and each not in wanted]

    def _delete_versions(self, ref: TableRef, versions: Sequence[int]) -> int:
        if not versions:
            return 0
        tables = self.context.stores.tables
        return tables.single_step.delete_versions(tables.open_at(ref), versions)

    def _find_debris(self, path: str) -> list[Listed]:
        """(3) Files that no version names, unless a running operation may have written them."""
        if path in self.retained.staging or any(ref.path == path for ref in self.retained.busy):
            return []
        before_ms = self.context.stores.objects.clock_ms() - self.request.debris_age_ms
        return [
            each
            for each in self.context.stores.tables.find_debris(path)
            if each.modified_ms < before_ms
        ]

    def _delete(self, files: Sequence[Listed]) -> int:
        for each in files:
            self.context.stores.objects.delete(each.key)
        return sum(each.size_bytes for each in files)

    def _holding(self, key: TableKey, branch: BranchName) -> AbstractContextManager[WriteLock]:
        return acquire_write_locks(self.context, branch, [key], wait_ms_max=WAIT_MS)

    @contextmanager
    def _nothing_new(self) -> Iterator[None]:
        """(2) No branch and no tag is new, and none is created meanwhile. Raises UsageError."""
        stores = self.context.stores
        with lock_branches(self.context):
            branches = set(find_branches(stores)) - set(self.retained.branches)
            tags = {each.name for each in find_tags(stores.objects)} - self.retained.tags
            if branches or tags:
                new = ", ".join(sorted({*branches, *tags}))
                raise UsageError(f"{new} was created meanwhile; run cleanup again")
            yield

    # the manifest

    def manifests(self) -> Iterator[CleanedTable]:
        for branch in self.retained.branches:
            ref = manifest_ref(branch)
            try:
                old = self._find_old(ref)
                size = 0
                if self.request.is_confirmed:
                    with self._nothing_new():
                        size = self._delete_versions(ref, old)
            except OmnigraphError as trouble:
                yield CleanedTable(MANIFEST, branch, error=str(trouble))
            else:
                yield CleanedTable(MANIFEST, branch, len(old), size)

    # everything else

    def _remove_leases(self, before_ms: int) -> int:
        """Leases and tickets of deleted branches. A branch of the same name makes its own."""
        objects, size = self.context.stores.volatile, 0
        is_confirmed = self.request.is_confirmed
        with lock_branches(self.context) if is_confirmed else nullcontext():
            branches = find_branches(self.context.stores)
            for listed in objects.list(LEASES):
                named = parse_lease_key(listed.key)
                if named is None or named[1] in branches or listed.modified_ms >= before_ms:
                    continue
                size += listed.size_bytes
                if is_confirmed:
                    objects.delete_prefix(lease_line_prefix(*named))
                    objects.delete(listed.key)
        return size

    def _find_staged(self, key: str) -> list[Listed]:
        """A staged schema file of another program, unless that program holds the lock."""
        stores = self.context.stores
        if stores.tables.find_branch(MANIFEST, SCHEMA_LOCK) is not None:
            return []
        try:
            found = stores.objects.read(key)
        except ObjectNotFound:
            return []
        return [Listed(key, len(found.data), found.modified_ms)]

    def _stale_maps(self) -> int:
        """Delete the mapped files of what no branch shows now; return their bytes."""
        mapped = self.context.stores.mapped
        if mapped is None:
            return 0
        heads = [self.context.bases.current(each).manifest for each in self.retained.branches]
        pins = [pin for manifest in heads for pin in manifest.pins.values()]
        shown = {
            mapped.folder_of(each.path, lance_branch(each.owner), each.version) for each in pins
        }
        stale = mapped.find_stale(shown)
        if stale:  # They may be the files of fragments; only the tables tell.
            stale = mapped.find_stale(shown | find_posting_folders(self.context.stores, pins))
        if self.request.is_confirmed:
            mapped.remove(stale)
        return sum(stale.values())

    def residue(self) -> int:
        """Delete files that belong to no table of a retained commit; return their bytes."""
        objects = self.context.stores.objects
        doomed: dict[str, list[Listed]] = defaultdict(list)
        before_ms = objects.clock_ms() - self.request.debris_age_ms
        living = {each.operation_id for each in find_staging(objects) if each.is_alive}
        for listed in objects.list(STAGING):
            name = listed.key.removeprefix(f"{STAGING}/").partition("/")[0]
            doomed[f"{STAGING}/{name}"].append(listed)
        for folder in ("nodes", "edges"):
            for listed in objects.list(folder):
                table = "/".join(listed.key.split("/")[:2])
                if table not in self.retained.keys:
                    doomed[table].append(listed)
        for folder in LEGACY_RUNS:
            doomed[folder] = list(objects.list(folder))
        for listed in objects.list(GROUPS):
            if group_of(listed.key) not in self.retained.groups:
                doomed[listed.key].append(listed)
        for key in STAGED:
            doomed[key] = self._find_staged(key)
        total = 0
        for prefix, files in doomed.items():
            operation_id = prefix.removeprefix(f"{STAGING}/").partition(".")[0]
            is_old = all(each.modified_ms < before_ms for each in files)
            if files and operation_id not in living and (is_old or prefix in LEGACY_RUNS):
                total += sum(each.size_bytes for each in files)
                if self.request.is_confirmed:
                    is_file = [each.key for each in files] == [prefix]
                    (objects.delete if is_file else objects.delete_prefix)(prefix)
        total += self._remove_leases(before_ms)
        total += self._stale_maps()
        for unfinished in objects.find_unfinished():
            if unfinished.modified_ms < before_ms:
                total += unfinished.size_bytes
                if self.request.is_confirmed:
                    objects.remove_unfinished(unfinished)
        return total
