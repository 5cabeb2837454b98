"""Compaction on Lance: rows of small fragments are written together, and no row changes.

`plan_compaction` decides which fragments are combined. Any process that can read the table may
carry out a task of the plan; the result is a text. The process that has all results commits them
(`lance.commit`). Fragments that different segments of an index cover are never combined. Fragments
with null blobs that an older Lance wrote are left out: Lance would copy the nulls as empty blobs.
So are fragments that a branch has inherited together with their index.
"""

from collections.abc import Sequence
from typing import Any

from lance.optimize import Compaction, CompactionTask, RewriteResult

from omnigraph.jsontext import read_json
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.index import columns_of, identity_of
from omnigraph.storage.lance.old_blobs import blob_columns, has_nulls
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import CompactedFragments, StagedCompaction


def stage_compaction(
    store: LanceStore, handle: LanceHandle, *, rows_per_file: int
) -> StagedCompaction | None:
    tasks = _plan(store, handle, rows_per_file)
    if not tasks:
        return None
    with translating(handle.ref, "compact"):
        return _stage(handle, [each.execute(handle.dataset) for each in tasks])


def plan_compaction(
    store: LanceStore, handle: LanceHandle, *, rows_per_file: int
) -> tuple[str, ...]:
    return tuple(str(each.json()) for each in _plan(store, handle, rows_per_file))


def run_compaction_task(store: LanceStore, handle: LanceHandle, task: str) -> str:
    with translating(handle.ref, "compact"):
        reader: Any = CompactionTask
        outcome = reader.from_json(task).execute(handle.dataset)
    store.flush(handle.ref, table_files.written_data(outcome.new_fragments))
    return str(outcome.json())


def stage_compaction_results(handle: LanceHandle, outcomes: Sequence[str]) -> StagedCompaction:
    with translating(handle.ref, "compact"):
        reader: Any = RewriteResult
        return _stage(handle, [reader.from_json(each) for each in outcomes])


def _plan(store: LanceStore, handle: LanceHandle, rows_per_file: int) -> list[Any]:
    """Lance's types of tasks and results lack the methods used here, so they are `Any`."""
    with translating(handle.ref, "plan a compaction of"):
        plan = Compaction.plan(handle.dataset, {"target_rows_per_fragment": rows_per_file})
        inherited = _find_inherited(handle)
        return [
            each
            for each in plan.tasks
            if not _loses_nulls(store, handle, each)
            and inherited.isdisjoint(int(fragment.id) for fragment in each.fragments)
        ]


def _find_inherited(handle: LanceHandle) -> set[int]:
    """The fragments that an index of another branch covers.

    Lance writes the index of a compacted fragment anew, here, and records that it is in the folder
    of the other branch. The next read by that index would fail.
    """
    return {
        int(fragment_id)
        for index in handle.dataset.describe_indices()
        for segment in index.segments
        if segment.base_id is not None
        for fragment_id in segment.fragment_ids
    }


def _loses_nulls(store: LanceStore, handle: LanceHandle, task: Any) -> bool:
    return bool(blob_columns(handle.dataset)) and any(
        has_nulls(store, handle.dataset, fragment) for fragment in task.fragments
    )


def _stage(handle: LanceHandle, outcomes: list[Any]) -> StagedCompaction:
    columns = columns_of(handle.dataset)
    return StagedCompaction(
        ref=handle.ref,
        read_version=handle.version,
        fragments_before=len(handle.dataset.get_fragments()),
        groups=tuple(_group(each, columns) for each in outcomes),
        payload=(handle, outcomes),
    )


def _group(outcome: Any, columns: str) -> CompactedFragments:
    # There may be many fragments, and Lance is slow to build objects for them.
    before = read_json(outcome.json())["original_fragments"]
    after = sorted(outcome.new_fragments, key=lambda each: int(each.physical_rows))
    return CompactedFragments(
        before=tuple(int(each["id"]) for each in before),
        after=tuple(identity_of(each, columns) for each in after),
    )
