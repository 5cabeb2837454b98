"""The merged graph before it is published, as a snapshot that no other reader can see.

Each table that the plan changes gets detached versions: versions outside the history of the table,
which no listing shows. They are removed when the reader is done; what a dead process leaves of them
is debris, which cleanup removes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.commit.leases.staging import staging
from omnigraph.commit.manifest.change import Stage, TableWrite
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.merge.plan import MergePlan, MergePlanner
from omnigraph.engine.merge.table_plan import TablePlan
from omnigraph.engine.merge.writes import stages_by, stages_of
from omnigraph.engine.stages import stage
from omnigraph.ids import OperationId, TableKey, Version
from omnigraph.storage.tables import Handle, Mark, Staged


def table_writes(planner: MergePlanner, plan: MergePlan) -> tuple[TableWrite, ...]:
    """The commits to every table whose rows the merge writes itself."""
    pins = plan.target.manifest.pins
    return tuple(
        TableWrite(key, pins[key].version, _stages(planner, each))
        for key, each in sorted(plan.plans.items())
        if key not in plan.pointers
    )


def _stages(planner: MergePlanner, plan: TablePlan) -> tuple[Stage, ...]:
    tables = planner.context.stores.tables
    workers = planner.workers.find_for_writing(plan)
    return stages_of(tables, plan) if workers is None else stages_by(workers, tables, plan)


@contextmanager
def staged_result(planner: MergePlanner, plan: MergePlan) -> Iterator[ManifestSnapshot]:
    """What the target would show once the plan is carried out."""
    context, manifest = planner.context, plan.target.manifest
    stores = context.stores
    pins = {key: planner.source.pins[key] for key in plan.pointers}
    made: list[tuple[Staged, Handle]] = []
    marker = staging(
        stores.objects,
        OperationId(stores.effects.new_id()),
        manifest.branch,
        {key: pin.version for key, pin in manifest.pins.items()},
        context.timing,
    )
    with marker:
        try:
            with stage("staging the merged graph"):
                for write in table_writes(planner, plan):
                    pins[write.key] = _detach(planner, plan, write, made)
            yield ManifestSnapshot(
                manifest.branch, manifest.version, manifest.head, {**manifest.pins, **pins}
            )
        finally:
            for staged, handle in reversed(made):
                stores.tables.remove_detached(staged, handle)


def _detach(
    planner: MergePlanner,
    plan: MergePlan,
    write: TableWrite,
    made: list[tuple[Staged, Handle]],
) -> Pin:
    """The rows of one table after the merge, as a detached version."""
    stores, pin = planner.context.stores, plan.target.manifest.pins[TableKey(write.key)]
    handle = planner.context.open_pin(pin, plan.target)
    for each in write.stages:
        staged = each(handle, Mark(stores.effects.new_id()))
        assert isinstance(staged, Staged), "a merge writes rows"
        handle = stores.tables.commit_detached(staged)
        made.append((staged, handle))
    return replace(pin, version=Version(handle.version), row_count=handle.row_count)
