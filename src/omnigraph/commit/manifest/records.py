"""The records inside manifest rows, and their JSON.

The format fixes the order of the keys and leaves out absent ones. Readers ignore unknown keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version, graph_branch
from omnigraph.jsontext import read_json

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""`json.dumps` would make one for each document."""


def dump_json(document: JsonValue) -> str:
    return _ENCODER.encode(document)


def as_time(microseconds: int) -> datetime:
    """Microseconds since 1970 as a time, exactly."""
    return _EPOCH + timedelta(microseconds=microseconds)


def _without_nulls(document: JsonObject) -> JsonObject:
    return {key: value for key, value in document.items() if value is not None}


# ── the file of a table version ──────────────────────────────────────────────────────────────────

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

UPKEEP: Final = "omnigraph:upkeep"
"""The actor of commits that change no row."""


@dataclass(frozen=True, slots=True)
class VersionFile:
    """The file in which the table format describes a version. Only informational here; the
    reference caches handles by the tag.
    """

    path: str
    size_bytes: int | None = None
    tag: str | None = None

    def encode(self) -> str:
        return dump_json(
            {
                "manifest_path": self.path,
                "manifest_size": self.size_bytes,
                "e_tag": self.tag,
                "naming_scheme": "V2",
            }
        )


def decode_version_file(text: str | None, *, object_id: str) -> VersionFile:
    """Raises ManifestCorrupt."""
    document = _load_object(text, object_id)
    return VersionFile(
        path=_require(document, "manifest_path", str, object_id),
        size_bytes=_take(document, "manifest_size", int, object_id),
        tag=_take(document, "e_tag", str, object_id),
    )


# ── commits ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The idempotency key of a write, the hash of its request and its result."""

    key: str
    body_hash: str
    result: JsonValue = None


Touched = Mapping[TableKey, tuple[str, ...]]
"""The ids of the entities that a write inserted, changed or deleted, by table."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """The place of a commit in its group: the writes that one publish made visible (D29)."""

    id: str
    index: int
    """From 0, in the order of the writes."""
    size: int
    touched: Touched | None = None
    """What this member touched; None if that is too long for a row (`commit.manifest.groups`)."""

    def encode(self) -> JsonObject:
        place: JsonObject = {"id": self.id, "index": self.index, "size": self.size}
        if self.touched is not None:
            place["touched"] = encode_touched(self.touched)
        return place


def encode_touched(touched: Touched) -> JsonObject:
    return {key: list(ids) for key, ids in sorted(touched.items())}


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows of a table, or of several, were inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
        )

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)

    def __str__(self) -> str:
        return f"+{self.inserted} ~{self.updated} \N{MINUS SIGN}{self.deleted}"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a run of a pipeline file loaded of inputs that it follows, for the next run to know.

    A run names the one before it. Of two runs that name the same one, the second is refused.
    """

    name: str
    after: CommitId | None
    """The run before it, among those that the branch shows."""
    inputs: Mapping[str, JsonObject]
    """By the name of an input, how far it was loaded."""

    def encode(self) -> JsonObject:
        return {"name": self.name, "after": self.after, "inputs": dict(self.inputs)}


