"""The difference between two versions of a table.

The work follows the size of the change, not of the table:

1. Fragments that both versions share, with the same deletions, are not read.
2. In fragments that share their files, only rows that one side deleted differ.
3. A compaction moves rows but keeps their row id and update version. If both versions descend from
   the version of that update, the rows are equal.
4. The remaining rows are matched by id, and matched rows are compared by content. A row that was
   written again unchanged, or changed and changed back, is not a difference.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.history.row_digest import differ, digest_rows
from omnigraph.engine.tables.row_refs import RowRefs, Type, fetch, is_sorted, no_row_refs, portions
from omnigraph.ids import graph_branch
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_UPDATED,
    Addresses,
    FragmentContent,
    Handle,
    ScanRequest,
    Tables,
)

COMPARED_BYTES: Final = 8 * 1024 * 1024
"""How many bytes of each side are compared at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """The ids whose checksum modulo `of` is `number`. All shares together are all ids."""

    number: int
    of: int

    def mask(self, ids: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which of the ids are in the share; the same in every process."""
        sums = (zlib.crc32(str(each).encode()) % self.of for each in ids.to_pylist())
        return np.fromiter((each == self.number for each in sums), np.bool_, len(ids))


@dataclass(frozen=True, slots=True)
class NamedIds:
    """A share that names its ids."""

    ids: frozenset[str]

    def mask(self, ids: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
        named = pa.array(sorted(self.ids), pa.string())
        return np.asarray(pc.is_in(ids, value_set=named).to_numpy(zero_copy_only=False), np.bool_)


EVERY_ID: Final = Share(0, 1)


@dataclass(frozen=True, slots=True)
class Difference:
    """The row changes that turn one version of a table into another."""

    before: Handle | None
    after: Handle | None
    inserted: RowRefs
    """Rows of `after` whose ids `before` does not have."""
    replaced: RowRefs
    """Rows of `before` whose content changed, and..."""
    replacing: RowRefs
    """...the rows of `after` with the new content, in the same order."""
    deleted: RowRefs
    """Rows of `before` whose ids `after` does not have."""

    def __len__(self) -> int:
        return len(self.inserted) + len(self.replaced) + len(self.deleted)


def find_difference(
    tables: Tables,
    type_: Type,
    before: Handle | None,
    after: Handle | None,
    share: Share | NamedIds = EVERY_ID,
) -> Difference:
    """None stands for a missing table. Only ids of the share are compared."""
    lost, gained = _find_unshared(tables, before, after)
    old, new = tables.together(
        [
            lambda: _with_ids(tables, before, lost, share),
            lambda: _with_ids(tables, after, gained, share),
        ]
    )
    if not len(old):
        return Difference(before, after, new, old, no_row_refs(), old)
    at = pc.index_in(new.ids, value_set=old.ids)
    is_known = pc.is_valid(at).to_numpy(zero_copy_only=False)
    places = at.drop_null().to_numpy()
    replaced, replacing = old.take(places), new.take(is_known)
    if len(replaced):
        assert before is not None
        assert after is not None
        differs = _compare(tables, type_, (before, replaced), (after, replacing))
        replaced, replacing = replaced.take(differs), replacing.take(differs)
    is_gone = np.ones(len(old), np.bool_)
    is_gone[places] = False
    return Difference(before, after, new.take(~is_known), replaced, replacing, old.take(is_gone))


# ── (1), (2), (3) ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Places:
    """Row refs without ids."""

    row_ids: Addresses
    addresses: Addresses
    updated: Addresses

    def take(self, mask: "np.ndarray[Any, Any]") -> "_Places":
        return _Places(self.row_ids[mask], self.addresses[mask], self.updated[mask])


def exceeds(tables: Tables, before: Handle | None, after: Handle | None, rows_max: int) -> bool:
    """Must a difference compare more than `rows_max` rows, of both sides together?

    Mostly known without a read. Rows are read only if many of them may just have been moved.
    """
    if count_at_most(tables, before, after) <= rows_max:
        return False
    lost, gained = _find_unshared(tables, before, after)
    return len(lost.row_ids) + len(gained.row_ids) > rows_max


def count_at_most(tables: Tables, before: Handle | None, after: Handle | None) -> int:
    """An upper bound of the rows that differ, of both sides together; reads nothing."""
    old, new = _parts(tables, before), _parts(tables, after)
    shared = old.keys() & new.keys()
    unshared = (
        each.row_count
        for parts in (old, new)
        for files, each in parts.items()
        if files not in shared
    )
    thinned = (
        old[files].row_count + new[files].row_count
        for files in shared
        if old[files].deletions != new[files].deletions
    )
    return sum(unshared) + sum(thinned)


def _find_unshared(
    tables: Tables, before: Handle | None, after: Handle | None
) -> tuple[_Places, _Places]:
    """A superset of the rows of each side that the other side lacks or has changed."""
    old_parts = _parts(tables, before)
    new_parts = _parts(tables, after)
    shared = old_parts.keys() & new_parts.keys()
    old_places, new_places = [], []
    for files in sorted(shared):
        old, new = old_parts[files], new_parts[files]
        if old.deletions != new.deletions:
            assert before is not None
            assert after is not None
            left, right = _read_both(tables, (before, [old]), (after, [new]))
            # (2) Both sides have the same files, so a row has the same offset on both.
            ours, theirs = _offsets(left), _offsets(right)
            old_places.append(left.take(~np.isin(ours, theirs)))
            new_places.append(right.take(~np.isin(theirs, ours)))
    left, right = _read_both(
        tables,
        (before, [old_parts[each] for each in old_parts if each not in shared]),
        (after, [new_parts[each] for each in new_parts if each not in shared]),
    )
    if len(left.row_ids) and len(right.row_ids) and before is not None and after is not None:
        left, right = _without_moved(left, right, find_shared_version(tables, before, after))
    return _concat_places([*old_places, left]), _concat_places([*new_places, right])


def _parts(tables: Tables, handle: Handle | None) -> dict[tuple[str, ...], FragmentContent]:
    if handle is None:
        return {}
    return {each.files: each for each in tables.find_fragments(handle)}


def _offsets(rows: _Places) -> Addresses:
    return rows.addresses & np.uint64(0xFFFFFFFF)


def _read_both(
    tables: Tables,
    left: tuple[Handle | None, Sequence[FragmentContent]],
    right: tuple[Handle | None, Sequence[FragmentContent]],
) -> list[_Places]:
    return tables.together(
        [lambda: _read_places(tables, *left), lambda: _read_places(tables, *right)]
    )


def _read_places(
    tables: Tables, handle: Handle | None, parts: Sequence[FragmentContent]
) -> _Places:
    # Filled batch by batch: concatenating millions of rows would hold them twice.
    count = sum(each.row_count for each in parts)
    rows = _Places(*(np.empty(count, np.uint64) for _ in range(3)))
    if handle is None or not parts:
        return rows
    request = ScanRequest(
        columns=(ROW_UPDATED,),
        fragment_ids=tuple(each.fragment_id for each in parts),
        with_row_id=True,
        with_row_address=True,
    )
    at = 0
    with tables.scan(handle, request) as batches:
        for batch in batches:
            check_cancelled()
            some = slice(at, at + batch.num_rows)
            rows.row_ids[some] = _numbers(batch, ROW_ID)
            rows.addresses[some] = _numbers(batch, ROW_ADDRESS)
            rows.updated[some] = _numbers(batch, ROW_UPDATED)
            at += batch.num_rows
    assert at == count, "a fragment has the row count of its metadata"
    return rows


def _concat_places(parts: Sequence[_Places]) -> _Places:
    parts = [each for each in parts if len(each.row_ids)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return _Places(
        np.concatenate([each.row_ids for each in parts]),
        np.concatenate([each.addresses for each in parts]),
        np.concatenate([each.updated for each in parts]),
    )


def _numbers(batch: pa.RecordBatch, name: str) -> Addresses:
    return batch[name].to_numpy().astype(np.uint64, copy=False)


def _without_moved(left: _Places, right: _Places, shared: int) -> tuple[_Places, _Places]:
    """(3) The rows of each side without rows that both sides have from a common version."""
    _, ours, theirs = np.intersect1d(
        left.row_ids, right.row_ids, assume_unique=True, return_indices=True
    )
    is_same = (left.updated[ours] == right.updated[theirs]) & (left.updated[ours] <= shared)
    keep_left = np.ones(len(left.row_ids), np.bool_)
    keep_right = np.ones(len(right.row_ids), np.bool_)
    keep_left[ours[is_same]] = False
    keep_right[theirs[is_same]] = False
    return left.take(keep_left), right.take(keep_right)


def find_shared_version(tables: Tables, left: Handle, right: Handle) -> int:
    """The newest version that both versions descend from."""
    ours, theirs = _past(tables, left), _past(tables, right)
    return max((min(ours[each], theirs[each]) for each in ours if each in theirs), default=0)


def _past(tables: Tables, handle: Handle) -> dict[str, int]:
    """For each table branch in the ancestry of a version, the last version on that branch."""
    past: dict[str, int] = {}
    branch, version = handle.ref.branch, handle.version
    while True:
        past[graph_branch(branch)] = version
        if branch is None:
            return past
        fork = tables.find_branch(handle.ref.path, branch)
        if fork is None:
            return past
        branch, version = fork.parent, fork.parent_version


def _with_ids(
    tables: Tables, handle: Handle | None, rows: _Places, share: Share | NamedIds
) -> RowRefs:
    """The refs of the rows whose ids are in the share."""
    addresses, row_ids, updated = rows.addresses, rows.row_ids, rows.updated
    if handle is None or not len(addresses):
        return no_row_refs()
    if not is_sorted(addresses):
        order = np.argsort(addresses)
        addresses, row_ids, updated = addresses[order], row_ids[order], updated[order]
    ids, masks = [], []
    with tables.scan_at(handle, addresses, ScanRequest(columns=("id",))) as batches:
        for batch in batches:
            check_cancelled()
            if share == EVERY_ID:
                ids.append(batch["id"])
            else:
                masks.append(share.mask(batch["id"]))
                ids.append(batch["id"].filter(pa.array(masks[-1])))
    found = pa.chunked_array(ids, pa.string()).combine_chunks()
    if not masks:
        return RowRefs(found, row_ids, addresses, updated)
    mask = np.concatenate(masks)
    return RowRefs(found, row_ids[mask], addresses[mask], updated[mask])


# ── (4) ──────────────────────────────────────────────────────────────────────────────────────────


def _compare(
    tables: Tables, type_: Type, left: tuple[Handle, RowRefs], right: tuple[Handle, RowRefs]
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each pair of rows, whether the content differs."""
    differs = np.zeros(len(left[1]), np.bool_)
    for start, stop in portions(tables, type_, right[0], right[1].addresses, COMPARED_BYTES):
        ours, theirs = tables.together(
            [
                partial(fetch, tables, type_, handle, refs.addresses[start:stop])
                for handle, refs in (left, right)
            ]
        )
        differs[start:stop] = differ(ours, theirs)
    return differs


def digest_at(tables: Tables, type_: Type, handle: Handle, addresses: Addresses) -> list[bytes]:
    """The digests of rows. The caller bounds their number."""
    return digest_rows(fetch(tables, type_, handle, addresses))
