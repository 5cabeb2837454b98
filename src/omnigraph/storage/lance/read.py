"""Reading Lance tables."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceScanner
from lance.fragment import FragmentMetadata, LanceFragment
from lance.query import FullTextOperator, MatchQuery, PhraseQuery

from omnigraph.jsontext import read_json
from omnigraph.storage import layout
from omnigraph.storage.lance.old_blobs import blob_columns, mend
from omnigraph.storage.lance.store import LanceHandle, LanceStore, branch_uri, translating
from omnigraph.storage.lance.table_files import name_of
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    Addresses,
    BlobMode,
    FragmentContent,
    Pause,
    ScanRequest,
    TextQuery,
    TextQueryMode,
    VectorQuery,
)

_PROBE_STEPS_MAX: Final = 64
"""Beyond this many missing versions, one listing is faster."""

_PROBES_KEPT_MAX: Final = 1_024
"""For so many tables a probe neither builds a path nor parses a hint that it has seen."""

_HINT_BYTES_MAX: Final = 4_096

_DENSE_SHARE: Final = 16
"""If more than one row in 16 of a fragment is wanted, reading all rows is faster."""

_ADDRESSES_PER_FILTER: Final = 1_000


@contextmanager
def scan(
    store: LanceStore, handle: LanceHandle, request: ScanRequest
) -> Iterator[Iterator[pa.RecordBatch]]:
    with store.reading(handle, "scan"):
        yield _batches(store, handle.dataset, request)


def read(
    store: LanceStore, handle: LanceHandle, request: ScanRequest, pause: Pause | None
) -> pa.Table:
    with store.reading(handle, "read"):
        fragments = _fragments(store, handle.dataset, request)
        blobs = _blobs_in(handle.dataset, request)
        if request.among is not None and not fragments and not blobs:
            return _no_rows(handle.dataset, request)
        scanner = _scanner(handle.dataset, request, fragments)
        if blobs:
            batches = _batches(store, handle.dataset, request)
            return pa.Table.from_batches(_paused(batches, pause), scanner.projected_schema)
        if pause is None:
            return scanner.to_table()
        reader = scanner.to_reader()
        return pa.Table.from_batches(_paused(reader, pause), reader.schema)


def _paused(batches: Iterable[pa.RecordBatch], pause: Pause | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if pause is not None:
            pause()
        yield batch


@contextmanager
def scan_at(
    store: LanceStore, handle: LanceHandle, row_addresses: Addresses, request: ScanRequest
) -> Iterator[Iterator[pa.RecordBatch]]:
    with store.reading(handle, "scan"):
        yield _batches_at(store, handle.dataset, row_addresses, request)


def _batches_at(
    store: LanceStore, dataset: LanceDataset, row_addresses: Addresses, request: ScanRequest
) -> Iterator[pa.RecordBatch]:
    """Read fragments that are wanted completely together. Of the others, pick few rows by a
    filter, and many by reading from the first wanted row to the last.
    """
    if not len(row_addresses):
        return
    fragments = row_addresses >> np.uint64(32)
    starts = np.flatnonzero(fragments[1:] != fragments[:-1]) + 1
    wanted = np.split(row_addresses, starts)
    numbers = fragments[np.concatenate([[0], starts])]
    whole: list[int] = []
    for number, addresses in zip(numbers.tolist(), wanted, strict=True):
        fragment = dataset.get_fragment(number)
        assert fragment is not None, f"no fragment {number} in version {dataset.version}"
        row_count = fragment.metadata.num_rows
        if len(addresses) == row_count:
            whole.append(number)
            continue
        yield from _batches_of(store, dataset, whole, request)
        whole = []
        if len(addresses) * _DENSE_SHARE < row_count:
            for some in np.array_split(addresses, 1 + len(addresses) // _ADDRESSES_PER_FILTER):
                listed = ", ".join(map(str, some.tolist()))
                picked = replace(request, where=f"{ROW_ADDRESS} IN ({listed})")
                yield from _batches_of(store, dataset, [number], picked)
        else:
            ranged = replace(
                request,
                where=f"{ROW_ADDRESS} >= {addresses[0]} AND {ROW_ADDRESS} <= {addresses[-1]}",
            )
            for batch in _batches_of(store, dataset, [number], ranged):
                yield batch.filter(_is_among(batch[ROW_ADDRESS].to_numpy(), addresses))
    yield from _batches_of(store, dataset, whole, request)


def _is_among(found: Addresses, wanted: Addresses) -> pa.BooleanArray:
    """Both arrays ascend. Arrow's `is_in` would hash all wanted values for every batch."""
    at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
    return pa.array(wanted[at] == found, pa.bool_())


