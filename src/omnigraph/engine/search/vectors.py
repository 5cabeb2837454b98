"""The rows whose vectors are nearest to a given vector.

Distances are squared L2, which have the order of L2. The table format names candidates, by a full
scan or by an index. Distances are then computed again in double precision, so order and scores do
not depend on how a row was found. Rows at equal distance are ordered by id.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import STRING
from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.arrays import pick_rows
from omnigraph.engine.tables.metered import Metered
from omnigraph.storage.tables import ScanRequest, VectorQuery

IDS_LOOKED_UP_MAX: Final = 5_000
"""More ids than this are found faster by reading all rows."""

ROWS_PER_FILTER: Final = 20_000
"""A scan reads so many rows in the time that one filter needs to find its ids."""

MEASURING: Final = 6
"""The memory that distances need for a moment, as a multiple of the size of the vectors."""

BATCH_BYTES: Final = 32 << 20
"""Each batch builds a hash table of all wanted ids, so batches are large."""

EXTRA: Final = 8
"""How many extra rows are requested, for rows at equal distance."""

ROUNDING: Final = 1e-4
"""The relative error of a distance in single precision."""

ROWS_PER_PARTITION: Final = 4_096
"""How many vectors share a partition of an index."""

PROBED_SHARE: Final = 0.7
"""The share of partitions that is probed; benchmarks/search.py measures the recall."""

PROBES_MIN: Final = 20

EXACT_ROWS_MAX: Final = 20_000
"""In a table of up to so many rows every vector is compared, index or not."""

EXACT_MATCHES_MAX: Final = 2_000
"""If a filter lets at most so many rows through, every one is compared. The same holds below
`MATCHES_PER_WANTED` rows per wanted row: an index stops when it has enough rows, nearest or not."""

MATCHES_PER_WANTED: Final = 50

ROWS_SUMMED: Final = 1_000
"""How many vectors are summed between two checks for cancellation."""

Found: TypeAlias = "tuple[pa.Array[Any], npt.NDArray[np.float64]]"


def partition_count(row_count: int) -> int:
    """How many partitions an index over so many vectors has. One partition is exact."""
    return max(1, row_count // ROWS_PER_PARTITION)


def probe_count(row_count: int) -> int:
    return max(PROBES_MIN, math.ceil(partition_count(row_count) * PROBED_SHARE))


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one column of a table."""

    table: Metered
    column: str
    exact_rows_max: int = EXACT_ROWS_MAX

    def nearest(self, vector: Sequence[float], where: str | None, keep: int) -> Found:
        """The `keep` nearest rows and more.

        Requests more rows until no further row can share the distance of the last wanted one.
        """
        row_count = self.table.handle.row_count
        if keep <= 0 or not row_count:
            return _nothing()
        wanted = keep + EXTRA
        near = VectorQuery(
            self.column,
            tuple(vector),
            wanted,
            probes=probe_count(row_count),
            is_exact=self._is_exact(where, wanted, row_count),
        )
        while True:
            request = ScanRequest(("id", self.column), where, nearest=replace(near, limit=wanted))
            rows = self.table.read(request)
            ids, distances = self._measure(rows, vector)
            if len(rows) < wanted:
                return ids, distances
            last = np.partition(distances, keep - 1)[keep - 1]
            if distances.max() > last * (1 + ROUNDING):
                return ids, distances
            wanted *= 4

    def among(
        self, vector: Sequence[float], where: str | None, ids: "pa.Array[Any]", keep: int | None
    ) -> Found:
        """Distances of these rows only; rows beyond the `keep` nearest may be left out."""
        parts = [self._measure(rows, vector, keep) for rows in self._read_ids(where, ids.unique())]
        found = [_nothing(), *parts]
        return (
            pa.concat_arrays([each for each, _ in found]),
            np.concatenate([each for _, each in found]),
        )

    def all(self, vector: Sequence[float], where: str | None) -> Found:
        rows = self.table.read(ScanRequest(("id", self.column), where))
        return self._measure(rows, vector)

    def _is_exact(self, where: str | None, wanted: int, row_count: int) -> bool:
        if row_count <= self.exact_rows_max:
            return True
        if where is None:
            return False
        enough = max(EXACT_MATCHES_MAX, MATCHES_PER_WANTED * wanted)
        return self.table.count(where) <= enough

    def _read_ids(self, where: str | None, ids: "pa.Array[Any]") -> Iterator[pa.Table]:
        columns = ("id", self.column)
        filter_count = math.ceil(len(ids) / filters.VALUES_MAX)
        is_cheap = self.table.handle.row_count <= ROWS_PER_FILTER * filter_count
        if is_cheap or len(ids) > IDS_LOOKED_UP_MAX:
            request = ScanRequest(columns, where, batch_rows_max=self._batch_rows)
            for batch in self.table.scan(request):
                rows = pa.Table.from_batches([batch])
                yield rows.filter(pc.is_in(rows["id"], value_set=ids))
                self.table.memory.release(batch.nbytes)
            return
        for start in range(0, len(ids), filters.VALUES_MAX):
            some = id_in(ids.slice(start, filters.VALUES_MAX))
            yield self.table.read(ScanRequest(columns, both(where, some)))

    @property
    def _batch_rows(self) -> int:
        kind: Any = self.table.handle.schema.field(self.column).type
        return max(1024, BATCH_BYTES // int(kind.list_size * kind.value_type.bit_width // 8))

    def _measure(self, rows: pa.Table, vector: Sequence[float], keep: int | None = None) -> Found:
        """The distances of all rows, or at least of the `keep` nearest."""
        self.table.check(MEASURING * rows[self.column].nbytes)
        present = rows.filter(rows[self.column].is_valid())
        held = pc.list_flatten(present[self.column]).to_numpy().astype(np.float64)
        wanted = np.asarray(vector, dtype=np.float32).astype(np.float64)
        apart = held.reshape(len(present), len(vector)) - wanted
        if keep is not None and len(apart) > keep > 0:
            roughly = np.einsum("ij,ij->i", apart, apart)
            last = np.partition(roughly, keep - 1)[keep - 1]
            near = np.flatnonzero(~(roughly > last * (1 + ROUNDING)))
            present, apart = pick_rows(present, near), apart[near]
        # Summed exactly, so that a permutation of the same numbers gives the same distance.
        distances = np.concatenate([np.empty(0), *map(_sum_exactly, _cut(apart))])
        return present["id"].combine_chunks().cast(pa.string()), distances


def _cut(apart: "npt.NDArray[np.float64]") -> Iterator["npt.NDArray[np.float64]"]:
    for start in range(0, len(apart), ROWS_SUMMED):
        yield apart[start : start + ROWS_SUMMED]


def _sum_exactly(apart: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
    check_cancelled()
    return np.array([math.fsum(each) for each in (apart * apart).tolist()])


def _nothing() -> Found:
    return pa.array([], pa.string()), np.empty(0)


def id_in(ids: "pa.Array[Any]") -> str:
    return filters.one_of("id", STRING, ids.to_pylist())


def both(left: str | None, right: str) -> str:
    return right if left is None else f"({left}) AND ({right})"
