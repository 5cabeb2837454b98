"""Bulk work without Spark: this process runs the tasks of the workers, one after the other.

For tests that check hundreds of times what the driver does with the answers of workers. Rules that
span rows are not checked here: Spark checks them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import ORDINAL, CheckResult, Ingested, LoadEngine, LoadJob, LoadMode
from omnigraph.engine.load.inputs import as_input
from omnigraph.engine.load.run import last_of_each
from omnigraph.ids import TableKey
from omnigraph.pipeline.stage.fragments import Storage, read_pieces
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import InputSurvey, cut
from omnigraph.pipeline.stage.keys import ADDRESS_KEY, ORDINAL_KEY, ROW_ID_KEY
from omnigraph.pipeline.stage.task_results import TaskResults
from omnigraph.pipeline.stage.write_pending import (
    LINES_PER_PART_BITS,
    PART,
    Destination,
    WriteNew,
    WritePart,
)
from omnigraph.storage.tables import Pieces, TableRef


@dataclass(frozen=True)
class Alone:
    """`engine.load.bulk.Bulk` in this process. Nothing fits its memory unless it is told so."""

    scratch: Path
    memory_bytes: int = 0

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        folder = self.scratch / job.operation_id
        folder.mkdir(parents=True)
        items = InputSurvey(job.catalog, job.storage_options, folder).look(
            [as_input(each) for each in job.sources]
        )
        plan = cut(items, lambda splits: [0] * len(splits))
        work = Ingest(
            splits=tuple(plan.splits),
            catalog=job.catalog,
            mode=job.mode,
            targets=job.targets,
            storage=Storage(job.root, job.storage_options, job.durability),
            scratch=str(folder),
            errors_max=job.errors_max,
            keeps_rows=False,
            bucket_count=1,
            keeps_faults=job.rejects is not None,
        )
        answers = [work(number) for number in range(len(plan.splits))]
        yield AloneIngested(job, work, answers, memory_bytes=self.memory_bytes)


class AloneIngested(TaskResults):
    engine = LoadEngine.LOCAL

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult:
        del pins
        return CheckResult(tables_read=frozenset(self.counts))

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        job = self._job
        storage = Storage(job.root, job.storage_options, job.durability)
        destination = Destination(storage, ref, pin.version)
        files = tuple(self.find_pending(key))
        if job.mode is not LoadMode.MERGE:
            work = WriteNew(files, destination, job.mode)
            return tuple(read_pieces(work(number)) for number in range(len(files)))
        write = WritePart(files, destination)
        answers = [write(part)["answer"][0].as_py() for part in self._cut(key, destination)]
        return tuple(read_pieces(json.loads(str(each))) for each in answers)

    def _cut(self, key: TableKey, destination: Destination) -> Iterator[pa.Table]:
        """What the join of `pipeline.upsert` would have given to each worker."""
        rows = self.read_pending(key)
        stores, handle = destination.open()
        ids = [str(each) for each in last_of_each(rows)["id"].to_pylist()]
        last = rows.group_by("id").aggregate([(ORDINAL, "max")])
        found = stores.tables.locate(handle, "id", ids)
        joined = last.join(found, "id").rename_columns(["id", ORDINAL_KEY, ROW_ID_KEY, ADDRESS_KEY])
        yield from _by_part(joined, pc.shift_right(joined[ORDINAL_KEY], LINES_PER_PART_BITS))
        replaced = joined.filter(pc.is_valid(joined[ADDRESS_KEY]))
        fragments = pc.shift_right(replaced[ADDRESS_KEY].cast(pa.int64()), 32)
        yield from _by_part(replaced, pc.subtract(-1, fragments))


def _by_part(rows: pa.Table, parts: "pa.ChunkedArray[Any]") -> Iterator[pa.Table]:
    numbered = rows.append_column(PART, parts)
    for part in pc.unique(numbered[PART]):
        yield numbered.filter(pc.equal(numbered[PART], part))
