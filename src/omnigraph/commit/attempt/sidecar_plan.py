"""The sidecar of a change: its transactions and the commits that it intends, with every id minted.

A change of one write intends one commit. A group intends one commit for each of its members, in
their order; all of them are published, or none (D29).
"""

from omnigraph.commit.attempt.locks import WriteLock
from omnigraph.commit.manifest.change import Change, TableWrite
from omnigraph.commit.manifest.groups import is_inline
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Extension, GroupPlace
from omnigraph.commit.manifest.updates import CommitIntent
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.ids import CommitId


def plan_sidecar(lock: WriteLock, change: Change) -> Sidecar:
    """The sidecar of this change."""
    effects, manifest = lock.context.stores.effects, lock.base.manifest
    now_us = effects.now_ms() * 1000
    return Sidecar(
        operation_id=lock.operation_id,
        kind=change.kind,
        branch=change.branch,
        branch_identifier=lock.base.identifier,
        started_at_us=now_us,
        writes=tuple(_pin(lock, each, manifest.pins.get(each.key)) for each in change.writes),
        updates=change.updates,
        reads=change.reads,
        on_top_of=change.on_top_of,
        intents=_intents(lock, change) or (_intent(lock, change, now_us),),
        schema=change.schema,
    )


def _intent(lock: WriteLock, change: Change, now_us: int) -> CommitIntent:
    """The commit of a change that is published alone."""
    return CommitIntent(
        id=CommitId(lock.context.stores.effects.new_id()),
        created_at_us=now_us,
        actor=change.actor,
        merged_parent=change.merged_parent,
        extension=Extension(
            operation_id=lock.operation_id,
            idempotency=change.idempotency,
            schema_hash=_schema_hash(change),
            message=change.message,
            counts=change.counts,
            proposal=change.proposal,
            pipeline=change.pipeline,
        ),
        carried=change.carried,
    )


def _intents(lock: WriteLock, change: Change) -> tuple[CommitIntent, ...]:
    """The commits of the members of a group, in order (D29)."""
    operation_id, size = lock.operation_id, len(change.group)
    intents = []
    for index, each in enumerate(change.group):
        inline, beside = (each.touched, None) if is_inline(each.touched) else (None, each.touched)
        extension = Extension(
            operation_id=operation_id,
            idempotency=each.idempotency,
            schema_hash=change.schema_hash,
            message=each.message,
            counts=each.counts,
            group=GroupPlace(operation_id, index, size, inline),
        )
        intents.append(
            CommitIntent(
                id=each.commit_id,
                created_at_us=each.created_at_us,
                actor=each.actor,
                extension=extension,
                touched=beside,
            )
        )
    return tuple(intents)


def _schema_hash(change: Change) -> str | None:
    """The schema in force once the change is visible."""
    return change.schema_hash if change.schema is None else change.schema.files.schema_hash


def _pin(lock: WriteLock, write: TableWrite, pin: Pin | None) -> PinnedWrite:
    branch = lock.base.manifest.branch
    new_id = lock.context.stores.effects.new_id
    uuids = tuple(new_id() for _ in range(write.commit_count)) if write.is_named else ()
    if write.creation is not None:
        return PinnedWrite(
            key=write.key,
            path=write.creation.path,
            branch=branch,
            expected=write.expected,
            is_fork=False,
            transactions=uuids,
            is_new=True,
        )
    assert pin is not None, "the branch shows the table, or the change creates it"
    return PinnedWrite(
        key=write.key,
        path=pin.path,
        branch=branch,
        expected=write.expected,
        is_fork=pin.owner != branch,
        transactions=uuids,
        shown_as=write.shown_as,
    )
