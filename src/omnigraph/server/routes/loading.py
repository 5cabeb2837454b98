"""Loads: records in a JSON string, as a raw stream, or as files."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.load.bulk import LoadEngine
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.settings import ERRORS_MAX
from omnigraph.engine.stages import watching
from omnigraph.engine.write.idempotency import hash_files, hash_of
from omnigraph.ids import MAIN, BranchName, parse_branch
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.policy.actions import Action
from omnigraph.sdk.documents import load_document
from omnigraph.sdk.tables import read_table
from omnigraph.server.jobs.record import JobRequest
from omnigraph.server.request_context import (
    KEYED,
    PREFERRED,
    BranchQuery,
    Context,
    LoadRoute,
    RequestContext,
    StreamRoute,
)
from omnigraph.server.responses.answers import answer, deprecate
from omnigraph.server.responses.openapi import ACCEPTED, WRITING
from omnigraph.server.routes.jobs import begin_job
from omnigraph.server.runtime.shared_spark import run_on_spark
from omnigraph.server.spool import Spool, spool_files, spool_stream, spool_text
from omnigraph.server.telemetry import metrics
from omnigraph.wire.formats import CONSTANT, MAYBE_BRANCH, PAIR
from omnigraph.wire.replies import LoadReply
from omnigraph.wire.requests import Engine, LoadBody, Mode

router = APIRouter(
    route_class=LoadRoute, responses=WRITING | ACCEPTED, dependencies=[KEYED, PREFERRED]
)
streams = APIRouter(
    route_class=StreamRoute, responses=WRITING | ACCEPTED, dependencies=[KEYED, PREFERRED]
)

_From = Annotated[
    str | None,
    Query(
        alias="from",
        description="Create the branch from this one if it is missing.",
        json_schema_extra=MAYBE_BRANCH,
    ),
]
_Engine = Annotated[
    Engine | None, Query(description="Where to load; by default by the size of the input.")
]
_Pair = Annotated[str, Query(json_schema_extra=PAIR)]
TableFormat = Literal["jsonl", "parquet", "csv"]
_Mode = Annotated[Mode, Query(description="What happens to existing rows.")]


@router.post("/load", operation_id="cluster_load", response_model=LoadReply)
def load(context: Context, body: LoadBody) -> Response:
    """Load records as one commit, or none."""
    return _load_text(context, body)


@router.post("/ingest", operation_id="cluster_ingest", response_model=LoadReply, deprecated=True)
def ingest(context: Context, body: LoadBody) -> Response:
    """Deprecated name of load."""
    return deprecate(_load_text(context, body), "/ingest")


@streams.post(
    "/load/ndjson",
    operation_id="cluster_loadNdjson",
    response_model=LoadReply,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        }
    },
)
async def load_stream(
    context: Context,
    branch: BranchQuery = None,
    from_: _From = None,
    mode: _Mode = "merge",
    engine: _Engine = None,
) -> Response:
    """Load a body of records, one JSON object a line, of any size."""
    _check(context, branch, from_)
    spool = await spool_stream(context.request)
    options = LoadOptions(branch, from_, mode, engine=engine)
    return await run_in_threadpool(_load, context, spool, options)


@streams.post(
    "/load/files",
    operation_id="cluster_loadFiles",
    response_model=LoadReply,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "files": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "string", "format": "binary"},
                            }
                        },
                        "required": ["files"],
                        "additionalProperties": False,
                    }
                }
            },
        }
    },
)
async def load_files(
    context: Context,
    *,
    branch: BranchQuery = None,
    from_: _From = None,
    mode: _Mode = "merge",
    type_: Annotated[
        str | None, Query(alias="type", description="The node type of the rows of a table.")
    ] = None,
    edge: Annotated[str | None, Query(description="The edge type of the rows of a table.")] = None,
    mapping: Annotated[
        list[_Pair] | None, Query(alias="map", description="PROPERTY=COLUMN, for a table.")
    ] = None,
    format_: Annotated[
        TableFormat | None, Query(alias="format", description="By default by the names of files.")
    ] = None,
    delimiter: Annotated[
        str | None, Query(min_length=1, description="Between the cells of a CSV; tab is a tab.")
    ] = None,
    null: Annotated[str, Query(description="The text that means null in a CSV.")] = "",
    header: Annotated[
        str | None,
        Query(
            min_length=1,
            description="The names of the columns of a CSV without a header line, separated by "
            "commas; none: they are called 1, 2 and so on.",
        ),
    ] = None,
    skip: Annotated[
        int, Query(ge=0, le=1_000_000, description="Records of a CSV to leave out in front.")
    ] = 0,
    quote: Annotated[
        Literal["none"] | None,
        Query(description="none: a quote in a CSV is a character like any other."),
    ] = None,
    const: Annotated[
        list[Annotated[str, Query(json_schema_extra=CONSTANT)]] | None,
        Query(description="PROPERTY=VALUE: the same value in every row."),
    ] = None,
    pattern: Annotated[
        list[_Pair] | None,
        Query(description="PROPERTY=PATTERN: how a Date or DateTime is spelled, as %d.%m.%Y."),
    ] = None,
    lookup: Annotated[
        list[_Pair] | None,
        Query(description="from=TYPE.PROPERTY: by which property the node of an end is found."),
    ] = None,
    max_errors: Annotated[int, Query(ge=1, le=10_000)] = ERRORS_MAX,
    engine: _Engine = None,
) -> Response:
    """Load files: records or tables (Parquet, CSV), by the suffixes of their names."""
    _check(context, branch, from_)
    table = read_table(
        type=type_,
        edge=edge,
        map=mapping or (),
        format=format_,
        delimiter=delimiter,
        null=null,
        header=header,
        skip=skip,
        quote=quote,
        const=const or (),
        pattern=pattern or (),
        lookup=lookup or (),
    )
    options = LoadOptions(branch, from_, mode, table, max_errors, engine)
    limits = context.state.settings.limits
    spool = await spool_files(context.request, limits.load_stream_bytes)
    return await run_in_threadpool(_load, context, spool, options)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The branch and mode of a load, and what the rows of tables are."""

    branch: str | None
    from_: str | None
    mode: Mode
    table: Input = field(default_factory=lambda: Input(None))
    errors_max: int = ERRORS_MAX
    engine: Engine | None = None


