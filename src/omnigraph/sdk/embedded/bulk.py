"""Bulk work on an embedded graph: loads, pipelines, exports, Spark data frames."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from omnigraph.engine.graph import Graph
from omnigraph.engine.settings import ERRORS_MAX
from omnigraph.extras import require
from omnigraph.ids import MAIN, parse_branch
from omnigraph.policy.actions import Action
from omnigraph.sdk.choices import parse_choice
from omnigraph.sdk.frames import spooled
from omnigraph.sdk.moments import target_of

if TYPE_CHECKING:
    from omnigraph.engine.load.bulk import LoadEngine, LoadMode
    from omnigraph.engine.load.export import ExportFormat, ExportResult
    from omnigraph.engine.load.recipe_plan import RecipePlan
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.pipeline.datasource import DataFrame, SparkSession
    from omnigraph.pipeline.settings import SparkSettings


class LocalBulk:
    """The part of an embedded graph that moves many rows, on Spark if they are very many."""

    _graph: Graph

    def load(
        self,
        source: object,
        *,
        mode: LoadMode | str,
        type: str | None = None,  # noqa: A002 - as the schema calls it
        edge: str | None = None,
        mapping: Mapping[str, str] | None = None,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        max_errors: int = ERRORS_MAX,
        rejects: str | Path | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        engine: LoadEngine | str | None = None,
        spark: SparkSettings | None = None,
    ) -> LoadResult:
        """Load data as one commit, or nothing: `append`, `merge` or `overwrite`.

        `source` names files, folders or patterns, here or at `s3://`, compressed or not; `-` is
        standard input. Or it is a table in memory (a pandas or polars frame, an Arrow table or
        reader, anything with `__arrow_c_stream__`), a Spark data frame, an `Input`, or a list of
        all these. Parquet files, CSV files, frames and tables need a type: `type` says which nodes
        their rows are, or `edge` which edges, and `mapping` which column feeds which property. A
        branch that does not exist is made from `from_branch`, if that is given.

        `engine` says where the load runs: `local` in this process, `spark` on Spark, `auto` by the
        size of the input; None takes `OMNIGRAPH_LOAD_ENGINE`, else `auto`. The result names the
        engine that ran. Spark is started once in a process, unless a session is active; where,
        `spark` says, or the environment.

        Raises LoadRejected with up to `max_errors` faults, each with its file and line, and writes
        all of them to the file `rejects`, as JSON lines, if that is given; KeyConflict
        when appended rows exist; ExpectedVersionMismatch when an overwritten table moved;
        FileUnreadable, TypeUnknown, UsageError, BranchNotFound, OpenedReadOnly, JavaMissing,
        SparkUnusable, JobFailed.
        """
        from omnigraph.engine.load.bulk import LoadMode
        from omnigraph.engine.load.inputs import Input, find_inputs_in
        from omnigraph.engine.load.run import LoadRequest
        from omnigraph.engine.write.idempotency import parse_key_of_files
        from omnigraph.pipeline.load import open_bulk, parse_engine
        from omnigraph.sdk.embedded.rejecting import rejecting

        table = Input(None, type=type, edge=edge, mapping=dict(mapping or {}))
        above = None if spark is None else spark.scratch
        base = None if from_branch is None else parse_branch(from_branch)
        with spooled(source, above) as given, rejecting(rejects) as told:
            inputs = find_inputs_in(given, table)
            files = [str(each.data) for each in inputs if isinstance(each.data, str | Path)]
            shapes = [each.shape for each in inputs if each.is_table]
            request = LoadRequest(
                sources=inputs,
                mode=parse_choice(LoadMode, mode, "a load"),
                branch=parse_branch(branch),
                actor=actor,
                errors_max=max_errors,
                rejects=told,
                message=message,
                engine=None if engine is None else parse_engine(engine),
                idempotency=parse_key_of_files(
                    idempotency_key, files, shapes, str(mode), branch, from_branch
                ),
            )
            return self._graph.load(request, open_bulk(spark), from_branch=base)

    def run_pipeline(
        self,
        path: str | Path,
        *,
        branch: str | None = None,
        from_branch: str | None = None,
        actor: str | None = None,
        max_errors: int | None = None,
        rejects: str | Path | None = None,
        engine: LoadEngine | str | None = None,
        spark: SparkSettings | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        full: bool = False,
    ) -> LoadResult:
        """Load everything that a pipeline file names, as one commit or not at all.

        What is given here goes before what the file says. `full` loads all of the inputs with
        `since: last`, also what earlier runs loaded. Raises RecipeInvalid with every mistake
        of the file, and whatever `load` raises.
        """
        from omnigraph.sdk.embedded import recipes

        overrides = recipes.Overrides(
            branch, from_branch, max_errors, rejects, engine, spark, message, idempotency_key, full
        )
        return recipes.run(self._graph, path, actor, overrides)

    def plan_pipeline(self, path: str | Path, *, spark: SparkSettings | None = None) -> RecipePlan:
        """What a pipeline file would feed, by the schema of this graph. Nothing is loaded.

        Names, headers and footers of files are read; Spark is started if there are expressions.
        Raises RecipeInvalid, FileUnreadable.
        """
        from omnigraph.sdk.embedded import recipes

        return recipes.plan(self._graph, path, spark)

    def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = "jsonl",  # noqa: A002 - what everybody calls it
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        spark: SparkSettings | None = None,
    ) -> ExportResult:
        """Write what a snapshot shows: records to a file, or Parquet to a new folder.

        `output` is a path, an address at `s3://`, which the storage options of the graph reach, or
        an open file.

        All types, or those named by `types` and by table key in `tables`. What is written loads
        back into an equal graph. Large graphs are exported on Spark. Raises TypeUnknown,
        TableUnknown, BranchNotFound, CommitNotFound, VersionNotFound, FileUnreadable,
        NotExportable, UsageError.
        """
        from omnigraph.engine.load.export import ExportFormat, Selection
        from omnigraph.sdk.embedded import exporting

        shown = self._graph.resolve(
            target_of(branch, commit=commit, version=version), Action.EXPORT
        )
        selection = Selection(tuple(types), tuple(tables))
        return exporting.export(
            self._graph,
            shown,
            selection,
            output,
            parse_choice(ExportFormat, format, "an export"),
            spark=spark,
        )

    def export_lines(
        self,
        *,
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> Iterator[bytes]:
        """The same records as a stream, some whole lines at a time."""
        from omnigraph.engine.load.export import Selection
        from omnigraph.sdk.embedded import exporting

        shown = self._graph.resolve(
            target_of(branch, commit=commit, version=version), Action.EXPORT
        )
        return exporting.lines_of(self._graph, shown, Selection(tuple(types), tuple(tables)))

    def dataframe(
        self,
        type_name: str,
        *,
        spark: SparkSession | None = None,
        columns: Sequence[str] | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> DataFrame:
        """The rows of one type as a Spark DataFrame; edges have columns `from` and `to`.

        It shows one snapshot, whatever is written later. Uses the active session, or starts one.
        Raises TypeUnknown, UsageError, BranchNotFound, CommitNotFound, JavaMissing, SparkUnusable.
        """
        require("pyspark", extra="spark")
        from omnigraph.pipeline.datasource import open_dataframe

        shown = self._graph.resolve(target_of(branch, commit=commit, version=version))
        return open_dataframe(self._graph, shown, type_name, spark=spark, columns=columns)
