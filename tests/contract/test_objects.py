"""What `Objects` promises, on every store that implements it."""

import fcntl
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from omnigraph.effects import REAL
from omnigraph.errors import (
    BucketNotFound,
    ConditionalWritesIgnored,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StorageFailure,
    StoreKeyInvalid,
    StoreUriInvalid,
)
from omnigraph.storage.durability import Durability, RelaxedDisk
from omnigraph.storage.objects import Objects, Tag
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import open_objects

BUCKET = "objects-contract"


def options_for(endpoint: str) -> dict[str, str]:
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_endpoint": endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    create = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
    urllib.request.urlopen(create).close()
    yield address
    server.stop()


@pytest.fixture(params=["durable", "relaxed", "memory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    match request.param:
        case "durable" | "relaxed":
            return open_objects(str(tmp_path / "g"), REAL, durability=Durability(request.param))
        case "memory":
            return open_objects("memory://", REAL)
        case _:
            endpoint = request.getfixturevalue("endpoint")
            uri = f"s3://{BUCKET}/{REAL.new_id()}"
            return open_objects(uri, REAL, storage_options=options_for(endpoint))


def keys(objects: Objects, prefix: str) -> list[str]:
    return [listed.key for listed in objects.list(prefix)]


def test_what_was_put_is_what_is_read(objects: Objects) -> None:
    tag = objects.put_over("__recovery/a.json", b"\x00\xff bytes")
    stored = objects.read("__recovery/a.json")
    assert (stored.data, stored.tag) == (b"\x00\xff bytes", tag)


def test_put_parts_is_all_or_nothing(objects: Objects) -> None:
    def parts(last: bytes) -> Iterator[bytes]:
        yield b"one "
        if not last:
            raise ValueError("the source failed")
        yield last

    objects.put_parts("f/a", parts(b"two"))
    assert objects.read("f/a").data == b"one two"
    objects.put_parts("f/a", parts(b"three"))
    assert objects.read("f/a").data == b"one three"
    with pytest.raises(ValueError, match="the source failed"):
        objects.put_parts("f/a", parts(b""))
    assert objects.read("f/a").data == b"one three"
    large = [bytes([number]) * (1 << 20) for number in range(12)]
    objects.put_parts("f/large", iter(large))
    assert objects.read("f/large").data == b"".join(large)
    assert [each.key for each in objects.list("f")] == ["f/a", "f/large"]
    assert list(objects.find_unfinished()) == []


def test_put_over_replaces(objects: Objects) -> None:
    objects.put_over("a", b"long enough to notice a leftover")
    objects.put_over("a", b"new")
    assert objects.read("a").data == b"new"


def test_reading_a_missing_object_is_not_found(objects: Objects) -> None:
    with pytest.raises(ObjectNotFound) as caught:
        objects.read("nowhere/a.json")
    assert caught.value.key == "nowhere/a.json"


def test_part_of_an_object_is_read_without_the_rest(objects: Objects) -> None:
    objects.put_new("folder/a", b"0123456789")
    assert objects.read_range("folder/a", 3, 4) == b"3456"
    with pytest.raises(ObjectNotFound):
        objects.read_range("folder/b", 0, 1)


def test_reading_a_prefix_is_not_found(objects: Objects) -> None:
    objects.put_over("folder/a", b"1")
    with pytest.raises(ObjectNotFound):
        objects.read("folder")
    with pytest.raises(ObjectNotFound):
        objects.read("folder/a/b")


def test_put_new_creates_once_and_keeps_the_first(objects: Objects) -> None:
    objects.put_new("a", b"first")
    with pytest.raises(ObjectExists) as caught:
        objects.put_new("a", b"second")
    assert caught.value.key == "a"
    assert objects.read("a").data == b"first"
    assert keys(objects, "a") == []


def test_put_if_match_replaces_what_was_read(objects: Objects) -> None:
    objects.put_new("a", b"1")
    tag = objects.put_if_match("a", b"2", tag=objects.read("a").tag)
    assert objects.put_if_match("a", b"3", tag=tag)
    assert objects.read("a").data == b"3"


def test_put_if_match_refuses_what_changed_since(objects: Objects) -> None:
    stale = objects.put_new("a", b"1")
    objects.put_over("a", b"2")
    with pytest.raises(ObjectChanged):
        objects.put_if_match("a", b"3", tag=stale)
    assert objects.read("a").data == b"2"


def test_put_if_match_refuses_what_is_gone_and_does_not_revive_it(objects: Objects) -> None:
    tag = objects.put_new("a", b"1")
    objects.delete("a")
    with pytest.raises(ObjectChanged):
        objects.put_if_match("a", b"2", tag=tag)
    with pytest.raises(ObjectChanged):
        objects.put_if_match("never/there", b"2", tag=tag)
    assert not objects.exists("a")
    assert not objects.exists("never")


def test_deleting_twice_is_deleting_once(objects: Objects) -> None:
    objects.put_over("a/b", b"1")
    objects.delete("a/b")
    objects.delete("a/b")
    objects.delete("never/there")
    with pytest.raises(ObjectNotFound):
        objects.read("a/b")


def test_only_objects_exist_and_prefixes_that_hold_one(objects: Objects) -> None:
    objects.put_over("a/b/c", b"1")
    assert objects.exists("a/b/c")
    assert objects.exists("a/b")
    assert not objects.exists("a/b/c/d")
    assert not objects.exists("a/bc")
    objects.delete("a/b/c")
    assert not objects.exists("a/b")
    assert not objects.exists("a")


def test_a_listing_is_deep_sorted_and_ends_at_the_segment(objects: Objects) -> None:
    for key in ("p/z", "p/a/deep", "p/m", "pq/no", "p.json"):
        objects.put_over(key, b"12345")
    assert keys(objects, "p") == ["p/a/deep", "p/m", "p/z"]
    assert [listed.size_bytes for listed in objects.list("p")] == [5, 5, 5]
    assert keys(objects, "empty") == []


def test_percent_signs_and_unicode_in_keys_survive(objects: Objects) -> None:
    names = ["__leases/node%3APerson@a%2Fb.json", "__leases/größe@main.json"]
    for name in names:
        objects.put_new(name, name.encode())
    assert keys(objects, "__leases") == sorted(names)
    assert [objects.read(name).data.decode() for name in names] == names


def test_delete_prefix_removes_everything_below_and_nothing_beside(objects: Objects) -> None:
    for key in ("p/a", "p/b/c", "pq", "o"):
        objects.put_over(key, b"1")
    objects.delete_prefix("p")
    objects.delete_prefix("p")
    objects.delete_prefix("never")
    assert not objects.exists("p")
    assert objects.exists("pq")
    assert objects.exists("o")
    objects.put_new("p/a", b"again")


def test_ages_are_measured_by_the_clock_of_the_store(objects: Objects) -> None:
    objects.put_over("a", b"1")
    written = objects.read("a").modified_ms
    assert objects.list("a") == []
    objects.put_over("f/a", b"1")
    assert objects.list("f")[0].modified_ms == objects.read("f/a").modified_ms
    # Buckets date to the second, so an age may be off by one, never negative by more.
    assert -1_000 <= objects.clock_ms() - written < 60_000


def test_asking_the_time_leaves_nothing_behind(objects: Objects) -> None:
    objects.clock_ms()
    assert not objects.exists("__clock")


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a#123", "a/b#1/c", "a\\b"]
)
def test_keys_that_leave_the_store_or_hide_in_it_are_refused(objects: Objects, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: objects.read(key),
        lambda: objects.put_over(key, b""),
        lambda: objects.put_new(key, b""),
        lambda: objects.put_if_match(key, b"", tag=Tag("x")),
        lambda: objects.delete(key),
        lambda: objects.exists(key),
        lambda: objects.list(key),
    ]
    for call in calls:
        with pytest.raises(StoreKeyInvalid):
            call()


def test_threads_that_race_to_create_have_one_winner(objects: Objects) -> None:
    for attempt in range(5):
        together = threading.Barrier(6)

        def create(
            number: int, key: str = f"race/{attempt}", gate: threading.Barrier = together
        ) -> bool:
            gate.wait()
            try:
                objects.put_new(key, str(number).encode())
            except ObjectExists:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(create, range(6)))
        assert won.count(True) == 1
        assert objects.read(f"race/{attempt}").data == str(won.index(True)).encode()


