"""Sidecars of versions 1 and 2, which the reference writes.

They name no transactions, so a table is classified by its version numbers alone.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.document import Document
from omnigraph.ids import BranchName, CommitId, OperationId, TableKey, Version, graph_branch

CONFIRMING_VERSION = 2
"""From this version on, a merge confirms the versions it reached before it publishes."""


class OldMode(StrEnum):
    """How the version numbers must match."""

    STRICT = "strict"
    LOOSE = "loose"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class OldPin:
    key: TableKey
    path: str
    """The absolute address of the table."""
    expected: Version
    post_commit: Version
    confirmed: Version | None
    branch: BranchName


@dataclass(frozen=True, slots=True)
class OldRegistration:
    key: TableKey
    path: str
    branch: BranchName


@dataclass(frozen=True, slots=True)
class OldSidecar:
    version: int
    operation_id: OperationId
    kind: WriterKind
    branch: BranchName
    actor: str | None
    pins: tuple[OldPin, ...]
    merge_source: CommitId | None
    registrations: tuple[OldRegistration, ...]
    tombstones: tuple[tuple[TableKey, Version], ...]

    @property
    def mode(self) -> OldMode:
        match self.kind:
            case WriterKind.MUTATION | WriterKind.LOAD:
                return OldMode.STRICT
            case WriterKind.SCHEMA_APPLY | WriterKind.ENSURE_INDICES | WriterKind.OPTIMIZE:
                return OldMode.LOOSE
            case WriterKind.BRANCH_MERGE:
                return OldMode.CONFIRMED if self.version >= CONFIRMING_VERSION else OldMode.LOOSE
        assert_never(self.kind)


def decode_old_sidecar(document: Document, version: int) -> OldSidecar:
    """Decode a sidecar of version 1 or 2. Raises SidecarCorrupt."""
    source = document.optional("merge_source_commit_id", str)
    document.number_text("started_at")
    return OldSidecar(
        version=version,
        operation_id=OperationId(document.take("operation_id", str)),
        kind=document.enum("writer_kind", WriterKind),
        branch=graph_branch(document.optional("branch", str)),
        actor=document.optional("actor_id", str),
        pins=tuple(_decode_pin(each) for each in document.objects("tables")),
        merge_source=None if source is None else CommitId(source),
        registrations=tuple(
            OldRegistration(
                TableKey(each.take("table_key", str)),
                each.take("table_path", str),
                graph_branch(each.optional("table_branch", str)),
            )
            for each in document.objects("additional_registrations")
        ),
        tombstones=tuple(
            (TableKey(each.take("table_key", str)), Version(each.take("tombstone_version", int)))
            for each in document.objects("tombstones")
        ),
    )


def _decode_pin(document: Document) -> OldPin:
    confirmed = document.optional("confirmed_version", int)
    return OldPin(
        key=TableKey(document.take("table_key", str)),
        path=document.take("table_path", str),
        expected=Version(document.take("expected_version", int)),
        post_commit=Version(document.take("post_commit_pin", int)),
        confirmed=None if confirmed is None else Version(confirmed),
        branch=graph_branch(document.optional("table_branch", str)),
    )
