"""Reading Lance tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from lance import LanceDataset, LanceScanner
from lance.fragment import LanceFragment
from lance.query import FullTextOperator, MatchQuery, PhraseQuery

from omnigraph.storage import layout
from omnigraph.storage.lance_store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import Nearest, ScanRequest, TextMatch, TextQuery

_PROBE_STEPS_MAX: Final = 64
"""Someone this far behind is served faster by one listing."""


@contextmanager
def scan(
    store: LanceStore, handle: LanceHandle, request: ScanRequest
) -> Iterator[Iterator[pa.RecordBatch]]:
    with translating(handle.ref, "scan", version=handle.version):
        yield _scanner(store, handle.dataset, request).to_batches()


def read(store: LanceStore, handle: LanceHandle, request: ScanRequest) -> pa.Table:
    with translating(handle.ref, "read", version=handle.version):
        return _scanner(store, handle.dataset, request).to_table()


def count(handle: LanceHandle, where: str) -> int:
    with translating(handle.ref, "count rows of", version=handle.version):
        return handle.dataset.count_rows(filter=where)


def read_blobs(handle: LanceHandle, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    if not addresses:
        return []
    with translating(handle.ref, "read blobs of", version=handle.version):
        found = handle.dataset.read_blobs(column, addresses=list(addresses), preserve_order=True)
        return [data for _, data in found]


def probe(store: LanceStore, handle: LanceHandle) -> int:
    """Look for the manifest file of the next version, and of the one after it, until there is none.

    A listing costs more with every version a table ever had; this costs one look when nothing
    has changed.
    """
    with translating(handle.ref, "probe"):
        if store.root.is_local:
            folder = Path(store.uri(handle.ref))
            for version in range(handle.version, handle.version + _PROBE_STEPS_MAX):
                if not (folder / layout.version_file(version + 1)).exists():
                    return version
        return handle.dataset.latest_version


def _scanner(store: LanceStore, dataset: LanceDataset, request: ScanRequest) -> LanceScanner:
    return dataset.scanner(
        columns=list(request.columns) if request.columns is not None else None,
        filter=request.where,
        limit=request.limit,
        offset=request.offset,
        fragments=_fragments(store, dataset, request),
        nearest=_nearest(request.nearest) if request.nearest is not None else None,
        full_text_query=_text(request.text) if request.text is not None else None,
        # A search that filters afterwards returns fewer rows than there are.
        fast_search=request.indexed_only,
        prefilter=request.where is not None and bool(request.nearest or request.text),
        blob_handling=request.blobs.value,
        with_row_id=request.with_row_id,
        with_row_address=request.with_row_address,
        batch_size=request.batch_rows_max,
        disable_scoring_autoprojection=True,
    )


def _fragments(
    store: LanceStore, dataset: LanceDataset, request: ScanRequest
) -> list[LanceFragment] | None:
    """The fragments that need to be looked at; None for all of them."""
    if request.fragment_ids is not None:
        wanted = set(request.fragment_ids)
        return [each for each in dataset.get_fragments() if each.fragment_id in wanted]
    if request.among is not None:
        # Lance takes an empty list for no restriction.
        return store.contents.candidates(dataset, request.among) or dataset.get_fragments()[:1]
    return None


def _nearest(nearest: Nearest) -> dict[str, object]:
    asked: dict[str, object] = {
        "column": nearest.column,
        "q": list(nearest.vector),
        "k": nearest.limit,
        "metric": nearest.metric.value,
    }
    if nearest.refine_factor is not None:
        asked["refine_factor"] = nearest.refine_factor
    if nearest.probes is not None:
        asked["minimum_nprobes"] = nearest.probes
    return asked


def _text(query: TextQuery) -> MatchQuery | PhraseQuery:
    if query.match is TextMatch.PHRASE:
        return PhraseQuery(query.text, query.column)
    operator = FullTextOperator.AND if query.match is TextMatch.ALL else FullTextOperator.OR
    return MatchQuery(
        query.text,
        query.column,
        operator=operator,
        fuzziness=query.fuzziness,
        max_expansions=query.expansions_max,
    )
