"""What a merge looks at before it plans: in a remote store, everything together (D30).

Besides what every write looks at (`commit.attempt.entry`) a merge reads its source. If the leases
of the target were cached before and since, the target is not read again under them.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.entry import WriteEntry, enter
from omnigraph.commit.attempt.schema_lock import check_unlocked
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.model import is_same_version
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.errors import BranchNotFound
from omnigraph.ids import TableKey, table_key


@dataclass(frozen=True, slots=True)
class MergeEntry:
    target: Base
    source: Base | None
    """None if the source is not a branch, or a branch that does not exist."""
    write: WriteEntry | None
    """None if the merge must look again under its leases."""


def enter_merge(
    context: WriteContext, catalog: Catalog, request: MergeRequest, *, is_picked: bool
) -> MergeEntry:
    """Recover dead writers, unless the merge is a dry run, and read both branches.

    Raises BranchNotFound for the target, SchemaLocked, and what `heal` raises.
    """
    targets: list[Base] = []
    sources: list[Base] = []

    def read_target() -> None:
        targets.append(context.bases.current(request.into))

    def read_source() -> None:
        # A repeated request is answered though its branch was deleted.
        with suppress(BranchNotFound):
            sources.append(context.bases.current(request.source))

    beside = [] if is_picked else [read_source]
    if not request.dry_run:
        tables = _find_tables(context, catalog, request)
        entry = enter(context, request.into, tables, beside=beside)
        if entry is not None:
            return MergeEntry(entry.base, sources[0] if sources else None, entry)
        sources.clear()
        check_unlocked(context)
    context.stores.together([read_target, *beside])
    return MergeEntry(targets[0], sources[0] if sources else None, None)


def _find_tables(
    context: WriteContext, catalog: Catalog, request: MergeRequest
) -> Collection[TableKey]:
    """The tables that the merge will probably lock, by what this process knows of both branches.

    Those that differ, and the nodes at the ends of such edges. The plan decides which it locks.
    """
    target, source = context.bases.known(request.into), context.bases.known(request.source)
    if target is None or source is None:
        return ()
    ours, theirs = target.manifest.pins, source.manifest.pins
    keys = {
        key for key in ours.keys() & theirs.keys() if not is_same_version(ours[key], theirs[key])
    }
    ends = {
        table_key("node", end)
        for each in catalog.edges
        if each.table_key in keys
        for end in (each.source, each.target)
    }
    return sorted((keys | ends) & ours.keys())
