"""Lines of the product that matter, each broken once, and the tests that must fail then.

A mutant is one edit of one file. The script copies the sources, breaks the copy and runs only the
tests that the mutant names: if they pass, the tests have a gap. Before that, the script runs all of
them on an unbroken copy, since a test that fails there proves nothing.

    scripts/mutants                     all of them
    scripts/mutants fence epoch         those whose names contain one of these words
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from omnigraph.effects import REAL

TIMEOUT_S: Final = 300
REPOSITORY: Final = Path(__file__).parents[2]
SOURCES: Final = REPOSITORY / "src"
RESULTS: Final = REPOSITORY / "benchmarks" / "results" / "mutants.json"


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is broken, where, and who must notice."""

    name: str
    file: str
    original: str
    broken: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        return Path("omnigraph") / self.file

    def count(self, sources: Path = SOURCES) -> int:
        """How often its line is in the sources. Anything but once, and it breaks something else."""
        return (sources / self.path).read_text().count(self.original)

    def apply(self, sources: Path) -> None:
        target = sources / self.path
        target.write_text(target.read_text().replace(self.original, self.broken))


def _of(file: str, *mutants: tuple[str, str, str, str]) -> Iterator[Mutant]:
    """The mutants of one file: name, line, broken line, tests."""
    for name, original, broken, tests in mutants:
        yield Mutant(name, file, original, broken, tuple(tests.split()))


_SYSTEM_CALLS: Final = (
    "tests/faults/test_write_durability.py::"
    "test_the_system_calls_of_a_command_reach_the_disk_in_three_waves"
)

_BLOCKS: Final = "tests/unit/storage/test_block_file.py::"
_SEARCH_COSTS: Final = "tests/cost/test_cost_of_queries.py::"
_POSTINGS: Final = "tests/integration/test_mapped_postings.py::"

_POWER_CUTS: Final = (
    "tests/faults/test_power_cuts.py::"
    "test_no_power_cut_loses_an_acknowledged_write_or_shows_half_of_one"
)
_UNFINISHED_REF: Final = (
    "tests/integration/test_branches.py::test_a_ref_that_was_never_finished_is_no_branch"
)
_SIMULATED_GROUPS: Final = (
    "tests/faults/test_simulation.py::test_the_same_holds_of_threads_whose_writes_form_groups"
)
_HEALED: Final = "tests/faults/test_healed_drift.py"
_LATE_MAINTENANCE: Final = (
    "tests/faults/test_drift.py::"
    "test_maintenance_of_an_ended_operation_is_published_by_the_next_writer"
)
_TORN_PUBLISH: Final = (
    "tests/faults/test_power_cuts.py::"
    "test_a_publish_that_a_power_cut_tore_is_removed_and_its_write_finished"
)

_CACHE: Final = "tests/unit/commit/leases/test_lease_cache.py::"
_REMOTE: Final = "tests/faults/test_remote_writes.py::"
_THREE_WAVES: Final = (
    "tests/faults/test_write_durability.py::"
    "test_a_write_waits_for_three_waves_of_flushes_and_for_none_after_it_is_visible"
)

_GROUP_FILE: Final = (
    "tests/faults/test_write_durability.py::"
    "test_what_the_members_of_a_group_touched_is_on_the_disk_before_the_group_is_visible"
)
_GROUPS: Final = "tests/integration/test_groups.py"
_GROUP_SWEEP: Final = (
    "tests/faults/test_group_sweep.py::test_a_crash_anywhere_leaves_the_whole_group_or_none_of_it"
)

_PROPOSALS: Final = "tests/contract/test_client_proposals.py::"
_BOUND: Final = "test_approvals_and_merges_are_bound_to_the_heads_that_were_seen"
_PROTECTED: Final = "tests/integration/test_protected_branches.py::"
_STANDING: Final = "tests/unit/engine/proposals/test_standing.py"

