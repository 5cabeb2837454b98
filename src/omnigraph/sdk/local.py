"""An embedded graph: a directory or a prefix, opened in this process."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.embed.settings import EmbedSettings
from omnigraph.engine import opening
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.load.bulk import ERRORS_MAX, LoadEngine, LoadMode
from omnigraph.engine.load.export import ExportFormat, ExportResult, Selection
from omnigraph.engine.load.inputs import Input, find_inputs_in
from omnigraph.engine.load.recipe_plan import RecipePlan
from omnigraph.engine.load.run import LoadRequest, LoadResult
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.opening import Remains
from omnigraph.engine.query.blob import BlobName, OpenBlob
from omnigraph.engine.query.reading import Explanation
from omnigraph.engine.query.result import QueryResult
from omnigraph.engine.query.target import NOW_ON_MAIN, Target
from omnigraph.engine.settings import DEFAULTS, AccessMode, Settings
from omnigraph.engine.write.idempotency import parse_key, parse_key_of_files
from omnigraph.engine.write.mutate import MutationResult, WriteRequest
from omnigraph.engine.write.steps import WriteStep
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, parse_branch
from omnigraph.lang.source import Source
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.policy.actions import Action
from omnigraph.sdk import exporting, merging, recipes
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.closed import Closed
from omnigraph.sdk.handles import Branch
from omnigraph.sdk.local_review import LocalReview
from omnigraph.sdk.local_upkeep import LocalUpkeep
from omnigraph.sdk.moments import target_of
from omnigraph.sdk.rejecting import rejecting
from omnigraph.sdk.steps import parts_of
from omnigraph.sdk.texts import read_text
from omnigraph.storage.durability import Durability
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.pipeline.datasource import DataFrame, SparkSession


class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        return self._graph.branches()

    def create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchName:
        """A branch that starts as `source` is now, or as `commit` left the graph.

        It costs the same whatever the graph holds. Raises BranchExists, BranchNameInvalid,
        BranchNotFound, CommitNotFound, SchemaLocked, OpenedReadOnly.
        """
        return self._graph.create_branch(
            name,
            source=parse_branch(source),
            commit_id=None if commit is None else CommitId(commit),
            actor=actor,
            idempotency=parse_key(idempotency_key, "branch create", name, source, commit),
        )

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Raises BranchNotFound, BranchInUse, BranchNameInvalid, SchemaLocked, OpenedReadOnly."""
        key = parse_key(idempotency_key, "branch delete", name)
        return self._graph.delete_branch(name, actor=actor, idempotency=key)


