"""Tables of Delta Lake and Apache Iceberg: listed once, then read data file by data file.

1. A listing pins a version, so that tasks that run later read the same rows.
2. The libraries of the formats read the files: they know partition columns, renamed columns and
   deleted rows. A task opens the table itself and keeps it open for the next task of its process.
3. A listing that begins after a version holds the files that were added since. It refuses a table
   that lost or changed rows in between, because its new files do not tell which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from omnigraph.engine.load.inputs import Format
from omnigraph.errors import UsageError


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One state of a table, as a task opens it."""

    format: Format
    address: str
    """The folder of a Delta table; the metadata file of an Iceberg table."""
    version: int
    """The version of a Delta table; the snapshot id of an Iceberg table."""
    after: int | None = None
    """(3) Only what was added after this version."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A data file."""

    path: str
    """Its name in the table."""
    size_bytes: int
    row_count: int
    table: LakeTable
    """A state of the table that holds it."""


@dataclass(frozen=True, slots=True)
class LakeListing:
    """(1) The data files of a table at one version."""

    shown: str
    table: LakeTable
    schema: pa.Schema
    files: tuple[LakeFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.files)

    @property
    def row_count(self) -> int:
        return sum(each.row_count for each in self.files)


def locate(address: str) -> str:
    """The address as every process understands it."""
    return address if "://" in address else str(Path(address).absolute())


def check_options(options: Mapping[str, str], known: tuple[str, ...], format_: Format) -> None:
    """Raises UsageError."""
    for name in options:
        if name not in known:
            listed = ", ".join(known)
            raise UsageError(f"{format_.value} has no option '{name}'; there are {listed}")


def number_of(options: Mapping[str, str], name: str) -> int | None:
    """Raises UsageError."""
    text = options.get(name)
    if text is not None and not text.isdecimal():
        raise UsageError(f"the option '{name}' is a number, not '{text}'")
    return None if text is None else int(text)


def refuse_change(shown: str, what: str) -> UsageError:
    """(3)"""
    return UsageError(
        f"{shown}: {what}; `since: last` follows tables that only grow: "
        "run the pipeline once with --full"
    )
