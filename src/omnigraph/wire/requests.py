"""Bodies of requests. Fields nobody knows are ignored; a field of null is one that was left out."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

Mode = Literal["append", "merge", "overwrite"]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, populate_by_name=True)


_Version = Annotated[
    int | None,
    Field(description="Read the branch at this version of its manifest.", ge=1, le=2**63 - 1),
]
_At = Annotated[
    str | None,
    Field(description="Read the branch as it was, e.g. 2026-06-01T00:00:00Z.", max_length=100),
]


class QueryRequest(_Request):
    query: Annotated[
        str,
        Field(validation_alias=AliasChoices("query", "query_source"), description="A .gq program."),
    ]
    name: Annotated[
        str | None,
        Field(
            validation_alias=AliasChoices("name", "query_name"),
            description="Which query, when the program holds several.",
        ),
    ] = None
    params: Annotated[dict[str, Any] | None, Field(description="Values by name.")] = None
    branch: Annotated[str | None, Field(description="Which branch; main if none.")] = None
    snapshot: Annotated[str | None, Field(description="Read the graph as this commit left it.")] = (
        None
    )
    version: _Version = None
    at: _At = None


class MutateRequest(_Request):
    query: Annotated[
        str,
        Field(validation_alias=AliasChoices("query", "query_source"), description="A .gq program."),
    ]
    name: Annotated[str | None, Field(validation_alias=AliasChoices("name", "query_name"))] = None
    params: dict[str, Any] | None = None
    branch: str | None = None


class InvokeRequest(_Request):
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    version: _Version = None
    at: _At = None
    expect_mutation: Annotated[
        bool | None, Field(description="Refuse if the query is of the other kind.")
    ] = None


class RowsRequest(_Request):
    type: Annotated[str, Field(description="A node or edge type.")]
    rows: Annotated[
        list[dict[str, Any]], Field(description="Edges name their ends `from` and `to`.")
    ]
    existing: Annotated[
        Literal["refuse", "replace"], Field(description="What becomes of rows that are there.")
    ] = "refuse"
    branch: str | None = None


class RowsDeleteRequest(_Request):
    type: str
    ids: list[str]
    branch: str | None = None


class LoadRequest(_Request):
    data: Annotated[str, Field(description="Records, one JSON object after the other.")]
    branch: str | None = None
    from_: Annotated[
        str | None,
        Field(
            validation_alias=AliasChoices("from", "from_"),
            description="Make the branch from this one, if it is not there.",
        ),
    ] = None
    mode: Mode | None = None


class ExportRequest(_Request):
    branch: str | None = None
    type_names: list[str] | None = None
    table_keys: list[str] | None = None
    snapshot: Annotated[
        str | None, Field(description="Export the graph as this commit left it.")
    ] = None
    version: _Version = None


class BaselineRequest(_Request):
    branch: str | None = None
    type_names: list[str] | None = None
    table_keys: list[str] | None = None
    kinds: Annotated[
        list[Literal["node", "edge"]] | None, Field(description="Only nodes, or only edges.")
    ] = None


class SchemaPlanRequest(_Request):
    schema_source: str
    allow_data_loss: bool = False
    backfill: Annotated[
        dict[str, str] | None,
        Field(description="`Type.property` to what old rows get in it, as an SQL expression."),
    ] = None


class SchemaApplyRequest(SchemaPlanRequest):
    """The same words, meant."""


class BranchCreateRequest(_Request):
    name: str
    from_: Annotated[str | None, Field(validation_alias=AliasChoices("from", "from_"))] = None
    commit: Annotated[
        str | None, Field(description="Start as this commit left the graph instead.")
    ] = None


class MergeRequest(_Request):
    source: str
    target: str | None = None
    delete_branch: Annotated[bool, Field(description="Delete the source afterwards.")] = False
    detect: Annotated[
        Literal["row", "property"] | None, Field(description="What may be changed by one side.")
    ] = None
    on_conflict: Annotated[
        Literal["ours", "theirs"] | dict[str, Literal["ours", "theirs"]] | None,
        Field(description="Who wins, for all types or by type."),
    ] = None
    resolutions: Annotated[
        str | None, Field(description="A file of conflicts that somebody filled in.")
    ] = None
    dry_run: Annotated[bool, Field(description="Only tell what would happen.")] = False
    base: Annotated[
        str | None, Field(description="The commit to compare both with, instead of the found one.")
    ] = None
