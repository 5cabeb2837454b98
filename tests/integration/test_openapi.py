"""Our own description of the server, turned against it: no 5xx, nothing that is not described.

Some hundred cases by default; `OMNIGRAPH_API_EXAMPLES` asks for more, and then every phase runs.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.server.settings import Flags
from omnigraph.testing.serving import running

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"


@pytest.mark.slow
def test_every_answer_is_one_that_is_described(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.insert("Person", [{"name": "Ada"}, {"name": "Bo"}])
    graph.branches.create("b")
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.gq").write_text(
        "query find($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    )
    (tmp_path / "schemathesis.toml").write_text('[parameters]\n"path.graph_id" = "g"\n')
    wanted = os.environ.get("OMNIGRAPH_API_EXAMPLES")
    phases = ["--phases", "coverage,fuzzing"] if wanted else ["--phases", "fuzzing"]
    flags = Flags(
        graphs=(f"g={graph.uri}",), queries=(f"g={tmp_path / 'queries'}",), unauthenticated=True
    )
    with running(flags) as server:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file",
                tmp_path / "schemathesis.toml",
                "run",
                f"{server.url}/openapi.json",
                "--max-examples",
                wanted or "5",
                # Loads start Spark, which has its own tests.
                "--exclude-path-regex",
                "load|ingest",
                # A program may be spelled as text and still be wrong; no description can say so.
                "--exclude-checks",
                "positive_data_acceptance",
                *phases,
                "--no-color",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=1800,
        )
    assert done.returncode == 0, done.stdout + done.stderr
