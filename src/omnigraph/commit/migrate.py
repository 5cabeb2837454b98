"""Stepping older graphs forward, one branch at a time.

1. Each step does its work first, and the stamp is set last: after a crash the work is done again.
   Every step may be done again.
2. Steps run where writing is allowed: on main when the graph is opened for writing, on a branch
   before its first publish. A reader of an older graph changes nothing.
3. Several processes may take the same step at once; whoever finds it taken goes on from there.
"""

from collections.abc import Callable, Mapping
from typing import Final

from omnigraph.commit.base import Base, read_base
from omnigraph.commit.stamp import CURRENT, KEY, check_stamp, read_stamp
from omnigraph.commit.updates import encode_commits
from omnigraph.errors import Contention, ManifestCorrupt
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Mark, Settings

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
RUN_PREFIX: Final = "__run__"

BUDGET: Final = 5
"""Retries of a write that others make at the same time."""

Step = Callable[[Stores, Base], Base]


def migrate(stores: Stores, base: Base) -> Base:
    """The branch at the current format. Costs nothing when it is there already.

    Raises FormatTooNew, FormatTooOld, Contention.
    """
    branch = base.manifest.branch
    check_stamp(base.handle, branch)
    while (stamp := read_stamp(base.handle)) < CURRENT:
        base = STEPS[stamp](stores, base)
        base = _set_stamp(stores, base, stamp + 1)
    return base


def _key_the_rows(stores: Stores, base: Base) -> Base:
    """1 to 2: `object_id` is declared the key, without which racing publishers both land."""
    for _ in range(1 + BUDGET):
        keyed = [
            field.name
            for field in base.handle.schema
            if (field.metadata or {}).get(PRIMARY_KEY.encode()) == b"true"
        ]
        if keyed == ["object_id"]:
            return base
        if keyed:
            raise ManifestCorrupt("object_id", reason=f"the key is {', '.join(keyed)}")
        settings = Settings(field_metadata={"object_id": {PRIMARY_KEY: "true"}})
        base = _commit_settings(stores, base, settings)
    raise Contention(base.manifest.branch, attempts=1 + BUDGET)


def _drop_run_branches(stores: Stores, base: Base) -> Base:
    """2 to 3: branches that once stood for runs are removed."""
    for found in stores.tables.find_branches(MANIFEST):
        if found.name.lstrip("/").startswith(RUN_PREFIX):
            stores.tables.clear_branch(MANIFEST, found.name)
    return base


def _move_commits_into_the_manifest(stores: Stores, base: Base) -> Base:
    """3 to 4: the commits of the branch become rows of its manifest, with one head."""
    branch = base.manifest.branch
    for _ in range(1 + BUDGET):
        log = base.manifest.log
        if log.rows.num_rows or not log.commits:
            return base
        mark = Mark(stores.effects.new_id())
        rows = encode_commits(log.commits)
        stores.tables.residual.swap_rows(base.handle, rows, key="object_id", mark=mark)
        base = read_base(stores, branch)
    raise Contention(branch, attempts=1 + BUDGET)


STEPS: Final[Mapping[int, Step]] = {
    1: _key_the_rows,
    2: _drop_run_branches,
    3: _move_commits_into_the_manifest,
}
"""From each format to the next."""


def _set_stamp(stores: Stores, base: Base, stamp: int) -> Base:
    for _ in range(1 + BUDGET):
        if read_stamp(base.handle) >= stamp:
            return base
        base = _commit_settings(stores, base, Settings(schema_metadata={KEY: str(stamp)}))
    raise Contention(base.manifest.branch, attempts=1 + BUDGET)


def _commit_settings(stores: Stores, base: Base, settings: Settings) -> Base:
    """Try to change what the manifest says about itself; the branch as it is afterwards."""
    staged = stores.tables.stage_settings(base.handle, settings, Mark(stores.effects.new_id()))
    stores.tables.commit_exact(staged)
    return read_base(stores, base.manifest.branch)
