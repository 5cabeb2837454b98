"""What reading a blob costs: bytes from the store, and calls. Never seconds."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from httpx import Client

import omnigraph
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import open_in
from omnigraph.engine.query.blob import CHUNK_BYTES, BlobName
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.durability import Durability
from omnigraph.testing.faults import Recorder, watch_stores
from support.publishing import Place
from support.serving import running

LARGE = os.urandom(40 * 2**20)
ROWS = 3_000
NAME = BlobName("node", "Letter", "large", "scan")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(str(tmp_path_factory.mktemp("cost") / "g"))
    schema = "node Letter { ref: String @key  note: String?  scan: Blob? }"
    graph = omnigraph.init(made.uri, schema, durability=Durability.RELAXED)
    note = "of no interest " * 30
    rows = [{"ref": f"l{number}", "note": note, "scan": b"small"} for number in range(ROWS)]
    graph.insert("Letter", [*rows, {"ref": "large", "scan": LARGE}])
    graph.ensure_indices()
    return made


def bytes_read(act: Callable[[], object]) -> int:
    """What this process read from anywhere meanwhile."""
    before = _read_so_far()
    act()
    return _read_so_far() - before


def _read_so_far() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


def opened(place: Place) -> tuple[Graph, Recorder]:
    watched = Recorder()
    return open_in(watch_stores(place.open(), watched), Mode.READ_ONLY), watched


def test_ten_bytes_of_a_large_blob_cost_nothing_like_the_blob(place: Place) -> None:
    graph, _ = opened(place)
    graph.snapshot()
    graph.blob(NAME)
    assert bytes_read(lambda: graph.blob(NAME)) < 5_000, "a scan of the ids alone reads 100 KB"
    blob = graph.blob(NAME)
    assert bytes_read(lambda: blob.read(0, 10)) < 10_000
    assert bytes_read(lambda: blob.read(len(LARGE) - 10)) < 10_000
    assert blob.read(20 * 2**20, 10) == LARGE[20 * 2**20 : 20 * 2**20 + 10]


def test_a_range_over_http_costs_the_range(place: Place) -> None:
    params = {"entity": "node", "type": "Letter", "id": "large", "property": "scan"}
    flags = Flags(graphs=(f"g={place.uri}",), unauthenticated=True)
    with running(flags) as server, Client(base_url=server.url, params=params) as client:
        assert client.head("/blob").headers["Content-Length"] == str(len(LARGE))
        assert bytes_read(lambda: client.head("/blob")) < 10_000
        wanted = {"Range": "bytes=1000000-1000009"}
        assert bytes_read(lambda: client.get("/blob", headers=wanted)) < 10_000
        assert client.get("/blob", headers=wanted).content == LARGE[1_000_000:1_000_010]


def test_a_whole_blob_is_read_once_and_a_chunk_at_a_time(place: Place) -> None:
    graph, _ = opened(place)
    blob = graph.blob(NAME)
    chunks = blob.chunks()
    first = bytes_read(lambda: next(chunks))
    assert CHUNK_BYTES <= first < CHUNK_BYTES + 10_000
    rest = bytes_read(lambda: sum(map(len, chunks)))
    assert first + rest < len(LARGE) + 100_000


def test_a_blob_is_found_by_one_read_and_opened_by_one_call(place: Place) -> None:
    graph, watched = opened(place)
    graph.blob(NAME)
    watched.calls.clear()
    graph.blob(NAME)
    reads = [each for each in watched.calls if each.startswith("tables.")]
    assert sorted(reads) == ["tables.open_blob", "tables.probe", "tables.read"]


def test_memory_stays_flat_while_a_blob_is_read(place: Place) -> None:
    graph, _ = opened(place)
    blob = graph.blob(NAME)
    size = sum(map(len, blob.chunks()))
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark
    before = _resident_peak_bytes()
    assert sum(map(len, blob.chunks())) == size == len(LARGE)
    assert _resident_peak_bytes() - before < 4 * CHUNK_BYTES


def _resident_peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
