"""A Spark Connect server of our own, and loads through it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.commit.leases.owner import find_process, is_dead

COMMAND = [sys.executable, "-c", "from omnigraph.cli.app import main; main()"]
RECORDS = (
    '{"type":"Person","data":{"name":"ada"}}\n{"type":"Person","data":{"name":"bob"}}\n'
    '{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k"}}\n'
)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def run(home: Path, *words: str) -> str:
    """A command in a process of its own; what it printed."""
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(home),
        "OMNIGRAPH_HOME": str(home),
        "OMNIGRAPH_EXPORT_SPARK_ROWS": "0",
    }
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_server_is_started_once_used_and_stopped_for_good(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(RECORDS)
    graph = omnigraph.init(
        tmp_path / "g", "node Person { name: String @key }  edge Knows: Person -> Person"
    )
    assert json.loads(run(tmp_path, "spark", "status", "--json"))["state"] == "down"
    port = str(free_port())
    up = json.loads(run(tmp_path, "spark", "up", "--port", port, "--json"))
    owner = find_process(up["pid"])
    try:
        assert up["address"] == f"sc://localhost:{port}"
        assert json.loads(run(tmp_path, "spark", "up", "--json")) == up
        remote = ("--spark-remote", up["address"])
        load = ("load", "g", "--data", "rows.jsonl", "--mode", "append", "--json", *remote)
        loaded = json.loads(run(tmp_path, *load, "--progress"))
        assert loaded["total_entities"] == 3
        assert {"starting Spark", "reading the input"} <= set(loaded["timings_ms"])
        (tmp_path / "more.csv").write_text("name\neve\nx\n")
        (tmp_path / "pipeline.yaml").write_text(
            "mode: merge\ninputs: [{data: more.csv, type: Person, columns: {name: upper(name)}, "
            "where: name != 'x'}]\n"
        )
        run(tmp_path, "pipeline", "run", "pipeline.yaml", "g", *remote)
        here = b"".join(graph.export_lines()).decode()
        assert run(tmp_path, "export", "g", *remote) == here
        program = (
            "import omnigraph; from omnigraph.pipeline.settings import SparkSettings;"
            "from omnigraph.pipeline.spark.session import find_session;"
            f"spark = find_session(SparkSettings(remote='{up['address']}'));"
            "graph = omnigraph.open('g');"
            "rows = graph.dataframe('Knows', spark=spark).collect();"
            "print([tuple(row) for row in rows]);"
            "frame = spark.createDataFrame([('dan',), ('fay',)], 'who string');"
            "graph.load(frame, type='Person', mapping={'name': 'who'}, mode='append');"
            "print(sorted(row['name'] for row in graph.dataframe('Person', spark=spark).collect()))"
        )
        shown = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        people = ["EVE", "ada", "bob", "dan", "fay"]
        assert shown.stdout == f"[('k', 'ada', 'bob')]\n{people}\n"
    finally:
        assert json.loads(run(tmp_path, "spark", "down", "--json"))["was_up"]
    assert is_dead(owner)
    assert not json.loads(run(tmp_path, "spark", "down", "--json"))["was_up"]
    assert json.loads(run(tmp_path, "spark", "status", "--json"))["state"] == "down"
