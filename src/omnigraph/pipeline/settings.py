"""Where bulk work runs, as the environment, the configuration and the command line say.

This module imports no Spark, so a program that only passes settings on does not wait for it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from omnigraph.errors import SparkUnusable, UsageError

MASTER: Final = "OMNIGRAPH_SPARK_MASTER"
REMOTE: Final = "OMNIGRAPH_SPARK_REMOTE"
SCRATCH: Final = "OMNIGRAPH_SPARK_SCRATCH"
CONCURRENCY: Final = "OMNIGRAPH_LOAD_CONCURRENCY"

LOCAL: Final = "local[*,3]"
"""Every core of this machine; a task may fail twice before its job does."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """From how many rows on a kind of work is done on Spark, unless the environment says other."""

    name: str
    rows: int

    def read(self, environment: Mapping[str, str] = os.environ) -> int:
        """Raises UsageError."""
        given = environment.get(self.name) or str(self.rows)
        if not given.isdecimal():
            raise UsageError(f"{self.name} is a number of rows, not '{given}'")
        return int(given)


EXPORT_ROWS: Final = Threshold("OMNIGRAPH_EXPORT_SPARK_ROWS", 2_000_000)
"""Up to here one process is done before a session of Spark has begun."""

MERGE_ROWS: Final = Threshold("OMNIGRAPH_MERGE_SPARK_ROWS", 5_000_000)
"""Rows of one table. Merging fewer takes less than starting Spark is worth."""

REWRITE_ROWS: Final = Threshold("OMNIGRAPH_REWRITE_SPARK_ROWS", 50_000_000)
"""Rows of one table. Up to here one process is done within a minute or so. On the same machine it
is faster than Spark at any size that was measured; other machines are what tasks are for."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where bulk work runs."""

    master: str = LOCAL
    remote: str | None = None
    """The address of a Spark Connect server; it wins over the master."""
    scratch: str | None = None
    """A folder that the driver and all workers see. On one machine it need not be named."""
    concurrency: int | None = None
    """How many tasks may stage at a time, if fewer than there are cores."""
    is_brief: bool = False
    """The process ends with this job, so starting fast is worth more than running fast."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings, on top of ours."""

    @property
    def is_local(self) -> bool:
        return self.remote is None and self.master.startswith("local")

    @property
    def is_near(self) -> bool:
        """Is everything on this machine, as far as the settings tell?"""
        host = urlsplit(self.master.partition(",")[0]).hostname
        return self.is_local or (self.remote is None and host in _THIS_MACHINE)


_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")


def read_settings(
    environment: Mapping[str, str] = os.environ, *, under: SparkSettings | None = None
) -> SparkSettings:
    """What the environment says, on top of `under`. Raises SparkUnusable."""
    given = under or SparkSettings()
    concurrency = environment.get(CONCURRENCY)
    if concurrency and not (concurrency.isdecimal() and int(concurrency) > 0):
        raise SparkUnusable(f"{CONCURRENCY} is a positive number, not '{concurrency}'")
    said = replace(
        given,
        scratch=environment.get(SCRATCH) or given.scratch,
        concurrency=int(concurrency) if concurrency else given.concurrency,
    )
    return place(said, master=environment.get(MASTER), remote=environment.get(REMOTE))


def place(settings: SparkSettings, *, master: str | None, remote: str | None) -> SparkSettings:
    """The same settings elsewhere. A master without a remote address drops the remote address of
    the settings.
    """
    if remote:
        return replace(settings, master=master or settings.master, remote=remote)
    return replace(settings, master=master, remote=None) if master else settings
