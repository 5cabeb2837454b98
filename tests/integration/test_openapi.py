"""Our own description of the server, turned against it: no 5xx, nothing that is not described.

What is described as right is accepted, too. The graph, its branch, a commit and a stored query are
pinned to real ones, and so is what only this graph can judge (`api_hooks`): requests get to the
work behind the routes. Some hundred cases by default; `OMNIGRAPH_API_EXAMPLES` asks for more, and
then every phase runs.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = """
node Person { name: String @key age: I32? picture: Blob? }
edge Knows: Person -> Person
"""
STORED = """
query add() { insert Person { name: "Eve" } }
query find() { match { $p: Person } return { $p.name } }
"""
CONFIG = """
[parameters]
"path.graph_id" = "g"
"path.commit_id" = "{commit}"
"path.commit" = "{commit}"
"path.name" = "add"
"query.branch" = "b"
"query.type" = "Person"
"query.entity" = "node"
"query.id" = "Ada"
"query.property" = "picture"

[checks.positive_data_acceptance]
# A condition that is not met (412) and a blob that is kept elsewhere (424) depend on the graph, as
# the statuses that are expected anyway do.
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 412, 424, 429]
"""


def make_graph(folder: Path) -> LocalGraph:
    graph = omnigraph.init(folder / "g", SCHEMA)
    graph.insert("Person", [{"name": "Ada", "picture": "base64:AAEC"}, {"name": "Bo"}])
    graph.branches.create("b")
    graph.insert("Person", [{"name": "Cy"}], branch="b")
    (folder / "queries").mkdir()
    (folder / "queries" / "stored.gq").write_text(STORED)
    return graph


@pytest.mark.slow
def test_what_is_described_is_accepted_and_every_answer_is_described(tmp_path: Path) -> None:
    graph = make_graph(tmp_path)
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.replace("{commit}", str(graph.commits()[0].id)))
    wanted = os.environ.get("OMNIGRAPH_API_EXAMPLES")
    flags = Flags(
        graphs=(f"g={graph.uri}",), queries=(f"g={tmp_path / 'queries'}",), unauthenticated=True
    )
    with running(flags) as server:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file",
                config,
                "run",
                f"{server.url}/openapi.json",
                "--max-examples",
                wanted or "10",
                "--phases",
                "coverage,fuzzing" if wanted else "fuzzing",
                # A feed from the beginning goes through all that this test has written.
                "--request-timeout",
                "120",
                "--no-color",
                # The same cases in every run of the gate; the soak draws others.
                *([] if wanted else ["--generation-deterministic"]),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "api_hooks",
                "OMNIGRAPH_API_SCHEMA": SCHEMA,
                "PYTHONPATH": os.pathsep.join(
                    [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
                ),
            },
            timeout=3600,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b" in graph.branches.list()  # or what is pinned to it was asked of nothing
