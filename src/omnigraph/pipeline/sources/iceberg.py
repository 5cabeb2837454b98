"""Iceberg tables, read by the package `pyiceberg`: from a metadata file, or by way of a catalog.

The driver asks the catalog once, for the metadata file. Tasks open that file and need no catalog.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.engine.load.inputs import Format
from omnigraph.errors import FileUnreadable, UsageError
from omnigraph.extras import require
from omnigraph.pipeline.sources.lake import (
    LakeFile,
    LakeListing,
    LakeTable,
    check_options,
    locate,
    number_of,
    refuse_change,
)
from omnigraph.storage.bucket_options import (
    ENDPOINT,
    KEY_ID,
    REGION,
    S3,
    SECRET,
    TOKEN,
    resolve_bucket,
)

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

CATALOG: Final = "catalog"
_OPTIONS: Final = ("snapshot", CATALOG)
_PROPERTIES: Final = {
    "s3.endpoint": ENDPOINT,
    "s3.access-key-id": KEY_ID,
    "s3.secret-access-key": SECRET,
    "s3.session-token": TOKEN,
    "s3.region": REGION,
}


def list_files(
    address: str,
    options: Mapping[str, str],
    storage_options: Mapping[str, str],
    after: int | None,
) -> LakeListing:
    """Raises ExtraMissing, FileUnreadable, UsageError."""
    with _reading(address):
        table = _find(address, options, storage_options)
        wanted = number_of(options, "snapshot")
        snapshot = table.current_snapshot() if wanted is None else table.snapshot_by_id(wanted)
        if snapshot is None and wanted is not None:
            raise UsageError(f"{address} has no snapshot {wanted}")
        at = 0 if snapshot is None else snapshot.snapshot_id
        if after is not None:
            _check_growth(table, address, after, at)
        state = LakeTable(Format.ICEBERG, table.metadata_location, at, after)
        # A table without a snapshot has no files, and a scan of it takes no id.
        tasks = _plan(table, state) if snapshot is not None else []
        from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415 - an extra

        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    files = [
        LakeFile(each.file.file_path, each.file.file_size_in_bytes, each.file.record_count, state)
        for each in tasks
    ]
    return LakeListing(address, state, schema, tuple(sorted(files, key=lambda each: each.path)))


def read_file(
    table: LakeTable, path: str, columns: list[str], options: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Raises ExtraMissing, FileUnreadable."""
    with _reading(table.address):
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

        opened, tasks = _open_files(table, tuple(sorted(options.items())))
        if path not in tasks:
            raise FileUnreadable(path, reason=f"not part of snapshot {table.version}")
        projected = opened.schema().select(*columns)
        scan = ArrowScan(opened.metadata, opened.io, projected, AlwaysTrue())
        for batch in scan.to_record_batches([tasks[path]]):
            yield batch.select(columns)


@lru_cache(maxsize=8)
def _open_files(
    table: LakeTable, options: tuple[tuple[str, str], ...]
) -> "tuple[Table, dict[str, FileScanTask]]":
    """The files of a snapshot by name; a process reads many of them."""
    opened = _open(table.address, dict(options))
    return opened, {each.file.file_path: each for each in _plan(opened, table)}


def _plan(table: "Table", state: LakeTable) -> "list[FileScanTask]":
    if state.after is None:
        return list(table.scan(snapshot_id=state.version).plan_files())
    scan = table.incremental_append_scan().to_snapshot_id_inclusive(state.version)
    # Snapshot 0 stands for a table that had none yet.
    since = scan if not state.after else scan.from_snapshot_id_exclusive(state.after)
    return list(since.plan_files()) if state.after != state.version else []


def _check_growth(table: "Table", address: str, after: int, at: int) -> None:
    """Did every snapshot since then only add rows? Raises UsageError."""
    from pyiceberg.table.snapshots import Operation  # noqa: PLC0415 - an extra

    snapshot = table.snapshot_by_id(at) if at else None
    while snapshot is not None and snapshot.snapshot_id != after:
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation not in (Operation.APPEND, Operation.REPLACE):
            name = "changes rows" if operation is None else f"is '{operation.value}'"
            raise refuse_change(address, f"snapshot {snapshot.snapshot_id} {name}")
        above = snapshot.parent_snapshot_id
        snapshot = None if above is None else table.snapshot_by_id(above)
    if snapshot is None and after:
        what = f"snapshot {after}, which was loaded before, is not part of its history any more"
        raise refuse_change(address, what)


def _find(address: str, options: Mapping[str, str], storage: Mapping[str, str]) -> "Table":
    if CATALOG not in options:
        check_options(options, _OPTIONS, Format.ICEBERG)
        return _open(locate(address), storage)
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra

    properties = {name: value for name, value in options.items() if name not in _OPTIONS}
    return load_catalog(options[CATALOG], **properties).load_table(address)


def _open(address: str, options: Mapping[str, str]) -> "Table":
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - an extra

    return StaticTable.from_metadata(address, _reach(address, options))


def _reach(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """The properties of a bucket, as the package spells them."""
    if not address.startswith(S3):
        return {}
    given = resolve_bucket(address, options).options
    return {name: given[of] for name, of in _PROPERTIES.items() if of in given}


@contextmanager
def _reading(address: str) -> Iterator[None]:
    """Translate the errors of the package. Raises FileUnreadable."""
    require("pyiceberg", extra="iceberg")
    from pyiceberg.exceptions import NoSuchTableError, ValidationError  # noqa: PLC0415 - an extra

    failures: tuple[type[Exception], ...] = (
        NoSuchTableError,
        ValidationError,
        pa.ArrowException,
        OSError,
        ValueError,
    )
    try:
        yield
    except failures as error:
        if isinstance(error, FileUnreadable | UsageError):
            raise
        reason: Any = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileUnreadable(address, reason=reason) from error
