"""The texts by which errors of Lance and obstore are told apart, one test for each."""

import subprocess
import sys
from pathlib import Path

import lance
import lance.commit
import obstore
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance.optimize import Compaction
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, S3Store

from omnigraph.storage import layout, translate

PRIMARY_KEY: dict[bytes | str, bytes | str] = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY)])


def create(uri: Path, *ids: str) -> LanceDataset:
    operation = LanceOperation.Overwrite(SCHEMA, [])
    dataset = LanceDataset.commit(
        uri, Transaction(0, operation), enable_stable_row_ids=True, max_retries=0
    )
    return append(dataset, *ids) if ids else dataset


def append(dataset: LanceDataset, *ids: str) -> LanceDataset:
    batch = pa.table({"id": list(ids)}, schema=SCHEMA)
    fresh = list(write_fragments(batch, dataset, mode="append"))
    return LanceDataset.commit(dataset, Transaction(dataset.version, LanceOperation.Append(fresh)))


def merge(dataset: LanceDataset, *ids: str) -> None:
    batch = pa.table({"id": list(ids)}, schema=SCHEMA)
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.use_index(False).conflict_retries(0).execute(batch)


def test_a_missing_table_is_a_value_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=translate.MISSING):
        lance.dataset(tmp_path / "none")


def test_a_missing_version_names_its_manifest_file(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(ValueError, match=translate.MISSING) as caught:
        lance.dataset(tmp_path, version=99)
    assert translate.MANIFEST_SUFFIX in str(caught.value)


def test_a_missing_data_file_is_invalid_to_arrow(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    for file in (tmp_path / layout.DATA).iterdir():
        file.unlink()
    with pytest.raises(pa.ArrowInvalid, match=translate.MISSING_FILE):
        dataset.to_table()


@pytest.mark.parametrize("size_bytes", [0, 5, 100])
def test_a_manifest_cut_short_says_so(tmp_path: Path, size_bytes: int) -> None:
    create(tmp_path)
    manifest = tmp_path / layout.version_file(1)
    manifest.write_bytes(manifest.read_bytes()[:size_bytes])
    with pytest.raises(ValueError) as caught:
        lance.dataset(tmp_path)
    assert any(sign in str(caught.value) for sign in translate.CUT_SHORT)


def test_a_data_file_cut_short_says_so(tmp_path: Path) -> None:
    dataset = create(tmp_path, "a")
    for file in (tmp_path / layout.DATA).iterdir():
        file.write_bytes(file.read_bytes()[:20])
    with pytest.raises((OSError, ValueError)) as caught:
        dataset.to_table()
    assert any(sign in str(caught.value) for sign in translate.CUT_SHORT)


def test_a_table_that_exists_is_refused_by_one_of_two_texts(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(OSError) as caught:
        create(tmp_path)
    signs = (translate.TABLE_TAKEN, translate.TABLE_TAKEN_LATE)
    assert any(sign in str(caught.value) for sign in signs)
    assert translate.is_refusal(caught.value)


def test_a_branch_that_exists_is_called_an_internal_error(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    dataset.create_branch("f", 1)
    with pytest.raises(OSError, match=translate.BRANCH_TAKEN):
        dataset.create_branch("f", 1)


def test_the_remains_of_a_branch_block_it_and_cannot_be_deleted(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    dataset.create_branch("f", 1)
    (tmp_path / layout.branch_ref_file("f")).unlink()
    assert dataset.branches.list() == {}
    with pytest.raises(OSError, match=translate.BRANCH_TAKEN):
        dataset.create_branch("f", 1)
    with pytest.raises(ValueError, match=translate.BRANCH_MISSING):
        dataset.branches.delete("f")


def test_a_branch_with_children_lists_them_in_quotes(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    dataset.create_branch("outer", 1).create_branch("inner", 1)
    with pytest.raises(OSError, match=translate.BRANCH_REFERENCED) as caught:
        dataset.branches.delete("outer")
    assert '"inner"' in str(caught.value)


def test_a_lost_merge_says_that_there_are_too_many_writers(tmp_path: Path) -> None:
    stale = create(tmp_path, "a")
    merge(lance.dataset(tmp_path), "a")
    with pytest.raises(OSError, match=translate.MERGE_LOST) as caught:
        merge(stale, "a")
    assert not isinstance(caught.value, lance.commit.CommitConflictError)


def test_a_merge_over_an_overwrite_says_incompatible(tmp_path: Path) -> None:
    stale = create(tmp_path, "a")
    overwrite = Transaction(stale.version, LanceOperation.Overwrite(SCHEMA, []))
    LanceDataset.commit(stale, overwrite, max_retries=0)
    with pytest.raises(OSError, match=translate.OVERTAKEN):
        merge(stale, "a")


def test_a_compaction_of_changed_rows_is_a_plain_error_that_says_conflict(tmp_path: Path) -> None:
    dataset = append(create(tmp_path, "a"), "b")
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 9})
    rewritten = [task.execute(dataset) for task in plan.tasks]
    lance.dataset(tmp_path).delete("id = 'a'")
    with pytest.raises(OSError, match=translate.PREEMPTED) as caught:
        Compaction.commit(dataset, rewritten)
    assert not isinstance(caught.value, lance.commit.CommitConflictError)


def test_a_conflict_of_commits_has_a_type_of_its_own(tmp_path: Path) -> None:
    stale = create(tmp_path, "a")
    append(stale, "b")
    overwrite = Transaction(stale.version, LanceOperation.Overwrite(SCHEMA, []))
    with pytest.raises(lance.commit.CommitConflictError) as caught:
        LanceDataset.commit(stale, overwrite, max_retries=0)
    assert translate.is_refusal(caught.value)


# --- obstore --------------------------------------------------------------------------------


def test_a_missing_object_is_the_builtin_error() -> None:
    with pytest.raises(FileNotFoundError):
        obstore.get(MemoryStore(), "none")


def test_lost_conditions_have_types_of_their_own() -> None:
    store = MemoryStore()
    obstore.put(store, "a", b"1")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a", b"2", mode="create")
    with pytest.raises(PreconditionError):
        obstore.put(store, "a", b"2", mode={"e_tag": "other"})


def test_a_panic_is_a_base_exception_known_by_its_name_only() -> None:
    """Here: an option obstore wants elsewhere, which is why `objects_cloud` sorts them."""
    with pytest.raises(BaseException, match="aws_") as caught:
        S3Store.from_url("s3://bucket/x", config={"allow_http": "true"})  # type: ignore[arg-type]
    assert not isinstance(caught.value, Exception)
    assert translate.is_panic(caught.value)


INTERRUPTED_READS = """
import os, signal, sys, threading
import lance, pyarrow as pa
from omnigraph.storage import translate

signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
path = sys.argv[1]
lance.write_dataset(pa.table({"a": range(100_000)}), path)
raw = translated = 0
for each in range(80):
    ring = threading.Timer(0.001 * (each % 20), os.kill, (os.getpid(), signal.SIGINT))
    try:
        ring.start()
        with translate.translating_tables("read", path, branch=None):
            while True:
                try:
                    lance.dataset(path).to_table()
                except ValueError as error:
                    raw += translate.is_interrupt(error)
                    raise
    except KeyboardInterrupt:
        translated += 1
    ring.join()
print(raw > 0, translated)
"""


def test_a_read_that_is_interrupted_says_so_in_an_error_of_its_own(tmp_path: Path) -> None:
    words = [sys.executable, "-c", INTERRUPTED_READS, str(tmp_path / "t")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True 80\n", 0), done.stderr
