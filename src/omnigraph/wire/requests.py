"""Bodies of requests. An unknown field is ignored; a field that is null counts as absent."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from omnigraph.wire.formats import (
    BRANCH,
    MAYBE_BRANCH,
    PROGRAM,
    TIME,
    TYPE,
    VERSION_MAX,
    exclude,
)

Mode = Literal["append", "merge", "overwrite"]
Engine = Literal["auto", "local", "spark"]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, populate_by_name=True)


def _read_whole(number: object) -> object:
    """JSON has one kind of number: 3.0 is an integer as 3 is."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


_Number = Annotated[int, Field(ge=1, le=VERSION_MAX), BeforeValidator(_read_whole)]
_Version = Annotated[
    _Number | None, Field(description="Read the branch at this version of its manifest.")
]
_At = Annotated[
    str | None,
    Field(
        description="Read the branch at this time, e.g. 2026-06-01T00:00:00Z.",
        max_length=100,
        json_schema_extra=TIME,
    ),
]
_Branch = Annotated[
    str | None, Field(description="The branch; main if none.", json_schema_extra=MAYBE_BRANCH)
]
_Program = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("query", "query_source"),
        description="A .gq program.",
        json_schema_extra=PROGRAM,
    ),
]
_Type = Annotated[str, Field(description="A node or edge type.", json_schema_extra=TYPE)]

_Timeout = Annotated[
    float | None,
    Field(
        description="Stop the read after this many seconds, unless the server's limit is shorter.",
        ge=0.001,
        le=86_400,
        allow_inf_nan=False,
    ),
]


_QueryName = Annotated[
    str | None,
    Field(
        validation_alias=AliasChoices("name", "query_name"),
        description="The query to run if the program holds several.",
    ),
]
_Params = Annotated[dict[str, Any] | None, Field(description="Values by name.")]
_Snapshot = Annotated[str | None, Field(description="Read the graph at this commit.")]


class ExplainBody(_Body):
    model_config = ConfigDict(json_schema_extra=exclude(("snapshot", "branch")))

    query: _Program
    name: _QueryName = None
    params: _Params = None
    branch: _Branch = None
    snapshot: _Snapshot = None
    timeout: _Timeout = None
    analyze: Annotated[
        bool, Field(description="Run the query, and report what each operator did.")
    ] = False


class QueryBody(_Body):
    model_config = ConfigDict(
        json_schema_extra=exclude(("snapshot", "version", "at"), ("snapshot", "branch"))
    )

    query: _Program
    name: _QueryName = None
    params: _Params = None
    branch: _Branch = None
    snapshot: _Snapshot = None
    version: _Version = None
    at: _At = None
    timeout: _Timeout = None


class MutateBody(_Body):
    query: _Program
    name: Annotated[str | None, Field(validation_alias=AliasChoices("name", "query_name"))] = None
    params: dict[str, Any] | None = None
    branch: _Branch = None


class _InsertStep(_Body):
    op: Literal["insert", "upsert"]
    type: _Type
    rows: Annotated[
        list[dict[str, Any]], Field(description="Edges name their ends `from` and `to`.")
    ]


class _DeleteStep(_Body):
    op: Literal["delete"]
    type: _Type
    ids: list[str]


class _MutateStep(_Body):
    op: Literal["mutate"]
    query: _Program
    name: str | None = None
    params: dict[str, Any] | None = None


Step = Annotated[_InsertStep | _DeleteStep | _MutateStep, Field(discriminator="op")]


class TransactionBody(_Body):
    steps: Annotated[
        list[Step], Field(description="Run in order; each sees what the ones before it wrote.")
    ]
    branch: _Branch = None


class InvokeBody(_Body):
    model_config = ConfigDict(
        json_schema_extra=exclude(("snapshot", "version", "at"), ("snapshot", "branch"))
    )

    params: dict[str, Any] | None = None
    branch: _Branch = None
    snapshot: str | None = None
    version: _Version = None
    at: _At = None
    timeout: _Timeout = None
    expect_mutation: Annotated[
        bool | None, Field(description="Refuse if the query is of the other kind.")
    ] = None


