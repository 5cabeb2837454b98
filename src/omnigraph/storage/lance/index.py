"""Indices on Lance: built beside the table, attached by a commit.

An index is a set of segments under one name; each segment covers some fragments. New fragments get
a segment of their own, whose cost depends on their size and not on the size of the table. A
full-text segment must be finalised even if it is the only one: otherwise every search fails because
a file is missing. A column may have several indices, of different kinds and names.
"""

import hashlib
import math
from collections.abc import Collection, Sequence
from typing import Any, Final

from lance import LanceDataset, LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index as LanceIndex
from lance.fragment import FragmentMetadata

from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.stage import LancePayload
from omnigraph.storage.lance.store import LanceHandle, translating, unshared
from omnigraph.storage.lance.table_files import name_of
from omnigraph.storage.tables import (
    Fragment,
    Index,
    IndexKind,
    IndexScope,
    IndexSpec,
    Mark,
    Staged,
    TableStats,
)

FRAGMENTS_PER_SEGMENT: Final = 32
"""The number of fragments per segment, as long as that makes few segments."""

SEGMENTS_PER_BUILD_MAX: Final = 8

_OVER_VECTORS: Final = (IndexKind.IVF_FLAT, IndexKind.IVF_PQ)


def inspect(handle: LanceHandle) -> TableStats:
    dataset = handle.dataset
    with translating(handle.ref, "inspect"):
        columns = columns_of(dataset)
        fragments = tuple(
            Fragment(
                fragment_id=each.fragment_id,
                row_count=each.metadata.num_rows,
                deleted_count=each.metadata.num_deletions,
                identity=identity_of(each.metadata, columns),
                written=_digest(_files_of(each.metadata), columns),
            )
            for each in dataset.get_fragments()
        )
        return TableStats(fragments, tuple(_find_indices(dataset)), dict(dataset.config()))


def columns_of(dataset: LanceDataset) -> str:
    return repr(sorted((each.id(), each.name()) for each in dataset.lance_schema.fields()))


def identity_of(fragment: FragmentMetadata, columns: str) -> str:
    """Data files never change and their names are never used twice; a column may be renamed."""
    gone = fragment.deletion_file
    return _digest(_files_of(fragment), None if gone is None else gone.path(fragment.id), columns)


def _files_of(fragment: FragmentMetadata) -> list[str]:
    return [name_of(each) for each in fragment.files]


def _digest(*told: object) -> str:
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _find_indices(dataset: LanceDataset) -> list[Index]:
    return [
        Index(
            name=each.name,
            column=each.field_names[0],
            kind=each.index_type,
            covered=frozenset(
                number for segment in each.segments for number in segment.fragment_ids
            ),
            segment_count=len(each.segments),
        )
        for each in dataset.describe_indices()
    ]


def stage_indices(
    handle: LanceHandle, specs: Sequence[IndexSpec], scope: IndexScope, mark: Mark
) -> Staged | None:
    dataset = unshared(handle)
    with translating(handle.ref, "index"):
        built: list[LanceIndex] = []
        replaced: list[LanceIndex] = []
        for spec in specs:
            segments = _find_segments(dataset, spec)
            fragment_ids, superseded = _plan(dataset, spec, segments, scope)
            if not _has_values(dataset, spec, fragment_ids):
                continue
            fresh = _build(dataset, spec, fragment_ids)
            if not superseded and not _go_together(segments, fresh):
                superseded = segments
                fresh = _build(dataset, spec, _every_fragment(dataset))
            built += fresh
            replaced += superseded
    if not built:
        return None
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        payload=LancePayload(
            handle,
            LanceOperation.CreateIndex(built, replaced),
            tuple(table_files.written_indices(built)),
        ),
    )


def restage_indices(
    built: Staged, handle: LanceHandle, names: Collection[str], mark: Mark
) -> Staged | None:
    payload = built.payload
    assert isinstance(payload, LancePayload), "staged by another store"
    assert payload.base is not None, "an index is built on a table"
    operation = payload.operation
    assert isinstance(operation, LanceOperation.CreateIndex), operation
    fresh = [each for each in operation.new_indices if each.name in names]
    replaced = [each for each in operation.removed_indices if each.name in names]
    covered = {number for each in fresh for number in each.fragment_ids}
    with translating(handle.ref, "index"):
        then, now = (_footing(each.dataset, covered, names) for each in (payload.base, handle))
    if not fresh or then != now:
        return None
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        payload=LancePayload(
            handle,
            LanceOperation.CreateIndex(fresh, replaced),
            tuple(table_files.written_indices(fresh)),
        ),
    )


