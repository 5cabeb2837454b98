"""A graph that was copied, renamed or synced elsewhere, while nothing wrote to it (D33)."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

import omnigraph
from omnigraph.commit.leases.lease import Lease, Timing, path_of
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import this_process
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.engine.settings import Settings
from omnigraph.errors import CursorInvalid, GraphRelocated, LeaseHeld, ObjectCorrupt
from omnigraph.ids import MAIN, OperationId
from omnigraph.storage.bucket_options import resolve_bucket
from omnigraph.storage.layout import IDENTITY
from omnigraph.storage.objects_cloud import connect
from omnigraph.testing.failpoints import SWAP, At
from support.breaking import (
    PAIR,
    PERSON,
    SIDE,
    Ask,
    check_whole,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.folders import put_back, read_folder
from support.moving import (
    SCHEMA,
    check_alive,
    make_graph,
    open_relaxed,
    people,
    poison,
    read_all,
    read_heads,
)
from support.scenes import die


def copy_away(old: Path, new: Path) -> None:
    subprocess.run(["cp", "-r", str(old), str(new)], check=True)
    poison(old)


def rename_away(old: Path, new: Path) -> None:
    subprocess.run(["mv", str(old), str(new)], check=True)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A graph, and what it shows."""
    root = tmp_path_factory.mktemp("original") / "with space é" / "old"
    root.parent.mkdir()
    return root, read_all(make_graph(root))


@pytest.fixture
def old(original: tuple[Path, dict[str, bytes]], tmp_path: Path) -> Path:
    """A place from which a graph may be moved; its branches record yet another place."""
    shutil.copytree(original[0], tmp_path / "old")
    open_relaxed(tmp_path / "old")
    return tmp_path / "old"