def _check(context: RequestContext, branch: str | None, from_: str | None) -> BranchName:
    """Check every action of the load. Raises Forbidden, BranchNameInvalid."""
    name = parse_branch(branch or MAIN)
    context.check(Action.CHANGE, name)
    if from_ is not None:
        source = parse_branch(from_)
        if not context.graph.engine.has_branch(name):
            context.check(Action.BRANCH_CREATE, source, target=name)
    return name


def _load_text(context: RequestContext, body: LoadBody) -> Response:
    _check(context, body.branch, body.from_)
    options = LoadOptions(body.branch, body.from_, body.mode or "merge", engine=body.engine)
    return _load(context, spool_text(body.data), options)


def _load(context: RequestContext, spool: Spool, options: LoadOptions) -> Response:
    """Load now, or as a job if the caller prefers. The spool is removed in both cases."""

    def work(key: str | None) -> JsonObject:
        return _carry_out(context, spool, options, key)

    if context.prefers_job:
        with ExitStack() as stack:
            stack.callback(spool.remove)
            what = hash_of(*hash_files(spool.files), asdict(options))
            job = JobRequest("load", options.branch or MAIN, context.actor, context.key, what)
            clean = stack.pop_all().close
        return begin_job(context, job, work, clean)
    try:
        with context.admitted(), watching(metrics.StageMeter()):
            return answer(work(context.key))
    finally:
        spool.remove()


def _carry_out(
    context: RequestContext, spool: Spool, options: LoadOptions, key: str | None
) -> JsonObject:
    from omnigraph.pipeline.load import fits_here  # noqa: PLC0415 - for loads only

    is_local = options.engine == "local" or (
        options.engine in (None, "auto") and fits_here(spool.files)
    )

    def load(spark: SparkSettings | None) -> LoadResult:
        return context.graph.load(
            [replace(options.table, data=file) for file in spool.files],
            mode=options.mode,
            max_errors=options.errors_max,
            branch=options.branch or MAIN,
            from_branch=options.from_,
            actor=context.actor,
            idempotency_key=key,
            message=context.message,
            engine=LoadEngine.LOCAL if is_local else options.engine,
            spark=spark,
        )

    with metrics.LOADS.time(), spool.named():
        # A load of the local engine must not wait for the shared Spark to start.
        result = load(None) if is_local else run_on_spark(load)
    context.count(result.commit)
    return {**load_document(result), "base_branch": result.base_branch}
