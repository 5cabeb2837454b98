"""The records inside manifest rows, and their JSON.

The format fixes the order of the keys and leaves out absent ones. Readers ignore unknown keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import BranchName, CommitId, OperationId, Version, graph_branch
from omnigraph.jsontext import read_json

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]


def dump_json(document: JsonObject) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _without_nulls(document: JsonObject) -> JsonObject:
    return {key: value for key, value in document.items() if value is not None}


# ── the file of a table version ──────────────────────────────────────────────────────────────────

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

    @property
    def message(self) -> str | None:
        return self.extension.message

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
    )


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
