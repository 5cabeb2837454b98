"""`clone`: a full copy of a graph that others write to, at another place."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

import omnigraph
from omnigraph.commit.leases.lease import DEFAULT_TIMING
from omnigraph.commit.leases.staging import staging
from omnigraph.effects import REAL
from omnigraph.errors import (
    BranchNotFound,
    CloneRunning,
    CommitNotFound,
    CursorInvalid,
    GraphExists,
    GraphIncomplete,
    GraphNotFound,
    TableCorrupt,
    UsageError,
)
from omnigraph.ids import MAIN, OperationId
from omnigraph.storage.layout import CLONE_CLAIM, SCHEMA_SOURCE
from support.breaking import stores_at
from support.folders import read_folder
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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "g"
    make_graph(root)
    return root


def test_a_clone_shows_every_commit_and_never_reads_its_source(
    source: Path, tmp_path: Path
) -> None:
    shutil.copytree(source, tmp_path / "g")
    before = read_all(open_relaxed(tmp_path / "g", read_only=True))
    result = omnigraph.clone(tmp_path / "g", tmp_path / "new é" / "clone")
    assert result.branches == ("main", "deep", "team/side")
    assert result.commits == len(before) - len(result.branches)
    poison(tmp_path / "g")
    graph = open_relaxed(tmp_path / "new é" / "clone")
    assert read_all(graph) == before
    assert graph.doctor(deep=True) == []
    check_alive(graph)


def test_nothing_but_data_is_copied(source: Path, tmp_path: Path) -> None:
    """No leases, sidecars, staging records, files without a version; and no other bytes."""
    (source / "nodes" / "stray").write_bytes(b"staged by a writer")
    (source / "__recovery").mkdir(exist_ok=True)
    (source / "__recovery" / "x.fence").write_bytes(b"{}")
    omnigraph.clone(source, tmp_path / "clone")
    original, clone = read_folder(source), read_folder(tmp_path / "clone")
    tops = {name.split("/")[0] for name in clone}
    assert tops - {"nodes", "edges", "__manifest", "_schema.pg", "_schema.ir.json"} == {
        "__identity.json",
        "__leases",
        "__schema_state.json",
    }
    assert "nodes/stray" not in clone
    differing = {name for name in clone if original.get(name) != clone[name]}
    assert {name for name in differing if "/tree/" not in name} <= {
        "__identity.json",
        "__leases/clone@main.json",
    }


def test_some_branches_are_cloned_with_those_they_were_created_from(
    source: Path, tmp_path: Path
) -> None:
    everything = read_all(open_relaxed(source, read_only=True))
    assert omnigraph.clone(source, tmp_path / "side", branch="team/side").branches == (
        "main",
        "team/side",
    )
    deep = omnigraph.clone(source, tmp_path / "deep", branch=["deep"])
    assert deep.branches == ("main", "deep", "team/side")
    graph = open_relaxed(tmp_path / "side")
    shown = read_all(graph)
    assert shown == {name: everything[name] for name in shown}
    assert "deep" not in shown
    graph.branch("team/side").insert("Person", people("new"))
    assert graph.doctor(deep=True) == []
    assert omnigraph.clone(source, tmp_path / "main", branch="main").branches == ("main",)
    with pytest.raises(BranchNotFound):
        omnigraph.clone(source, tmp_path / "none", branch="nope")
    with pytest.raises(GraphIncomplete, match="repeat the clone"):
        omnigraph.open(tmp_path / "none")


def test_a_clone_at_a_commit_ends_with_it(source: Path, tmp_path: Path) -> None:
    graph = open_relaxed(source, read_only=True)
    everything = read_all(graph)
    for number, branch in enumerate(("main", "deep")):
        commit = graph.commits(branch)[1]
        place = tmp_path / str(number)
        result = omnigraph.clone(source, place, at=commit.id)
        clone = open_relaxed(place)
        assert clone.commits(branch)[0].id == commit.id
        assert read_heads(clone)[branch] == everything[commit.id]
        assert set(result.branches) == {"main", branch, *(["team/side"] * number)}
        assert clone.doctor(deep=True) == []
        clone.branch(branch).insert("Person", people("another future"))
        clone.branch("new", create=True, source=branch).insert("Person", people("n"))
        clone.merge("new", branch)
        clone.cleanup(keep=1, confirm=True)
        assert clone.doctor(deep=True) == []
    with pytest.raises(CommitNotFound):
        omnigraph.clone(source, tmp_path / "x", at=REAL.new_id())
    with pytest.raises(UsageError, match="made on 'main'"):
        omnigraph.clone(source, tmp_path / "y", at=graph.commits()[0].id, branch="deep")


def test_a_clone_has_the_schemas_and_tags_of_its_commits(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.insert("Person", people("ann"))
    old = graph.commits()[0].id
    graph.apply_schema(SCHEMA.replace("photo: Blob?", "photo: Blob?  mail: String?"))
    graph.insert("Person", [{"name": "bob", "mail": "b@example.org"}])
    omnigraph.clone(tmp_path / "g", tmp_path / "now")
    assert read_all(open_relaxed(tmp_path / "now")) == read_all(graph)
    omnigraph.clone(tmp_path / "g", tmp_path / "then", at=old)
    then = open_relaxed(tmp_path / "then")
    assert then.schema_source == SCHEMA
    then.insert("Person", people("carl"))
    assert then.doctor(deep=True) == []


def test_places_that_cannot_be_cloned_to_are_refused(source: Path, tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "graph", SCHEMA)
    files = read_folder(tmp_path / "graph")
    with pytest.raises(GraphExists):
        omnigraph.clone(source, tmp_path / "graph")
    assert read_folder(tmp_path / "graph") == files
    for place in (source, source / "below", source.parent):
        with pytest.raises(UsageError, match="two places"):
            omnigraph.clone(source, place)
    with pytest.raises(GraphNotFound):
        omnigraph.clone(tmp_path / "nothing", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_cursors_of_the_source_are_refused(source: Path, tmp_path: Path) -> None:
    cursor = open_relaxed(source, read_only=True).changes(start="now").cursor
    omnigraph.clone(source, tmp_path / "clone")
    with pytest.raises(CursorInvalid, match="another graph"):
        open_relaxed(tmp_path / "clone").changes(cursor=cursor)


def test_a_moved_source_is_cloned_without_being_re_rooted(source: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(source, moved)
    before = read_all(open_relaxed(moved, read_only=True))
    files = read_folder(moved)
    omnigraph.clone(moved, tmp_path / "clone")
    assert read_folder(moved) == files
    assert read_all(open_relaxed(tmp_path / "clone")) == before


# ── while others work ────────────────────────────────────────────────────────────────────────────


def test_a_clone_beside_writers_is_a_state_that_was_committed(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "g")
    stop = Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            rows = people(f"a{number}", f"b{number}", age=number)
            graph.branch(("main", "deep")[number % 2]).insert("Person", rows)
            number += 1

    writer = Thread(target=write)
    writer.start()
    try:
        for number in range(2):
            omnigraph.clone(tmp_path / "g", tmp_path / f"clone{number}")
    finally:
        stop.set()
        writer.join()
    everything = read_all(graph)
    for number in range(2):
        clone = open_relaxed(tmp_path / f"clone{number}")
        assert clone.doctor(deep=True) == []
        shown = read_all(clone)
        heads = {clone.commits(branch)[0].id: branch for branch in clone.branches.list()}
        assert {shown[branch] == everything[commit] for commit, branch in heads.items()} == {True}
        past = {name: rows for name, rows in shown.items() if name not in heads.values()}
        assert past == {name: everything[name] for name in past}


def test_cleanup_removes_nothing_while_a_clone_runs(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "g")
    graph = open_relaxed(tmp_path / "g")
    stores = stores_at(tmp_path / "g")
    operation = OperationId(REAL.new_id())
    with staging(stores.objects, operation, MAIN, {}, DEFAULT_TIMING, is_clone=True):
        with pytest.raises(CloneRunning, match=operation):
            graph.cleanup(keep=1, confirm=True)
        graph.cleanup(keep=1)
        graph.insert("Person", people("writers do not wait"))
    graph.cleanup(keep=1, confirm=True)


def test_a_file_that_is_really_missing_is_named(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "g")
    lost = next((tmp_path / "g").rglob("data/*.lance"))
    lost.unlink()
    with pytest.raises(TableCorrupt, match=lost.name):
        omnigraph.clone(tmp_path / "g", tmp_path / "clone")


# ── interrupted ──────────────────────────────────────────────────────────────────────────────────


def test_a_killed_clone_is_no_graph_and_can_be_repeated(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "clone"
    script = (
        "import os, signal, sys, omnigraph\n"
        "from omnigraph.storage.objects_local import LocalObjects\n"
        "put, left = LocalObjects.put_over, [40]\n"
        "def watched(self, key, data):\n"
        "    left[0] -= 1\n"
        "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return put(self, key, data)\n"
        "LocalObjects.put_over = watched\n"
        "omnigraph.clone(sys.argv[1], sys.argv[2])\n"
    )
    command = [sys.executable, "-c", script, str(source), str(target)]
    died = subprocess.run(command, check=False, timeout=300)
    assert died.returncode == -9
    assert (target / CLONE_CLAIM).exists()
    assert not (target / SCHEMA_SOURCE).exists()
    with pytest.raises(GraphIncomplete, match="clone of"):
        omnigraph.open(target)
    with pytest.raises(GraphIncomplete, match="repeat the clone"):
        omnigraph.init(target, SCHEMA, force=True)
    result = omnigraph.clone(source, target)
    assert result.bytes_copied < sum(len(data) for data in read_folder(target).values())
    assert read_all(open_relaxed(target)) == read_all(open_relaxed(source, read_only=True))
    assert not (target / CLONE_CLAIM).exists()


# ── buckets, and the command ─────────────────────────────────────────────────────────────────────


def test_a_graph_is_cloned_from_a_disk_to_a_bucket_and_back(
    bucket: dict[str, str], tmp_path: Path
) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.insert("Person", people("ann"))
    graph.branch("a/side", create=True).insert("Person", people("sid"))
    place = f"s3://graphs/{REAL.new_id()}"
    omnigraph.clone(tmp_path / "g", place, target_storage_options=bucket)
    cloud = omnigraph.open(place, storage_options=bucket)
    assert read_all(cloud) == read_all(graph)
    cloud.branch("a/side").insert("Person", people("cloud"))
    omnigraph.clone(place, tmp_path / "back", storage_options=bucket, target_storage_options={})
    back = open_relaxed(tmp_path / "back")
    assert read_all(back) == read_all(cloud)
    back.merge("a/side")
    assert back.doctor(deep=True) == []


def test_the_commands_report_what_they_did(source: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "omnigraph", *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )

    done = run("clone", str(source), str(tmp_path / "clone"), "--branch", "deep", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["branches"] == ["main", "deep", "team/side"]
    (tmp_path / "clone").rename(tmp_path / "moved")
    moved = run("relocate", str(tmp_path / "moved"), "--json", "--progress")
    assert moved.returncode == 0, moved.stderr
    told = json.loads(moved.stdout)
    assert told["previous_uri"] == str(tmp_path / "clone")
    assert told["versions_rewritten"] == told["versions"] > 0
    assert "re-rooting" in moved.stderr
