"""Exports of an embedded graph: on Spark if they are large, else in this process."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.export import (
    Exporter,
    ExportFormat,
    ExportResult,
    Here,
    Selection,
    export_lines,
    export_parquet,
    select_pins,
)
from omnigraph.errors import UsageError
from omnigraph.pipeline.settings import EXPORT_ROWS, SparkSettings
from omnigraph.sdk.files import naming_output, write_output
from omnigraph.storage.bucket_options import S3


def find_exporter(
    graph: Graph, pins: Sequence[Pin], spark: SparkSettings | None = None
) -> Exporter:
    if sum(pin.row_count for pin in pins) < EXPORT_ROWS.read():
        return Here(graph.tables)
    from omnigraph.pipeline.export import open_exporter

    return open_exporter(graph.root, graph.settings, spark)


def lines_of(graph: Graph, snapshot: ManifestSnapshot, selection: Selection) -> Iterator[bytes]:
    """All records, some whole lines at a time. What is wrong with the question is raised here."""
    pins = select_pins(snapshot, selection)
    return export_lines(graph.tables, pins, find_exporter(graph, pins))


def export(
    graph: Graph,
    snapshot: ManifestSnapshot,
    selection: Selection,
    output: str | Path | BinaryIO,
    format_: ExportFormat,
    *,
    spark: SparkSettings | None,
) -> ExportResult:
    """Raises TypeUnknown, TableUnknown, UsageError, FileUnreadable, NotExportable."""
    pins = select_pins(snapshot, selection)
    exporter = find_exporter(graph, pins, spark)
    if format_ is ExportFormat.PARQUET:
        if not isinstance(output, str | Path):
            raise UsageError("an export to Parquet needs a folder to go to")
        _write_parquet(graph, pins, exporter, output, spark)
    else:
        lines = export_lines(graph.tables, pins, exporter)
        write_output(output, lines, graph.settings.storage_options)
    return ExportResult(
        branch=snapshot.branch,
        commit=snapshot.commit,
        format=format_,
        output=str(output) if isinstance(output, str | Path) else "-",
        counts={pin.key: pin.row_count for pin in pins},
    )


def _write_parquet(
    graph: Graph,
    pins: Sequence[Pin],
    exporter: Exporter,
    output: str | Path,
    spark: SparkSettings | None,
) -> None:
    if not (isinstance(output, str) and output.startswith(S3)):
        with naming_output(output):
            export_parquet(graph.tables, pins, exporter, Path(output))
        return
    from omnigraph.storage.outputs import check_free, upload_folder

    check_free(output, graph.settings.storage_options)
    # Parquet files are written with seeks to their ends, so they are made on a disk first.
    above = None if spark is None else spark.scratch
    with tempfile.TemporaryDirectory(prefix="omnigraph-export-", dir=above) as folder:
        export_parquet(graph.tables, pins, exporter, Path(folder))
        upload_folder(Path(folder), output, graph.settings.storage_options)
