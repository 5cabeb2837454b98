"""Cloning: a full copy of a live graph at another place, with its history.

1. The source is not locked. A staging record in the source says that a clone runs, and cleanup
   then deletes nothing (D8). Other operations may delete files that are planned, such as the
   deletion of a branch; a file that is gone makes the clone plan again.
2. The target is claimed by `__clone.json` and written under a lease. A clone that is repeated
   continues: a file that was copied is not copied again.
3. The source of the schema is written last. Without it no program opens the target, whatever else
   is there. Files of an earlier plan that this plan does not name are deleted before.
4. The clone is another graph, with an id of its own.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.holder import AcquireMode, Leases
from omnigraph.commit.leases.lease import Timing
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.create import find_remains, has_manifest, read_clone_claim
from omnigraph.commit.manifest.identity import GraphIdentity
from omnigraph.commit.manifest.schema_files import write_rest
from omnigraph.engine.maintain.clone_plan import ClonePlan, CloneRequest, plan_clone
from omnigraph.engine.stages import advance_stage, stage
from omnigraph.errors import (
    CloneRunning,
    GraphExists,
    GraphIncomplete,
    LeaseHeld,
    NotFoundError,
    TableCorrupt,
    UsageError,
)
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey
from omnigraph.storage.layout import (
    CLONE_CLAIM,
    IDENTITY,
    MANIFEST,
    SCHEMA_SOURCE,
    SCHEMAS,
    TAGS,
    TYPE_FOLDERS,
)
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import Stores

T = TypeVar("T")

CLONE_LOCK_KEY: Final = LockKey(TableKey("clone"), MAIN)

PLANS_MAX: Final = 4
"""How often files may vanish from the source before the clone gives up."""

PART_BYTES: Final = 8 << 20
"""A larger file is read and written in parts of this size."""

_WAIT_MS: Final = 2_000
_THREADS_IN_A_BUCKET: Final = 8


@dataclass(frozen=True, slots=True)
class CloneResult:
    source: str
    uri: str
    graph_id: str
    branches: tuple[BranchName, ...]
    commits: int
    files: int
    bytes_copied: int
    """Without the files that an earlier, unfinished clone had copied."""


def clone(source: Stores, target: Stores, request: CloneRequest, timing: Timing) -> CloneResult:
    """Copy a graph. The source must be a graph, and the target must be empty.

    Raises GraphExists, GraphIncomplete, CloneRunning, UsageError for the target; BranchNotFound,
    CommitNotFound, VersionNotFound, TableCorrupt for the source.
    """
    _check_apart(source, target)
    _check_free(target)
    operation_id = OperationId(source.effects.new_id())
    leases = Leases(target.volatile, target.effects, timing)
    try:
        with (
            leases.hold(
                [CLONE_LOCK_KEY], operation_id, AcquireMode.TAKE_OVER, wait_ms_max=_WAIT_MS
            ) as held,
            staging(source.objects, operation_id, MAIN, {}, timing, is_clone=True),
        ):
            return _Clone(source, target, request, held).run()
    except LeaseHeld as busy:
        raise CloneRunning(target.root.uri, operation_id=busy.owner) from busy


def _check_apart(source: Stores, target: Stores) -> None:
    """Raises UsageError if one place contains the other."""
    ours, theirs = (f"{each.root.uri.rstrip('/')}/" for each in (source, target))
    if ours.startswith(theirs) or theirs.startswith(ours):
        raise UsageError(f"{target.root.uri} and {source.root.uri} are not two places")


def _check_free(target: Stores) -> None:
    """(2) Raises GraphExists, GraphIncomplete."""
    is_claimed = read_clone_claim(target.objects) is not None
    if target.objects.exists(SCHEMA_SOURCE) and is_claimed:
        # (3) It died after its last file.
        target.objects.delete(CLONE_CLAIM)
        is_claimed = False
    if is_claimed:
        return
    if has_manifest(target):
        raise GraphExists(target.root.uri)
    if remains := find_remains(target):
        raise GraphIncomplete(target.root.uri, found=remains)


class _Clone:
    def __init__(
        self, source: Stores, target: Stores, request: CloneRequest, held: HeldLeases
    ) -> None:
        self.source = source
        self.target = target
        self.request = request
        self.held = held
        self.is_local = source.root.is_local and target.root.is_local
        self.bytes_copied = 0

    def run(self) -> CloneResult:
        claim = {"source": self.source.root.uri, "operation_id": self.held.operation_id}
        self.target.objects.put_over(CLONE_CLAIM, json.dumps(claim).encode())
        plan = self._copy_until_whole()
        identity = GraphIdentity(self.target.effects.new_id(), self.target.root.uri)
        self.held.check()
        self.target.objects.put_over(IDENTITY, identity.encode())
        write_rest(self.target.objects, plan.schema)
        self.target.objects.put_new(SCHEMA_SOURCE, plan.schema.source.encode())  # (3)
        self.target.objects.delete(CLONE_CLAIM)
        return CloneResult(
            self.source.root.uri,
            self.target.root.uri,
            identity.graph_id,
            plan.branches,
            plan.commits,
            len(plan.files) + len(plan.versions),
            self.bytes_copied,
        )

    def _copy_until_whole(self) -> ClonePlan:
        """(1) Plan and copy, again if a planned file is gone."""
        for plans_left in reversed(range(PLANS_MAX)):
            try:
                with stage("planning"):
                    plan = plan_clone(self.source, self.request)
                self._copy(plan)
            except (NotFoundError, TableCorrupt):
                if not plans_left:
                    raise
            else:
                return plan
        raise AssertionError("the last plan is carried out, or raises")

    def _copy(self, plan: ClonePlan) -> None:
        planned = {*plan.files, *(each.key for each in plan.versions)}
        present = dict(self._list_target())
        for key in sorted(present.keys() - planned):
            self.target.objects.delete(key)
        # Only files of data have names that are never used again.
        left = [
            (key, size)
            for key, size in plan.files.items()
            if present.get(key) != size or key.endswith(".json") or key.startswith(TAGS)
        ]
        with stage("copying"):
            self._each(left, lambda file: self._copy_file(*file))
        with stage("copying versions"):
            self._each(plan.versions, lambda each: self._copy_version(each.path, each.key))

    def _list_target(self) -> Iterator[tuple[str, int]]:
        for folder in (*TYPE_FOLDERS, MANIFEST, SCHEMAS, TAGS):
            for listed in self.target.objects.list(folder):
                yield listed.key, listed.size_bytes

    def _each(self, items: Sequence[T], work: Callable[[T], int]) -> None:
        """One file after the other on a disk; several requests at once in a bucket."""
        if self.is_local:
            self._count(map(work, items), len(items))
            return
        with ThreadPoolExecutor(_THREADS_IN_A_BUCKET) as pool:
            self._count(pool.map(work, items), len(items))

    def _count(self, sizes: Iterator[int], total: int) -> None:
        for done, size in enumerate(sizes, 1):
            self.held.check()
            self.bytes_copied += size
            advance_stage(done, total)

    def _copy_file(self, key: str, size: int) -> int:
        if size <= PART_BYTES:
            self.target.objects.put_over(key, self.source.objects.read(key).data)
        else:
            self.target.objects.put_parts(key, _read_parts(self.source.objects, key, size))
        return size

    def _copy_version(self, path: str, key: str) -> int:
        data = self.target.tables.reroot(path, self.source.objects.read(key).data)
        self.target.objects.put_over(key, data)
        return len(data)


def _read_parts(objects: Objects, key: str, size: int) -> Iterator[bytes]:
    for offset in range(0, size, PART_BYTES):
        yield objects.read_range(key, offset, min(PART_BYTES, size - offset))
