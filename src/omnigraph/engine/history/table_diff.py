"""What one version of a table has and another has not.

Work is found from the outside in, so that it follows what changed and not what exists:

1. Fragments both versions share, with the same rows deleted, are not looked at.
2. Of fragments that share their files, only rows that one side deleted differ.
3. Rows that were only moved, by a compaction, have the identity and the update they had; if both
   versions grew out of the version of that update, they are the same rows.
4. What is left is matched by id; rows that both sides have are compared by what they say, so a
   row that was written again with the same content, or there and back, is no difference.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
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
"""How much of each side is compared at a time."""


@dataclass(frozen=True, slots=True)
class Share:
    """Some of all ids: those whose checksum leaves this remainder. Together shares are all ids."""

    number: int
    of: int

    def mask(self, ids: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which of the ids are in the share; in every process the same."""
        sums = (zlib.crc32(str(each).encode()) % self.of for each in ids.to_pylist())
        return np.fromiter((each == self.number for each in sums), np.bool_, len(ids))


EVERY_ID: Final = Share(0, 1)


@dataclass(frozen=True, slots=True)
class Difference:
    """How to get from one version of a table to another."""

    before: Handle | None
    after: Handle | None
    inserted: RowRefs
    """Rows of `after` whose ids `before` does not have."""
    replaced: RowRefs
    """Rows of `before` that say something else afterwards, and..."""
    replacing: RowRefs
    """...the rows of `after` that say it, one for one."""
    deleted: RowRefs
    """Rows of `before` whose ids `after` does not have."""

    def __len__(self) -> int:
        return len(self.inserted) + len(self.replaced) + len(self.deleted)


def find_difference(
    tables: Tables,
    type_: Type,
    before: Handle | None,
    after: Handle | None,
    share: Share = EVERY_ID,
) -> Difference:
    """None stands for a table that is not there. Only ids of the share are looked at."""
    lost, gained = _find_unshared(tables, before, after)
    old, new = _with_ids(tables, before, lost, share), _with_ids(tables, after, gained, share)
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
class _Marks:
    """Places of rows, without their ids."""

    row_ids: Addresses
    addresses: Addresses
    updated: Addresses

    def take(self, mask: "np.ndarray[Any, Any]") -> "_Marks":
        return _Marks(self.row_ids[mask], self.addresses[mask], self.updated[mask])


def exceeds(tables: Tables, before: Handle | None, after: Handle | None, rows_max: int) -> bool:
    """Are there more rows than this, on both sides together, that a difference has to look at?

    Mostly known without a read: only where many rows may just have been moved are they looked at.
    """
    if count_at_most(tables, before, after) <= rows_max:
        return False
    lost, gained = _find_unshared(tables, before, after)
    return len(lost.row_ids) + len(gained.row_ids) > rows_max


def count_at_most(tables: Tables, before: Handle | None, after: Handle | None) -> int:
    """So many rows, on both sides together, may differ. Known without a read."""
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
) -> tuple[_Marks, _Marks]:
    """At least the rows of each side that the other has not, or has otherwise."""
    old_parts = _parts(tables, before)
    new_parts = _parts(tables, after)
    shared = old_parts.keys() & new_parts.keys()
    old_marks, new_marks = [], []
    for files in sorted(shared):
        old, new = old_parts[files], new_parts[files]
        if old.deletions != new.deletions:
            assert before is not None
            assert after is not None
            left, right = _read_marks(tables, before, [old]), _read_marks(tables, after, [new])
            # (2) The files are the same, so a row is at the same offset on both sides.
            ours, theirs = _offsets(left), _offsets(right)
            old_marks.append(left.take(~np.isin(ours, theirs)))
            new_marks.append(right.take(~np.isin(theirs, ours)))
    left = _read_marks(
        tables, before, [old_parts[each] for each in old_parts if each not in shared]
    )
    right = _read_marks(
        tables, after, [new_parts[each] for each in new_parts if each not in shared]
    )
    if len(left.row_ids) and len(right.row_ids) and before is not None and after is not None:
        left, right = _without_moved(left, right, find_shared_version(tables, before, after))
    return _join_marks([*old_marks, left]), _join_marks([*new_marks, right])


def _parts(tables: Tables, handle: Handle | None) -> dict[tuple[str, ...], FragmentContent]:
    if handle is None:
        return {}
    return {each.files: each for each in tables.find_fragments(handle)}


def _offsets(marks: _Marks) -> Addresses:
    return marks.addresses & np.uint64(0xFFFFFFFF)


def _read_marks(tables: Tables, handle: Handle | None, parts: Sequence[FragmentContent]) -> _Marks:
    # Filled as batches come: there may be millions, and joining batches would hold them twice.
    count = sum(each.row_count for each in parts)
    marks = _Marks(*(np.empty(count, np.uint64) for _ in range(3)))
    if handle is None or not parts:
        return marks
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
            marks.row_ids[some] = _numbers(batch, ROW_ID)
            marks.addresses[some] = _numbers(batch, ROW_ADDRESS)
            marks.updated[some] = _numbers(batch, ROW_UPDATED)
            at += batch.num_rows
    assert at == count, "a fragment has as many rows as it says"
    return marks


def _join_marks(parts: Sequence[_Marks]) -> _Marks:
    parts = [each for each in parts if len(each.row_ids)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return _Marks(
        np.concatenate([each.row_ids for each in parts]),
        np.concatenate([each.addresses for each in parts]),
        np.concatenate([each.updated for each in parts]),
    )


def _numbers(batch: pa.RecordBatch, name: str) -> Addresses:
    return batch[name].to_numpy().astype(np.uint64, copy=False)


def _without_moved(left: _Marks, right: _Marks, shared: int) -> tuple[_Marks, _Marks]:
    """(3) What is left when rows that both sides took from a common past are left out."""
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
    """The newest version that both grew out of."""
    ours, theirs = _past(tables, left), _past(tables, right)
    return max((min(ours[each], theirs[each]) for each in ours if each in theirs), default=0)


def _past(tables: Tables, handle: Handle) -> dict[str, int]:
    """For each branch of the table that a version came through, the last version on it."""
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


def _with_ids(tables: Tables, handle: Handle | None, marks: _Marks, share: Share) -> RowRefs:
    """Those of the rows whose ids are in the share."""
    addresses, row_ids, updated = marks.addresses, marks.row_ids, marks.updated
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
    """Which of the rows, taken in pairs, say something else."""
    differs = np.zeros(len(left[1]), np.bool_)
    for start, stop in portions(tables, type_, right[0], right[1].addresses, COMPARED_BYTES):
        ours = fetch(tables, type_, left[0], left[1].addresses[start:stop])
        theirs = fetch(tables, type_, right[0], right[1].addresses[start:stop])
        differs[start:stop] = differ(ours, theirs)
    return differs


def digest_at(tables: Tables, type_: Type, handle: Handle, addresses: Addresses) -> list[bytes]:
    """What rows say. The caller bounds how many they are."""
    return digest_rows(fetch(tables, type_, handle, addresses))
