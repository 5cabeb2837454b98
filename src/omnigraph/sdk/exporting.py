"""Exports of an embedded graph: which exporter does it, and how the output appears."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.effects import REAL
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
from omnigraph.errors import FileUnreadable, OmnigraphError, UsageError
from omnigraph.pipeline.settings import EXPORT_ROWS, SparkSettings


def find_exporter(
    graph: Graph, pins: Sequence[Pin], spark: SparkSettings | None = None
) -> Exporter:
    if sum(pin.row_count for pin in pins) < EXPORT_ROWS.read():
        return Here(graph.tables)
    from omnigraph.pipeline.export import open_exporter  # noqa: PLC0415 - brings Spark along

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
        with _naming(output):
            export_parquet(graph.tables, pins, exporter, Path(output))
    else:
        write_output(output, export_lines(graph.tables, pins, exporter))
    return ExportResult(
        branch=snapshot.branch,
        commit=snapshot.commit,
        format=format_,
        output=str(output) if isinstance(output, str | Path) else "-",
        counts={pin.key: pin.row_count for pin in pins},
    )


def write_output(output: str | Path | BinaryIO, lines: Iterator[bytes]) -> None:
    """Raises FileUnreadable."""
    if isinstance(output, str | Path):
        write_lines(Path(output), lines)
    else:
        for chunk in lines:
            output.write(chunk)


def write_lines(path: Path, lines: Iterator[bytes]) -> None:
    """Whole or not at all; compressed if the name ends in `.gz` or `.zst`, which a load reads.

    Raises FileUnreadable.
    """
    hidden = path.with_name(f".{path.name}.{REAL.new_id()}{path.suffix}")
    with _naming(path):
        try:
            with pa.output_stream(str(hidden), compression="detect") as file:
                for chunk in lines:
                    file.write(chunk)
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)


@contextmanager
def _naming(output: str | Path) -> Iterator[None]:
    """What the disk has against an output is the user's to know, without a traceback."""
    try:
        yield
    except OmnigraphError:
        raise
    except OSError as error:
        raise FileUnreadable(str(output), reason=error.strerror or str(error)) from error
