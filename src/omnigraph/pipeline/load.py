"""The entry of a load: small files in this process, everything else on Spark (D28).

    survey the input → choose the engine → read, check and stage

1. The tasks are the same functions on both engines. `LocalLoader` calls them one after the other,
   `spark_load.SparkLoader` sends them to workers, `head_start.HeadStartLoader` does both.
2. `auto` takes the local engine if all input is files of at most `OMNIGRAPH_LOAD_LOCAL_BYTES`
   together, uncompressed, and no input is a data frame or computed by Spark SQL. Larger files are
   read in this process too, until a session of Spark has started.
3. The local engine keeps all rows in pending files and holds them in memory when it stages them.
   Rules across rows are checked by the prefilter, and by `checks.arrow_joins` for what it leaves;
   for few rows by the evaluator of `engine.load.incoming`. All report the same faults in one order.
4. This module imports no pyspark, and neither does any module that the local engine needs.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.engine.load.bulk import Ingested, LoadEngine, LoadJob
from omnigraph.errors import SparkUnusable, UsageError
from omnigraph.extras import require
from omnigraph.pipeline.head_start import AHEAD_BYTES, HeadStartLoader, has_session
from omnigraph.pipeline.local_load import MEMORY_BYTES, LocalLoader, survey
from omnigraph.pipeline.settings import SparkSettings, read_settings
from omnigraph.pipeline.sources.splits import CODECS, INFLATION
from omnigraph.pipeline.stage.input_plan import Item, measure
from omnigraph.pipeline.stage.scratch import check_scratch, open_local_scratch

ENGINE: Final = "OMNIGRAPH_LOAD_ENGINE"
MEMORY: Final = "OMNIGRAPH_LOAD_MEMORY_MB"
LOCAL: Final = "OMNIGRAPH_LOAD_LOCAL_BYTES"
AHEAD: Final = "OMNIGRAPH_LOAD_AHEAD_BYTES"

_COMPRESSED: Final = frozenset({*CODECS, ".parquet"})

LOCAL_BYTES: Final = 16 * 2**20
"""(2) Up to this size, reading takes less time than starting Spark."""


def open_bulk(
    settings: SparkSettings | None = None, environment: Mapping[str, str] = os.environ
) -> "PipelineLoader":
    """The loader of the pipeline, as the environment says. Raises SparkUnusable, UsageError."""
    memory_mb = environment.get(MEMORY) or str(MEMORY_BYTES // 2**20)
    if not memory_mb.isdecimal():
        raise SparkUnusable(f"{MEMORY} is a number of megabytes, not '{memory_mb}'")
    return PipelineLoader(
        settings or read_settings(environment),
        parse_engine(environment.get(ENGINE) or LoadEngine.AUTO),
        local_bytes=_read_bytes(environment, LOCAL, LOCAL_BYTES),
        ahead_bytes=_read_bytes(environment, AHEAD, AHEAD_BYTES),
        memory_bytes=int(memory_mb) * 2**20,
    )


def _read_bytes(environment: Mapping[str, str], name: str, usual: int) -> int:
    given = environment.get(name) or str(usual)
    if not given.isdecimal():
        raise UsageError(f"{name} is a number of bytes, not '{given}'")
    return int(given)


def fits_here(files: Iterable[Path], environment: Mapping[str, str] = os.environ) -> bool:
    """Is the local engine sure to take these files, going by their names and sizes alone?"""
    loader = open_bulk(None, environment)
    sizes = (
        each.stat().st_size * (INFLATION if each.suffix in _COMPRESSED else 1) for each in files
    )
    return loader.engine is LoadEngine.LOCAL or (
        loader.engine is LoadEngine.AUTO and sum(sizes) <= loader.local_bytes
    )


def parse_engine(given: str) -> LoadEngine:
    """Raises UsageError."""
    try:
        return LoadEngine(given)
    except ValueError:
        raise UsageError(f"an engine is auto, spark or local, not '{given}'") from None


@dataclass(frozen=True, slots=True)
class PipelineLoader:
    """`engine.load.bulk.BulkLoader` on the engine that fits the input."""

    settings: SparkSettings
    engine: LoadEngine = LoadEngine.AUTO
    """For jobs that do not name one."""
    local_bytes: int = LOCAL_BYTES
    ahead_bytes: int = AHEAD_BYTES
    """Larger input starts Spark at once."""
    memory_bytes: int = MEMORY_BYTES

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        with open_local_scratch(self.settings, job.root, job.operation_id) as scratch:
            items = survey(job, scratch)
            if self._choose(job, items) is LoadEngine.LOCAL:
                yield LocalLoader().read(job, items, scratch)
                return
            if self._begins_here(job, items):
                loader = HeadStartLoader(self.settings, self.ahead_bytes, self.memory_bytes)
                yield loader.read(job, items, scratch)
                return
            require("pyspark", extra="spark")
            from omnigraph.pipeline.spark_load import SparkLoader  # noqa: PLC0415 - imports pyspark

            check_scratch(self.settings, job.root)
            on_spark = SparkLoader(self.settings, memory_bytes=self.memory_bytes)
            yield on_spark.read(job, items, scratch)

    def _begins_here(self, job: LoadJob, items: Sequence[Item]) -> bool:
        is_auto = (job.engine or self.engine) is LoadEngine.AUTO
        is_files = measure(items) is not None
        return is_auto and is_files and self.settings.is_local and not has_session()

    def _choose(self, job: LoadJob, items: Sequence[Item]) -> LoadEngine:
        """(2) Raises UsageError."""
        wanted, size_bytes = job.engine or self.engine, measure(items)
        if wanted is LoadEngine.LOCAL and size_bytes is None:
            raise UsageError(
                "the local engine reads files: load a data frame, or a pipeline file with "
                "expressions, with engine 'spark' or 'auto'"
            )
        if wanted is not LoadEngine.AUTO:
            return wanted
        is_local = size_bytes is not None and size_bytes <= self.local_bytes
        return LoadEngine.LOCAL if is_local else LoadEngine.SPARK
