"""Migrating a branch of an older format, one step at a time.

1. Each step does its work first and sets the stamp last. After a crash the step is repeated, and
   every step may be repeated.
2. A step runs only for a writer: on main when the graph is opened for writing, on a branch before
   its first publish. A reader of an older graph changes nothing.
3. Several processes may run the same step at once. A process that finds the step done continues.
4. History is never lost: a step fails if it cannot read commits, and the automatic cleanup of the
   table format, which old graphs switched on, is switched off.

A migration makes versions of the manifest without a new commit. The versions that old commits
recorded stay, so a snapshot of an old commit is read from the same version as before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa

from omnigraph.commit.compat.legacy import read_legacy_commits
from omnigraph.commit.manifest.base import Base, read_base
from omnigraph.commit.manifest.stamp import CURRENT, KEY, check_stamp, read_stamp
from omnigraph.commit.manifest.updates import encode_commits
from omnigraph.errors import Contention, ManifestCorrupt
from omnigraph.ids import MAIN
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Mark, TableBranch, TableSettings

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION: Final = "lance-schema:unenforced-primary-key:position"
AUTO_CLEANUP_PREFIX: Final = "lance.auto_cleanup."
RUN_PREFIX: Final = "__run__"

BUDGET: Final = 5
"""Retries of a step that other processes run at the same time."""

Step = Callable[[Stores, Base], Base]
T = TypeVar("T")


def migrate(stores: Stores, base: Base) -> Base:
    """The branch at the current format. No I/O if it has the current format.

    Raises FormatTooNew, FormatTooOld, Contention, and any failure to read old commits.
    """
    check_stamp(base.handle, base.manifest.branch)
    base = _stop_auto_cleanup(stores, base)
    while (stamp := read_stamp(base.handle)) < CURRENT:
        base = STEPS[stamp](stores, base)
        base = _set_stamp(stores, base, stamp + 1)
    return base


def _stop_auto_cleanup(stores: Stores, base: Base) -> Base:
    """(4) Old programs let the table format delete old versions. The versions of a manifest are the
    history of the graph.
    """

    def settings(base: Base) -> TableSettings | None:
        unwanted = [key for key in base.handle.config if key.startswith(AUTO_CLEANUP_PREFIX)]
        return TableSettings(config=dict.fromkeys(unwanted)) if unwanted else None

    return _apply_settings(stores, base, settings)


def _key_the_rows(stores: Stores, base: Base) -> Base:
    """1 to 2: mark `object_id` as the key. Without the mark, racing publishes both land."""

    def settings(base: Base) -> TableSettings | None:
        keyed = [field.name for field in base.handle.schema if _is_key(field)]
        if keyed == ["object_id"]:
            return None
        if keyed:
            raise ManifestCorrupt("object_id", reason=f"the key is {', '.join(keyed)}")
        # Set only once: the table format refuses every change of a key, even to the same value.
        return TableSettings(field_metadata={"object_id": {PRIMARY_KEY: "true"}})

    return _apply_settings(stores, base, settings)


def _is_key(field: "pa.Field[pa.DataType]") -> bool:
    metadata = field.metadata or {}
    flag = metadata.get(PRIMARY_KEY.encode(), b"").lower()
    return flag in {b"true", b"1", b"yes"} or PRIMARY_KEY_POSITION.encode() in metadata


def _drop_run_branches(stores: Stores, base: Base) -> Base:
    """2 to 3: remove the branches that stood for runs.

    Only when main is migrated. A branch that was forked from an old state may have format 2 long
    after main; by then a branch with such a name is a user's branch.
    """
    if base.manifest.branch != MAIN:
        return base
    found = stores.tables.find_branches(MANIFEST)
    while doomed := _find_doomed(found):
        for each in doomed:
            stores.tables.clear_branch(MANIFEST, each.name)
        found = tuple(each for each in found if each not in doomed)
    return base


def _find_doomed(branches: Sequence[TableBranch]) -> list[TableBranch]:
    """Run branches without children. A run branch whose child stays also stays."""
    parents = {each.parent for each in branches}
    return [
        each
        for each in branches
        if each.name.lstrip("/").startswith(RUN_PREFIX) and each.name not in parents
    ]


def _move_commits_into_the_manifest(stores: Stores, base: Base) -> Base:
    """3 to 4: write the commits of the branch as rows of its manifest, with one head."""
    branch = base.manifest.branch
    for _ in range(1 + BUDGET):
        if base.manifest.log.rows.num_rows:
            return base
        # Read all commits again: those of `base` end at its version.
        known = replace(base.manifest.log, added=read_legacy_commits(stores, base.handle))
        if known.head is None:
            return base
        rows = encode_commits(known.commits, branch=branch, head=known.head)
        mark = Mark(stores.effects.new_id())
        stores.tables.single_step.swap_rows(base.handle, rows, key="object_id", mark=mark)
        base = read_base(stores, branch)
    raise Contention(branch, attempts=1 + BUDGET)


STEPS: Final[Mapping[int, Step]] = {
    1: _key_the_rows,
    2: _drop_run_branches,
    3: _move_commits_into_the_manifest,
}
"""The step from each format to the next."""


def _set_stamp(stores: Stores, base: Base, stamp: int) -> Base:
    def settings(base: Base) -> TableSettings | None:
        if read_stamp(base.handle) >= stamp:
            return None
        return TableSettings(schema_metadata={KEY: str(stamp)})

    return _apply_settings(stores, base, settings)


def _apply_settings(
    stores: Stores, base: Base, settings: Callable[[Base], TableSettings | None]
) -> Base:
    """Commit the wanted settings, and again after a conflict, until none is wanted.

    Two commits that set one key conflict, so a late process cannot revert a setting.
    """
    branch = base.manifest.branch
    for _ in range(1 + BUDGET):
        wanted = settings(base)
        if wanted is None:
            return base
        staged = stores.tables.stage_settings(base.handle, wanted, Mark(stores.effects.new_id()))
        stores.tables.commit_exact(staged)
        base = read_base(stores, branch)
    raise Contention(branch, attempts=1 + BUDGET)