MUTANTS: Final[Sequence[Mutant]] = (
    *_of(
        "catalog/names.py",
        (
            "a property id is stored where the id of the row is",
            "return ID_PROPERTY if name == ID else name",
            "return name",
            "tests/integration/test_id_property.py",
        ),
        (
            "a property id is shown by its column",
            "return ID if column == ID_PROPERTY else column",
            "return column",
            "tests/integration/test_id_property.py",
        ),
    ),
    *_of(
        "engine/merge/resolve.py",
        (
            "a row of a file of resolutions loses its property id",
            "{**value, type_.id_name: row_id}",
            '{**value, "id": row_id}',
            "tests/integration/test_id_property.py",
        ),
    ),
    *_of(
        "catalog/model.py",
        (
            "the ends of a keyed edge are not in its id",
            "        return (*ENDS, *own) if columns else ()",
            "        return own",
            "tests/integration/test_edge_keys.py::test_a_second_insert_replaces",
        ),
    ),
    *_of(
        "engine/schema/rekeying.py",
        (
            "edges that share a new key become one",
            "    if not doubled.num_rows:\n        return\n",
            "    return\n",
            "tests/integration/test_edge_keys.py::test_a_key_that_edges_share_is_refused_and_they_are_named",
        ),
    ),
    *_of(
        "pipeline/sources/lookups.py",
        (
            "a value that several nodes have finds one of them",
            'pc.if_else(is_one, found["id_min"], none)',
            'found["id_min"]',
            "tests/pipeline/test_existing_files.py::test_a_value_that_several_nodes_have_finds_none",
        ),
    ),
    *_of(
        "storage/durability.py",
        ("nothing is flushed", "os.fsync(descriptor)", "descriptor.bit_length()", _SYSTEM_CALLS),
        (
            "files are not flushed, folders are",
            "_flush(path, os.O_RDONLY)",
            "path.exists()",
            _POWER_CUTS,
        ),
        (
            "folders are not flushed",
            "_flush(path, os.O_RDONLY | os.O_DIRECTORY)",
            "path.exists()",
            _SYSTEM_CALLS,
        ),
        (
            "the flushes of a wave wait for each other",
            "FLUSHES_IN_PARALLEL: Final = 16",
            "FLUSHES_IN_PARALLEL: Final = 1",
            "tests/contract/test_tables_durability.py::test_the_flushes_of_a_wave_wait_together",
        ),
        (
            "a wave does not wait for its flushes",
            "            wait(running)\n        for each in running:\n            each.result()\n",
            "            pass\n",
            "tests/contract/test_tables_durability.py::test_a_flush_that_fails_fails_the_wave_once_all_others_have_ended",
        ),
    ),
    *_of(
        "storage/objects_local.py",
        (
            "an object that changed is replaced",
            "                if current != tag:",
            "                if current == data:",
            "tests/contract/test_objects.py::test_put_if_match_refuses_what_changed_since",
        ),
        (
            "an object that changed is overwritten in its file",
            "if _tag(file.read()) != tag:",
            "if _tag(file.read()) == data:",
            "tests/contract/test_objects.py::test_put_if_match_refuses_what_changed_since",
        ),
        (
            "an object that exists is made again",
            "os.link(temporary, target)",
            "shutil.copy(temporary, target)",
            "tests/contract/test_objects.py::test_put_new_creates_once_and_keeps_the_first",
        ),
        (
            "a folder is never locked",
            "            _lock(descriptor, kind, self._lock_wait_ms)\n",
            "",
            "tests/contract/test_objects.py::test_a_lock_that_a_stopped_process_holds_is_not_waited_for_for_ever",
        ),
    ),
    *_of(
        "storage/lance/commit.py",
        (
            "the version of another counts as ours",
            "        _check_mark(store, handle, staged)\n",
            "",
            "tests/contract/test_tables.py::test_a_commit_that_is_answered_with_the_version_of_another_is_not_taken_for_ours",
        ),
        (
            "a commit on its way counts as refused",
            "    raise _lost(staged, failure) from failure\n",
            "    return None\n",
            "tests/contract/test_tables.py::test_a_commit_that_failed_on_its_way_there_is_a_lost_reply_and_no_refusal",
        ),
        (
            "a lost reply is not looked for",
            "        handle = _look_for(store, staged, failure)",
            "        handle = None",
            "tests/contract/test_tables.py::test_a_commit_whose_reply_was_lost_is_found_and_reported_landed",
        ),
        (
            "a commit that landed further on counts as exact",
            "handle.version == read_version + 1",
            "handle.version > read_version",
            "tests/contract/test_tables.py::test_a_commit_that_something_harmless_slipped_before_lands_elsewhere",
        ),
        (
            "a restore does not look at the newest version",
            "if now.version != head.version:",
            "if now.version < head.version:",
            "tests/contract/test_tables.py::test_restore_is_refused_when_head_is_not_the_one_that_was_seen",
        ),
        (
            "what a restore buried stays buried",
            "    if isinstance(outcome, LandedLater):",
            "    if isinstance(outcome, Refused):",
            "tests/contract/test_tables.py::test_a_commit_that_a_restore_buried_is_put_back",
        ),
        (
            "what a commit wrote is not flushed",
            "    store.add_flushes(waves, staged.ref, files, is_new_table=payload.base is None)\n",
            "",
            _SYSTEM_CALLS,
        ),
        (
            "a version is not hardened",
            "now.add(files, below=Path(store.root.locate(handle.ref.path)))",
            "files.clear()",
            _SYSTEM_CALLS,
        ),
    ),
    *_of(
        "storage/lance/contents.py",
        (
            "a file is learned without its deleted rows",
            "if told.deletion_file is not None or told.physical_rows",
            "if told.physical_rows",
            "tests/unit/storage/lance/test_contents.py::test_a_file_with_deleted_rows_is_not_learned",
        ),
    ),
    *_of(
        "storage/lance/swap.py",
        (
            "a sealed key is repeated",
            "if held is None or not held.isdisjoint(swapped) else",
            "if held is None else",
            "tests/contract/test_tables.py::test_a_key_that_was_sealed_is_replaced_and_not_repeated",
        ),
    ),
    *_of(
        "storage/lance/store.py",
        (
            "a moved graph is read from its old place",
            "raise GraphRelocated(recorded=base.path, actual=self.root.locate(ref.path))",
            "continue",
            "tests/contract/test_tables.py::test_a_moved_graph_is_noticed_and_never_read_from_the_old_place",
        ),
        (
            "a copy reads its original",
            "return self._map_bases(ref, dataset.version)",
            "return dataset",
            "tests/integration/test_moving.py::test_a_copy_never_reads_its_original",
        ),
    ),
    *_of(
        "storage/lance/branches.py",
        (
            "a ref may reach the disk before its branch",
            "if store.is_remote or (store.is_flushed and waves is None):",
            "if store.is_remote:",
            "tests/faults/test_power_cuts.py::test_a_branch_exists_only_once_its_first_version_is_on_the_disk",
        ),
    ),
    *_of(
        "storage/lance/torn.py",
        (
            "a gap hides a torn version",
            "if not store.root.is_local:\n        return probe(store, shown)",
            "if store.root.is_local:\n        return probe(store, shown)",
            "tests/faults/test_power_cuts.py::test_a_torn_version_beyond_a_missing_one_is_found",
        ),
    ),
    *_of(
        "engine/query/columns/view.py",
        (
            "rows that changed are taken from the version before",
            "len(now) > len(old) > 0 and now[: len(old)] == old",
            "len(now) > len(old) > 0",
            "tests/cost/test_cost_of_new_versions.py",
        ),
        (
            "a name is taken for the column that had it",
            "tables.find_field_numbers(known) == numbers and ",
            "",
            "tests/cost/test_cost_of_new_versions.py",
        ),
    ),
    *_of(
        "engine/query/columns/table_cache.py",
        (
            "an entry that grows in a view counts as it was",
            "            in_use += self._fresh\n",
            "            in_use = self._fresh\n",
            "tests/unit/engine/query/columns/test_table_cache.py",
        ),
    ),
    *_of(
        "engine/query/operators/walk.py",
        (
            "a walk comes back to its start",
            "        if hop == hops_low == 1:\n",
            "        if hop >= hops_low:\n",
            "tests/integration/test_query_rules.py::test_a_rule_holds",
        ),
        (
            "a bisection stops one step early",
            ".max(initial=0)).bit_length()):",
            ".max(initial=0)).bit_length() - 1):",
            "tests/integration/test_cycles.py",
        ),
    ),
    *_of(
        "engine/query/operators/intersect.py",
        (
            "a cycle walks the longer list of neighbours",
            "self._other_counts(others) < walk.degrees(ahead, starts)",
            "self._other_counts(others) > walk.degrees(ahead, starts)",
            "tests/integration/test_cycles.py",
        ),
        (
            "a cycle loses the row that a neighbour of the other end came from",
            "        back_rows = theirs[back_rows]\n",
            "        pass\n",
            "tests/integration/test_cycles.py",
        ),
        (
            "rows of a cycle come end by end",
            '        order = np.argsort(whole, kind="stable")\n',
            "        order = np.arange(len(whole))\n",
            "tests/integration/test_cycles.py",
        ),
    ),
    *_of(
        "engine/query/operators/aggregate.py",
        (
            "a deviation of the whole, not of a sample",
            "np.sqrt(squares / np.maximum(count - 1, 1))",
            "np.sqrt(squares / np.maximum(count, 1))",
            "tests/integration/test_queries_in_sql.py",
        ),
        (
            "a percentile is one of the values",
            "values[below] + (values[above] - values[below]) * (way - np.floor(way))",
            "values[below]",
            "tests/integration/test_queries_in_sql.py",
        ),
        (
            "a union keeps what is repeated",
            "    if not distinct:\n        return both\n",
            "    if True:\n        return both\n",
            "tests/integration/test_queries_in_sql.py",
        ),
        (
            "having keeps every group",
            "return table if mask is None else pick_rows(table, np.flatnonzero(mask))",
            "return table",
            "tests/integration/test_queries_in_sql.py",
        ),
    ),
    *_of(
        "engine/query/operators/stages.py",
        (
            "a stage binds nodes beside the values of other rows",
            "return Bound(rows, rows.find(ids))",
            "return Bound(rows, rows.find(ids)[::-1])",
            "tests/integration/test_queries_in_sql.py",
        ),
    ),
    *_of(
        "engine/query/operators/measure.py",
        (
            "a counted walk of a block counts once",
            "column, groups, weights, fraction=fraction)",
            "column, groups, None, fraction=fraction)",
            "tests/integration/test_query_rules.py::test_a_rule_holds",
        ),
    ),
    *_of(
        "engine/opening.py",
        (
            "a torn publish stays",
            "        _clear_torn(stores, bases, settings)\n",
            "        pass\n",
            _TORN_PUBLISH,
        ),
    ),
    *_of(
        "commit/recovery/drift.py",
        (
            "maintenance of an ended operation is undone",
            "lambda each: each.version in fenced",
            "self.is_ended",
            f"{_LATE_MAINTENANCE} tests/faults/test_simulation.py",
        ),
    ),
    *_of(
        "commit/recovery/recovery_commit.py",
        (
            "of a recovered group the last member is published",
            "(*intended.intents, own)",
            "(intended.intents[-1], own)",
            f"{_SIMULATED_GROUPS} tests/faults/test_group_sweep.py",
        ),
    ),
    *_of(
        "engine/write/queued_write.py",
        (
            "an answer wakes no caller",
            "            self._waits.release()\n",
            "            pass\n",
            _SIMULATED_GROUPS,
        ),
    ),
    *_of(
        "storage/layout.py",
        (
            "any file among the refs is a branch",
            'return unquote(name.removesuffix(".json")) if name.endswith(".json") else None',
            'return unquote(name.removesuffix(".json"))',
            _UNFINISHED_REF,
        ),
    ),
    *_of(
        "storage/objects.py",
        (
            "what Lance left unfinished is an object",
            "\\.tmp\\.[0-9a-f]{{32}}$",
            "\\.tmp\\.[0-9a-f]{{99}}$",
            _UNFINISHED_REF,
        ),
    ),
    *_of(
        "commit/recovery/newest.py",
        (
            "a publish that heals has no sidecar",
            "        write_sidecar(stores.objects, _plan_sidecar(held, base, moved, intent))\n",
            "        pass\n",
            f"{_HEALED}::test_a_publish_of_late_maintenance_that_a_power_cut_tore_is_finished",
        ),
        (
            "recovery does not know what a healing reached",
            "            confirmed=Version(head.version),\n",
            "",
            f"{_HEALED}::test_a_publish_of_late_maintenance_that_a_power_cut_tore_is_finished",
        ),
    ),
    *_of(
        "commit/attempt/locks.py",
        (
            "a write has the id of the healing before it",
            "        if base is not read and not context.stores.is_remote:\n",
            "        if False:\n",
            f"{_HEALED}::test_a_write_and_the_healing_before_it_are_two_operations",
        ),
    ),
    *_of(
        "commit/recovery/torn_manifest.py",
        (
            "main stays torn by the recovery of a deleted branch",
            "yield MAIN if is_orphaned(context, sidecar) else sidecar.branch",
            "yield sidecar.branch",
            f"{_HEALED}::test_a_discarded_operation_that_a_power_cut_tore_is_discarded_again",
        ),
    ),
    *_of(
        "storage/lance/compact.py",
        (
            "an inherited index is rewritten for another folder",
            "if segment.base_id is not None\n",
            "if segment.base_id == -1\n",
            "tests/contract/test_tables.py::test_a_branch_compacts_no_fragment_that_an_inherited_index_covers",
        ),
    ),
    *_of(
        "engine/maintain/clone.py",
        (
            "a clone keeps files of an earlier plan",
            "            self.target.objects.delete(key)\n",
            "            continue\n",
            "tests/faults/test_clone_sweep.py::test_a_repetition_after_the_source_moved_on_shows_the_new_state",
        ),
        (
            "a clone is planned once",
            "                if not plans_left:\n                    raise\n",
            "                raise\n",
            "tests/faults/test_clone_sweep.py::test_a_branch_that_is_deleted_meanwhile_makes_the_clone_plan_again",
        ),
        (
            "a clone reads its source",
            "data = self.target.tables.reroot(path, self.source.objects.read(key).data)",
            "data = self.source.objects.read(key).data",
            "tests/integration/test_cloning.py::test_a_clone_shows_every_commit_and_never_reads_its_source",
        ),
    ),
    *_of(
        "engine/maintain/clone_plan.py",
        (
            "a clone copies unpublished versions",
            "return [each for each in found if each <= last]",
            "return found",
            "tests/integration/test_cloning.py::test_a_clone_at_a_commit_ends_with_it",
        ),
    ),
    *_of(
        "commit/relocation.py",
        (
            "a graph that was moved keeps its id",
            "self.stores.effects.new_id() if self._is_moved() else",
            "self._graph_id() if self._is_moved() else",
            "tests/integration/test_moving.py::test_cursors_of_the_original_and_of_the_copy_are_different",
        ),
        (
            "a version keeps the old place",
            "return None if data == stored.data else (stored, data)",
            "return None",
            "tests/faults/test_relocation_sweep.py::test_a_process_that_is_killed_is_followed_by_the_next",
        ),
        (
            "a graph without identity forgets that it was moved",
            'unknown = GraphIdentity(self._graph_id(), uri="")',
            "unknown = GraphIdentity(self._graph_id(), uri=self.stores.root.uri)",
            "tests/integration/test_moving.py::test_a_graph_of_another_program_has_no_identity_and_can_be_moved",
        ),
    ),
    *_of(
        "commit/manifest/publish.py",
        (
            "the fence of a publish is off",
            "        raise Fenced(publication.branch, recovered_by=publication.fence)\n",
            "        return landed\n",
            "tests/integration/test_publish_failures.py::test_an_operation_that_was_recovered_does_not_go_on",
        ),
        (
            "expectations are not compared",
            "check_expected(publication.expected)",
            "check_expected({})",
            "tests/integration/test_publish_failures.py::test_an_expectation_that_stopped_holding_is_not_tried_again",
        ),
        (
            "the head is not compared",
            "check_head(publication.on_top_of)",
            "check_head(None)",
            "tests/integration/test_mutations_conflicts.py::test_a_commit_to_any_table_right_before_ours_is_noticed",
        ),
        (
            "a key that was used is used again",
            "if found is not None and found.id != intent.id:",
            "if found is not None and found.id == intent.id:",
            "tests/integration/test_publish_failures.py::test_a_key_that_somebody_else_published_first_is_not_published_again",
        ),
        (
            "an unknown outcome is tried again",
            "        raise unknown from failure\n",
            "        return None\n",
            "tests/integration/test_publish_failures.py::test_when_nothing_landed_and_nothing_moved_the_outcome_is_unknown",
        ),
        (
            "one lost race too few is survived",
            "BUDGET: Final = 5",
            "BUDGET: Final = 4",
            "tests/integration/test_publish_failures.py::test_five_lost_races_are_survived_and_the_parent_is_found_anew",
        ),
        (
            "what others left of the manifest is not flushed",
            "        stores.tables.fsync_version(base.handle, beyond=base.durable)\n",
            "        pass\n",
            "tests/integration/test_publish_failures.py::test_what_a_stranger_left_unflushed_is_flushed_before_we_answer",
        ),
        (
            "commits that landed are published again",
            "if each.id not in there]",
            "if each.id]",
            "tests/integration/test_publish_failures.py::test_of_a_chain_only_the_commits_that_are_missing_are_published",
        ),
        (
            "a record of the wrong version stays",
            "replace(each, manifest_version=actual) for each",
            "each for each",
            "tests/integration/test_publish_failures.py::test_a_commit_beside_which_settings_changed_records_where_it_is",
        ),
    ),
    *_of(
        "commit/manifest/commit_log.py",
        (
            "the head is the oldest commit",
            "commit.manifest_version, commit.created_at_us, commit.id",
            "commit.manifest_version, -commit.created_at_us, commit.id",
            "tests/unit/commit/manifest/test_model.py::test_the_head_is_the_newest_by_version_then_time_then_id",
        ),
    ),
    *_of(
        "commit/manifest/model.py",
        (
            "an expectation is flipped",
            "if (actual := self.version_of(key)) != version:",
            "if (actual := self.version_of(key)) == version:",
            "tests/unit/commit/manifest/test_model.py::test_an_expectation_that_fails_carries_the_facts",
        ),
        (
            "a tombstone does not hide its own version",
            "if self.tombstones.get(key, 0) < shown.version",
            "if self.tombstones.get(key, 0) <= shown.version",
            "tests/unit/commit/manifest/test_model.py::test_a_tombstone_hides_its_own_version_and_older_ones_only",
        ),
    ),
    *_of(
        "commit/manifest/updates.py",
        (
            "a commit stands beside the one before",
            "parent, after_us = intent.id,",
            "parent, after_us = parent,",
            "tests/unit/commit/manifest/test_model.py::test_two_commits_of_one_publish_stand_on_each_other",
        ),
        (
            "times do not rise within a swap",
            "max(intent.created_at_us, after_us)",
            "intent.created_at_us",
            "tests/faults/test_recovery.py::test_a_write_whose_clock_was_ahead_does_not_stay_the_head_once_it_is_finished",
        ),
        (
            "a merge forgets its second parent",
            "merged_parent=intent.merged_parent,",
            "merged_parent=None,",
            "tests/faults/test_merge_sweep.py::test_a_merge_that_moved_everything_goes_forward_with_both_parents",
        ),
        (
            "a lower version is published",
            "if table.version < before.version:",
            "if table.version < 0:",
            "tests/unit/commit/manifest/test_model.py::test_a_lower_version_is_never_published",
        ),
    ),
    *_of(
        "commit/manifest/lineage.py",
        (
            "every common ancestor is a merge base",
            "sorted(common - surpassed)",
            "sorted(common)",
            "tests/unit/commit/manifest/test_lineage.py::test_a_nearer_but_older_ancestor_is_not_the_base",
        ),
    ),
    *_of(
        "commit/leases/held_leases.py",
        (
            "a lease that was taken over is confirmed",
            "            raise LeaseLost(self.operation_id) from None\n",
            "            self._is_lost = False\n            return\n",
            _CACHE
            + "test_a_lease_that_was_taken_over_meanwhile_is_noticed_before_anything_is_written",
        ),
        (
            "what was read before another operation counts",
            "return held == same and self._unconfirmed == epochs.keys()",
            "return held.keys() == same.keys()",
            _CACHE + "test_what_was_read_counts_only_if_the_leases_were_kept_since",
        ),
        (
            "a lost reply to a confirmation is a lost lease",
            "except (ObjectChanged, StorageFailure):",
            "except LeaseCorrupt:",
            _CACHE + "test_a_lost_reply_to_a_confirmation_is_looked_for",
        ),
        (
            "a lost lease is not noticed",
            "                except ObjectChanged:\n                    self._is_lost = True\n",
            "                except ObjectChanged:\n                    pass\n",
            "tests/unit/commit/leases/test_holder.py::test_whoever_was_taken_over_notices_at_the_next_step",
        ),
        (
            "a lost lease is held on to",
            "            raise LeaseLost(self.operation_id)\n",
            "            return\n",
            "tests/unit/commit/leases/test_holder.py::test_whoever_was_taken_over_notices_at_the_next_step",
        ),
    ),
    *_of(
        "commit/leases/lease_cache.py",
        (
            "a kept lease is not surrendered",
            "            if self._is_wanted(lock_key):\n",
            "            if False:\n",
            _CACHE + "test_a_kept_lease_is_surrendered_to_another_process_that_asks",
        ),
        (
            "an old lease is taken from the cache",
            "age_ms < self._timing.ttl_ms // 2",
            "age_ms < self._timing.ttl_ms",
            _CACHE + "test_a_lease_that_was_not_renewed_for_half_its_time_is_acquired_again",
        ),
        (
            "a kept lease never expires",
            "if now_ms - found.kept_ms >= self._timing.kept_ms:",
            "if now_ms - found.kept_ms >= 1_000 * self._timing.kept_ms:",
            _CACHE + "test_a_lease_is_released_some_time_after_its_last_use",
        ),
        (
            "any number of leases is kept",
            "            while len(self._cached) > CACHED_MAX:",
            "            while len(self._cached) > 10 * CACHED_MAX:",
            _CACHE + "test_a_bounded_number_is_kept_and_the_oldest_go_first",
        ),
    ),
    *_of(
        "engine/graph/targets.py",
        (
            "a member of a group stands for itself",
            "        if place is None or place.index == place.size - 1:\n",
            "        if True:\n",
            f"{_GROUPS}::test_a_tag_on_a_member_names_the_last_one",
        ),
    ),
    *_of(
        "engine/merge/bases.py",
        (
            "a merge base is within a group",
            "    return _last_member(lineage, lineage.commits[base])\n",
            "    return lineage.commits[base]\n",
            f"{_GROUPS}::test_a_merge_base_within_a_group_is_its_last_member",
        ),
    ),
    *_of(
        "engine/merge/entry.py",
        (
            "a merge does not answer a repeated request whose branch is gone",
            "        with suppress(BranchNotFound):\n            sources.append(",
            "        if True:\n            sources.append(",
            _REMOTE + "test_a_repeated_merge_is_answered_though_its_branch_is_gone",
        ),
    ),
    *_of(
        "engine/merge/run.py",
        (
            "a merge is planned under a schema that is not in force",
            "        target.manifest.check_schema(schema.schema_hash)\n",
            "        pass\n",
            _REMOTE + "test_a_merge_under_a_schema_that_another_process_changed_is_planned_again",
        ),
        (
            "a merge trusts the plan that another process overtook",
            "            if _head_of(lock.base.manifest) != plan.ancestry.target.id:\n",
            "            if False:\n",
            _REMOTE + "test_a_merge_plans_again_if_another_process_wrote_after_it_had_looked",
        ),
    ),
    *_of(
        "commit/leases/holder.py",
        (
            "the leases of a failed operation are kept",
            "            yield held\n",
            "            with suppress(Exception):\n                yield held\n",
            _CACHE + "test_an_operation_that_fails_keeps_nothing",
        ),
        (
            "a lease of the living is taken over",
            "if not self._is_abandoned(current, stored):",
            "if self._is_abandoned(current, stored):",
            "tests/unit/commit/leases/test_holder.py::test_what_is_held_is_waited_for_and_then_named",
        ),
        (
            "what the dead held is taken without recovery",
            "                raise LeaseAbandoned(lock_key, current.operation_id)\n",
            "                current = self._free_lease()\n",
            "tests/unit/commit/leases/test_holder.py::test_one_that_is_not_renewed_is_abandoned",
        ),
        (
            "an epoch stands still",
            "Lease(owner, operation_id, current.epoch + 1, self.timing.ttl_ms)",
            "Lease(owner, operation_id, current.epoch, self.timing.ttl_ms)",
            "tests/unit/commit/leases/test_holder.py::test_what_is_given_back_can_be_taken_and_the_epoch_counts_up",
        ),
        (
            "a lease is over too late",
            "stored.modified_ms > lease.ttl_ms",
            "stored.modified_ms > 2 * lease.ttl_ms",
            "tests/unit/commit/leases/test_holder.py::test_one_that_is_not_renewed_is_abandoned",
        ),
        (
            "nothing is renewed while the rest is waited for",
            "            self._heartbeat.add(held)\n",
            "",
            "tests/unit/commit/leases/test_holder.py::test_what_is_held_is_renewed_while_the_rest_is_waited_for",
        ),
        (
            "a process keeps a place for ever",
            "if held.is_older_than(now_ms - self.timing.streak_ms):",
            "if held.is_older_than(0):",
            "tests/unit/commit/leases/test_holder.py::test_others_get_their_turn_however_many_wait_here",
        ),
    ),
    *_of(
        "commit/leases/fair_queue.py",
        (
            "the newest ticket is next",
            "other.number >= ticket.number",
            "other.number <= ticket.number",
            "tests/unit/commit/leases/test_fair_queue.py::test_the_oldest_ticket_is_next_and_the_dead_do_not_count",
        ),
    ),
    *_of(
        "commit/recovery/classify.py",
        (
            "foreign rows are taken for ours",
            "if not all(belongs_to(each, write, operation_id) for each in moved):",
            "if not any(belongs_to(each, write, operation_id) for each in (*moved, *since)):",
            "tests/unit/commit/recovery/test_classify.py::test_our_sidecars_are_judged_by_the_transactions_they_name",
        ),
        (
            "one finished table takes the others forward",
            "if all(each is PinClass.ROLLED_PAST for each in classes):",
            "if any(each is PinClass.ROLLED_PAST for each in classes):",
            "tests/unit/commit/recovery/test_classify.py::test_all_tables_go_one_way",
        ),
        (
            "a recovery turns round halfway",
            "if any(each.properties.get(RECOVERS) == operation_id for each in since):",
            "if any(each.properties.get(RECOVERS) == OPERATION for each in since):",
            "tests/unit/commit/recovery/test_classify.py::test_a_recovery_that_died_on_its_way_back_is_continued_that_way",
        ),
        (
            "what others published is taken for ours",
            "    if shown != write.expected:",
            "    if shown < write.expected:",
            "tests/unit/commit/recovery/test_classify.py::test_a_table_that_others_published_meanwhile_is_not_taken_for_ours",
        ),
        (
            "forward and back are swapped",
            "        return Decision.ROLL_FORWARD\n    return Decision.ROLL_BACK",
            "        return Decision.ROLL_BACK\n    return Decision.ROLL_FORWARD",
            "tests/unit/commit/recovery/test_classify.py::test_all_tables_go_one_way",
        ),
    ),
    *_of(
        "commit/attempt/phases.py",
        (
            "a writer that was recovered removes the sidecar of a recovery that is not complete",
            "published.base.manifest.log.find(recovery_commit_id(lock.operation_id)) is not None",
            "False",
            "tests/faults/test_zombies.py::test_a_waking_writer_leaves_the_audit_row_to_recovery",
        ),
        (
            "no sidecar is left",
            "        write_sidecar(stores.objects, prepared.sidecar)\n",
            "        pass\n",
            _SYSTEM_CALLS,
        ),
        (
            "a lease is not checked before the publish",
            "        lock.leases.check()\n        try:\n            return publish(",
            "        try:\n            return publish(",
            "tests/faults/test_zombies.py::test_a_writer_whose_heir_is_not_done_does_not_guess",
        ),
        (
            "a schema is put over a newer one",
            "        lock.leases.check()\n        write_schema_files(",
            "        write_schema_files(",
            "tests/faults/test_zombies.py::test_who_was_taken_over_does_not_put_its_schema_over_a_newer_one",
        ),
        (
            "a publish does not say by which commit it is fenced",
            "fence=recovery_commit_id(lock.operation_id),",
            "fence=None,",
            "tests/faults/test_zombies.py::test_a_writer_that_does_not_know_that_it_slept_is_fenced_by_the_publish",
        ),
        (
            "a failure undoes nothing",
            "        undo(lock, prepared.sidecar, failure)\n        raise\n",
            "        raise\n",
            "tests/faults/test_recovery.py::test_a_refused_table_commit_is_a_conflict_and_undone",
        ),
        (
            "what was read is not checked again",
            "            change.recheck(seen.manifest)\n",
            "",
            "tests/integration/test_mutations_conflicts.py::test_an_edge_whose_end_vanished_meanwhile_is_refused_and_undone",
        ),
        (
            "a sidecar is never removed",
            "            remove_sidecar(objects, operation_id, is_flushed=False)\n",
            "            pass\n",
            "tests/faults/test_failpoints.py::test_a_lost_reply_is_recognised_and_the_write_acknowledged_once",
        ),
        (
            "tables are published unflushed",
            "lock.context.flush_versions(applied.armed.prepared.waves, reached, lock.base)",
            "pass",
            _SYSTEM_CALLS,
        ),
        (
            "staged files are not in the first wave",
            "with stores.tables.flush_staged(files, prepared.waves):",
            "with stores.tables.flush_staged([], prepared.waves):",
            _THREE_WAVES,
        ),
        (
            "leases from the cache are not confirmed with the sidecar",
            "                *confirmations,\n",
            "",
            "tests/cost/test_cost_of_waiting.py::test_an_insert_waits_eight_times",
        ),
        (
            "a lost lease leaves a sidecar",
            "        remove_sidecar(stores.objects, sidecar.operation_id)\n        raise\n",
            "        raise\n",
            _REMOTE + "test_a_lease_that_was_lost_leaves_no_sidecar",
        ),
        (
            "the removal of a sidecar is waited for",
            "remove_sidecar(objects, operation_id, is_flushed=False)",
            "remove_sidecar(objects, operation_id)",
            _THREE_WAVES,
        ),
    ),
    *_of(
        "commit/attempt/table_commits.py",
        (
            "rows that slip in are published",
            "            _check_between(lock, write, change, handle)\n",
            "",
            "tests/faults/test_drift.py::test_rows_that_slip_in_below_a_commit_are_not_published_with_it",
        ),
    ),
    *_of(
        "commit/context.py",
        (
            "the second wave is not flushed",
            "        self.stores.tables.flush_wave(waves)\n",
            "",
            _SYSTEM_CALLS,
        ),
        (
            "what others left unflushed is published",
            "if known is None or known.version != onto:",
            "if known is not None and known.version != onto:",
            _SYSTEM_CALLS,
        ),
    ),
    *_of(
        "commit/recovery/sidecar_store.py",
        (
            "the removal after an undo is not flushed",
            "operation_id: OperationId, *, is_flushed: bool = True",
            "operation_id: OperationId, *, is_flushed: bool = False",
            "tests/faults/test_write_durability.py::test_a_failure_is_told_once_the_removal_of_its_sidecar_has_reached_the_disk",
        ),
    ),
    *_of(
        "commit/recovery/roll_forward.py",
        (
            "a recovery publishes what was not flushed",
            "        context.stores.tables.fsync_version(each.head)\n",
            "",
            "tests/faults/test_write_durability.py::test_a_recovery_flushes_what_the_dead_had_not",
        ),
        (
            "a recovery forgets what the writer had read",
            "        expected |= sidecar.reads\n",
            "",
            "tests/faults/test_recovery.py::test_a_write_is_finished_only_if_the_tables_it_had_read_are_as_they_were",
        ),
    ),
    *_of(
        "commit/recovery/inspect.py",
        (
            "a sidecar is applied to another branch of its name",
            "return isinstance(sidecar, Sidecar) and sidecar.branch_identifier != identifier",
            'return isinstance(sidecar, Sidecar) and sidecar.branch_identifier == ""',
            "tests/faults/test_recovery.py::test_a_sidecar_of_a_deleted_branch_is_discarded_even_if_the_name_is_back",
        ),
    ),
    *_of(
        "commit/recovery/recovery_commit.py",
        (
            "a recovery forgets what it was to be on top of",
            "on_top_of=None if intended is None else intended.on_top_of,",
            "on_top_of=None,",
            "tests/faults/test_recovery.py::test_who_finishes_a_write_asks_again_what_it_was_to_be_on_top_of",
        ),
        (
            "a recovery is not recorded",
            "    audit.record(context.stores, recovery)\n",
            "",
            "tests/faults/test_failpoints.py::test_two_that_resolve_one_sidecar_resolve_it_once",
        ),
    ),
    *_of(
        "commit/attempt/schema_lock.py",
        (
            "a dead schema lock is not cleared",
            "    clear_stale(context)\n    if is_locked(context):",
            "    if is_locked(context):",
            "tests/faults/test_schema_sweep.py::test_indexes_need_no_reopening_after_a_schema_change_was_killed",
        ),
    ),
    *_of(
        "engine/active_schema.py",
        (
            "a schema that was overtaken counts as corrupt",
            "if wanted is not None and is_overtaken else None",
            "if wanted is None else None",
            "tests/integration/test_schema_apply.py::test_a_schema_that_was_overtaken_since_its_branch_was_read_is_found",
        ),
    ),
    *_of(
        "engine/maintain/cleanup.py",
        (
            "a cleanup removes the leases of branches that exist",
            "named[1] in branches or ",
            "",
            "tests/integration/test_maintenance.py::test_leases_of_deleted_branches_go_and_a_new_branch_of_the_name_works",
        ),
        (
            "a cleanup deletes a fork that a branch shows by now",
            "                if self._is_shown(ref):\n",
            "                if False:\n",
            "tests/integration/test_maintenance.py::test_a_branch_that_is_first_written_while_a_cleanup_decides_keeps_its_fork",
        ),
        (
            "a cleanup fails when a branch is deleted beside it",
            "            if set(branches) <= set(find_branches(context.stores)):\n",
            "            if branches:\n",
            "tests/integration/test_maintenance.py::test_a_branch_that_is_deleted_while_a_cleanup_decides_is_left_out",
        ),
    ),
    *_of(
        "engine/maintain/doctor.py",
        (
            "a deep check leaves values out",
            "            findings += check_values(stores, schema.catalog)\n",
            "",
            "tests/integration/test_maintenance.py::test_a_deep_check_reads_every_value",
        ),
    ),
    *_of(
        "commit/retention.py",
        (
            "one commit too few is kept",
            "at >= self.keep",
            "at >= self.keep - 1",
            "tests/integration/test_maintenance.py::test_retained_commits_answer_as_before_and_others_are_gone",
        ),
        (
            "a cleanup forgets where branches came from",
            "    _retain_points(stores, retained, read)\n",
            "",
            "tests/integration/test_maintenance.py::test_a_branch_can_still_be_merged_after_cleanup",
        ),
        (
            "a cleanup forgets what forks read",
            "    _retain_forks(stores, retained)\n",
            "",
            "tests/integration/test_maintenance.py::test_what_a_fork_reads_stays_though_nothing_else_shows_it",
        ),
        (
            "a cleanup forgets unfinished writes",
            "    _retain_operations(stores, retained, read)\n",
            "",
            "tests/faults/test_maintenance_sweep.py::test_cleanup_leaves_alone_what_an_unfinished_write_needs",
        ),
    ),
    *_of(
        "commit/recovery/heal.py",
        (
            "a sleeper is forgotten",
            "        write_fence(context.stores.objects, operation_id, lock_keys, paused)\n",
            "        pass\n",
            "tests/faults/test_zombie_sweep.py",
        ),
    ),
    *_of(
        "engine/maintain/repair.py",
        (
            "force shows what was fenced",
            "    if drift.has_fenced:\n        return RepairAction.REFUSED\n",
            "",
            "tests/faults/test_drift.py::test_what_foreign_rows_stand_on_is_not_published_by_force",
        ),
    ),
    *_of(
        "commit/manifest/branches.py",
        (
            "a fork that is shown is reclaimed",
            "    _check_orphan(stores, bases, pin, branch)\n",
            "",
            "tests/integration/test_branches.py::test_a_fork_another_branch_shows_is_never_reclaimed",
        ),
        (
            "a branch that others came from is deleted",
            "    _check_unused(stores, bases, name, live)\n",
            "",
            "tests/integration/test_branches.py::test_a_branch_that_others_came_from_cannot_be_deleted",
        ),
    ),
    *_of(
        "commit/manifest/create.py",
        (
            "a graph that is there is taken back",
            "if still_ours and not has_manifest(stores):",
            "if still_ours:",
            "tests/integration/test_making_graphs.py::test_a_store_that_fails_at_a_failpoint_of_init_leaves_nothing_or_a_graph",
        ),
    ),
    *_of(
        "engine/query/operators/walker.py",
        (
            "a walk that became wide binds other rows than before",
            "        self._is_target_resident = self._is_edge_resident = False\n",
            "        pass\n",
            "tests/integration/test_wide_walks.py::test_rows_from_before_and_after_are_put_in_one_order",
        ),
    ),
    *_of(
        "compiler/passes/push_filters.py",
        (
            "a condition without variables moves above a stage",
            "if isinstance(each.step, Stage)), 0)",
            "if each.step is None), 0)",
            "tests/golden/test_golden_passes.py",
        ),
    ),
    *_of(
        "compiler/costs.py",
        (
            "the dearer of two orders goes on",
            "or each.cost < best[reached].cost",
            "or each.cost > best[reached].cost",
            "tests/unit/compiler/test_costs.py tests/unit/compiler/test_passes.py",
        ),
        (
            "a walk forgets the nodes that it met",
            "        met = order.met + self._meetings(walk, near, far, is_forward=is_forward)\n",
            "        met = order.met\n",
            "tests/unit/compiler/test_costs.py",
        ),
        (
            "an order costs what its last step makes",
            "cost=order.cost + made, bound=bound",
            "cost=made, bound=bound",
            "tests/unit/compiler/test_costs.py tests/unit/compiler/test_passes.py",
        ),
    ),
    *_of(
        "engine/tables/statistics.py",
        (
            "statistics of another format are read",
            '        if document["format"] != FORMAT:\n',
            "        if False:\n",
            "tests/unit/engine/tables/test_statistics.py",
        ),
        (
            "statistics are read once for each process",
            "        if held is None or held[0] != stamp:\n",
            "        if held is None:\n",
            "tests/unit/engine/tables/test_statistics.py",
        ),
    ),
    *_of(
        "engine/query/operators/expand_any.py",
        (
            "a neighbour counts once for each edge that leads to it",
            "        if len(meeting) > 1 and operator.mode is not WalkMode.EDGES:\n",
            "        if False:\n",
            "tests/pipeline/test_several_types.py::test_a_read_of_several_types",
        ),
        (
            "a walk of no hop leaves a type that no edge has",
            "            names = sorted(walked.union(self.operator.target_types))\n",
            "            names = sorted(walked)\n",
            "tests/pipeline/test_several_types.py::test_a_read_of_several_types",
        ),
    ),
    *_of(
        "compiler/resolve/operands.py",
        (
            "distinct nodes of several types are told apart by id alone",
            "    if not bound.is_several:\n        return id_of(name, bound, span)\n",
            "    if True:\n        return PropertyOf(name, 'id', STRING, span)\n",
            "tests/pipeline/test_several_types.py::test_a_read_of_several_types",
        ),
    ),
    *_of(
        "compiler/resolve/groups.py",
        (
            "having does not ask about what is computed of aggregates",
            "        match = (ast.Filter(condition, read.having.span),)\n",
            "        match = () if condition else ()\n",
            "tests/integration/test_queries_in_sql.py",
        ),
    ),
    *_of(
        "compiler/resolve/walks.py",
        (
            "a walk of no hop may begin where its open end cannot be",
            "    return bool(here & there) if are_bound else here <= there\n",
            "    return bool(here & there)\n",
            "tests/golden/test_golden_query.py",
        ),
    ),
    *_of(
        "compiler/resolve/conditions.py",
        (
            "two nodes of several types are the same if their ids are",
            "    if not left[1].is_several and not right[1].is_several:\n",
            "    if True:\n",
            "tests/pipeline/test_several_types.py::test_a_read_of_several_types",
        ),
    ),
    *_of(
        "engine/query/columns/view.py",
        (
            "one look-up reads a whole table",
            "        charged = self.cache.charged(table.state)\n        if not charged and asked",
            "        charged = self.cache.charged(table.state)\n        if False and asked",
            "tests/cost/test_cost_of_queries.py::test_one_look_up_does_not_read_a_large_table_but_many_do_once",
        ),
    ),
    *_of(
        "engine/query/operators/known.py",
        (
            "a walk at hand from one row yields one row",
            "rows = None if stop - start == 1 else",
            "rows = None if stop > start else",
            "tests/properties/test_query_laws.py::test_every_way_of_running_a_read_answers_as_the_interpreter",
        ),
    ),
    *_of(
        "engine/query/operators/sort.py",
        (
            "few rows are in the order of their first key alone",
            "    if len(set(values)) < len(values):\n        return None\n",
            "",
            "tests/cost/test_cost_of_queries.py::test_keys_of_an_order_that_decide_nothing_are_not_read",
        ),
    ),
    *_of(
        "engine/query/columns/csr.py",
        (
            "edges of large ordinals are in order of their near end alone",
            "    return by_far[_sorted_places(near[by_far].astype(np.int64))]\n",
            "    return _sorted_places(near.astype(np.int64))\n",
            "tests/unit/engine/query/columns/test_csr.py::test_pairs_are_in_order_and_equal_pairs_stay_in_theirs",
        ),
        (
            "edges at one node are those in both directions",
            "        mine = near == node\n",
            "        mine = near >= 0\n",
            "tests/unit/engine/query/columns/test_csr.py::test_the_edges_at_one_node_are_those_of_the_adjacency_in_its_order",
        ),
    ),
    *_of(
        "engine/query/columns/table_cache.py",
        (
            "a view outlives what it holds on to",
            "                self._items.move_to_end(key)\n        self._views.clear()\n",
            "                self._items.move_to_end(key)\n",
            "tests/unit/engine/query/columns/test_table_cache.py::test_a_view_is_shared_until_an_entry_is_evicted",
        ),
    ),
    *_of(
        "engine/query/columns/neighbourhood.py",
        (
            "a walk never becomes wide",
            "        if watch.is_too_wide(len(frontier)):\n            return None\n",
            "",
            "tests/cost/test_cost_of_queries.py::test_a_walk_that_turns_out_wide_reads_all_edges_instead_of_many_small_parts",
        ),
    ),
    *_of(
        "engine/write/row_rules.py",
        (
            "edges of other pairs of ends do not count",
            "yield EdgeCount(edge, siblings_of(catalog, edge))",
            "yield EdgeCount(edge)",
            "tests/unit/engine/write/test_validate.py::test_edges_of_all_pairs_with_one_type_of_sources_count_together",
        ),
    ),
    *_of(
        "engine/write/batch.py",
        (
            "a pair of ends is guessed",
            "    if len(left) == 1:\n        return left[0]",
            "    if left:\n        return left[0]",
            "tests/integration/test_several_ends.py::test_a_pair_that_cannot_be_told_is_refused",
        ),
    ),
    *_of(
        "compiler/resolve/ends.py",
        (
            "an insert into an edge over several ends takes the first pair",
            "    if len(left) == 1:\n        return left[0]",
            "    if left:\n        return left[0]",
            "tests/integration/test_several_ends.py::test_a_pair_that_cannot_be_told_is_refused",
        ),
    ),
    *_of(
        "engine/tables/record_format.py",
        (
            "an export does not say the types of the ends",
            '(f"{{{_literal(each)}:%s}}" for each in ends) if ends else ("%s", "%s")',
            '("%s", "%s")',
            "tests/integration/test_several_ends.py::test_an_export_loads_again_by_the_one_name",
        ),
    ),
    *_of(
        "pipeline/sources/columns.py",
        (
            "lines of an edge over several ends may have an end of two types",
            "        if not np.all(given == 1):",
            "        if not np.all(given >= 1):",
            "tests/pipeline/test_columns_laws.py::test_reading_together_is_reading_one_by_one",
        ),
    ),
    *_of(
        "pipeline/sources/tabular.py",
        (
            "rows of a table that no pair of ends fits are left out",
            "    return parsed if count == rows.num_rows else None",
            "    return parsed",
            "tests/integration/test_several_ends.py::test_a_table_says_the_types_of_the_ends_row_by_row",
        ),
    ),
    *_of(
        "engine/write/validate.py",
        (
            "one edge too many is let in",
            "count > high:",
            "count > high + 1:",
            "tests/unit/engine/write/test_validate.py::test_cardinality_is_judged_for_touched_sources_that_stay",
        ),
        (
            "a unique value may be held twice",
            "if len(ids) > 1 and values in written:",
            "if len(ids) > 2 and values in written:",
            "tests/integration/test_mutations_validation.py::test_a_committed_row_holds_its_unique_value",
        ),
        (
            "committed rows are not probed for unique values",
            'rivals = [row for row in before.find_holders(delta) if row["id"] not in replaced]',
            "rivals: list[Row] = []",
            "tests/integration/test_mutations_validation.py::test_a_committed_row_holds_its_unique_value",
        ),
        (
            "ends of edges are not checked",
            "        if end in missing:",
            "        if end is missing:",
            "tests/integration/test_mutations_validation.py::test_missing_ends_name_the_edge_the_end_and_the_type",
        ),
        (
            "an end that goes counts as there",
            "if each not in written and each not in gone}",
            "if each not in written}",
            "tests/unit/engine/write/test_validate.py::test_an_end_that_is_deleted_by_the_write_is_missing",
        ),
    ),
    *_of(
        "engine/write/pending.py",
        (
            "an edge that moves is not missed",
            "            if there is not None and isinstance(self.type, EdgeType):",
            "            if there is None and isinstance(self.type, EdgeType):",
            "tests/integration/test_mutations_validation.py::test_moving_an_edge_counts_for_the_source_it_leaves",
        ),
    ),
    *_of(
        "engine/load/load_task.py",
        (
            "a load of a group is not checked behind the members before it",
            "        self._refuse([*LoadEvaluation(self.incoming, pending).find_all()])\n",
            "        pending.find_existing()\n",
            "tests/integration/test_grouped_loads.py::test_a_load_that_a_member_contradicts_is_refused_with_its_line_and_every_fault",
        ),
    ),
    *_of(
        "engine/load/run.py",
        (
            "an overwrite joins a group",
            "        is_alone = request.mode is LoadMode.OVERWRITE or request",
            "        is_alone = request",
            "tests/integration/test_grouped_loads.py::test_an_overwrite_joins_no_group",
        ),
    ),
    *_of(
        "engine/load/incoming.py",
        (
            "an overwrite leaves edges without nodes",
            "            if end not in known:",
            "            if end is known:",
            "tests/pipeline/test_loading.py::test_an_overwrite_that_leaves_edges_without_nodes_is_refused",
        ),
        (
            "an id is given twice",
            "        if len(ordinals) > 1",
            "        if len(ordinals) > 2",
            "tests/pipeline/test_loading.py::test_an_id_given_twice_is_an_error_unless_merging",
        ),
    ),
    *_of(
        "engine/query/operators/paths.py",
        (
            "paths: any of several is taken",
            "return found[sorted(range(len(ids)), key=ids.__getitem__)]",
            "return found[sorted(range(len(ids)), key=ids.__getitem__)][::-1]",
            "tests/properties/test_query_laws.py::test_shortest_paths_are_those_of_the_interpreter",
        ),
        (
            "paths: a loop counts nothing",
            "return target == self._source and self._search.path.hops_low > 0",
            "return False",
            "tests/properties/test_query_laws.py::test_shortest_paths_are_those_of_the_interpreter",
        ),
        (
            "paths: an edge without a weight is open",
            "np.where(is_known, np.asarray(column.fill_null(0.0)), np.inf)",
            "np.where(is_known, np.asarray(column.fill_null(0.0)), 0.0)",
            "tests/integration/test_paths.py::test_an_edge_without_a_weight_is_closed",
        ),
        (
            "paths: a weight below zero is taken",
            "is_known & ~(np.isfinite(weights) & (weights >= 0))",
            "is_known & ~np.isfinite(weights)",
            "tests/integration/test_paths.py::test_a_weight_that_is_negative_is_refused",
        ),
        (
            "paths: the bytes of all paths are not counted",
            "self._search.memory.check(STEP, total * (paths.shape[1] + 5) * 8)",
            "pass",
            "tests/integration/test_paths.py::test_very_many_paths_are_refused_before_they_are_listed",
        ),
    ),
    *_of(
        "engine/query/operators/path_search.py",
        (
            "paths: a search by weight ends at the first way that arrives",
            "costs[wanted].max(initial=-np.inf)",
            "costs[wanted].min(initial=np.inf)",
            "tests/unit/engine/query/operators/test_path_search.py::test_rounds_hold_the_cheapest_ways_of_so_many_edges",
        ),
        (
            "paths: a single target is searched from one end",
            "elif len(wanted) == 1:",
            "elif len(wanted) < 0:",
            "tests/unit/engine/query/operators/test_path_search.py::test_a_search_from_both_ends_follows_few_edges",
        ),
        (
            "paths: pairs are asked without their lower bound",
            "found[rows] = (lengths >= low) & (lengths <= high)",
            "found[rows] = (lengths >= 0) & (lengths <= high)",
            "tests/unit/engine/query/operators/test_path_search.py::test_pairs_are_within_bounds_as_a_walk_finds_them",
        ),
        (
            "paths: searches from both ends meet one hop too late",
            "while len(front) + len(rear) - 2 < high:",
            "while len(front) + len(rear) - 2 <= high:",
            "tests/unit/engine/query/operators/test_path_search.py::test_a_search_from_both_ends_follows_few_edges",
        ),
    ),
    *_of(
        "pipeline/checks/arrow_joins.py",
        (
            "joins: a replaced row still counts",
            'return rows.filter(~_is_in("id", self._incoming(type_)["id"]))',
            "return rows",
            "tests/pipeline/test_check_laws.py::test_joins_in_memory_find_what_the_evaluator_finds",
        ),
        (
            "joins: every row of one id takes part",
            'return rows.filter(_is_in(ORDINAL_KEY, last[f"{ORDINAL_KEY}_max"]))',
            "return rows",
            "tests/pipeline/test_check_laws.py::test_joins_in_memory_find_what_the_evaluator_finds",
        ),
    ),
    *_of(
        "pipeline/dataframes/staged_load.py",
        (
            "a frame overwrites what came between",
            "        if job.mode is LoadMode.OVERWRITE and now.version",
            "        if job.mode is LoadMode.MERGE and now.version",
            "tests/pipeline/test_frame_writes.py::test_an_overwrite_does_not_undo_a_write_that_came_between",
        ),
        (
            "an abort deletes committed files",
            "        if not self.is_handed_over and self.begun.is_open(self.graph):",
            "        if not self.is_handed_over:",
            "tests/pipeline/test_frame_writes.py::test_files_change_hands_once",
        ),
    ),
    *_of(
        "pipeline/dataframes/write_options.py",
        (
            "all batches of a stream are one",
            "        identity = [self.sink_id, str(self.branch), types, batch_id]",
            "        identity = [self.sink_id, str(self.branch), types]",
            "tests/pipeline/test_frame_writes.py::test_a_batch_is_one_commit_also_if_it_is_written_twice",
        ),
    ),
    *_of(
        "pipeline/dataframes/writers.py",
        (
            "a batch is written twice",
            "        self.frame.commit(messages, self.frame.options.batch_key(batchId))",
            "        self.frame.commit(messages, None)",
            "tests/pipeline/test_frame_writes.py::test_a_batch_is_one_commit_also_if_it_is_written_twice",
        ),
    ),
    *_of(
        "engine/write/idempotency.py",
        (
            "a key answers another request",
            "    if recorded.body_hash != wanted.body_hash:",
            '    if recorded.body_hash == "":',
            "tests/integration/test_once.py::test_a_key_that_comes_back_with_another_request_is_refused",
        ),
        (
            "a branch is made again for the same key",
            "Begun.DONE if is_done else Begun.BEFORE",
            "Begun.BEFORE",
            "tests/integration/test_once.py::test_a_branch_is_made_and_deleted_once",
        ),
    ),
    *_of(
        "engine/write/upkeep.py",
        (
            "upkeep comes one fragment late",
            "return count_untidy(stats, specs) >= FRAGMENTS_MAX",
            "return count_untidy(stats, specs) > FRAGMENTS_MAX",
            "tests/unit/engine/write/test_upkeep.py::test_so_many_small_or_uncovered_fragments_are_too_many",
        ),
    ),
    *_of(
        "engine/graph/state.py",
        (
            "what a read freed is fetched from the system again",
            "        freed_memory.keep()\n",
            "",
            "tests/cost/test_cost_of_queries.py::test_a_repeated_walk_uses_the_memory_that_the_one_before_freed",
        ),
        (
            "maintenance is not skipped",
            "if not self.settings.maintenance or self.mode is Mode.READ_ONLY:",
            "if self.mode is Mode.READ_ONLY:",
            "tests/integration/test_upkeep.py::test_a_graph_opened_without_maintenance_is_left_as_it_is",
        ),
    ),
    *_of(
        "engine/write/group_plan.py",
        (
            "an entity belongs to two members of a group",
            "    if plan.rows.is_touched(tables):\n        return None\n",
            "",
            f"{_GROUPS}::test_a_write_of_an_entity_that_an_earlier_member_touched_opens_the_next_group",
        ),
        (
            "a member does not see the members before it",
            "                rows.absorb(decided.tables)\n",
            "",
            f"{_GROUPS}::test_a_member_that_fails_leaves_and_the_others_go_on",
        ),
        (
            "a condition joins behind other members",
            "        if plan.accepted:\n            return None\n",
            "",
            f"{_GROUPS}::test_a_condition_holds_only_for_the_first_member",
        ),
        (
            "a verdict does not wait for the members it rests on",
            "        if not plan.accepted:\n            plan.deliver()\n",
            "        plan.deliver()\n",
            f"{_GROUPS}::test_a_verdict_that_rests_on_a_member_that_failed_is_decided_again",
        ),
        (
            "a key is written twice in a group",
            "    if twin is not None:\n        return Follower(write, twin)\n",
            "",
            f"{_GROUPS}::test_a_key_without_effect_leaves_one_commit_in_a_group",
        ),
        (
            "a group takes any number of rows",
            "if plan.accepted and touched_count > ROWS_MAX:",
            "if plan.accepted and touched_count > 100 * ROWS_MAX:",
            f"{_GROUPS}::test_a_group_ends_at_its_bounds_and_the_rest_is_served_in_the_order_of_arrival",
        ),
        (
            "a group takes any time",
            "        if plan.accepted and monotonic_ms() > until_ms:\n            break\n",
            "",
            f"{_GROUPS}::test_a_group_ends_at_its_bounds_and_the_rest_is_served_in_the_order_of_arrival",
        ),
        (
            "a key of a member answers another request",
            "            if key.body_hash != wanted.body_hash:",
            "            if False:",
            f"{_GROUPS}::test_equal_keys_in_one_group_get_one_answer_or_are_refused",
        ),
        (
            "a trial outlives the answers that it rests on",
            "            if each.ask() != each.answer:",
            "            if False:",
            f"{_GROUPS}::test_a_member_that_fails_leaves_and_the_others_go_on",
        ),
        (
            "look-ups are not shared",
            "    if len(writes) > 1:\n        _record_lookups(plan, writes)\n",
            "",
            f"{_GROUPS}::test_a_group_costs_one_sidecar_one_commit_of_each_table_one_swap_and_one_look",
        ),
    ),
    *_of(
        "engine/write/write_queue.py",
        (
            "a queue is never full",
            "is_long = len(lane.waiting) >= WAITING_MAX",
            "is_long = len(lane.waiting) > WAITING_MAX",
            f"{_GROUPS}::test_a_full_queue_refuses_more_writes",
        ),
        (
            "a queue holds any number of bytes",
            "lane.waiting_bytes + queued.size_bytes > WAITING_BYTES_MAX",
            "lane.waiting_bytes > WAITING_BYTES_MAX",
            f"{_GROUPS}::test_a_queue_that_holds_too_many_bytes_refuses_more_writes",
        ),
        (
            "a group takes any number of bytes",
            "        if batch and size > GROUP_BYTES_MAX:\n            return\n",
            "",
            f"{_GROUPS}::test_a_group_ends_at_its_bounds_and_the_rest_is_served_in_the_order_of_arrival",
        ),
        (
            "a large write joins a group",
            "not self.context.is_grouping or size_bytes > ALONE_BYTES",
            "not self.context.is_grouping",
            f"{_GROUPS}::test_a_large_write_joins_no_group",
        ),
        (
            "a group that waits for its turn takes nobody in",
            "                    _fill(batch, lane, tables)\n",
            "                    pass\n",
            f"{_GROUPS}::test_writes_of_the_same_table_join_a_group_that_waits_for_its_turn",
        ),
        (
            "a write of a table that is not locked joins a group",
            "        if tables is not None and not set(first.tables) <= set(tables):",
            "        if False:",
            f"{_GROUPS}::test_writes_of_the_same_table_join_a_group_that_waits_for_its_turn",
        ),
        (
            "a lane forgets its company at once",
            "        until = monotonic() + COMPANY_S",
            "        until = monotonic()",
            f"{_GROUPS}::test_the_first_write_after_a_group_waits_for_company_instead_of_going_alone",
        ),
        (
            "writes that a group left over lose their turn",
            "            for each in reversed(writes):",
            "            for each in writes:",
            f"{_GROUPS}::test_a_group_ends_at_its_bounds_and_the_rest_is_served_in_the_order_of_arrival",
        ),
        (
            "members share one unknown commit",
            "commit_id=ids[write], operation_id",
            "commit_id=failure.commit_id, operation_id",
            f"{_GROUPS}::test_each_member_is_told_its_own_commit_if_the_outcome_is_unknown",
        ),
        (
            "a busy table holds up the others",
            "self._move(lane, batch, TableKey(held.table_key))",
            "_fail(held, batch, plan)",
            f"{_GROUPS}::test_a_group_goes_on_without_the_table_that_another_process_holds",
        ),
    ),
    *_of(
        "commit/context.py",
        (
            "a move by another process passes for one of ours",
            "first <= before.version and last == now.version",
            "first <= before.version",
            f"{_GROUPS}::test_an_update_is_told_when_another_process_moved_its_table_meanwhile",
        ),
    ),
    *_of(
        "commit/recovery/roll_forward.py",
        (
            "a recovered group forgets what it touched",
            "        write_group_file(context.stores.objects, sidecar.intents)\n",
            "",
            _GROUP_SWEEP,
        ),
    ),
    *_of(
        "commit/attempt/phases.py",
        (
            "what a group touched is not flushed",
            "    write_group_file(stores.objects, applied.intents)\n    reached",
            "    write_group_file(lock.context.stores.volatile, applied.intents)\n    reached",
            _GROUP_FILE,
        ),
    ),
    *_of(
        "commit/recovery/recovery_commit.py",
        (
            "a recovery does not name its members",
            "        members=_members(sidecar),\n",
            "",
            _GROUP_SWEEP,
        ),
    ),
    *_of(
        "commit/retention.py",
        (
            "the state before a group is dropped",
            "{at} if place.index else {at, at + 1}",
            "{at}",
            f"{_GROUPS}::test_cleanup_keeps_a_group_whole_with_the_state_before_it",
        ),
    ),
    *_of(
        "engine/history/feed.py",
        (
            "a member is compared with the member before it",
            "self.history[at - 1 - _index(commit)]",
            "self.history[at - 1]",
            f"{_GROUPS}::test_a_feed_that_stops_within_a_group_goes_on_with_its_next_member",
        ),
        (
            "a member has the changes of its group",
            "self._diffs[pair] if touched is None else self._diffs[pair].only(touched)",
            "self._diffs[pair] if touched is None else self._diffs[pair]",
            f"{_GROUPS}::test_each_member_has_its_own_changes_and_the_state_is_that_of_the_last",
        ),
    ),
    *_of(
        "engine/write/mutate.py",
        (
            "edges of another pair that came meanwhile do not count",
            "if isinstance(rule, Endpoint) or (isinstance(rule, EdgeCount) and rule.siblings)",
            "if isinstance(rule, Endpoint)",
            "tests/integration/test_several_ends.py::test_two_writers_cannot_each_add_the_last_edge",
        ),
        (
            "a table that moved meanwhile is written",
            "        check_unmoved_elsewhere(lock, seen)\n",
            "",
            "tests/integration/test_mutations_conflicts.py::test_an_update_or_delete_is_told_when_its_table_moved_meanwhile",
        ),
        (
            "every move counts as upkeep",
            "return bool(since) and all(each.kind in _HARMLESS for each in since)",
            "return bool(since)",
            "tests/integration/test_mutations_conflicts.py::test_an_update_or_delete_is_told_when_its_table_moved_meanwhile",
        ),
        (
            "rows that must be new replace others",
            "    pending.check_fresh()\n",
            "",
            "tests/integration/test_mutations_batches.py::test_insert_refuses_rows_that_exist_and_writes_none",
        ),
    ),
    *_of(
        "engine/proposals/standing.py",
        (
            "an approval counts for every head",
            "        if each.source_head == heads[0]\n        and (",
            "        if (",
            _STANDING,
        ),
        (
            "the author's approval counts",
            "(rule.author_may_approve or each.actor != proposal.author)",
            "True",
            _STANDING,
        ),
        (
            "an approval outlives the right to approve",
            "        and may_approve(each.actor)\n",
            "",
            _STANDING,
        ),
        (
            "a check holds for every target",
            "(found.source_head, found.target_head) == (self.source_head, self.target_head)",
            "found.source_head == self.source_head",
            _STANDING,
        ),
    ),
    *_of(
        "storage/mapped.py",
        (
            "a damaged mapped file is read",
            "            if trailer != _trailer(body):\n",
            "            if False:\n",
            "tests/unit/storage/test_mapped.py::test_a_damaged_file_is_passed_over",
        ),
    ),
    *_of(
        "storage/block_file.py",
        (
            "a damaged block is read",
            "        if zlib.crc32(block.data) != self._sums[place]:\n",
            "        if False:\n",
            f"{_BLOCKS}test_a_damaged_block_is_noticed_by_those_who_read_it",
        ),
        (
            "a damaged footer is believed",
            "        if zlib.crc32(footer) != checksum:\n",
            "        if False:\n",
            f"{_BLOCKS}test_a_damaged_footer_is_noticed_at_once",
        ),
    ),
    *_of(
        "engine/search/posting_files.py",
        (
            "postings show rows that were deleted since",
            'if file.facts["identity"] == fragment.identity:',
            "if True:",
            f"{_POSTINGS}test_a_write_leaves_the_files_of_other_rows",
        ),
        (
            "postings lack rows of an older commit",
            'if not is_gone[file.array("gone")[:]].all():',
            "if False:",
            f"{_POSTINGS}test_rows_of_an_older_commit_are_not_missed",
        ),
        (
            "terms of another analysis are compared",
            'return f"postings {ANALYSIS} {self.column}"',
            'return f"postings {self.column}"',
            f"{_POSTINGS}test_files_of_another_analysis_are_passed_over",
        ),
    ),
    *_of(
        "engine/search/postings.py",
        (
            "texts that were deleted since count in a score",
            "            self, totals=left, ",
            "            self, ",
            f"{_POSTINGS}test_a_write_leaves_the_files_of_other_rows",
        ),
    ),
    *_of(
        "engine/search/ranking.py",
        (
            "the best matches need not pass a filter at hand",
            "return pc.and_(mask, pa.array(candidates.passes(ids), pa.bool_()))",
            "return mask",
            f"{_POSTINGS}test_a_first_bm25_reads_mapped_files_only",
        ),
    ),
    *_of(
        "engine/search/texts.py",
        (
            "a process without files asks the index for ever",
            "        if self.index_row_cost * asked < row_count:\n",
            "        if True:\n",
            f"{_SEARCH_COSTS}test_searches_with_new_words_read_all_texts_once_they_cost_as_much",
        ),
    ),
    *_of(
        "engine/maintain/cleanup.py",
        (
            "cleanup removes postings in use",
            "mapped.find_stale(shown | find_posting_folders(self.context.stores, pins))",
            "mapped.find_stale(shown)",
            f"{_POSTINGS}test_cleanup_keeps_the_files_of_fragments_that_a_branch_shows",
        ),
    ),
    *_of(
        "engine/proposals/heads.py",
        (
            "upkeep moves a head",
            "while _changes_nothing(commit) and commit.parent is not None:",
            "while False:",
            f"{_PROPOSALS}{_BOUND}",
        ),
    ),
    *_of(
        "engine/proposals/vetting.py",
        (
            "a merge publishes what its checks refused",
            "        if failed and self.needs_rule_met:\n",
            "        if False:\n",
            f"{_PROTECTED}test_an_approved_proposal_that_passes_its_checks_is_merged",
        ),
        (
            "a merge ignores the heads that were reviewed",
            "if seen is not None and find_effective_id(log, seen) != head:",
            "if False:",
            f"{_PROPOSALS}{_BOUND}",
        ),
    ),
    *_of(
        "mcp/paging.py",
        (
            "a page of an answer leaves an entry out",
            "    following = PageCursor(cursor.offset + count, cursor.commit)\n",
            "    following = PageCursor(cursor.offset + count + 1, cursor.commit)\n",
            "tests/unit/mcp/test_paging.py",
        ),
    ),
    *_of(
        "compiler/repair/edits.py",
        (
            "the edits of a repair are not those of its program",
            "            if written or piece.start > at:\n",
            "            if written:\n",
            "tests/golden/test_golden_repair.py::test_the_edits_make_the_program",
        ),
    ),
    *_of(
        "server/runtime/failed_logins.py",
        (
            "a token is looked at while its address waits",
            "        if left_ms > 0:\n",
            "        if left_ms > 10**9:\n",
            "tests/unit/server/runtime/test_failed_logins.py",
        ),
    ),
    *_of(
        "server/runtime/blob_base.py",
        (
            "a redirect climbs out of its base",
            "return is_straight and found.path.startswith(self.path)",
            "return found.path.startswith(self.path)",
            "tests/unit/server/runtime/test_blob_base.py",
        ),
    ),
    *_of(
        "commit/manifest/commit_log.py",
        (
            "a history that goes in circles ends without notice",
            'raise ManifestCorrupt(commit.id, reason="it is among its own ancestors")',
            "return",
            "tests/unit/commit/manifest/test_commit_log.py",
        ),
    ),
    *_of(
        "server/cross_site.py",
        (
            "a page of another site writes",
            "    if _split(origin).netloc.lower() != host.lower():\n",
            '    if origin == "":\n',
            "tests/integration/test_security.py::test_a_server_without_tokens_answers_its_own_page_only",
        ),
    ),
    *_of(
        "engine/graph/state.py",
        (
            "a protected branch is written directly",
            "        if self._find_rule(branch) is not None:\n",
            "        if False:\n",
            f"{_PROTECTED}test_every_route_that_writes_is_refused_on_a_protected_branch",
        ),
    ),
)


