"""The answers of the tasks of a load, put together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.engine.load.bulk import Fault, Faults, LoadJob, RecordPlace, type_of
from omnigraph.ids import TableKey
from omnigraph.jsontext import read_json
from omnigraph.pipeline.sources.splits import LineNumbers, Split, ordinal_of
from omnigraph.pipeline.stage.fragments import PendingFile, pending_schema
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.storage.tables import Receipt


class TaskResults:
    """`engine.load.bulk.Ingested` without the parts that need more tasks."""

    def __init__(
        self,
        job: LoadJob,
        work: Ingest,
        answers: Sequence[Mapping[str, Any]],
        *,
        memory_bytes: int,
    ) -> None:
        self._job = job
        self._answers = answers
        self._memory_bytes = memory_bytes
        self._lines = LineNumbers(work.splits, [each["lines"] for each in answers])
        self.is_small = work.bucket_count is None
        self._keeps_rows = work.keeps_rows
        self._splits = work.splits
        self.faults = self._gather_faults()

    def _gather_faults(self) -> Faults:
        located = (
            self._locate(split, each)
            for split, answer in zip(self._splits, self._answers, strict=True)
            for each in answer["faults"]
        )
        count = sum(each["fault_count"] for each in self._answers)
        return Faults(tuple(islice(located, self._job.errors_max)), count)

    def read_faults(self) -> Iterator[Fault]:
        if self._job.rejects is None:
            yield from self.faults.listed
            return
        for split, answer in zip(self._splits, self._answers, strict=True):
            if answer.get("all_faults"):
                with Path(answer["all_faults"]).open(encoding="utf-8") as file:
                    yield from (self._locate(split, read_json(line)) for line in file)

    def _locate(self, split: Split, document: Sequence[Any]) -> Fault:
        line, fields = document
        place = self.place_of(ordinal_of(split.number, line))
        fault = Fault(**{**fields, "ids": tuple(fields["ids"])})
        return replace(fault, file=place.file, line=place.line)

    def results_of(self, key: TableKey) -> list[Mapping[str, Any]]:
        return [each["tables"][key] for each in self._answers if key in each["tables"]]

    @cached_property
    def counts(self) -> Mapping[TableKey, int]:
        keys = sorted({TableKey(key) for each in self._answers for key in each["tables"]})
        return {key: sum(each["rows"] for each in self.results_of(key)) for key in keys}

    @cached_property
    def given_ids(self) -> Mapping[TableKey, int]:
        return {key: sum(each["given_ids"] for each in self.results_of(key)) for key in self.counts}

    @cached_property
    def receipts(self) -> Mapping[TableKey, tuple[Receipt, ...]]:
        return {
            key: tuple(
                Receipt(fragment, row_count)
                for each in self.results_of(key)
                for fragment, row_count in each.get("receipts", ())
            )
            for key in self.counts
        }

    def place_of(self, ordinal: int) -> RecordPlace:
        return self._lines.place_of(ordinal)

    # pending rows

    def read_pending(self, key: TableKey) -> pa.Table:
        batches = [batch for file in self.find_pending(key) for batch in file.read()]
        return pa.Table.from_batches(batches, self._pending_schema(key))

    def open_pending(self, key: TableKey, columns: Sequence[str]) -> pa.RecordBatchReader:
        schema = self._pending_schema(key)
        plain = pa.schema([schema.field(name) for name in columns])
        batches = (
            batch.select(plain.names) for file in self.find_pending(key) for batch in file.read()
        )
        return pa.RecordBatchReader.from_batches(plain, batches)

    def fits(self, key: TableKey) -> bool:
        size = sum(each.get("size_bytes", 0) for each in self.results_of(key))
        return self._keeps_rows or size <= self._memory_bytes

    def find_pending(self, key: TableKey) -> list[PendingFile]:
        """The pending files of a table, in the order of the input."""
        files = [
            PendingFile(str(each["pending"]), tuple(each["firsts"]))
            for each in self.results_of(key)
            if each.get("firsts")
        ]
        return sorted(files, key=lambda file: file.firsts[0])

    def _pending_schema(self, key: TableKey) -> pa.Schema:
        """As this process reads it: with Lance imported, a blob is an extension type."""
        for file in self.find_pending(key):
            with pa.ipc.open_file(file.path) as opened:
                return opened.schema
        return pending_schema(type_of(self._job.catalog, key))
