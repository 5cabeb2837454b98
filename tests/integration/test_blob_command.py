"""`omnigraph blob`, on a graph in storage and on one behind a server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.cli.inputs import write_whole
from omnigraph.errors import StorageFailure
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = (
    "node Letter { ref: String @key  scan: Blob? }\nedge Answers: Letter -> Letter { copy: Blob? }"
)
DATA = bytes(range(256)) * 20_000
SCAN = ["node", "Letter", "a", "scan"]

Streams = pytest.CaptureFixture[bytes]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    made = omnigraph.init(tmp_path_factory.mktemp("letters") / "g", SCHEMA)
    made.insert("Letter", [{"ref": "a", "scan": DATA}, {"ref": "far", "scan": "s3://b/k"}])
    made.insert("Answers", [{"id": "e", "from": "a", "to": "far", "copy": b"copied"}])
    return made


@pytest.fixture(scope="module", params=["store", "server"])
def there(request: pytest.FixtureRequest, graph: LocalGraph) -> Iterator[list[str]]:
    if request.param == "store":
        yield ["--store", graph.uri]
        return
    with running(Flags(graphs=(f"g={graph.uri}",), unauthenticated=True)) as server:
        yield ["--server", server.url, "--graph", "g"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))


def test_bytes_go_to_standard_output(there: list[str], capsysbinary: Streams) -> None:
    assert run(["blob", "get", *SCAN, *there]) == 0
    assert capsysbinary.readouterr().out == DATA
    assert run(["blob", "get", *SCAN, *there, "--offset", "254", "--length", "4"]) == 0
    assert capsysbinary.readouterr().out == b"\xfe\xff\x00\x01"
    assert run(["blob", "get", "edge", "Answers", "e", "copy", *there]) == 0
    assert capsysbinary.readouterr().out == b"copied"


def test_a_file_appears_when_all_of_it_is_there(
    there: list[str], tmp_path: Path, capsysbinary: Streams
) -> None:
    out = tmp_path / "scan.bin"
    out.write_bytes(b"what was there before")
    far = ["node", "Letter", "far", "scan"]
    assert run(["blob", "get", *far, *there, "--out", str(out)]) == 1
    assert b"s3://b/k" in capsysbinary.readouterr().err
    assert out.read_bytes() == b"what was there before"
    assert run(["blob", "get", *SCAN, *there, "--out", str(out), "--json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert (told["written"], told["length"], told["out"]) == (len(DATA), len(DATA), str(out))
    assert out.read_bytes() == DATA
    assert [each.name for each in tmp_path.iterdir()] == ["scan.bin"], "nothing is left beside it"
    assert run(["blob", "get", *SCAN, *there, "--out", str(tmp_path / "no" / "where")]) == 1
    assert b"No such file" in capsysbinary.readouterr().err


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "scan.bin"
    out.write_bytes(b"before")

    def breaking() -> Iterator[bytes]:
        yield b"half"
        assert out.read_bytes() == b"before"
        raise StorageFailure("read", subject="it", reason="gone")

    with pytest.raises(StorageFailure):
        write_whole(out, breaking())
    assert [each.name for each in tmp_path.iterdir()] == ["scan.bin"]
    assert out.read_bytes() == b"before"


def test_a_blob_is_described(there: list[str], graph: LocalGraph, capsysbinary: Streams) -> None:
    assert run(["blob", "stat", *SCAN, *there, "--json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    etag = graph.blob("node", "Letter", "a", "scan").etag
    head = graph.commits()[0].id
    assert (told["length"], told["etag"], told["uri"]) == (len(DATA), etag, None)
    assert told["snapshot_id"] == head
    assert run(["blob", "stat", "node", "Letter", "far", "scan", *there]) == 0
    shown = capsysbinary.readouterr().out.decode().splitlines()
    assert "uri: s3://b/k" in shown
    assert f"snapshot_id: {head}" in shown
    assert not any(each.startswith(("length", "etag")) for each in shown)


def test_the_past_is_read(there: list[str], graph: LocalGraph, capsysbinary: Streams) -> None:
    before = graph.commits()[-1].id
    later = graph.commits()[0].id
    assert run(["blob", "stat", *SCAN, *there, "--snapshot", before]) == 1
    assert b"there is no Letter with id 'a'" in capsysbinary.readouterr().err
    assert run(["blob", "stat", *SCAN, *there, "--snapshot", later]) == 0
    assert run(["blob", "stat", *SCAN, *there, "--branch", "nowhere"]) == 1


def test_wrong_calls_are_told_what_is_wrong(there: list[str], capsysbinary: Streams) -> None:
    assert run(["blob", "get", *SCAN, *there, "--json"]) == 2
    assert b"--out" in capsysbinary.readouterr().err
    assert run(["blob", "get", *SCAN, *there, "--offset", "-1"]) == 2
    assert run(["blob", "stat", "letter", *SCAN[1:], *there]) == 2
    assert b"a node or an edge" in capsysbinary.readouterr().err
    assert run(["blob", "get", *SCAN, *there, "--offset", str(len(DATA) + 1)]) == 1
    assert b"lie outside" in capsysbinary.readouterr().err


PROGRAM = "from omnigraph.cli.app import main; main()"


def test_a_terminal_is_spared(graph: LocalGraph) -> None:
    ours, theirs = os.openpty()
    arguments = ["blob", "get", *SCAN, "--store", graph.uri]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"--out" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error_with_a_traceback(graph: LocalGraph) -> None:
    arguments = ["blob", "get", *SCAN, "--store", graph.uri]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.read(3) == DATA[:3]
        program.stdout.close()
        errors = program.stderr.read()
    assert program.returncode == 1
    assert b"Traceback" not in errors
