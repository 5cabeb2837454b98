"""Export: round trips, snapshots, both ways of doing it, and the command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.cli.app import run
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.export import Here, Selection, export_lines, export_parquet, select_pins
from omnigraph.errors import TableUnknown, TypeUnknown, UsageError
from omnigraph.ids import TableKey
from omnigraph.pipeline.export import SparkExporter
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import ROW_ADDRESS, ScanRequest
from support.loading import SETTINGS

SCHEMA = """
node Ant {
    code: String @key
    b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
    day: Date?  at: DateTime?  kind: enum(red, black)?  vec: Vector(3)?  raw: Blob?
    bs: [Bool]?  is: [I32]?  ws: [U64]?  fs: [F32]?  days: [Date]?  ats: [DateTime]?  ss: [String]?
}
node Note { text: String? }
edge Eats: Ant -> Ant { since: DateTime?  raw: Blob?  vec: Vector(2)? }
edge Wrote: Ant -> Note
"""
FULL = {
    "b": False,
    "i": -(2**31),
    "l": 2**63 - 1,
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "f": 3.4028234663852886e38,
    "d": -0.0,
    "day": -719_528,
    "at": "0000-01-01T00:00:00.001",
    "kind": "red",
    "vec": [0.1, -0.0, 1e-45],
    "raw": "base64:aGVsbG8=",
    "bs": [True, False],
    "is": [],
    "ws": [2**64 - 1],
    "fs": [0.1, 1e-45],
    "days": [0, -1],
    "ats": ["2024-05-01T08:00:00.5", 253402300800000],
    "ss": ["", 'a"\n\u2028é🐜'],
}


def records(external: Path) -> list[dict[str, Any]]:
    external.write_bytes(b"kept elsewhere")
    ants = [
        {"code": "b", **FULL},
        {"code": "a"},
        {"code": "é", "raw": "base64:", "d": 5e-324, "l": -(2**63), "at": -(2**62)},
        {"code": "Z", "raw": external.as_uri(), "d": 1.7976931348623157e308},
    ]
    return [
        *({"type": "Ant", "data": each} for each in ants),
        {"type": "Note", "data": {"id": "n2", "text": "two"}},
        {"type": "Note", "data": {"id": "n1"}},
        {"edge": "Eats", "from": "a", "to": "b", "data": {"id": "e2", "raw": "base64:eA=="}},
        {"edge": "Eats", "from": "a", "to": "a", "data": {"since": "2024-01-01", "vec": [1, 2]}},
        {"edge": "Wrote", "from": "Z", "to": "n1", "data": {}},
    ]


def new_graph(folder: Path, name: str) -> LocalGraph:
    return omnigraph.init(folder / name, SCHEMA, durability=Durability.RELAXED)


@pytest.fixture(scope="module")
def graph(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:  # noqa: ARG001 - starts Spark
    """Everything there can be, loaded. Nobody changes it."""
    folder = tmp_path_factory.mktemp("export")
    made = new_graph(folder, "g")
    lines = [json.dumps(each) for each in records(folder / "elsewhere.bin")]
    (folder / "given.jsonl").write_text("".join(f"{line}\n" for line in lines))
    made.load(folder / "given.jsonl", mode="append")
    return made


@pytest.fixture
def mine(graph: LocalGraph, tmp_path: Path) -> LocalGraph:
    """The same, to be changed."""
    shutil.copytree(graph.uri, tmp_path / "mine")
    return omnigraph.open(tmp_path / "mine", durability=Durability.RELAXED, maintenance=False)


def rows_of(graph: LocalGraph) -> dict[str, pa.Table]:
    """Every table by id, blobs as they are kept: their bytes, or only where they are."""
    inner: Graph = graph._graph
    found: dict[str, pa.Table] = {}
    for key, pin in graph.snapshot().pins.items():
        handle = inner.open_table(graph.snapshot(), TableKey(key))
        rows = inner.tables.read(handle, ScanRequest(with_row_address=True)).sort_by("id")
        assert rows.num_rows == pin.row_count
        for name in [each for each in ("raw",) if each in rows.schema.names]:
            at: list[Any] = rows[ROW_ADDRESS].to_pylist()
            bytes_ = pa.array(inner.tables.read_blobs(handle, name, at), pa.binary())
            places = pa.array([each and each["blob_uri"] for each in rows[name].to_pylist()])
            rows = rows.drop_columns([name]).append_column(name, bytes_)
            rows = rows.append_column(f"{name} at", places)
        found[key] = rows.drop_columns([ROW_ADDRESS])
    return found


def text_of(graph: LocalGraph, **asked: Any) -> str:
    return b"".join(graph.export_lines(**asked)).decode()


def test_what_is_exported_loads_into_an_identical_graph(graph: LocalGraph, tmp_path: Path) -> None:
    result = graph.export(tmp_path / "out.jsonl.gz")
    other = new_graph(tmp_path, "other")
    other.load(tmp_path / "out.jsonl.gz", mode="append")
    mine, theirs = rows_of(graph), rows_of(other)
    assert {key: each.num_rows for key, each in mine.items()} == dict(result.counts)
    for key, rows in mine.items():
        assert rows.equals(theirs[key]), key
    assert text_of(graph) == text_of(other)


def test_lines_come_by_table_then_by_id_with_all_properties_by_name(graph: LocalGraph) -> None:
    lines = [json.loads(line) for line in text_of(graph).split("\n") if line]
    names = [each.get("edge") or each["type"] for each in lines]
    assert names == ["Eats"] * 2 + ["Wrote"] + ["Ant"] * 4 + ["Note"] * 2
    ants = [each["data"] for each in lines if each.get("type") == "Ant"]
    assert [each["id"] for each in ants] == ["Z", "a", "b", "é"]
    for each in ants:
        first, *rest = each
        assert first == "id"
        assert rest == sorted(rest)
        assert len(rest) == 20
    assert list(lines[0]) == ["edge", "from", "to", "data"]
    note = '{"type":"Note","data":{"id":"n1","text":null}}\n'
    assert text_of(graph, types=["Note"]).startswith(note)


def test_a_branch_a_commit_and_a_version_can_be_exported(mine: LocalGraph) -> None:
    before = text_of(mine)
    loaded = mine.commits()[0]
    mine.branches.create("rev")
    mine.delete("Ant", ["a"], branch="rev")
    mine.insert("Note", [{"id": "n3"}])
    assert '"n3"' in text_of(mine)
    assert text_of(mine, branch="rev").count('"Ant"') == 3
    assert text_of(mine, commit=loaded.id) == before
    assert text_of(mine, version=loaded.manifest_version) == before


def test_only_what_is_named_is_exported(graph: LocalGraph) -> None:
    assert text_of(graph, types=["Wrote"], tables=["node:Note"]).count("\n") == 3
    with pytest.raises(TypeUnknown):
        graph.export_lines(types=["Bee"])
    with pytest.raises(TableUnknown):
        graph.export_lines(tables=["node:Eats"])


def exporters(graph: LocalGraph, run_bytes: int) -> tuple[Here, SparkExporter]:
    inner = graph._graph
    storage = Storage(inner.root, {}, Durability.RELAXED)
    return Here(inner.tables, run_bytes), SparkExporter(SETTINGS, storage, run_bytes)


@pytest.mark.parametrize("run_bytes", [1, 2**20])
def test_spark_and_one_process_export_the_same_bytes(
    mine: LocalGraph, tmp_path: Path, run_bytes: int
) -> None:
    mine.insert("Note", [{"id": f"n{number}"} for number in range(3, 9)])
    mine.insert("Ant", [{"code": "aa"}])
    tables = mine._graph.tables
    pins = select_pins(mine.snapshot(), Selection())
    here, there = exporters(mine, run_bytes)
    expected = text_of(mine).encode()
    assert b"".join(export_lines(tables, pins, here, piece_rows=1)) == expected
    assert b"".join(export_lines(tables, pins, there, piece_rows=1)) == expected
    for name, exporter in (("here", here), ("there", there)):
        export_parquet(tables, pins, exporter, tmp_path / name, piece_rows=1)
    files = sorted((tmp_path / "here").rglob("*.parquet"))
    assert len(files) == 4 + 2
    for each in files:
        twin = tmp_path / "there" / each.relative_to(tmp_path / "here")
        assert twin.read_bytes() == each.read_bytes()


def test_large_graphs_are_exported_on_spark(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = text_of(graph)
    monkeypatch.setenv("OMNIGRAPH_EXPORT_SPARK_ROWS", "9")
    monkeypatch.setattr("omnigraph.engine.load.export.Here.lines", None)
    assert text_of(graph) == expected
    monkeypatch.setenv("OMNIGRAPH_EXPORT_SPARK_ROWS", "many")
    with pytest.raises(UsageError, match="OMNIGRAPH_EXPORT_SPARK_ROWS"):
        text_of(graph)


def test_parquet_holds_every_row_and_readable_types(graph: LocalGraph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", format="parquet")
    ants = pq.read_table(str(tmp_path / "out" / "nodes" / "Ant")).sort_by("id")
    assert ants["id"].to_pylist() == ["Z", "a", "b", "é"]
    assert ants.schema.field("at").type == pa.timestamp("ms", tz="UTC")
    assert ants["raw"].to_pylist()[1:] == [None, "base64:aGVsbG8=", "base64:"]
    assert ants["at"].cast(pa.int64()).to_pylist() == [None, None, -62167219199999, -(2**62)]
    eats = pq.read_table(str(tmp_path / "out" / "edges" / "Eats"))
    assert eats.schema.names == ["id", "from", "to", "raw", "since", "vec"]
    with pytest.raises(UsageError, match="is there already"):
        graph.export(tmp_path / "out", format="parquet")


def test_the_command_writes_records_to_standard_output(
    graph: LocalGraph, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["export", graph.uri]) == 0
    assert capfdbinary.readouterr().out.decode() == text_of(graph)


def test_the_command_says_what_it_wrote(
    graph: LocalGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "notes")
    command = ["export", graph.uri, "--type", "Note", "--format", "parquet", "-o", out]
    assert run([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("commit")["graph_commit_id"] == graph.commits()[0].id
    assert document == {
        "branch": "main",
        "format": "parquet",
        "output": out,
        "tables": [{"table_key": "node:Note", "row_count": 2}],
        "total_entities": 2,
    }
    assert run(command) == 2
    assert run(["export", graph.uri, "--format", "parquet"]) == 2
    assert run(["export", graph.uri, "--format", "xml"]) == 2
    assert run(["export", graph.uri, "-o", str(tmp_path / "no" / "folder.jsonl")]) == 1
    assert run(["export", graph.uri, "--type", "Bee"]) == 1


def test_a_reader_that_has_seen_enough_gets_no_traceback(graph: LocalGraph) -> None:
    program = f"from omnigraph.cli.app import run; exit(run(['export', {graph.uri!r}]))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.close()
        assert reading.stderr.read() == b""
        assert reading.wait() == 1
