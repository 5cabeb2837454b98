"""`--idempotency-key`: a command that is repeated with its key writes once."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.errors import KeyReused

SCHEMA = "node City { name: String @key  people: I32? }"
RECIPE = """
mode: merge
inputs:
  - data: cities.csv
    type: City
"""


@pytest.fixture(autouse=True)
def _graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    Path("cities.csv").write_text("name,people\nFaro,60000\n")
    Path("pipeline.yaml").write_text(RECIPE)
    Path("next.pg").write_text(f"{SCHEMA}\nnode River {{ name: String @key }}")
    omnigraph.init("g.omni", SCHEMA).close()


INSERT = 'query q() { insert City { name: "Faro" } }'


@pytest.mark.parametrize(
    "command",
    [
        ["mutate", "g.omni", "-e", INSERT],
        ["load", "g.omni", "cities.csv", "--type", "City", "--mode", "append"],
        ["pipeline", "run", "g.omni", "pipeline.yaml"],
        ["schema", "apply", "g.omni", "--schema", "next.pg"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_command_that_is_repeated_with_its_key_writes_once(command: list[str]) -> None:
    for _ in range(2):
        assert run([*command, "--idempotency-key", "night 1"]) == 0
    with omnigraph.open("g.omni") as graph:
        assert len(graph.commits()) == 2  # the graph was made, and changed once


def test_a_merge_that_is_repeated_with_its_key_gives_the_same_commit() -> None:
    with omnigraph.open("g.omni") as graph:
        graph.branch("review", create=True).insert("City", [{"name": "Faro"}])
    for _ in range(2):
        assert run(["branch", "merge", "g.omni", "review", "--idempotency-key", "k"]) == 0
    with omnigraph.open("g.omni") as graph:
        assert len(graph.commits()) == 2


def test_a_pipeline_with_other_files_under_the_same_key_is_refused() -> None:
    with omnigraph.open("g.omni") as graph:
        first = graph.run_pipeline("pipeline.yaml", idempotency_key="night 1")
        again = graph.run_pipeline("pipeline.yaml", idempotency_key="night 1")
        assert again.commit == first.commit
        assert again.counts == first.counts
        Path("cities.csv").write_text("name,people\nFaro,61000\n")
        with pytest.raises(KeyReused):
            graph.run_pipeline("pipeline.yaml", idempotency_key="night 1")