def count_up(objects: Objects, times: int) -> int:
    """Add one, `times` times, by compare-and-swap; return how often somebody was faster."""
    lost = 0
    for _ in range(times):
        while True:
            seen = objects.read("counter")
            try:
                objects.put_if_match("counter", str(int(seen.data) + 1).encode(), tag=seen.tag)
            except ObjectChanged:
                lost += 1
            else:
                break
    return lost


def test_threads_that_count_by_compare_and_swap_lose_no_increment(objects: Objects) -> None:
    objects.put_new("counter", b"0")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: count_up(objects, 5), range(4)))
    assert objects.read("counter").data == b"20"


# --- processes, on the local store ----------------------------------------------------------

OPENING = """
import sys
from omnigraph.effects import REAL
from omnigraph.errors import ObjectChanged, ObjectExists
from omnigraph.storage.durability import Durability, RelaxedDisk
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import open_objects
objects = open_objects(sys.argv[1], REAL, durability=Durability.RELAXED)
print("ready", flush=True)
sys.stdin.readline()
"""

CREATING = """
won = 0
for attempt in range(100):
    try:
        objects.put_new(f"race/{attempt}", b"mine")
        won += 1
    except ObjectExists:
        pass
print(won)
"""

COUNTING = """
lost = 0
for _ in range(60):
    while True:
        seen = objects.read("counter")
        try:
            objects.put_if_match("counter", str(int(seen.data) + 1).encode(), tag=seen.tag)
            break
        except ObjectChanged:
            lost += 1
print(lost)
"""