@dataclass(frozen=True, slots=True)
class Extension:
    """What our commits record beyond the format (D14). Other programs ignore it."""

    operation_id: OperationId | None = None
    idempotency: Idempotency | None = None
    schema_hash: str | None = None
    recovery: JsonValue = None
    """The audit row of a recovery; the audit table can be rebuilt from these."""
    message: str | None = None
    """Why the write was made, in the words of its author."""
    counts: Mapping[TableKey, RowCounts] | None = None
    """The rows that the write changed, by table; None if the writer did not record them."""
    group: GroupPlace | None = None
    """None for a write that was published alone."""
    proposal: str | None = None
    """The proposal that the commit merged (D39)."""
    pipeline: PipelineRun | None = None
    """None for a write that is no run of a pipeline with `since: last`."""

    def __post_init__(self) -> None:
        """Leave out tables without changed rows, as the encoded form does."""
        if self.counts is not None and not all(self.counts.values()):
            changed = {key: each for key, each in self.counts.items() if each}
            object.__setattr__(self, "counts", changed)

    def encode(self) -> JsonObject:
        key = self.idempotency
        return _without_nulls(
            {
                "operation_id": self.operation_id,
                "idempotency": None
                if key is None
                else {"key": key.key, "body_hash": key.body_hash, "result": key.result},
                "schema_hash": self.schema_hash,
                "recovery": self.recovery,
                "message": self.message,
                "counts": _encode_counts(self.counts),
                "group": None if self.group is None else self.group.encode(),
                "proposal": self.proposal,
                "pipeline": None if self.pipeline is None else self.pipeline.encode(),
            }
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """One state of the whole graph."""

    id: CommitId
    branch: BranchName
    manifest_version: Version
    """The version of the branch's manifest that shows the commit."""
    parent: CommitId | None
    merged_parent: CommitId | None
    actor: str | None
    created_at_us: int
    extension: Extension = field(default_factory=Extension)

    def __repr__(self) -> str:
        by = "" if self.actor is None else f" by {self.actor}"
        why = "" if self.message is None else f": {self.message}"
        return f"<Commit {self.id} on {self.branch}{by}{why}>"

    @property
    def message(self) -> str | None:
        return self.extension.message

    @property
    def counts(self) -> Mapping[TableKey, RowCounts] | None:
        """The rows that the write changed, by table. None for a commit that does not record them:
        one of an older version, or of another program.
        """
        return self.extension.counts

    @property
    def row_counts(self) -> RowCounts | None:
        """The rows that the write changed, in all tables together; None as for `counts`."""
        return None if self.counts is None else sum(self.counts.values(), RowCounts())

    @property
    def created_at(self) -> datetime:
        """When the write began, in UTC."""
        return as_time(self.created_at_us)

    @property
    def parents(self) -> tuple[CommitId, ...]:
        return tuple(each for each in (self.parent, self.merged_parent) if each is not None)

    def encode(self) -> str:
        document = _without_nulls(
            {
                "parent_commit_id": self.parent,
                "merged_parent_commit_id": self.merged_parent,
                "actor_id": self.actor,
                "created_at": self.created_at_us,
            }
        )
        extension = self.extension.encode()
        return dump_json({**document, "ext": extension} if extension else document)

    def encode_as_head(self) -> str:
        return dump_json(
            _without_nulls({"head_commit_id": self.id, "parent_commit_id": self.parent})
        )


def decode_commit(
    commit_id: str, *, branch: str | None, manifest_version: int | None, metadata: str | None
) -> Commit:
    """Raises ManifestCorrupt."""
    document = _load_object(metadata, commit_id)
    if manifest_version is None:
        raise ManifestCorrupt(commit_id, reason="a commit without a manifest version")
    parent = _take(document, "parent_commit_id", str, commit_id)
    merged_parent = _take(document, "merged_parent_commit_id", str, commit_id)
    return Commit(
        id=CommitId(commit_id),
        branch=graph_branch(branch),
        manifest_version=Version(manifest_version),
        parent=None if parent is None else CommitId(parent),
        merged_parent=None if merged_parent is None else CommitId(merged_parent),
        actor=_take(document, "actor_id", str, commit_id),
        created_at_us=_require(document, "created_at", int, commit_id),
        extension=decode_extension(document.get("ext"), commit_id),
    )


def decode_extension(found: JsonValue, commit_id: str) -> Extension:
    """Raises ManifestCorrupt."""
    if not isinstance(found, dict):
        return Extension()
    operation_id = _take(found, "operation_id", str, commit_id)
    return Extension(
        operation_id=None if operation_id is None else OperationId(operation_id),
        idempotency=_decode_idempotency(found.get("idempotency"), commit_id),
        schema_hash=_take(found, "schema_hash", str, commit_id),
        recovery=found.get("recovery"),
        message=_take(found, "message", str, commit_id),
        counts=_decode_counts(found.get("counts")),
        group=_decode_group(found.get("group"), commit_id),
        proposal=_take(found, "proposal", str, commit_id),
        pipeline=_decode_run(found.get("pipeline"), commit_id),
    )


def _encode_counts(counts: Mapping[TableKey, RowCounts] | None) -> JsonObject | None:
    if counts is None:
        return None
    return {
        key: [each.inserted, each.updated, each.deleted] for key, each in sorted(counts.items())
    }


def _decode_counts(found: JsonValue) -> Mapping[TableKey, RowCounts] | None:
    """None for anything but our own spelling: counts inform, and no read depends on them."""
    if not isinstance(found, dict):
        return None
    counts = {}
    for key, numbers in found.items():
        match numbers:
            case [int(inserted), int(updated), int(deleted)]:
                counts[TableKey(key)] = RowCounts(inserted, updated, deleted)
            case _:
                return None
    return counts


def _decode_group(found: JsonValue, commit_id: str) -> GroupPlace | None:
    if not isinstance(found, dict):
        return None
    touched = found.get("touched")
    return GroupPlace(
        id=_require(found, "id", str, commit_id),
        index=_require(found, "index", int, commit_id),
        size=_require(found, "size", int, commit_id),
        touched=None if touched is None else decode_touched(touched, commit_id),
    )


def _decode_run(found: JsonValue, commit_id: str) -> PipelineRun | None:
    if not isinstance(found, dict):
        return None
    after, inputs = _take(found, "after", str, commit_id), found.get("inputs")
    listed = inputs if isinstance(inputs, dict) else {}
    return PipelineRun(
        name=_require(found, "name", str, commit_id),
        after=None if after is None else CommitId(after),
        inputs={name: each for name, each in listed.items() if isinstance(each, dict)},
    )


def decode_touched(found: JsonValue, place: str) -> Touched:
    """Raises ManifestCorrupt."""
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise ManifestCorrupt(place, reason="its touched entities are not lists of ids by table")
    return {
        TableKey(key): tuple(map(str, ids)) for key, ids in found.items() if isinstance(ids, list)
    }


def _decode_idempotency(found: JsonValue, commit_id: str) -> Idempotency | None:
    if not isinstance(found, dict):
        return None
    return Idempotency(
        key=_require(found, "key", str, commit_id),
        body_hash=_require(found, "body_hash", str, commit_id),
        result=found.get("result"),
    )


# ── reading JSON that another program may have written ───────────────────────────────────────────

Wanted = TypeVar("Wanted", str, int)


def _load_object(text: str | None, object_id: str) -> JsonObject:
    if text is None:
        raise ManifestCorrupt(object_id, reason="its metadata is missing")
    try:
        document = read_json(text)
    except ValueError as error:
        raise ManifestCorrupt(object_id, reason=f"its metadata is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ManifestCorrupt(object_id, reason="its metadata is not an object")
    return document


def _take(
    document: Mapping[str, JsonValue], key: str, wanted: type[Wanted], object_id: str
) -> Wanted | None:
    value = document.get(key)
    if value is None:
        return None
    if type(value) is not wanted:
        raise ManifestCorrupt(object_id, reason=f"'{key}' is {value!r}, not a {wanted.__name__}")
    return value


def _require(
    document: Mapping[str, JsonValue], key: str, wanted: type[Wanted], object_id: str
) -> Wanted:
    value = _take(document, key, wanted, object_id)
    if value is None:
        raise ManifestCorrupt(object_id, reason=f"'{key}' is missing")
    return value
