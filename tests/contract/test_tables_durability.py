"""Which files and folders are flushed, and which of them wait together. Proven by recording."""

from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from omnigraph.effects import REAL
from omnigraph.storage import layout
from omnigraph.storage.durability import FlushWaves, RealDisk, flush_files
from omnigraph.storage.lance.store import LanceStore, new_session
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.layout import Root, parse_root
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.tables import (
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    Mark,
    Outcome,
    Staged,
    TableRef,
)

PERSON = TableRef("nodes/40d76f1f51639ec0")
PRIMARY_KEY: dict[bytes | str, bytes | str] = {"lance-schema:unenforced-primary-key": "true"}
BLOB = pa.field(
    "b",
    pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())]),
    metadata={"ARROW:extension:name": "lance.blob.v2"},
)
SCHEMA = pa.schema({"id": pa.string(), "t": pa.string()}).append(BLOB)


class RecordingDisk:
    """Flushes for real, and remembers what."""

    def __init__(self) -> None:
        self.real = RealDisk()
        self.calls: list[Path] = []

    def flush_file(self, path: Path) -> None:
        assert path.is_file()
        self.real.flush_file(path)
        self.calls.append(path)

    def flush_folder(self, path: Path) -> None:
        assert path.is_dir()
        self.real.flush_folder(path)
        self.calls.append(path)

    def forget(self) -> None:
        self.calls.clear()


@pytest.fixture
def disk() -> RecordingDisk:
    return RecordingDisk()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return parse_root(str(tmp_path / "g"))


@pytest.fixture
def tables(root: Root, disk: RecordingDisk) -> LanceTables:
    objects = LocalObjects(Path(root.uri), disk)
    return LanceTables(LanceStore(root, objects, disk, {}, new_session()))


def rows(*ids: str, blob_bytes: int = 1) -> pa.Table:
    blobs = pa.array([{"data": b"x" * blob_bytes, "uri": None}] * len(ids), BLOB.type)
    return pa.table({"id": list(ids), "t": [f"word {each}" for each in ids], "b": blobs}, SCHEMA)


def mark() -> Mark:
    return Mark(REAL.new_id())


def landed(outcome: Outcome) -> Handle:
    assert isinstance(outcome, Landed), outcome
    return outcome.handle


def commit(tables: LanceTables, staged: Staged | None) -> Handle:
    assert staged is not None
    return landed(tables.commit_exact(staged))


def files_below(folder: Path) -> set[Path]:
    """Everything Lance keeps, without the hint it can do without."""
    return {
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name != "latest_version_hint.json"
    }


def check_flushed(disk: RecordingDisk, created: set[Path], top: Path) -> None:
    """Every new file, and every folder that names it or one of its ancestors below `top`.

    The order inside a wave is free: the files and the entries exist before the wave begins.
    """
    assert created, "nothing was created"
    # An object is flushed under the name it has while it is unfinished.
    flushed = {path.with_name(path.name.partition("#")[0]) for path in disk.calls}
    for file in created:
        assert file in flushed, f"{file} was never flushed"
        folder = file.parent
        while folder.is_relative_to(top):
            assert folder in disk.calls, f"{folder} was not flushed with {file.name}"
            folder = folder.parent


def test_a_new_table_is_flushed_up_to_the_root(
    tables: LanceTables, disk: RecordingDisk, root: Root
) -> None:
    commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), rows("a", blob_bytes=200_000)))
    created = files_below(Path(root.uri))
    assert any(file.suffix == ".blob" for file in created)
    check_flushed(disk, created, Path(root.uri))


@pytest.mark.parametrize("branch", [None, "team/feature"])
def test_every_file_a_commit_created_is_flushed_with_its_folders(
    tables: LanceTables, disk: RecordingDisk, root: Root, branch: str | None
) -> None:
    handle = commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), rows("a", "b", "c")))
    table = Path(root.locate(PERSON.path))
    before = files_below(table)
    if branch is not None:
        disk.forget()
        handle = tables.fork(handle, branch)
        check_flushed(disk, files_below(table) - before, table)
    spec = [IndexSpec("id", IndexKind.BTREE), IndexSpec("t", IndexKind.INVERTED)]
    for step in range(5):
        before = files_below(table)
        disk.forget()
        match step:
            case 0:
                staged = tables.stage_append(handle, rows("d", blob_bytes=200_000), mark())
            case 1:
                staged = tables.stage_upsert(handle, rows("a", "e"), mark(), key="id")
            case 2:
                staged = tables.stage_delete(handle, "id = 'b'", mark())
            case 3:
                indexed = tables.stage_indices(handle, spec, IndexScope.UNCOVERED, mark())
                assert indexed is not None
                staged = indexed
            case _:
                staged = tables.stage_overwrite(handle, SCHEMA, mark(), rows("z"))
        assert disk.calls == [], "staging need not be durable"
        handle = commit(tables, staged)
        check_flushed(disk, files_below(table) - before, table)