SWAPPING = """
halves = 0
for number in range(400):
    seen = objects.read("page")
    halves += len(set(seen.data)) != 1
    try:
        objects.put_if_match("page", bytes([65 + number % 26]) * 4096, tag=seen.tag)
    except ObjectChanged:
        pass
print(halves)
"""


def run_together(root: Path, work: str, *, count: int) -> list[int]:
    """Run the same work in several processes, released at one moment; return what each printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING + work, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [int(process.communicate(timeout=300)[0]) for process in processes]


def test_processes_that_race_to_create_have_one_winner(tmp_path: Path) -> None:
    won = run_together(tmp_path, CREATING, count=3)
    assert sum(won) == 100
    assert len(open_objects(str(tmp_path), REAL).list("race")) == 100


def test_processes_that_count_by_compare_and_swap_lose_no_increment(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path), REAL)
    objects.put_new("counter", b"0")
    run_together(tmp_path, COUNTING, count=3)
    assert objects.read("counter").data == b"180"


def test_nobody_sees_half_of_what_is_swapped(tmp_path: Path) -> None:
    open_objects(str(tmp_path), REAL).put_new("page", b"?" * 4096)
    assert run_together(tmp_path, SWAPPING, count=3) == [0, 0, 0]


# --- what only one kind of store can show ---------------------------------------------------


def test_the_remains_of_a_dead_put_are_invisible(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path), REAL)
    (tmp_path / "__recovery").mkdir()
    (tmp_path / "__recovery" / "a.json#4711").write_bytes(b"half a put")
    assert objects.list("__recovery") == []
    assert not objects.exists("__recovery")
    objects.put_new("__recovery/a.json", b"whole")
    assert keys(objects, "__recovery") == ["__recovery/a.json"]
    objects.delete_prefix("__recovery")
    assert not (tmp_path / "__recovery").exists()


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path, RelaxedDisk(), lock_wait_ms=30)
    tag = objects.put_new("a", b"1")
    stopped = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        for call in (
            lambda: objects.read("a"),
            lambda: objects.put_over("a", b"2"),
            lambda: objects.put_if_match("a", b"2", tag=tag),
        ):
            with pytest.raises(StorageFailure, match="a stopped process may hold it"):
                call()
    finally:
        os.close(stopped)
    assert objects.read("a").data == b"1"


def test_finished_puts_leave_no_temporary_files(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path), REAL)
    tag = objects.put_new("a", b"1")
    objects.put_over("b", b"1")
    objects.put_if_match("a", b"2", tag=tag)
    with pytest.raises(ObjectExists):
        objects.put_new("a", b"3")
    with pytest.raises(ObjectChanged):
        objects.put_if_match("a", b"3", tag=tag)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_listing_that_cannot_be_completed_is_loud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = open_objects(str(tmp_path), REAL)
    objects.put_over("__recovery/deep/a.json", b"1")

    # Permission bits do not stop a privileged user, so the refusal itself is simulated.
    def refuse(path: object) -> Iterator[object]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("omnigraph.storage.objects_local.os.scandir", refuse)
    with pytest.raises(StorageFailure) as listing:
        objects.list("__recovery")
    with pytest.raises(StorageFailure):
        objects.exists("__recovery")
    assert isinstance(listing.value.__cause__, PermissionError)


def test_a_bucket_that_is_not_there_is_loud(endpoint: str) -> None:
    with pytest.raises(BucketNotFound, match="'no-such-bucket'"):
        open_objects("s3://no-such-bucket/g", REAL, storage_options=options_for(endpoint))


class CarelessServer(BaseHTTPRequestHandler):
    """An S3 look-alike that says yes to everything."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("ETag", '"same"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = b"<DeleteResult></DeleteResult>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def test_a_store_that_ignores_conditions_is_refused_at_opening() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), CarelessServer)
    worker = threading.Thread(target=server.serve_forever)
    worker.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(ConditionalWritesIgnored) as caught:
            open_objects("s3://bucket/g", REAL, storage_options=options_for(endpoint))
        assert caught.value.condition == "If-None-Match"
    finally:
        server.shutdown()
        worker.join()
        server.server_close()


def test_opening_a_bucket_leaves_nothing_behind(endpoint: str) -> None:
    objects = open_objects(f"s3://{BUCKET}/clean", REAL, storage_options=options_for(endpoint))
    assert not objects.exists("__probe")


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(StoreUriInvalid):
        open_objects("gs://bucket/g", REAL)