def _batches_of(
    store: LanceStore, dataset: LanceDataset, numbers: list[int], request: ScanRequest
) -> Iterator[pa.RecordBatch]:
    if not numbers:
        return
    asked = replace(request, fragment_ids=tuple(numbers), with_row_address=True)
    yield from _batches(store, dataset, asked)


def _batches(
    store: LanceStore, dataset: LanceDataset, request: ScanRequest
) -> Iterator[pa.RecordBatch]:
    blobs = _blobs_in(dataset, request)
    if not blobs:
        yield from _scanner(dataset, request, _fragments(store, dataset, request)).to_batches()
        return
    addressed = replace(request, with_row_address=True)
    scanner = _scanner(dataset, addressed, _fragments(store, dataset, request))
    for batch in scanner.to_batches():
        mended = mend(store, dataset, blobs, batch)
        yield mended if request.with_row_address else _without_address(mended)


def _without_address(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != ROW_ADDRESS])


def _blobs_in(dataset: LanceDataset, request: ScanRequest) -> list[str]:
    """The columns that are read as descriptions of blobs."""
    if request.blobs is BlobMode.BYTES:
        return []
    wanted = request.columns
    return [each for each in blob_columns(dataset) if wanted is None or each in wanted]


def find_fragments(handle: LanceHandle) -> tuple[FragmentContent, ...]:
    if not handle.parts:
        with translating(handle.ref, "inspect"):
            found = tuple(_part(each.metadata) for each in handle.dataset.get_fragments())
        handle.parts.append(found)
    return handle.parts[0]


def _part(fragment: FragmentMetadata) -> FragmentContent:
    deletions = fragment.deletion_file
    name = "" if deletions is None else deletions.path(fragment.id)
    return FragmentContent(
        fragment_id=fragment.id,
        row_count=fragment.num_rows,
        files=tuple(name_of(each) for each in fragment.files),
        deletions=name,
    )


def count(store: LanceStore, handle: LanceHandle, where: str) -> int:
    with store.reading(handle, "count rows of"):
        return handle.dataset.count_rows(filter=where)


def read_blobs(
    store: LanceStore, handle: LanceHandle, column: str, addresses: Sequence[int]
) -> list[bytes | None]:
    if not addresses:
        return []
    with store.reading(handle, "read blobs of"):
        found = handle.dataset.read_blobs(column, addresses=list(addresses), preserve_order=True)
        return [data for _, data in found]


def probe(store: LanceStore, handle: LanceHandle) -> int:
    """Look for the file of the next version, then of the one after it, until one is missing.

    A listing costs more with every version of the table; this costs two lookups if nothing changed.
    If cleanup deleted versions in between, the next file is missing although later ones exist; the
    hint that Lance stores about the newest version then shows a greater number.
    """
    if store.root.is_local:
        # Every read does this: no paths are parsed, and no error passes through.
        root, path, branch = store.root.uri, handle.ref.path, handle.ref.branch
        for version in range(handle.version, handle.version + _PROBE_STEPS_MAX):
            next_file, hint_file = _probed_files(root, path, branch, version)
            if not _exists(next_file):
                if _hinted(hint_file) <= version:
                    return version
                break
    with translating(handle.ref, "probe"):
        return handle.dataset.latest_version


@lru_cache(maxsize=_PROBES_KEPT_MAX)
def _probed_files(root: str, path: str, branch: str | None, version: int) -> tuple[str, str]:
    """The file of the next version, and the hint."""
    folder = branch_uri(root, path, branch)
    return f"{folder}/{layout.version_file(version + 1)}", f"{folder}/{layout.VERSION_HINT}"


