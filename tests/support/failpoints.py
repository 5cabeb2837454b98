"""Every failpoint by name: a position, and the scene during which a write reaches it.

Some positions have several names, because several failures start there: a process dies before the
manifest swap, or it meets a rival. `support.scenes` and `support.merging` set the scenes up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.testing.failpoints import (
    APPLY,
    CLEAR,
    COMMIT,
    COMPACT,
    CREATE,
    DELETE,
    DISARM,
    FORK,
    LIST,
    PROMOTE,
    PUBLISH,
    PURGE,
    PUT,
    QUEUE,
    RESTORE,
    SWAP,
    At,
)
from omnigraph.testing.faults import When


class Scene(StrEnum):
    """The operation during which a failpoint is reached."""

    WRITE = "two tables are written on main"
    FIRST_WRITE = "two tables are written on a branch that owns neither"
    DELETE = "a node is deleted, with its edges of two types"
    DELETE_LONER = "a node without edges is deleted"
    INDEX = "every table is indexed"
    UPKEEP = "a table of many fragments is tidied up"
    FORWARD = "a write that moved all its tables is finished"
    BACK = "a write that moved two of its three tables is undone"
    DISCARD = "the sidecar of a branch that was deleted and made again is discarded"
    RECLAIM = "a branch that was made again meets the forks of the old one"
    SCHEMA = "a type and properties are added, one of them filled"
    SCHEMA_WORDS = "only a description of the schema changes"
    HARD_DROP = "a property is dropped for good"
    OPTIMIZE = "tables are compacted, stripped of a setting and indexed"
    CLEANUP = "old versions go, and a fork that nobody shows"
    CREATE_BRANCH = "a branch is made"
    DELETE_BRANCH = "a branch with tables of its own is deleted"


class MergeScene(StrEnum):
    """The merge during which a failpoint is reached."""

    FAST_FORWARD = "a branch into main, which has not moved"
    THREE_WAY = "a branch into main, both of which changed the same table"
    FIRST_TOUCH = "a branch into another that owns none of the tables"
    MIXED = "main into a branch that owns one of the tables"
    POINTERS = "main into a branch that owns no table"
    TWO_TABLES = "a branch that wrote two tables into main"
    NET_ZERO = "a branch that changed one table there and back, and another for good"


class Story(StrEnum):
    """An operation with a test of its own, because its outcome has rules of its own."""

    INIT = "a graph of four tables is made where there is none"
    MIGRATION = "a graph of format 3 is opened for writing"
    REPAIR = "what another tool did to a table is to be shown"
    PENDING = "old versions are to go while a write is unfinished"


@dataclass(frozen=True, slots=True)
class Failpoint:
    name: str
    scene: Scene | MergeScene | Story
    at: At
    meaning: str
    is_done: bool = False
    """Had every table moved, so that recovery must roll forward?"""


_WRITES: Final = (
    Failpoint("recovery.sidecar_list", Scene.WRITE, At(LIST), "listing the sidecars"),
    Failpoint("recovery.sidecar_write", Scene.WRITE, At(PUT), "writing the sidecar"),
    Failpoint("sidecar.torn_put", Scene.WRITE, At(PUT), "half the sidecar is written"),
    Failpoint(
        "sidecar.after_put_pre_first_commit",
        Scene.WRITE,
        At(PUT, when=When.AFTER),
        "the sidecar exists, no table has moved",
    ),
    Failpoint(
        "recovery.live_foreign_writer",
        Scene.WRITE,
        At(PUT, when=When.AFTER),
        "somebody else looks while the writer lives",
    ),
    Failpoint(
        "commit.achieved_not_expected",
        Scene.WRITE,
        At(COMMIT),
        "something slips in before the first table commit",
    ),
    Failpoint(
        "commit.after_table_1", Scene.DELETE, At(COMMIT, 1, When.AFTER), "one table of three moved"
    ),
    Failpoint(
        "commit.after_table_2", Scene.DELETE, At(COMMIT, 2, When.AFTER), "two tables of three moved"
    ),
    Failpoint(
        "mutation.delete_node_pre_primary_delete",
        Scene.DELETE,
        At(APPLY),
        "a delete is about to move its first table",
    ),
    Failpoint(
        "delete.after_primary_pre_cascade",
        Scene.DELETE,
        At(APPLY, 2),
        "part of a cascade is committed",
    ),
    Failpoint(
        "delete.zero_rows",
        Scene.DELETE_LONER,
        At(COMMIT, when=When.AFTER),
        "a cascade that found no edges has moved the node's table alone",
        is_done=True,
    ),
    Failpoint(
        "mutation.post_finalize_pre_publisher",
        Scene.WRITE,
        At(PUBLISH),
        "every table moved, nothing is visible",
        is_done=True,
    ),
    Failpoint(
        "recovery.lease_expired",
        Scene.WRITE,
        At(PUBLISH),
        "the writer sleeps beyond its lease, then goes on",
        is_done=True,
    ),
    Failpoint(
        "relocate.after_crash",
        Scene.WRITE,
        At(PUBLISH),
        "the graph is moved before it is healed",
        is_done=True,
    ),
    Failpoint(
        "recovery.sidecar_delete", Scene.WRITE, At(DELETE), "deleting the sidecar", is_done=True
    ),
)

_PUBLISHES: Final = (
    Failpoint(
        "graph_publish.before_commit_append", Scene.WRITE, At(SWAP), "about to swap", is_done=True
    ),
    Failpoint(
        "publish.after_load_pre_merge",
        Scene.WRITE,
        At(SWAP),
        "somebody publishes first",
        is_done=True,
    ),
    Failpoint(
        "publish.load_state_retryable_contention",
        Scene.WRITE,
        At(SWAP),
        "the race is lost once",
        is_done=True,
    ),
    Failpoint(
        "publish.contention_exhausted",
        Scene.WRITE,
        At(SWAP),
        "the race is lost every time",
        is_done=True,
    ),
    Failpoint(
        "graph_publish.after_manifest_commit",
        Scene.WRITE,
        At(SWAP, when=When.AFTER),
        "visible, and not yet said so",
        is_done=True,
    ),
    Failpoint(
        "publish.lost_ack",
        Scene.WRITE,
        At(SWAP, when=When.AFTER),
        "the swap landed, the reply not",
        is_done=True,
    ),
)

_FORKS: Final = (
    Failpoint("fork.before_classify", Scene.FIRST_WRITE, At(APPLY), "about to look for a fork"),
    Failpoint(
        "classify.fresh_read",
        Scene.RECLAIM,
        At("tables.find_branch", since=APPLY),
        "asking the branch who owns the table",
    ),
    Failpoint(
        "fork.before_reclaim",
        Scene.RECLAIM,
        At(CLEAR, since=APPLY),
        "an orphan was found and is about to go",
    ),
    Failpoint(
        "fork.after_ref_pre_sidecar",
        Scene.FIRST_WRITE,
        At(FORK, when=When.AFTER),
        "the first fork exists, and its sidecar existed before it",
    ),
    Failpoint(
        "branch_create.after_manifest_branch_create",
        Scene.CREATE_BRANCH,
        At(FORK, when=When.AFTER),
        "the branch is there",
        is_done=True,
    ),
    Failpoint(
        "branch_delete.before_commit_graph_reclaim",
        Scene.DELETE_BRANCH,
        At(CLEAR, when=When.AFTER),
        "the branch is gone, what it owned is not",
        is_done=True,
    ),
    Failpoint(
        "branch_delete.before_table_cleanup",
        Scene.DELETE_BRANCH,
        At(CLEAR, 2),
        "about to remove a fork of a branch that is gone",
        is_done=True,
    ),
    Failpoint(
        "branch_delete.with_live_writer",
        Scene.FIRST_WRITE,
        At(PUBLISH),
        "the branch is deleted under its writer",
        is_done=True,
    ),
)

_RECOVERIES: Final = (
    Failpoint(
        "recovery.before_roll_forward_publish",
        Scene.FORWARD,
        At(SWAP),
        "judged, not published",
        is_done=True,
    ),
    Failpoint(
        "recovery.record_audit", Scene.FORWARD, At(CREATE), "published, not recorded", is_done=True
    ),
    Failpoint(
        "audit.create_race", Scene.FORWARD, At(COMMIT), "the first row of the audit", is_done=True
    ),
    Failpoint(
        "recovery.after_audit_pre_delete",
        Scene.FORWARD,
        At(DELETE),
        "the audit exists, and so does the sidecar",
        is_done=True,
    ),
    Failpoint(
        "recovery.after_restore_1", Scene.BACK, At(RESTORE, 1, When.AFTER), "one table is back"
    ),
    Failpoint(
        "recovery.after_restore_2", Scene.BACK, At(RESTORE, 2, When.AFTER), "both tables are back"
    ),
    Failpoint("recovery.after_restores_pre_publish", Scene.BACK, At(SWAP), "all back, not shown"),
    Failpoint(
        "recovery.rollback_publish_conflict",
        Scene.BACK,
        At(SWAP),
        "somebody publishes before a recovery does",
    ),
    Failpoint("branch.recreated_same_name", Scene.DISCARD, At(SWAP), "another branch by now"),
    Failpoint(
        "recovery.orphan_discard_audit_append",
        Scene.DISCARD,
        At(CREATE),
        "discarded, not recorded",
    ),
)

_UPKEEP: Final = (
    Failpoint("optimize.before_compact", Scene.UPKEEP, At(COMPACT), "nothing is compacted yet"),
    Failpoint(
        "optimize.after_rewrite",
        Scene.UPKEEP,
        At(COMPACT, when=When.AFTER),
        "compacted, not indexed",
    ),
    Failpoint(
        "ensure_indices.post_stage_pre_commit_btree", Scene.INDEX, At(COMMIT), "index files exist"
    ),
    Failpoint(
        "ensure_indices.after_index_2",
        Scene.INDEX,
        At(COMMIT, 2, When.AFTER),
        "some tables are indexed",
    ),
    Failpoint(
        "mutation.after_index_build_pre_publish",
        Scene.UPKEEP,
        At(COMMIT, when=When.AFTER),
        "an index commit is not visible yet",
    ),
    Failpoint(
        "optimize.after_reindex", Scene.UPKEEP, At(COMMIT, when=When.AFTER), "compacted and indexed"
    ),
    Failpoint("recovery.sidecar_confirm", Scene.UPKEEP, At(PUT, 2), "saying how far it got"),
    Failpoint("optimize.post_phase_b_pre_manifest_commit", Scene.UPKEEP, At(PUBLISH), "confirmed"),
    Failpoint(
        "ensure_indices.post_phase_b_pre_manifest_commit", Scene.INDEX, At(SWAP), "about to swap"
    ),
)

_SCHEMA: Final = (
    Failpoint("schema.after_lock", Scene.SCHEMA, At(FORK, when=When.AFTER), "the lock is made"),
    Failpoint(
        "schema_apply.before_staging_write",
        Scene.SCHEMA,
        At(PUT, since=FORK),
        "locked, and neither schema is written down",
    ),
    Failpoint(
        "schema.after_pg_staging",
        Scene.SCHEMA,
        At(PUT, 1, When.AFTER, since=FORK),
        "the schema in force is written down for good",
    ),
    Failpoint(
        "schema.after_ir_staging",
        Scene.SCHEMA,
        At(PUT, 2, When.AFTER, since=FORK),
        "both exist, and there is no sidecar yet",
    ),
    Failpoint(
        "schema.after_added_table",
        Scene.SCHEMA,
        At(COMMIT, 3, When.AFTER),
        "the table of a new type is made, nothing shows it",
        is_done=True,
    ),
    Failpoint(
        "schema_apply.after_staging_write",
        Scene.SCHEMA,
        At(PUBLISH),
        "all tables are as they will",
        is_done=True,
    ),
    Failpoint(
        "schema_apply.after_manifest_commit",
        Scene.SCHEMA,
        At(SWAP, when=When.AFTER),
        "visible, and the files say the old schema",
        is_done=True,
    ),
    Failpoint(
        "schema.after_rename_1",
        Scene.SCHEMA,
        At(PUT, 1, When.AFTER, since=PROMOTE),
        "one of the three files is new",
        is_done=True,
    ),
    Failpoint(
        "schema.after_rename_2",
        Scene.SCHEMA,
        At(PUT, 2, When.AFTER, since=PROMOTE),
        "two of the three files are new",
        is_done=True,
    ),
    Failpoint(
        "schema.after_rename_pre_delete",
        Scene.SCHEMA,
        At(DELETE, since=DISARM),
        "everything is done but the delete of the sidecar",
        is_done=True,
    ),
    Failpoint(
        "schema.before_lock_release",
        Scene.SCHEMA,
        At(CLEAR, since=DISARM),
        "only the lock is left",
        is_done=True,
    ),
    Failpoint(
        "schema.metadata_only_after_staging",
        Scene.SCHEMA_WORDS,
        At(PUBLISH),
        "no table has anything to do with it",
    ),
    Failpoint(
        "schema.before_hard_gc",
        Scene.HARD_DROP,
        At(PURGE),
        "dropped, and not yet purged",
        is_done=True,
    ),
)

_MAINTENANCE: Final = (
    Failpoint(
        "optimize.after_strip",
        Scene.OPTIMIZE,
        At(COMMIT, 1, When.AFTER, since=COMPACT),
        "compacted and stripped, not indexed",
    ),
    Failpoint(
        "optimize.inject_reindex_conflict",
        Scene.OPTIMIZE,
        At(COMMIT, 2, since=COMPACT),
        "the index commit does not go through",
    ),
    Failpoint("cleanup.table_gc", Scene.CLEANUP, At(PURGE), "old versions of a table are to go"),
    Failpoint(
        "cleanup.inherited_branch_pin",
        Scene.CLEANUP,
        At(PURGE, when=When.AFTER),
        "some are gone, and a branch shows another one",
    ),
    Failpoint("cleanup.reconcile_fork", Scene.CLEANUP, At(CLEAR), "an orphan is about to go"),
    Failpoint(
        "cleanup.resolve_branch_snapshot",
        Scene.CLEANUP,
        At("tables.find_branches"),
        "what is shown cannot be found out",
    ),
)

_MERGES: Final = (
    Failpoint(
        "branch_merge.adopt_after_append_pre_upsert",
        MergeScene.FAST_FORWARD,
        At(COMMIT, 1, When.AFTER),
        "new rows are there, changed are not",
    ),
    Failpoint(
        "branch_merge.adopt_after_upsert_pre_delete",
        MergeScene.FAST_FORWARD,
        At(COMMIT, 2, When.AFTER),
        "changed rows too, removed still are",
    ),
    Failpoint(
        "branch_merge.rewrite_after_merge_pre_delete",
        MergeScene.THREE_WAY,
        At(COMMIT, 2, When.AFTER),
        "the same, where both sides wrote",
    ),
    Failpoint(
        "branch_merge.rewrite_after_delete_pre_index",
        MergeScene.THREE_WAY,
        At(COMMIT, 3, When.AFTER),
        "all rows are; nothing is to be indexed",
        is_done=True,
    ),
    Failpoint(
        "branch_merge.post_phase_b_pre_manifest_commit",
        MergeScene.FAST_FORWARD,
        At(PUBLISH),
        "every table moved, nothing is visible",
        is_done=True,
    ),
    Failpoint(
        "merge.after_sidecar_pre_fork",
        MergeScene.FIRST_TOUCH,
        At(PUT, 1, When.AFTER),
        "the sidecar names a fork nobody made yet",
    ),
    Failpoint(
        "merge.after_fork_pre_commit",
        MergeScene.FIRST_TOUCH,
        At(FORK, 1, When.AFTER),
        "the fork is there, and as it was",
    ),
    Failpoint(
        "merge.after_table_1",
        MergeScene.TWO_TABLES,
        At(COMMIT, 1, When.AFTER),
        "one table of two is merged",
    ),
    Failpoint(
        "merge.after_confirm_mixed",
        MergeScene.MIXED,
        At(SWAP),
        "one table moved, another is to be pointed at",
        is_done=True,
    ),
    Failpoint(
        "merge.pointer_only",
        MergeScene.POINTERS,
        At(SWAP),
        "no table was to move; nothing had begun",
    ),
    Failpoint(
        "merge.target_advanced_by_other_process",
        MergeScene.FAST_FORWARD,
        At(QUEUE),
        "it is planned, and the target is not held yet",
    ),
    Failpoint(
        "merge.net_zero",
        MergeScene.NET_ZERO,
        At(SWAP),
        "beside a table that was changed there and back",
        is_done=True,
    ),
    Failpoint(
        "merge.lost_ack",
        MergeScene.MIXED,
        At(SWAP, 1, When.AFTER),
        "visible, and not yet said so",
        is_done=True,
    ),
)

_STORIES: Final = (
    Failpoint(
        "init.after_schema_pg_written",
        Story.INIT,
        At(PUT),
        "the place is claimed, and nothing else",
    ),
    Failpoint(
        "init.after_schema_contract_written",
        Story.INIT,
        At(PUT, 2, When.AFTER),
        "all three schema files are there, no table is",
    ),
    Failpoint(
        "init.after_coordinator_init",
        Story.INIT,
        At(COMMIT, 5, When.AFTER),
        "every table and the manifest are there, and nobody was told",
        is_done=True,
    ),
    Failpoint(
        "migration.v3_to_v4.legacy_open",
        Story.MIGRATION,
        At("tables.open_at", since="objects.read"),
        "the commits of old are about to be read",
    ),
    Failpoint(
        "migration.v4_stamp.force_incompatible",
        Story.MIGRATION,
        At(COMMIT),
        "the stamp is about to be set",
        is_done=True,
    ),
    Failpoint("repair.before_publish", Story.REPAIR, At(SWAP), "judged, and not shown"),
    Failpoint(
        "cleanup.with_pending_rollback",
        Story.PENDING,
        At(SWAP),
        "the write that is unfinished when the cleanup comes",
    ),
)

FAILPOINTS: Final[Mapping[str, Failpoint]] = {
    each.name: each
    for each in (
        *_WRITES,
        *_PUBLISHES,
        *_FORKS,
        *_RECOVERIES,
        *_UPKEEP,
        *_SCHEMA,
        *_MAINTENANCE,
        *_MERGES,
        *_STORIES,
    )
}
"""Every failpoint, by name."""


def points_of(scenes: type[Scene | MergeScene] | Story) -> dict[str, Failpoint]:
    """The failpoints of one kind of scene, or of one story."""
    if isinstance(scenes, Story):
        return {name: each for name, each in FAILPOINTS.items() if each.scene is scenes}
    return {name: each for name, each in FAILPOINTS.items() if isinstance(each.scene, scenes)}