class RowsBody(_Body):
    type: _Type
    rows: Annotated[
        list[dict[str, Any]], Field(description="Edges name their ends `from` and `to`.")
    ]
    existing: Annotated[
        Literal["refuse", "replace"],
        Field(description="Refuse or replace rows that exist already."),
    ] = "refuse"
    branch: _Branch = None


class RowsDeleteBody(_Body):
    type: _Type
    ids: list[str]
    branch: _Branch = None


class LoadBody(_Body):
    data: Annotated[str, Field(description="Records, one JSON object after the other.")]
    branch: _Branch = None
    from_: Annotated[
        str | None,
        Field(
            validation_alias=AliasChoices("from", "from_"),
            description="Create the branch from this one if it does not exist.",
            json_schema_extra=MAYBE_BRANCH,
        ),
    ] = None
    mode: Mode | None = None
    engine: Annotated[
        Engine | None, Field(description="Where to load; by default by the size of the input.")
    ] = None


class ExportBody(_Body):
    model_config = ConfigDict(
        json_schema_extra=exclude(("snapshot", "version"), ("snapshot", "branch"))
    )

    branch: _Branch = None
    type_names: list[_Type] | None = None
    table_keys: Annotated[list[str] | None, Field(description="`node:Type` or `edge:Type`.")] = None
    snapshot: Annotated[str | None, Field(description="Export the graph at this commit.")] = None
    version: _Version = None


class BaselineBody(_Body):
    branch: _Branch = None
    type_names: list[_Type] | None = None
    table_keys: Annotated[
        list[str] | None,
        Field(
            description="A baseline is restricted by type names.",
            json_schema_extra={"maxItems": 0},
        ),
    ] = None
    kinds: Annotated[
        list[Literal["node", "edge"]] | None, Field(description="Only nodes, or only edges.")
    ] = None


class SchemaPlanBody(_Body):
    schema_source: str
    allow_data_loss: bool = False
    backfill: Annotated[
        dict[str, str] | None,
        Field(description="`Type.property` to the SQL expression of its value in existing rows."),
    ] = None


class SchemaApplyBody(SchemaPlanBody):
    """The fields of a plan; the server applies it."""

    portable: Annotated[
        bool, Field(description="Refuse a schema that the reference 0.8 does not understand.")
    ] = False


class BranchCreateBody(_Body):
    model_config = ConfigDict(json_schema_extra=exclude(("from", "commit")))

    name: Annotated[
        str,
        Field(
            description="At most 150 characters, where a slash counts for three"
            " and a letter outside ASCII for six or more.",
            json_schema_extra=BRANCH,
        ),
    ]
    from_: Annotated[
        str | None,
        Field(validation_alias=AliasChoices("from", "from_"), json_schema_extra=MAYBE_BRANCH),
    ] = None
    commit: Annotated[str | None, Field(description="Start at this commit instead.")] = None


DeleteBranch = Annotated[bool, Field(description="Delete the source afterwards.")]


class ConflictsBody(_Body):
    """The fields of every request that can meet conflicts: merges, picks, reverts, proposals."""

    detect: Annotated[
        Literal["row", "property"] | None,
        Field(description="Two changes conflict if they touch the same row, or the same property."),
    ] = None
    on_conflict: Annotated[
        Literal["ours", "theirs"] | dict[str, Literal["ours", "theirs"]] | None,
        Field(description="The side that wins, for all types or by type."),
    ] = None
    resolutions: Annotated[
        str | None, Field(description="A conflict file with a resolution for each conflict.")
    ] = None
    dry_run: Annotated[bool, Field(description="Report the outcome; change nothing.")] = False


class MergeBody(ConflictsBody):
    source: Annotated[str, Field(json_schema_extra=BRANCH)]
    target: Annotated[
        str | None, Field(description="main if none.", json_schema_extra=MAYBE_BRANCH)
    ] = None
    delete_branch: DeleteBranch = False
    base: Annotated[
        str | None,
        Field(description="The commit to compare both sides with, instead of the merge base."),
    ] = None