class LocalGraph(LocalReview, LocalUpkeep, GraphClient):
    """A graph opened in this process. Safe to share among threads."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._branches = Branches(graph)
        self._place = graph.uri

    def __repr__(self) -> str:
        if isinstance(self._graph, Closed):
            return f"Graph({self._place!r}, closed)"
        manifest = self._graph.resolve(NOW_ON_MAIN)
        head = "no commit" if manifest.commit is None else manifest.commit.id
        counts = f"{len(manifest.pins)} types, {len(self._graph.branches())} branches"
        return f"Graph({self._place!r}, main @ {head}, {counts})"

    @property
    def branches(self) -> Branches:
        """The branches: `list`, `create`, `delete`."""
        return self._branches

    def close(self) -> None:
        """Release the caches. Later calls raise GraphClosed; closing again does nothing."""
        self._graph = cast("Graph", Closed(self._place))
        self._branches = Branches(self._graph)

    @property
    def engine(self) -> Graph:
        """The engine's open graph, for programs that embed it."""
        return self._graph

    def acting_as(self, actor: str | None) -> "LocalGraph":
        """The same open graph, whose reads the policy decides for this actor."""
        return LocalGraph(self._graph.acting_as(actor))

    @property
    def uri(self) -> str:
        return self._graph.uri

    @property
    def objects(self) -> Objects:
        """For records that are kept beside the graph, such as jobs."""
        return self._graph.objects

    @property
    def catalog(self) -> Catalog:
        """What the schema in force means."""
        return self._graph.catalog

    @property
    def schema_source(self) -> str:
        """The schema in force, as it was written."""
        return self._graph.schema_source

    # reading

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> ManifestSnapshot:
        """The table versions of a state. `at` gives the same state with its reads.

        Raises BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, UsageError.
        """
        return self._graph.resolve(target_of(branch, commit=commit, version=version, at=at))

    def query(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
    ) -> QueryResult:
        """Run a read on one snapshot, which no writer changes.

        `source` is the text of a query file, or the path of one; `name` picks a query when there
        are several. It reads a branch as it is now; or, of the past, a `commit` or a `snapshot`, a
        branch at a `version` of its manifest, or a branch as it was `at` a time. It is stopped
        after `timeout` seconds, if that is given.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotARead, UsageError before anything
        is read; BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, QueryMemoryExceeded,
        QueryTimeout.
        """
        text, called = read_text(source, "<query>")
        return self._graph.query(
            Source(called, text),
            name=name,
            params=params,
            target=target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at),
            timeout=timeout,
            binding=binding,
        )

    def find(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> dict[str, object] | None:
        """One node or edge by its id, now or in the past; None if there is none.

        Raises TypeUnknown, UsageError, BranchNotFound, CommitNotFound, VersionNotFound, NothingYet.
        """
        found = self.look_up(
            type_name,
            identity,
            branch=branch,
            snapshot=snapshot,
            commit=commit,
            version=version,
            at=at,
        ).rows()
        return found[0] if found else None

    def look_up(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> QueryResult:
        """What `find` finds, as a result of one row or none."""
        target = target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return self._graph.find(type_name, identity, target)

    def blob(
        self,
        entity: str,
        type_name: str,
        identity: str,
        property_name: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> OpenBlob:
        """What one property of one node or edge holds, to read parts of: now or in the past.

        `entity` is `node` or `edge`. Of a blob that is kept elsewhere only the `uri` is told; what
        is there is never fetched.

        Raises BlobNotFound, NotABlob, UsageError, BranchNotFound, CommitNotFound, VersionNotFound,
        NothingYet.
        """
        name = BlobName(entity, type_name, identity, property_name)
        target = target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return self._graph.blob(name, target)

    def explain(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add rows, time and reads of each step.

        Raises what `query` raises.
        """
        text, called = read_text(source, "<query>")
        return self._graph.explain(
            Source(called, text),
            name=name,
            params=params,
            target=target_of(branch, snapshot=snapshot),
            analyze=analyze,
            timeout=timeout,
        )

    def schema_at(self, snapshot: ManifestSnapshot) -> str:
        """The text of the schema under which a snapshot was committed."""
        return self._graph.schema_at(Target(snapshot=snapshot)).source

    # writing

    def write(
        self,
        steps: Sequence[WriteStep],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run steps in order, as one commit or not at all. Raises what each step raises."""
        parts = [parts_of(each) for each in steps] if idempotency_key is not None else []
        asked = parts[0] if len(parts) == 1 else ["transaction", parts]
        request = WriteRequest(
            parse_branch(branch),
            actor,
            None if if_commit is None else CommitId(if_commit),
            parse_key(idempotency_key, *asked, branch),
            message,
        )
        return self._graph.write(steps, request)

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
        standard input. Or it is a Spark data frame, an `Input`, or a list of all these. Parquet
        files, CSV files and data frames are tables: `type` says which nodes their rows are, or
        `edge` which edges, and `mapping` which column feeds which property. A branch that does not
        exist is made from `from_branch`, if that is given.

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
        from omnigraph.pipeline.load import open_bulk, parse_engine  # noqa: PLC0415 - for loads only

        table = Input(None, type=type, edge=edge, mapping=dict(mapping or {}))
        inputs = find_inputs_in(source, table)
        files = [str(each.data) for each in inputs if isinstance(each.data, str | Path)]
        shapes = [each.shape for each in inputs if each.is_table]
        order = LoadRequest(
            sources=inputs,
            mode=_mode(mode),
            branch=parse_branch(branch),
            actor=actor,
            errors_max=max_errors,
            message=message,
            engine=None if engine is None else parse_engine(engine),
            idempotency=parse_key_of_files(
                idempotency_key, files, shapes, str(mode), branch, from_branch
            ),
        )
        base = None if from_branch is None else parse_branch(from_branch)
        with rejecting(rejects) as told:
            return self._graph.load(
                replace(order, rejects=told), open_bulk(spark), from_branch=base
            )

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
    ) -> LoadResult:
        """Load everything that a pipeline file names, as one commit or not at all.

        What is given here goes before what the file says. Raises RecipeInvalid with every mistake
        of the file, and whatever `load` raises.
        """
        overrides = recipes.Overrides(branch, from_branch, max_errors, rejects, engine, spark)
        return recipes.run(self._graph, path, actor, overrides)

    def plan_pipeline(self, path: str | Path, *, spark: SparkSettings | None = None) -> RecipePlan:
        """What a pipeline file would feed, by the schema of this graph. Nothing is loaded.

        Names, headers and footers of files are read; Spark is started if there are expressions.
        Raises RecipeInvalid, FileUnreadable.
        """
        return recipes.plan(self._graph, path, spark)

    # exporting

    def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = ExportFormat.JSONL,  # noqa: A002 - what everybody calls it
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        spark: SparkSettings | None = None,
    ) -> ExportResult:
        """Write what a snapshot shows: records to a file, or Parquet to a new folder.

        All types, or those named by `types` and by table key in `tables`. What is written loads
        back into an equal graph. Large graphs are exported on Spark. Raises TypeUnknown,
        TableUnknown, BranchNotFound, CommitNotFound, VersionNotFound, FileUnreadable,
        NotExportable, UsageError.
        """
        shown = self._graph.resolve(
            target_of(branch, commit=commit, version=version), Action.EXPORT
        )
        selection = Selection(tuple(types), tuple(tables))
        return exporting.export(self._graph, shown, selection, output, _format(format), spark=spark)

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
        shown = self._graph.resolve(
            target_of(branch, commit=commit, version=version), Action.EXPORT
        )
        return exporting.lines_of(self._graph, shown, Selection(tuple(types), tuple(tables)))

    # merging

    def merge(
        self,
        source: str | Branch,
        into: str | Branch = MAIN,
        *,
        actor: str | None = None,
        detect: str = "row",
        on_conflict: str | Mapping[str, str] | None = None,
        resolutions: str | Path | None = None,
        base: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Make `into` show what `source` changed since they last agreed: one commit, or nothing.

        `detect` is `row`, or `property` to let both sides change different properties of a row.
        `on_conflict` is `ours` or `theirs`, or says it by type name. `resolutions` is the text or
        the path of a file of conflicts that somebody filled in. `dry_run` only tells, and lists
        conflicts instead of raising them. `base` names the commit to take as the common state.
        `delete_branch` deletes the source afterwards; if that cannot be, the merge stands and the
        result says why.

        Raises MergeConflicts, MergeBaseUnavailable, HeadMoved, ResolutionsInvalid, BranchNotFound,
        CommitNotFound, SchemaLocked, OpenedReadOnly, UsageError.
        """
        text = None if resolutions is None else read_text(resolutions, "<resolutions>")[0]
        decided = merging.Decided(detect, on_conflict, text)
        return merging.merge(
            self._graph,
            merging.Request(
                str(source),
                str(into),
                actor,
                base,
                dry_run,
                idempotency_key,
                delete_branch,
                message,
            ),
            decided,
        )

    def dataframe(
        self,
        type_name: str,
        *,
        spark: "SparkSession | None" = None,
        columns: Sequence[str] | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> "DataFrame":
        """The rows of one type as a Spark DataFrame; edges have columns `from` and `to`.

        It shows one snapshot, whatever is written later. Uses the active session, or starts one.
        Raises TypeUnknown, UsageError, BranchNotFound, CommitNotFound, JavaMissing, SparkUnusable.
        """
        from omnigraph.pipeline.datasource import open_dataframe  # noqa: PLC0415 - brings Spark

        shown = self.snapshot(branch, commit=commit, version=version)
        return open_dataframe(self._graph, shown, type_name, spark=spark, columns=columns)


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    force: bool = False,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = Durability.DURABLE,
) -> LocalGraph:
    """Make an empty graph at `uri`. `schema` is the text of a schema, or the path of one.

    `force` clears the remains of an attempt that was killed. It never touches a graph.

    Raises SchemaInvalid, FileUnreadable, GraphExists, GraphIncomplete.
    """
    text, name = read_text(schema, "<schema>")
    graph = opening.create(
        str(uri),
        text,
        name=name,
        remains=Remains.CLEAR if force else Remains.REFUSE,
        actor=actor,
        settings=_settings(storage_options, durability),
    )
    return LocalGraph(graph)


def open(  # noqa: A001 - omnigraph.open reads as it should
    uri: str | Path,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = Durability.DURABLE,
    maintenance: bool = True,
    embedding: EmbedSettings | None = None,
    query_access: AccessMode = AccessMode.AUTO,
    query_memory_bytes_max: int = DEFAULTS.query_memory_bytes_max,
    query_cache_bytes_max: int = DEFAULTS.query_cache_bytes_max,
    storage_cache_bytes_max: int = DEFAULTS.storage_cache_bytes_max,
) -> LocalGraph:
    """Open the graph at `uri`. Opened read-only, nothing is ever written, not even a migration.

    `embedding` says who turns the texts that `nearest` is given into vectors; without it the
    environment does. One read holds at most `query_memory_bytes_max`; columns and adjacencies that
    reads share take `query_cache_bytes_max`; `query_access` says how reads reach tables. What is
    kept of the files themselves, as of indexes, takes `storage_cache_bytes_max`.

    Raises GraphNotFound, GraphIncomplete, GraphRelocated, FormatTooNew, FormatTooOld,
    SchemaFilesInvalid.
    """
    mode = Mode.READ_ONLY if read_only else Mode.READ_WRITE
    settings = replace(
        _settings(storage_options, durability, maintenance=maintenance),
        embedding=embedding,
        query_access=query_access,
        query_memory_bytes_max=query_memory_bytes_max,
        query_cache_bytes_max=query_cache_bytes_max,
        storage_cache_bytes_max=storage_cache_bytes_max,
    )
    return LocalGraph(opening.open_graph(str(uri), mode=mode, settings=settings))


def _settings(
    options: Mapping[str, str] | None, durability: Durability, *, maintenance: bool = True
) -> Settings:
    return Settings(
        storage_options=dict(options or {}), durability=durability, maintenance=maintenance
    )


def _mode(given: LoadMode | str) -> LoadMode:
    try:
        return LoadMode(given)
    except ValueError:
        raise UsageError(f"a load is append, merge or overwrite, not '{given}'") from None


def _format(given: ExportFormat | str) -> ExportFormat:
    try:
        return ExportFormat(given)
    except ValueError:
        raise UsageError(f"an export is jsonl or parquet, not '{given}'") from None