# ── trying them ──────────────────────────────────────────────────────────────────────────────────


class Verdict(StrEnum):
    CAUGHT = "caught"
    SURVIVED = "survived"
    HUNG = "hung"
    LOST = "lost"
    """Its line is no longer there, or is there twice."""
    UNRUN = "unrun"
    """Its tests could not even be collected, or there are none of that name."""


@dataclass(frozen=True, slots=True)
class Tried:
    mutant: Mutant
    verdict: Verdict
    seconds: float

    def encode(self) -> dict[str, object]:
        return {
            "name": self.mutant.name,
            "file": self.mutant.file,
            "tests": list(self.mutant.tests),
            "verdict": self.verdict.value,
            "seconds": self.seconds,
        }


def try_out(mutant: Mutant) -> Tried:
    """Break a copy, and see who notices."""
    if mutant.count() != 1:
        return Tried(mutant, Verdict.LOST, 0)
    started_ms = REAL.monotonic_ms()
    with _copied() as sources:
        copy = Path(sources)
        mutant.apply(copy)
        verdict = _run(copy, mutant.tests)
    return Tried(mutant, verdict, round((REAL.monotonic_ms() - started_ms) / 1000, 1))


def _copied() -> "TemporaryDirectory[str]":
    folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="mutant-")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES, folder.name, ignore=ignored, dirs_exist_ok=True)
    return folder


