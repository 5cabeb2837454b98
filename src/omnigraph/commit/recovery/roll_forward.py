"""Rolling an operation forward: its tables moved all the way, only the publish is missing.

The intended commit (its id, actor, merged parent and idempotency key) and the recovery commit on
top of it are published in one swap (D4). Recovery cannot repeat the writer's checks. The swap
therefore expects every table that the writer read or wrote at the version the writer saw.
"""

from collections.abc import Sequence

from omnigraph.commit.compat.old_sidecar import OldSidecar
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.groups import write_group_file
from omnigraph.commit.manifest.schema_files import write_schema_files
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import SetVersion, Update
from omnigraph.commit.recovery.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.commit.recovery.inspect import Inspection
from omnigraph.commit.recovery.recovery_commit import publish_recovery
from omnigraph.commit.recovery.sidecar import Sidecar
from omnigraph.commit.recovery.sidecar_store import AnySidecar
from omnigraph.ids import Version


def can_roll_forward(sidecar: AnySidecar) -> bool:
    """False for an old schema change: its sidecar does not hold the schema files. False for a merge
    that moves no table: the merge had not begun, and its caller can ask again.
    """
    if isinstance(sidecar, OldSidecar):
        return sidecar.kind is not WriterKind.SCHEMA_APPLY
    return bool(sidecar.writes) or sidecar.kind is not WriterKind.BRANCH_MERGE


def roll_forward(
    context: WriteContext, held: HeldLeases, sidecar: AnySidecar, found: Sequence[Inspection]
) -> Recovery:
    """Publish what the operation did.

    Raises AlreadyDone, ExpectedVersionMismatch or HeadMoved if the branch changed since; the
    operation must then be rolled back.
    """
    updates: list[Update] = []
    outcomes = []
    for each in found:
        assert each.head is not None, "a table that moved has a newest version"
        # The writer may have died between its commits and their flush (D11).
        context.stores.tables.fsync_version(each.head)
        key = each.shown_as or each.key
        updates.append(SetVersion(describe_table(context.stores, key, each.head)))
        outcomes.append(TableOutcome(each.key, each.expected, Version(each.head.version)))
    expected = {each.key: each.expected for each in found if not each.is_new}
    if isinstance(sidecar, Sidecar):
        updates += sidecar.updates
        expected |= sidecar.reads
        write_group_file(context.stores.objects, sidecar.intents)
    held.check()
    recovery = publish_recovery(
        context,
        sidecar,
        RecoveryKind.ROLLED_FORWARD,
        updates=updates,
        expected=expected,
        outcomes=tuple(outcomes),
        with_intent=True,
    )
    promote_recovered_schema(context, sidecar)
    return recovery


def promote_recovered_schema(context: WriteContext, sidecar: AnySidecar) -> None:
    """Write the schema files of the operation, if its schema is still the one in force."""
    shift = sidecar.schema if isinstance(sidecar, Sidecar) else None
    if shift is None:
        return
    in_force = context.bases.current(sidecar.branch).manifest.log.schema_hash
    if in_force == shift.files.schema_hash:
        write_schema_files(context.stores.objects, shift.files)
