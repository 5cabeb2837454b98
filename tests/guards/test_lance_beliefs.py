"""What we believe of Lance: commits, row ids, branches, names of files.

Each test is named after the belief the storage layer rests on, traps included. When an upgrade
breaks one, the code that relies on it is found by its words. Lance is used here directly.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.commit
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.optimize import Compaction

from omnigraph.storage import layout
from omnigraph.storage.lance.store import new_session

PRIMARY_KEY: dict[bytes | str, bytes | str] = {"lance-schema:unenforced-primary-key": "true"}
COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(COLUMNS)
KEYED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        SCHEMA.field("n"),
    ]
)


def rows(*ids: str, n: int = 0, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=schema)


def create(uri: Path, *ids: str, schema: pa.Schema = SCHEMA) -> LanceDataset:
    operation = LanceOperation.Overwrite(schema, [])
    dataset = LanceDataset.commit(
        uri, Transaction(0, operation), enable_stable_row_ids=True, max_retries=0
    )
    return send(dataset, LanceOperation.Append(write(dataset, *ids))) if ids else dataset


def write(dataset: LanceDataset, *ids: str, n: int = 0) -> list[Any]:
    batch = rows(*ids, n=n, schema=dataset.schema)
    return list(write_fragments(batch, dataset, mode="append"))


def send(
    dataset: LanceDataset, operation: LanceOperation.BaseOperation, *, max_retries: int = 0
) -> LanceDataset:
    transaction = Transaction(dataset.version, operation)
    return LanceDataset.commit(dataset, transaction, max_retries=max_retries)


def send_rows(dataset: LanceDataset, *ids: str) -> LanceDataset:
    return send(dataset, LanceOperation.Append(write(dataset, *ids)))


def ids(dataset: LanceDataset) -> list[str]:
    return sorted(str(each) for each in dataset.to_table()["id"].to_pylist())


def update(dataset: LanceDataset, fresh: list[Any], **options: Any) -> LanceOperation.Update:
    fields = [field.id() for field in dataset.lance_schema.fields()]
    settings = {"fields_for_preserving_frag_bitmap": fields} | options
    return LanceOperation.Update(new_fragments=fresh, update_mode="rewrite_rows", **settings)


def merge(dataset: LanceDataset) -> Any:
    return (
        dataset.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
    )


# --- commits --------------------------------------------------------------------------------


def test_an_append_is_rebased_even_with_retries_off(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    late = LanceOperation.Append(write(dataset, "late"))
    send(dataset, LanceOperation.Append(write(dataset, "early")))
    assert send(dataset, late).version == dataset.version + 2


def test_an_insert_only_update_without_a_sentinel_is_rebased_too(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    late = update(dataset, write(dataset, "same"))
    send(dataset, update(dataset, write(dataset, "same")))
    assert ids(send(dataset, late)) == ["a", "same", "same"]


def test_two_updates_that_list_one_fragment_conflict(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    first = dataset.get_fragments()[0].metadata
    late = update(dataset, write(dataset, "late"), updated_fragments=[first])
    send(dataset, update(dataset, write(dataset, "early"), updated_fragments=[first]))
    with pytest.raises(lance.commit.CommitConflictError):
        send(dataset, late)
    assert ids(lance.dataset(tmp_path)) == ["a", "early"]


def test_a_merge_into_an_empty_table_conflicts_with_every_change_of_rows(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    late = LanceOperation.Merge(write(dataset, "a"), dataset.lance_schema)
    send(dataset, LanceOperation.Merge(write(dataset, "a"), dataset.lance_schema))
    with pytest.raises(lance.commit.CommitConflictError):
        send(dataset, late)


def test_a_merge_cannot_keep_row_ids(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    fresh = write(dataset, "a")
    fresh[0].row_id_meta = RowIdSequence([0]).to_inline_metadata()
    old = [each.metadata for each in dataset.get_fragments()]
    with pytest.raises(OSError, match="row id metadata"):
        send(dataset, LanceOperation.Merge([*old, *fresh], dataset.lance_schema))


@pytest.mark.parametrize("other", ["append", "config"])
def test_an_overwrite_with_retries_off_is_refused_by_anything_in_between(
    tmp_path: Path, other: str
) -> None:
    dataset = create(tmp_path, "a")
    late = LanceOperation.Overwrite(SCHEMA, write(dataset, "z"))
    if other == "append":
        send(dataset, LanceOperation.Append(write(dataset, "b")))
    else:
        send(dataset, LanceOperation.UpdateConfig(LanceOperation.UpdateMap({"k": "v"})))
    with pytest.raises(lance.commit.CommitConflictError):
        send(dataset, late)


def test_an_overwrite_with_one_retry_destroys_what_landed_in_between(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    late = LanceOperation.Overwrite(SCHEMA, write(dataset, "z"))
    send(dataset, LanceOperation.Append(write(dataset, "b")))
    assert ids(send(dataset, late, max_retries=1)) == ["z"]


def relist(dataset: LanceDataset) -> list[FragmentMetadata]:
    return [each.metadata for each in dataset.get_fragments()]


def test_an_overwrite_may_list_old_fragments_again_and_keeps_what_they_are(tmp_path: Path) -> None:
    keyed = KEYED.with_metadata({"stamp": "4"})
    old = send_rows(create(tmp_path, "a", "b", schema=keyed), "c")
    listed = [*relist(old), *write(old, "d")]
    new = send(old, LanceOperation.Overwrite(old.lance_schema, listed))
    assert new.version == old.version + 1
    assert ids(new) == ["a", "b", "c", "d"]
    assert ids(old) == ["a", "b", "c"], "and time goes back"
    assert new.schema.equals(keyed, check_metadata=True)
    row_ids = new.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == 4


def test_fragments_that_are_listed_again_get_new_numbers_and_keep_their_files(
    tmp_path: Path,
) -> None:
    old = send_rows(create(tmp_path, "a"), "b")
    new = send(old, LanceOperation.Overwrite(old.lance_schema, relist(old)))
    assert {each.fragment_id for each in new.get_fragments()}.isdisjoint(
        each.fragment_id for each in old.get_fragments()
    )
    assert [each.files for each in relist(new)] == [each.files for each in relist(old)]


def test_a_fragment_with_deleted_rows_is_not_listed_again(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", "b")
    dataset.delete("id = 'a'")
    with pytest.raises(Exception, match="must be newly written"):
        send(dataset, LanceOperation.Overwrite(dataset.lance_schema, relist(dataset)))


def test_only_the_schema_of_lance_keeps_the_numbers_of_columns(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    dataset.add_columns(pa.schema([pa.field("late", pa.string())]))
    dataset.drop_columns(["n"])
    numbers = [each.id() for each in dataset.lance_schema.fields()]
    assert numbers == [0, 2]
    kept = send(dataset, LanceOperation.Overwrite(dataset.lance_schema, relist(dataset)))
    assert [each.id() for each in kept.lance_schema.fields()] == numbers
    renumbered = send(kept, LanceOperation.Overwrite(kept.schema, relist(kept)))
    assert [each.id() for each in renumbered.lance_schema.fields()] != numbers


def test_a_restore_is_never_refused_and_buries_what_landed_in_between(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    send(dataset, LanceOperation.Append(write(dataset, "b")))
    restored = send(dataset, LanceOperation.Restore(dataset.version))
    assert restored.version == dataset.version + 2
    assert ids(restored) == ["a"]


def test_a_change_staged_before_a_restore_is_refused_after_it(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    late = LanceOperation.Append(write(dataset, "late"))
    send(dataset, LanceOperation.Restore(1))
    with pytest.raises(lance.commit.CommitConflictError):
        send(dataset, late)


def test_a_transaction_committed_twice_adds_its_rows_twice(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    transaction = Transaction(dataset.version, LanceOperation.Append(write(dataset, "b")))
    LanceDataset.commit(dataset, transaction, max_retries=0)
    again = LanceDataset.commit(dataset, transaction, max_retries=0)
    assert ids(again) == ["a", "b", "b"]


def test_the_uuid_and_the_properties_of_a_transaction_are_read_back(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    transaction = Transaction(
        1,
        LanceOperation.Append(write(dataset, "a")),
        uuid="any text",
        transaction_properties={"k": "v"},
    )
    landed = LanceDataset.commit(dataset, transaction, max_retries=0)
    seen = landed.read_transaction(2)
    assert seen is not None
    assert (seen.uuid, seen.transaction_properties) == ("any text", {"k": "v"})


def test_a_commit_leaves_the_dataset_it_was_given_at_its_version(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    send(dataset, LanceOperation.Append(write(dataset, "a")))
    assert dataset.version == 1


def test_creating_with_retries_off_never_overwrites(tmp_path: Path) -> None:
    create(tmp_path, "a")
    with pytest.raises(OSError):
        create(tmp_path)
    assert ids(lance.dataset(tmp_path)) == ["a"]


def test_creating_with_a_retry_overwrites(tmp_path: Path) -> None:
    create(tmp_path, "a")
    operation = LanceOperation.Overwrite(SCHEMA, [])
    LanceDataset.commit(tmp_path, Transaction(0, operation), max_retries=1)
    assert ids(lance.dataset(tmp_path)) == []


def test_a_table_is_kept_in_format_2_2_with_row_ids_as_asked(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    assert dataset.data_storage_version == "2.2"
    assert dataset.has_stable_row_ids


# --- the swap -------------------------------------------------------------------------------


def test_racing_inserts_of_one_key_need_the_primary_key_mark(tmp_path: Path) -> None:
    marked, plain = create(tmp_path / "m", "a", schema=KEYED), create(tmp_path / "p", "a")
    for dataset in (marked, plain):
        merge(lance.dataset(dataset.uri)).use_index(False).execute(
            rows("new", schema=dataset.schema)
        )
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(marked).use_index(False).execute(rows("new", schema=KEYED))
    merge(plain).use_index(False).execute(rows("new"))
    assert ids(lance.dataset(plain.uri)) == ["a", "new", "new"]


def test_an_index_on_the_key_turns_its_fence_off_unless_it_is_not_used(tmp_path: Path) -> None:
    create(tmp_path, "a", schema=KEYED).create_scalar_index("id", "BTREE")
    stale, careful = lance.dataset(tmp_path), lance.dataset(tmp_path)
    merge(lance.dataset(tmp_path)).execute(rows("new", schema=KEYED))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(careful).use_index(False).execute(rows("new", schema=KEYED))
    merge(stale).execute(rows("new", schema=KEYED))
    assert ids(lance.dataset(tmp_path)) == ["a", "new", "new"]


def test_the_staged_form_of_a_merge_drops_the_fence_of_the_key(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", schema=KEYED)
    staged = [
        merge(lance.dataset(tmp_path)).use_index(False).execute_uncommitted(rows("b", schema=KEYED))
        for _ in range(2)
    ]
    for transaction, _ in staged:
        LanceDataset.commit(dataset, transaction, max_retries=0)
    assert ids(lance.dataset(tmp_path)) == ["a", "b", "b"]


def test_swaps_of_disjoint_keys_do_not_contend(tmp_path: Path) -> None:
    """The reason every publish must write one row that all of them share."""
    stale = create(tmp_path, "a", schema=KEYED)
    merge(lance.dataset(tmp_path)).use_index(False).execute(rows("b", schema=KEYED))
    merge(stale).use_index(False).execute(rows("c", schema=KEYED))
    assert lance.dataset(tmp_path).version == 4


def test_a_merge_advances_the_dataset_it_is_called_on(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", schema=KEYED)
    merge(dataset).use_index(False).execute(rows("b", schema=KEYED))
    assert dataset.version == 3


def test_two_new_rows_of_one_key_in_one_merge_are_both_inserted(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", schema=KEYED)
    merge(dataset).use_index(False).execute(rows("b", "b", schema=KEYED))
    assert ids(dataset) == ["a", "b", "b"]


# --- row ids --------------------------------------------------------------------------------


def test_rows_after_those_with_given_row_ids_get_fresh_ones(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", "b")
    shrunk = dataset.get_fragments()[0].delete_rows([0])
    fresh = write(dataset, "a", "new", n=1)
    fresh[0].row_id_meta = RowIdSequence([0]).to_inline_metadata()
    landed = send(dataset, update(dataset, fresh, updated_fragments=[shrunk]))
    seen = landed.to_table(columns=["id"], with_row_id=True).to_pylist()
    assert {row["id"]: row["_rowid"] for row in seen} == {"a": 0, "b": 1, "new": 2}


def test_dropping_every_row_of_a_fragment_says_so(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", "b")
    assert dataset.get_fragments()[0].delete_rows([0, 1]) is None
    assert lance.dataset(tmp_path).version == 2


def test_row_ids_are_not_used_again_after_overwrite_or_restore(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a", "b")
    dataset = send(dataset, LanceOperation.Overwrite(SCHEMA, write(dataset, "c")))
    dataset = send(dataset, LanceOperation.Restore(1))
    dataset = send(dataset, LanceOperation.Append(write(dataset, "d")))
    assert dataset.to_table(with_row_id=True)["_rowid"].to_pylist() == [3]


# --- compaction and history -----------------------------------------------------------------


def compacted(uri: Path, *, with_index: bool) -> LanceDataset:
    dataset = create(uri, "a")
    dataset = send(dataset, LanceOperation.Append(write(dataset, "b")))
    if with_index:
        dataset.create_scalar_index("id", "BTREE")
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 100})
    Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])
    return dataset


def test_compaction_takes_two_versions_the_first_of_a_kind_without_a_class(tmp_path: Path) -> None:
    dataset = compacted(tmp_path, with_index=False)
    assert dataset.version == 5
    reservation, rewrite = dataset.read_transaction(4), dataset.read_transaction(5)
    assert reservation is not None
    assert rewrite is not None
    assert type(reservation.operation) is LanceOperation.BaseOperation
    assert isinstance(rewrite.operation, LanceOperation.Rewrite)


def test_the_record_of_a_compaction_that_remapped_indices_cannot_be_read(tmp_path: Path) -> None:
    dataset = compacted(tmp_path, with_index=True)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.read_transaction(dataset.version)


def test_times_of_versions_are_local_and_do_not_say_so(tmp_path: Path) -> None:
    created = create(tmp_path).versions()[0]["timestamp"]
    assert getattr(created, "tzinfo", "missing") is None


# --- branches -------------------------------------------------------------------------------


def test_a_branch_records_absolutely_where_its_inherited_files_are(tmp_path: Path) -> None:
    create(tmp_path / "t", "a").create_branch("f", 2)
    branch = lance.dataset(tmp_path / "t" / "tree" / "f")
    assert [base.path for base in branch.base_paths().values()] == [str(tmp_path / "t")]


def test_versions_on_a_branch_continue_from_the_fork(tmp_path: Path) -> None:
    create(tmp_path, "a").create_branch("f", 2)
    branch = lance.dataset(tmp_path / "tree" / "f")
    assert send(branch, LanceOperation.Append(write(branch, "b"))).version == 3
    assert lance.dataset(tmp_path).version == 2


def test_a_branch_opened_by_its_folder_commits_to_that_folder(tmp_path: Path) -> None:
    create(tmp_path, "a").create_branch("f", 2)
    branch = lance.dataset(tmp_path / "tree" / "f")
    landed = send(branch, LanceOperation.Append(write(branch, "b")))
    assert landed.uri == str(tmp_path / "tree" / "f")
    assert (tmp_path / "tree" / "f" / "data").is_dir()


def test_a_branch_checked_out_from_main_gives_the_address_of_main(tmp_path: Path) -> None:
    """The reason commits never go by address."""
    dataset = create(tmp_path, "a")
    dataset.create_branch("f", 2)
    assert dataset.checkout_version(("f", None)).uri == str(tmp_path)


def test_a_session_notices_that_a_branch_was_made_again_by_somebody_else(tmp_path: Path) -> None:
    session = new_session()
    uri = tmp_path / "tree" / "f"
    for number, expected in enumerate((["a", "x0"], ["a", "x1"])):
        dataset = create(tmp_path, "a") if number == 0 else lance.dataset(tmp_path)
        dataset.create_branch("f", 2)
        branch = lance.dataset(uri)
        send(branch, LanceOperation.Append(write(branch, f"x{number}")))
        assert ids(lance.dataset(uri, version=3, session=session)) == expected
        lance.dataset(tmp_path).branches.delete("f")


def test_making_a_branch_borrows_its_dataset_exclusively(tmp_path: Path) -> None:
    """The reason forks are made on a dataset of their own."""
    dataset = create(tmp_path, "a")
    gate = threading.Barrier(6)
    failures: list[BaseException] = []

    def race(number: int) -> None:
        gate.wait()
        try:
            dataset.create_branch(f"b{number}", 2)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            failures.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("Already" in str(error) for error in failures), failures


def test_deleting_versions_by_number_deletes_no_others(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    for name in ("b", "c"):
        dataset = send(dataset, LanceOperation.Append(write(dataset, name)))
    dataset.cleanup_old_versions(versions=[2])
    assert [each["version"] for each in lance.dataset(tmp_path).versions()] == [1, 3, 4]


# --- names of files -------------------------------------------------------------------------


def test_lance_names_its_files_as_the_layout_says(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    fresh = write(dataset, "a", "b")
    transaction = Transaction(1, LanceOperation.Append(fresh), uuid="mine")
    dataset = LanceDataset.commit(dataset, transaction, max_retries=0)
    shrunk = dataset.get_fragments()[0].delete_rows([0])
    assert shrunk is not None
    assert shrunk.deletion_file is not None
    index = dataset.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0])
    expected = [
        layout.version_file(2),
        layout.transaction_file(1, "mine"),
        layout.data_file(fresh[0].files[0].path),
        shrunk.deletion_file.path(shrunk.id),
        *(f"{layout.index_folder(index.uuid)}/{file.path}" for file in index.files or ()),
    ]
    assert [name for name in expected if not (tmp_path / name).is_file()] == []


@pytest.mark.parametrize("branch", ["f", "team/x", "größe-1.x_y"])
def test_lance_names_branches_as_the_layout_says(tmp_path: Path, branch: str) -> None:
    create(tmp_path).create_branch(branch, 1)
    assert (tmp_path / layout.branch_ref_file(branch)).is_file()
    assert (tmp_path / layout.branch_folder(branch) / layout.version_file(1)).is_file()


def test_large_blobs_lie_in_a_folder_named_after_their_data_file(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    field = pa.field("b", kind, metadata={"ARROW:extension:name": "lance.blob.v2"})
    schema = pa.schema([field])
    dataset = create(tmp_path, schema=schema)
    blobs = pa.array([{"data": b"x" * 200_000, "uri": None}], kind)
    (fragment,) = write_fragments(pa.table({"b": blobs}, schema=schema), dataset, mode="append")
    (blob,) = (tmp_path / layout.blob_folder(fragment.files[0].path)).iterdir()
    assert blob.stat().st_size == 200_000


def test_a_fragment_description_survives_json(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    text = json.dumps(write(dataset, "a")[0].to_json())
    again = FragmentMetadata.from_json(text)
    assert ids(send(dataset, LanceOperation.Append([again]))) == ["a"]


CHANGES: dict[str, Callable[[LanceDataset], object]] = {
    "write_fragments": lambda dataset: write(dataset, "b"),
    "delete_rows": lambda dataset: dataset.get_fragments()[0].delete_rows([0]),
    "create_index_uncommitted": lambda dataset: dataset.create_index_uncommitted(
        "id", "BTREE", name="i", fragment_ids=[0]
    ),
    "Compaction.execute": lambda dataset: [
        task.execute(dataset)
        for task in Compaction.plan(dataset, {"target_rows_per_fragment": 9}).tasks
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_calls_we_stage_with_leave_head_alone(tmp_path: Path, name: str) -> None:
    dataset = create(tmp_path, "a", "b")
    dataset = send(dataset, LanceOperation.Append(write(dataset, "c")))
    CHANGES[name](dataset)
    assert lance.dataset(tmp_path).version == dataset.version