def _run(sources: Path, tests: Iterable[str]) -> Verdict:
    """By what pytest says of itself: 0 all passed, 1 some failed; the rest is about the run."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            timeout=TIMEOUT_S,
            check=False,
            capture_output=True,
        )
    except subprocess.TimeoutExpired:
        return Verdict.HUNG
    return {0: Verdict.SURVIVED, 1: Verdict.CAUGHT}.get(done.returncode, Verdict.UNRUN)


def select(words: Sequence[str]) -> list[Mutant]:
    return [each for each in MUTANTS if not words or any(word in each.name for word in words)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants")
    parser.add_argument("words", nargs="*", help="only mutants whose names hold one of these")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the results go")
    asked = parser.parse_args()
    chosen = select(asked.words)
    if not chosen:
        parser.error(f"no mutant is called anything like {' or '.join(asked.words)}")
    with _copied() as sources:
        sound = _run(Path(sources), sorted({test for each in chosen for test in each.tests}))
    if sound is not Verdict.SURVIVED:
        sys.stderr.write("mutants: the tests do not pass on sources that nobody broke\n")
        return 2
    tried = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for each in pool.map(try_out, chosen):
            tried.append(each)
            place = f"{each.mutant.file:28} {each.mutant.name}"
            sys.stdout.write(f"{each.verdict:9} {each.seconds:6.1f} s  {place}\n")
            sys.stdout.flush()
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([each.encode() for each in tried], indent=2) + "\n")
    missed = sum(each.verdict is not Verdict.CAUGHT for each in tried)
    sys.stdout.write(f"{len(tried) - missed} of {len(tried)} caught; {asked.json}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