def _footing(dataset: LanceDataset, fragment_ids: set[int], names: Collection[str]) -> object:
    """What must not change between the build of indices and their commit.

    Rows of a covered fragment may be deleted or updated in between: Lance filters the rows that an
    index names by the deletions of the version.
    """
    columns = [(each.id(), each.name()) for each in dataset.lance_schema.fields()]
    files = {
        each.fragment_id: [file.path for file in each.metadata.files]
        for each in dataset.get_fragments()
        if each.fragment_id in fragment_ids
    }
    segments = {
        each.name: sorted(str(segment.uuid) for segment in each.segments)
        for each in dataset.describe_indices()
        if each.name in names
    }
    return columns, files, segments


def _go_together(segments: list[LanceIndex], fresh: list[LanceIndex]) -> bool:
    """Lance refuses an index whose segments have different index versions."""
    return len({each.index_version for each in (*segments, *fresh)}) == 1


def _every_fragment(dataset: LanceDataset) -> list[int]:
    return sorted(each.fragment_id for each in dataset.get_fragments())


def _plan(
    dataset: LanceDataset, spec: IndexSpec, segments: list[LanceIndex], scope: IndexScope
) -> tuple[list[int], list[LanceIndex]]:
    """Which fragments the new segment covers, and which segments it replaces."""
    everything = _every_fragment(dataset)
    covered = {number for segment in segments for number in segment.fragment_ids}
    missing = [number for number in everything if number not in covered]
    if any(
        each.name == spec.name and not spec.is_built_by(each) for each in _find_indices(dataset)
    ):
        return everything, segments  # an index of another kind, from before the column changed
    match scope:
        case IndexScope.REBUILD:
            return everything, segments
        case IndexScope.UNCOVERED if missing and _revives_old_text(
            dataset, spec, segments, missing
        ):
            return everything, segments
        case IndexScope.UNCOVERED:
            return missing, []


def _revives_old_text(
    dataset: LanceDataset, spec: IndexSpec, segments: list[LanceIndex], missing: list[int]
) -> bool:
    """Would a search find updated rows by their former text, if a new segment covered them?

    An updated row keeps its row id and moves to a new fragment. While no segment covers that
    fragment, Lance ignores the entry of the old segment. Once a second full-text segment covers it,
    Lance uses both entries. Other kinds of index do not have this fault.
    """
    if spec.kind is not IndexKind.INVERTED or not segments:
        return False
    indexed_at = max(segment.dataset_version for segment in segments)
    wanted = set(missing)
    moved = dataset.scanner(
        columns=[],
        filter=f"_row_created_at_version <= {indexed_at}",
        fragments=[each for each in dataset.get_fragments() if each.fragment_id in wanted],
        with_row_id=True,
    )
    return moved.count_rows() > 0


def _has_values(dataset: LanceDataset, spec: IndexSpec, fragment_ids: list[int]) -> bool:
    """Does the column have a value? Only a vector index cannot be built from nulls alone."""
    if spec.kind not in _OVER_VECTORS or not fragment_ids:
        return bool(fragment_ids)
    wanted = set(fragment_ids)
    present = dataset.scanner(
        columns=[],
        filter=f"`{spec.column}` IS NOT NULL",
        fragments=[each for each in dataset.get_fragments() if each.fragment_id in wanted],
        with_row_id=True,
        limit=1,
    )
    return len(present.to_table()) > 0


def _build(dataset: LanceDataset, spec: IndexSpec, fragment_ids: list[int]) -> list[LanceIndex]:
    """Build the segments of a large table one after the other, so that none is large."""
    step = len(fragment_ids)
    if spec.kind not in _OVER_VECTORS:
        step = max(FRAGMENTS_PER_SEGMENT, math.ceil(step / SEGMENTS_PER_BUILD_MAX))
    parameters: dict[str, Any] = dict(spec.parameters)
    segments = [
        dataset.create_index_uncommitted(
            spec.column,
            spec.kind.value,
            name=spec.name,
            fragment_ids=fragment_ids[start : start + step],
            replace=True,
            **parameters,
        )
        for start in range(0, len(fragment_ids), step)
    ]
    if spec.kind is IndexKind.INVERTED:
        return [dataset.merge_existing_index_segments(segments)]
    return segments


def _find_segments(dataset: LanceDataset, spec: IndexSpec) -> list[LanceIndex]:
    """The segments of an index, as a commit that replaces them must name them."""
    fields = {field.name(): field.id() for field in dataset.lance_schema.fields()}
    return [
        LanceIndex(
            uuid=str(segment.uuid),
            name=index.name,
            fields=[fields[spec.column]],
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=Bitmap(segment.fragment_ids),
            index_version=segment.index_version,
            base_id=segment.base_id,
        )
        for index in dataset.describe_indices()
        if index.name == spec.name
        for segment in index.segments
    ]
