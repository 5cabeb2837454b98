"""Delta tables, read by the package `deltalake`.

The log of a Delta table is JSON lines, and the protocol fixes what they say. It is read here for
one fact that the package does not tell: which files a version added because its rows are new, and
not because old rows were compacted.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from omnigraph.engine.load.inputs import Format
from omnigraph.errors import FileUnreadable
from omnigraph.extras import require
from omnigraph.jsontext import read_json
from omnigraph.pipeline.sources.lake import (
    LakeFile,
    LakeListing,
    LakeTable,
    check_options,
    locate,
    number_of,
    refuse_change,
)
from omnigraph.storage.bucket_options import S3, resolve_bucket
from omnigraph.storage.inputs import open_input

if TYPE_CHECKING:
    from deltalake import DeltaTable

_OPTIONS: Final = ("version",)
_ROWS_PER_BATCH: Final = 65_536


def list_files(
    address: str,
    options: Mapping[str, str],
    storage_options: Mapping[str, str],
    after: int | None,
) -> LakeListing:
    """Raises ExtraMissing, FileUnreadable, UsageError."""
    check_options(options, _OPTIONS, Format.DELTA)
    shown, address = address, locate(address)
    with _reading(shown):
        table = _open(address, number_of(options, "version"), storage_options)
        schema = table.to_pyarrow_dataset().schema
        adds = pa.table(table.get_add_actions())
    state = LakeTable(Format.DELTA, address, table.version())
    names = ("path", "size_bytes", "num_records")
    rows = zip(*(adds[name].to_pylist() for name in names), strict=True)
    found = [LakeFile(unquote(path), size, count or 0, state) for path, size, count in rows]
    files = {each.path: each for each in found}
    if after is not None:
        added = _find_added(address, after, state.version, storage_options)
        # A file that was compacted meanwhile is part of an older version only.
        files = {each.path: files.get(each.path, each) for each in added}
    return LakeListing(shown, state, schema, tuple(files[each] for each in sorted(files)))


def read_file(
    table: LakeTable, path: str, columns: list[str], options: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Raises ExtraMissing, FileUnreadable."""
    with _reading(table.address):
        schema, fragments = _open_files(
            table.address, table.version, tuple(sorted(options.items()))
        )
        if path not in fragments:
            raise FileUnreadable(path, reason=f"not part of version {table.version}")
        yield from fragments[path].to_batches(
            schema=schema, columns=columns, batch_size=_ROWS_PER_BATCH, use_threads=False
        )


@lru_cache(maxsize=8)
def _open_files(
    address: str, version: int, options: tuple[tuple[str, str], ...]
) -> tuple[pa.Schema, dict[str, Any]]:
    """The files of a version by name; a process reads many of them."""
    dataset: Any = _open(address, version, dict(options)).to_pyarrow_dataset()
    return dataset.schema, {each.path: each for each in dataset.get_fragments()}


def _open(address: str, version: int | None, options: Mapping[str, str]) -> "DeltaTable":
    require("deltalake", extra="delta")
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra

    return DeltaTable(address, version=version, storage_options=_reach(address, options))


def _reach(address: str, options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a bucket. The package builds on the library that obstore builds on."""
    if not address.startswith(S3):
        return None
    given = resolve_bucket(address, options).for_obstore()
    return {**given["config"], **given["client_options"]}


def _find_added(
    address: str, after: int, version: int, options: Mapping[str, str]
) -> list[LakeFile]:
    """The files with new rows of the versions that follow. Raises FileUnreadable, UsageError."""
    if after > version:
        what = f"it is at version {version}, and version {after} was loaded before"
        raise refuse_change(address, what)
    found: list[LakeFile] = []
    for number in range(after + 1, version + 1):
        state = LakeTable(Format.DELTA, address, number)
        for action in _read_log(address, number, options):
            if action.get("remove", {}).get("dataChange"):
                raise refuse_change(address, f"version {number} changes or deletes rows")
            add = action.get("add")
            if add is not None and add["dataChange"]:
                count = read_json(add.get("stats") or "{}").get("numRecords", 0)
                found.append(LakeFile(unquote(add["path"]), add["size"], count, state))
    return found


def _read_log(address: str, version: int, options: Mapping[str, str]) -> list[dict[str, Any]]:
    """The actions of one version."""
    path = f"{address.removeprefix('file://')}/_delta_log/{version:020}.json"
    try:
        with open_input(path, path, options) as file:
            return [read_json(line) for line in file if line.strip()]
    except FileUnreadable as error:
        what = f"the log of version {version} cannot be read ({error.reason})"
        raise refuse_change(address, what) from error


@contextmanager
def _reading(address: str) -> Iterator[None]:
    """Translate the errors of the package. Raises FileUnreadable."""
    require("deltalake", extra="delta")
    from deltalake.exceptions import DeltaError, DeltaProtocolError  # noqa: PLC0415 - an extra

    try:
        yield
    except DeltaProtocolError as error:
        reason = f"{error} `reader: spark` reads it by the package of Spark"
        raise FileUnreadable(address, reason=reason) from error
    except (DeltaError, pa.ArrowException, OSError) as error:
        if isinstance(error, FileUnreadable):
            raise
        raise FileUnreadable(address, reason=str(error).splitlines()[0]) from error