def _exists(path: str) -> bool:
    """Does a file exist? If the system does not say, yes: then Lance is asked."""
    try:
        os.stat(path)  # noqa: PTH116 - parsing a Path takes longer than the call
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _hinted(file: str) -> int:
    """The newest version in Lance's hint; 0 if the hint is missing or being written."""
    try:
        opened = os.open(file, os.O_RDONLY)
        try:
            return _version_in(os.read(opened, _HINT_BYTES_MAX))
        finally:
            os.close(opened)
    except OSError:
        return 0


@lru_cache(maxsize=_PROBES_KEPT_MAX)
def _version_in(hint: bytes) -> int:
    """0 if the hint is not whole."""
    try:
        found = read_json(hint)["version"]
    except (ValueError, KeyError, TypeError):
        return 0
    return found if isinstance(found, int) else 0


def _no_rows(dataset: LanceDataset, request: ScanRequest) -> pa.Table:
    """What a scan returns that finds nothing."""
    held = dataset.schema
    names = held.names if request.columns is None else request.columns
    fields = [held.field(name) for name in names]
    fields += [pa.field(ROW_ID, pa.uint64())] if request.with_row_id else []
    fields += [pa.field(ROW_ADDRESS, pa.uint64())] if request.with_row_address else []
    return pa.schema(fields).empty_table()


def _scanner(
    dataset: LanceDataset, request: ScanRequest, fragments: list[LanceFragment] | None
) -> LanceScanner:
    if request.among is not None and not fragments:
        fragments = dataset.get_fragments()[:1]  # Lance reads an empty list as no restriction.
    return dataset.scanner(
        columns=list(request.columns) if request.columns is not None else None,
        filter=request.where,
        limit=request.limit,
        offset=request.offset,
        fragments=fragments,
        nearest=_nearest(request.nearest) if request.nearest is not None else None,
        full_text_query=_text(request.text) if request.text is not None else None,
        # A search that filters afterwards returns fewer rows than there are.
        fast_search=request.indexed_only,
        prefilter=request.where is not None and bool(request.nearest or request.text),
        blob_handling=request.blobs.value,
        with_row_id=request.with_row_id,
        with_row_address=request.with_row_address,
        batch_size=request.batch_rows_max,
        io_buffer_size=request.ahead_bytes_max,
        batch_readahead=None if request.ahead_bytes_max is None else 4,
        fragment_readahead=None if request.ahead_bytes_max is None else 1,
        disable_scoring_autoprojection=True,
    )


def _fragments(
    store: LanceStore, dataset: LanceDataset, request: ScanRequest
) -> list[LanceFragment] | None:
    """The fragments that must be scanned; None for all. In a bucket a column is no quick read."""
    if request.fragment_ids is not None:
        wanted = set(request.fragment_ids)
        return [each for each in dataset.get_fragments() if each.fragment_id in wanted]
    if request.among is not None:
        return store.contents.candidates(dataset, request.among, learns=not store.is_remote)
    return None


def _nearest(nearest: VectorQuery) -> dict[str, object]:
    asked: dict[str, object] = {
        "column": nearest.column,
        "q": list(nearest.vector),
        "k": nearest.limit,
        "metric": nearest.metric.value,
    }
    if nearest.refine_factor is not None:
        asked["refine_factor"] = nearest.refine_factor
    if nearest.probes is not None:
        # Only the least number: given as the most, a filter would leave fewer rows than there are.
        asked["minimum_nprobes"] = nearest.probes
    if nearest.is_exact:
        asked["use_index"] = False
    return asked


def _text(query: TextQuery) -> MatchQuery | PhraseQuery:
    if query.match is TextQueryMode.PHRASE:
        return PhraseQuery(query.text, query.column)
    operator = FullTextOperator.AND if query.match is TextQueryMode.ALL else FullTextOperator.OR
    return MatchQuery(
        query.text,
        query.column,
        operator=operator,
        fuzziness=query.fuzziness,
        max_expansions=query.expansions_max,
    )