@pytest.mark.parametrize("move", [copy_away, rename_away])
def test_a_moved_graph_works_in_every_version_on_every_branch(
    move: Callable[[Path, Path], None],
    old: Path,
    original: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    new = tmp_path / "elsewhere" / "new"
    new.parent.mkdir()
    move(old, new)
    files = read_folder(new)
    assert read_all(open_relaxed(new, read_only=True)) == original[1]
    assert read_folder(new) == files, "a reader changed something"
    graph = open_relaxed(new)
    assert read_all(graph) == original[1]
    assert str(old) not in (new / IDENTITY).read_text()
    check_alive(graph)


def test_a_copy_never_reads_its_original(old: Path, tmp_path: Path) -> None:
    """The original holds other bytes under the same names, and then continues differently."""
    new = tmp_path / "new"
    shutil.copytree(old, new)
    expected = read_all(open_relaxed(old, read_only=True))
    files = read_folder(old)
    poison(old)
    assert read_all(open_relaxed(new, read_only=True)) == expected
    assert read_all(open_relaxed(new)) == expected
    put_back(old, files)
    open_relaxed(old).branch("deep").insert("Person", people("only in the original"))
    assert read_all(open_relaxed(new)) == expected
    open_relaxed(new).branch("deep").insert("Person", people("only in the copy"))
    assert open_relaxed(old).branch("deep").entity("Person", "only in the copy") is None


def test_no_file_of_the_original_is_opened(old: Path, tmp_path: Path) -> None:
    new, log = tmp_path / "new", tmp_path / "calls"
    shutil.copytree(old, new)
    poison(old)
    script = (
        "import omnigraph\n"
        "for read_only in (True, False):\n"
        f"    graph = omnigraph.open({str(new)!r}, read_only=read_only)\n"
        "    for branch in graph.branches.list():\n"
        "        list(graph.export_lines(branch=branch))\n"
    )
    log.touch()
    tracer = shutil.which("strace")
    tracing = [] if tracer is None else [tracer, "-f", "-qq", "-e", "trace=%file", "-o", str(log)]
    subprocess.run([*tracing, sys.executable, "-c", script], check=True, timeout=120)
    # The path of the original is compared, which asks whether it is a link, and opens nothing.
    calls = [line for line in log.read_text().splitlines() if f'"{old}' in line]
    assert [line for line in calls if "open" in line.partition("(")[0]] == []


def test_a_graph_can_be_moved_again_and_back(
    old: Path, original: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    ids = set()
    place = old
    for name in ("one", "two", "old"):
        rename_away(place, tmp_path / name)
        place = tmp_path / name
        assert read_all(open_relaxed(place)) == original[1]
        ids.add(json.loads((place / IDENTITY).read_text())["graph_id"])
    assert len(ids) == 3


def test_a_prefix_synced_to_another_prefix_works(bucket: dict[str, str]) -> None:
    prefix, other = REAL.new_id(), REAL.new_id()
    original = omnigraph.init(f"s3://graphs/{prefix}", SCHEMA, storage_options=bucket)
    original.insert("Person", people("ann"))
    original.branch("side", create=True).insert("Person", people("sid"))
    before = read_all(original)
    store = connect(resolve_bucket("s3://graphs", bucket))
    keys = [each["path"] for chunk in obstore.list(store, prefix) for each in chunk]
    for key in keys:
        data = obstore.get(store, key).bytes()
        obstore.put(store, key.replace(prefix, other), bytes(data))
        obstore.put(store, key, b"poison")
    reader = omnigraph.open(f"s3://graphs/{other}", read_only=True, storage_options=bucket)
    assert read_all(reader) == before
    graph = omnigraph.open(f"s3://graphs/{other}", storage_options=bucket)
    assert read_all(graph) == before
    graph.branch("side").insert("Person", people("new"))
    graph.merge("side")
    graph.cleanup(keep=1, confirm=True)
    assert read_heads(graph)["main"] == read_heads(graph)["side"] != before["main"]
    assert graph.doctor() == []


def test_a_graph_of_another_program_has_no_identity_and_can_be_moved(
    old: Path, original: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    (old / IDENTITY).unlink()
    unmoved = read_folder(old)
    cursor = open_relaxed(old, read_only=True).changes(start="now").cursor
    assert open_relaxed(old).changes(cursor=cursor).caught_up, "it was not moved"
    put_back(old, unmoved)
    copy_away(old, tmp_path / "new")
    graph = open_relaxed(tmp_path / "new")
    assert read_all(graph) == original[1]
    with pytest.raises(CursorInvalid):
        graph.changes(cursor=cursor)


def test_a_damaged_identity_is_an_error_that_names_it(old: Path) -> None:
    for damage in ("", "[]", '{"graph_id": 3, "uri": "x"}'):
        (old / IDENTITY).write_text(damage)
        with pytest.raises(ObjectCorrupt, match=IDENTITY):
            open_relaxed(old)


# ── cursors ──────────────────────────────────────────────────────────────────────────────────────


def test_cursors_of_the_original_and_of_the_copy_are_different(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    shutil.copytree(old, new)
    graphs = [
        open_relaxed(old),
        open_relaxed(new, read_only=True),
        open_relaxed(new),
    ]
    cursors = [graphs[0].changes(start="now").cursor]
    shutil.rmtree(new)
    shutil.copytree(old, new)
    cursors.append(open_relaxed(new, read_only=True).changes(start="now").cursor)
    graphs[2] = open_relaxed(new)
    cursors.append(graphs[2].changes(start="now").cursor)
    for graph, own in ((graphs[0], 0), (graphs[2], 2)):
        for number, cursor in enumerate(cursors):
            if number == own:
                assert graph.changes(cursor=cursor).caught_up
            else:
                with pytest.raises(CursorInvalid, match="another graph"):
                    graph.changes(cursor=cursor)


# ── what was copied with the graph ───────────────────────────────────────────────────────────────


def test_a_copied_sidecar_is_recovered_by_the_files_of_the_copy(tmp_path: Path) -> None:
    root, copy = tmp_path / "g", tmp_path / "copy"
    populate(root).create_branch(SIDE)
    open_mortal(root).ask(Ask("put", {"name": "sid", "age": 1}), SIDE)
    before = read_content(root)
    die(root, At(SWAP), lambda graph: graph.ask(PAIR, SIDE))
    shutil.copytree(root, copy)
    files = read_folder(root)
    poison(root)
    open_in(stores_at(copy), Mode.READ_WRITE)
    after = read_content(copy)
    assert check_whole(copy, [after]) == 0
    assert after != before, "the copy finished the write"
    put_back(root, files)
    open_mortal(root).refresh()
    assert read_content(root) == after, "and so did the original, by itself"


QUICK = Timing(ttl_ms=400, heartbeat_ms=100, wait_ms_max=3_000)


def put_lease(root: Path, *, beats: int = 0) -> None:
    """The lease of a process that is alive, as a copy shows it."""
    key = LockKey(PERSON, MAIN)
    lease = Lease(this_process(), OperationId(REAL.new_id()), 7, QUICK.ttl_ms, beats=beats)
    stores_at(root).volatile.put_over(path_of(key), lease.encode())


def test_the_lease_of_a_live_writer_of_the_original_expires_in_the_copy(tmp_path: Path) -> None:
    populate(tmp_path / "g").create_branch(SIDE)
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    put_lease(tmp_path / "copy")
    graph = open_in(stores_at(tmp_path / "copy"), Mode.READ_WRITE, Settings(timing=QUICK))
    assert graph.snapshot(SIDE).pins
    assert read_content(tmp_path / "copy") == read_content(tmp_path / "g")


def test_a_graph_that_is_written_through_another_path_is_not_re_rooted(tmp_path: Path) -> None:
    """The lease is renewed, so its writer reaches this very graph."""
    populate(tmp_path / "g").create_branch(SIDE)
    (tmp_path / "g").rename(tmp_path / "moved")
    put_lease(tmp_path / "moved")
    impatient = Timing(ttl_ms=60_000, wait_ms_max=300)
    lease = stores_at(tmp_path / "moved")
    key = path_of(LockKey(PERSON, MAIN))
    living = Lease(this_process(), OperationId(REAL.new_id()), 8, impatient.ttl_ms)
    lease.volatile.put_over(key, living.encode())
    with pytest.raises(LeaseHeld):
        open_in(lease, Mode.READ_WRITE, Settings(timing=impatient))
    assert json.loads((tmp_path / "moved" / IDENTITY).read_text())["uri"] == str(tmp_path / "g")


# ── files that come later ────────────────────────────────────────────────────────────────────────


def test_a_branch_that_is_synced_into_an_open_graph_is_refused_until_relocated(
    old: Path, original: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    """A writer would read elsewhere, and cleanup would remove files that the branch inherits."""
    new = tmp_path / "new"
    shutil.copytree(old, new)
    mine = open_relaxed(new)
    for file in old.rglob("tree/**/*.manifest"):
        shutil.copy(file, new / file.relative_to(old))
    files = read_folder(new)
    graph = open_relaxed(new)
    for write in (
        lambda: graph.branch("deep").insert("Person", people("x")),
        lambda: graph.merge("deep", "team/side"),
        lambda: graph.cleanup(keep=1, confirm=True),
    ):
        with pytest.raises(GraphRelocated, match="omnigraph relocate"):
            write()
    versions = {name for name in files if "_versions" in name}
    assert versions <= set(read_folder(new))
    assert read_all(open_relaxed(new, read_only=True)) == original[1]
    result = mine.relocate()
    assert result.versions_rewritten == result.versions > 0
    assert read_all(mine) == original[1]
    check_alive(mine)
