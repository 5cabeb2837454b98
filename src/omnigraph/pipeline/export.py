"""An export on Spark: tasks write sorted runs or Parquet files, the driver puts runs together."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.effects import REAL
from omnigraph.engine.load.export import by_table
from omnigraph.engine.load.parquet_parts import ParquetPart, write_part
from omnigraph.engine.load.sorted_runs import (
    RUN_BYTES,
    Line,
    SortPiece,
    merge_runs,
    read_sorted,
    write_run,
)
from omnigraph.engine.settings import Settings
from omnigraph.errors import NotExportable
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.spark.session import SparkSettings, find_session, read_settings
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.worker_scratch import check_shared
from omnigraph.storage.layout import Root


@dataclass(frozen=True, slots=True)
class WriteRuns:
    """The work of sorting; task n sorts piece n."""

    pieces: tuple[SortPiece, ...]
    storage: Storage
    folder: str
    run_bytes: int

    def __call__(self, number: int) -> dict[str, Any]:
        tables = self.storage.open().tables
        runs = read_sorted(tables, self.pieces[number], run_bytes=self.run_bytes)
        try:
            return {"runs": [write_run(run, Path(self.folder)) for run in runs]}
        except NotExportable as error:
            return {"not_exportable": [error.type_name, error.property_name, error.id, error.value]}


@dataclass(frozen=True, slots=True)
class WriteParts:
    """The work of writing Parquet; task n writes part n."""

    parts: tuple[ParquetPart, ...]
    storage: Storage

    def __call__(self, number: int) -> dict[str, Any]:
        return {"rows": write_part(self.storage.open().tables, self.parts[number])}


@dataclass(frozen=True, slots=True)
class SparkExporter:
    """`engine.load.export.Exporter` on Spark."""

    settings: SparkSettings
    storage: Storage
    run_bytes: int = RUN_BYTES

    @contextmanager
    def lines(self, pieces: Sequence[SortPiece]) -> Iterator[Iterator[Iterable[Line]]]:
        with self._scratch() as folder:
            spark = find_session(self.settings)
            check_shared(spark, folder)
            work = WriteRuns(tuple(pieces), self.storage, str(folder), self.run_bytes)
            answers = run_tasks(spark, work, len(pieces), job="sorting the rows") if pieces else []
            check_exportable(answers)
            runs = {piece: answer["runs"] for piece, answer in zip(pieces, answers, strict=True)}
            yield (
                merge_runs([path for piece in some for path in runs[piece]], folder)
                for some in by_table(pieces)
            )

    def write_parts(self, parts: Sequence[ParquetPart]) -> None:
        if not parts:
            return
        spark = find_session(self.settings)
        check_shared(spark, Path(parts[0].path).parent)
        work = WriteParts(tuple(parts), self.storage)
        run_tasks(spark, work, len(parts), job="writing Parquet")

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A folder that the driver and all workers see. An export leaves its graph alone."""
        above = Path(self.settings.scratch or tempfile.gettempdir())
        folder = above / f"omnigraph-export-{REAL.new_id()}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def check_exportable(answers: Sequence[Mapping[str, Any]]) -> None:
    """Raises NotExportable, as the task would have."""
    for answer in answers:
        if refused := answer.get("not_exportable"):
            type_name, property_name, identity, value = refused
            raise NotExportable(type_name, property_name, id=identity, value=value)


def open_exporter(root: Root, settings: Settings, spark: SparkSettings | None) -> SparkExporter:
    """Where `spark` says, or the environment. Raises SparkUnusable."""
    storage = Storage(root, settings.storage_options, settings.durability)
    return SparkExporter(spark or read_settings(), storage)
