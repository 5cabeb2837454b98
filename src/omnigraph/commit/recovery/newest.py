"""Publishing tables that moved before: the newest version of each becomes the one that is shown.

Drift is healed and repaired this way. Nothing is staged and no table moves, so this is no attempt.

A power cut may tear the publish, and a torn manifest is removed only if a sidecar names its branch
(`torn_manifest`). On a disk, a sidecar therefore stands while this publish is under way. It is the
sidecar of a writer that has moved its tables and confirmed the versions: recovery finishes it.
An object of a bucket is complete or missing, so a bucket needs none.
"""

from collections.abc import Sequence

from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.records import Extension
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion
from omnigraph.commit.recovery.recovery_commit import recovery_commit_id
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import remove_sidecar, write_sidecar
from omnigraph.ids import CommitId, Version
from omnigraph.storage.tables import Handle


def publish_newest(
    context: WriteContext,
    held: HeldLeases,
    base: Base,
    moved: Sequence[tuple[Pin, Handle]],
    *,
    actor: str,
    extension: Extension,
) -> Base:
    """Publish these versions in one commit. The caller holds the leases of the tables.

    If it fails, the sidecar stays, and the next writer resolves it.
    """
    stores = context.stores
    for _, head in moved:
        stores.tables.fsync_version(head)
    now_us = stores.effects.now_ms() * 1000
    intent = CommitIntent(CommitId(stores.effects.new_id()), now_us, actor, extension=extension)
    if not stores.is_remote:
        write_sidecar(stores.objects, _plan_sidecar(held, base, moved, intent))
    held.check()
    published = publish(
        stores,
        context.bases,
        Publication(
            branch=base.manifest.branch,
            intents=(intent,),
            updates=tuple(SetVersion(describe_table(stores, pin.key, head)) for pin, head in moved),
            expected={pin.key: Version(pin.version) for pin, _ in moved},
            fence=recovery_commit_id(held.operation_id),
        ),
    )
    if not stores.is_remote:
        remove_sidecar(stores.objects, held.operation_id, is_flushed=False)
    return published.base


def _plan_sidecar(
    held: HeldLeases, base: Base, moved: Sequence[tuple[Pin, Handle]], intent: CommitIntent
) -> Sidecar:
    writes = tuple(
        PinnedWrite(
            key=pin.key,
            path=pin.path,
            branch=base.manifest.branch,
            expected=Version(pin.version),
            is_fork=False,
            transactions=(),
            confirmed=Version(head.version),
        )
        for pin, head in moved
    )
    return Sidecar(
        operation_id=held.operation_id,
        kind=WriterKind.OPTIMIZE,
        branch=base.manifest.branch,
        branch_identifier=base.identifier,
        started_at_us=intent.created_at_us,
        writes=writes,
        updates=(),
        reads={},
        intents=(intent,),
    )