def test_both_forms_of_the_swap_are_flushed(
    tables: LanceTables, disk: RecordingDisk, root: Root
) -> None:
    key = pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY)
    keyed = pa.schema([key])
    manifest = TableRef(layout.MANIFEST)
    table = Path(root.locate(manifest.path))
    handle = commit(tables, tables.stage_create(manifest, keyed, mark()))
    for number in range(18):
        before = files_below(table)
        disk.forget()
        batch = pa.table({"id": ["head", f"c{number}"]}, keyed)
        handle = landed(tables.single_step.swap_rows(handle, batch, key="id", mark=mark()))
        check_flushed(disk, files_below(table) - before, table)
    assert len(tables.inspect(handle).fragments) < 16


def test_compaction_flushes_what_the_new_version_reads(
    tables: LanceTables, disk: RecordingDisk, root: Root
) -> None:
    handle = commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), rows("a")))
    handle = commit(tables, tables.stage_append(handle, rows("b"), mark()))
    staged = tables.stage_compaction(handle)
    assert staged is not None
    table = Path(root.locate(PERSON.path))
    disk.forget()
    compacted = landed(tables.single_step.commit_compaction(staged))
    assert table / layout.version_file(compacted.version) in disk.calls
    assert any(path.suffix == ".lance" for path in disk.calls)


def test_hardening_flushes_inherited_files_where_they_are(
    tables: LanceTables, disk: RecordingDisk, root: Root
) -> None:
    main = commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), rows("a", "b")))
    branch = tables.fork(main, "feature")
    branch = commit(tables, tables.stage_delete(branch, "id = 'a'", mark()))
    disk.forget()
    tables.fsync_version(branch)
    table = Path(root.locate(PERSON.path))
    flushed = {path.relative_to(table).parts[0] for path in disk.calls if path.is_file()}
    assert flushed == {"data", "tree"}
    assert any(path.parent.name == "_deletions" for path in disk.calls)


def test_objects_are_flushed_before_and_after_they_are_moved_into_place(
    disk: RecordingDisk, tmp_path: Path
) -> None:
    objects = LocalObjects(tmp_path / "g", disk)
    tag = objects.put_new("__recovery/a.json", b"1")
    folder = tmp_path / "g" / "__recovery"
    # New folders, then the unfinished file, then the entry that names the finished one.
    assert disk.calls[:2] == [tmp_path, tmp_path / "g"]
    assert disk.calls[2].name.startswith("a.json#")
    assert disk.calls[3:] == [folder]
    changes: list[Callable[[], object]] = [
        lambda: objects.put_over("__recovery/b.json", b"2"),
        lambda: objects.put_if_match("__recovery/a.json", b"2", tag=tag),
    ]
    for change in changes:
        disk.forget()
        change()
        assert len(disk.calls) == 2
        assert disk.calls[1] == folder
    disk.forget()
    objects.delete("__recovery/a.json")
    assert disk.calls == [folder]
    disk.forget()
    objects.delete("__recovery/b.json", is_flushed=False)
    assert disk.calls == []


def make_files(tmp_path: Path) -> tuple[list[Path], list[Path]]:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    files = [deep / "one", deep / "two", tmp_path / "a" / "three"]
    for file in files:
        file.write_bytes(b"")
    return files, [deep, tmp_path / "a", tmp_path]


def test_each_file_and_each_folder_is_flushed_once(disk: RecordingDisk, tmp_path: Path) -> None:
    files, folders = make_files(tmp_path)
    flush_files(disk, files, below=tmp_path)
    assert sorted(disk.calls) == sorted([*files, *folders])


def test_a_file_of_an_earlier_wave_is_not_flushed_again(
    disk: RecordingDisk, tmp_path: Path
) -> None:
    (one, two, three), folders = make_files(tmp_path)
    waves = FlushWaves(disk)
    waves.add([one], below=tmp_path)
    waves.flush()
    disk.forget()
    waves.add([one, two, three], below=tmp_path)
    waves.flush()
    assert sorted(disk.calls) == sorted([two, three, *folders]), "a folder may have new entries"
    disk.forget()
    waves.flush()
    assert disk.calls == []


class MeetingDisk:
    """Each flush waits until all flushes of the wave have begun."""

    def __init__(self, expected: int) -> None:
        self.all_began = Barrier(expected, timeout=120)

    def flush_file(self, path: Path) -> None:
        assert path.is_file()
        self.all_began.wait()

    def flush_folder(self, path: Path) -> None:
        assert path.is_dir()
        self.all_began.wait()


def test_the_flushes_of_a_wave_wait_together(tmp_path: Path) -> None:
    files, folders = make_files(tmp_path)
    flush_files(MeetingDisk(len(files) + len(folders)), files, below=tmp_path)


class FullDisk(RecordingDisk):
    def flush_file(self, path: Path) -> None:
        raise OSError(ENOSPC, "no space left", str(path))


def test_a_flush_that_fails_fails_the_wave_once_all_others_have_ended(tmp_path: Path) -> None:
    disk = FullDisk()
    files, folders = make_files(tmp_path)
    waves = FlushWaves(disk)
    waves.add(files, below=tmp_path)
    with pytest.raises(OSError, match="no space left"):
        waves.flush()
    assert sorted(disk.calls) == sorted(folders)
    waves.add(files, below=tmp_path)
    with pytest.raises(OSError, match="no space left"):
        waves.flush()
