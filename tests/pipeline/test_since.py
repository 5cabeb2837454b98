"""`since: last`: only what no run has loaded yet, once, whatever happens to the runs."""

import json
import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.errors import FileUnreadable, RecipeInvalid, UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from support.loading import SCHEMA
from support.mutations import read_tables
from support.processes import launch, race, values_of
from support.writing import stores_at

RECIPE = """
name: nightly
mode: append
engine: local
inputs:
  - name: notes
    data: landing
    since: last
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalGraph:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    Path("landing").mkdir()
    Path("pipeline.yaml").write_text(RECIPE)
    return omnigraph.init("g", SCHEMA)


def land(*texts: str) -> None:
    """A file for each note; notes get new ids, so a file that is loaded twice shows."""
    for text in texts:
        line = json.dumps({"type": "Note", "data": {"text": text}})
        Path(f"landing/{text}.jsonl").write_text(f"{line}\n")


def notes(graph: LocalGraph) -> list[str]:
    found = read_tables(graph._graph, stores_at(Path(graph.uri).absolute()))["Note"]
    return sorted(str(row["text"]) for row in found.values())


def test_a_file_is_loaded_once_and_a_changed_one_again(graph: LocalGraph) -> None:
    land("a", "b")
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Note": 2}
    again = graph.run_pipeline("pipeline.yaml")
    assert (again.commit, dict(again.counts)) == (None, {})
    land("c")
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Note": 1}
    Path("landing/a.jsonl").write_text('{"type":"Note","data":{"text":"other"}}\n')
    graph.run_pipeline("pipeline.yaml")
    assert notes(graph) == ["a", "b", "c", "other"]
    graph.run_pipeline("pipeline.yaml", full=True)
    assert notes(graph) == ["a", "b", "b", "c", "c", "other", "other"]
    assert graph.run_pipeline("pipeline.yaml").commit is None


def test_the_plan_says_what_is_new(graph: LocalGraph, capsys: pytest.CaptureFixture[str]) -> None:
    land("a", "b")
    graph.run_pipeline("pipeline.yaml")
    assert run(["pipeline", "plan", "pipeline.yaml", "g"]) == 0
    assert "since last: files before 2, new files 0" in capsys.readouterr().out
    land("c")
    assert run(["pipeline", "plan", "pipeline.yaml", "g", "--json"]) == 0
    (planned,) = json.loads(capsys.readouterr().out)["inputs"]
    assert planned["since"] == {"files_before": 2, "new_files": 1}
    assert [Path(each).name for each in planned["files"]] == ["c.jsonl"]
    assert run(["pipeline", "run", "pipeline.yaml", "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_entities"] == 1
    assert run(["pipeline", "run", "pipeline.yaml", "g"]) == 0
    assert "nothing to load" in capsys.readouterr().out


def test_a_branch_knows_what_the_branch_it_came_from_loaded(graph: LocalGraph) -> None:
    land("a")
    graph.run_pipeline("pipeline.yaml")
    land("b")
    made = graph.run_pipeline("pipeline.yaml", branch="review", from_branch="main")
    assert made.counts == {"node:Note": 1}
    # What the branch loaded, main has not.
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Note": 1}
    assert graph.run_pipeline("pipeline.yaml", branch="review").commit is None


def test_a_run_that_is_refused_remembers_nothing(graph: LocalGraph) -> None:
    land("a")
    Path("landing/z.jsonl").write_text('{"type":"Note","data":{"txt":1}}\n')
    with pytest.raises(omnigraph.errors.LoadRejected):
        graph.run_pipeline("pipeline.yaml")
    Path("landing/z.jsonl").unlink()
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Note": 1}
    Path("landing/a.jsonl").unlink()  # files may leave once they are loaded
    assert graph.run_pipeline("pipeline.yaml").commit is None


def test_what_cannot_be_followed_is_told(graph: LocalGraph) -> None:
    with pytest.raises(FileUnreadable):
        graph.run_pipeline("pipeline.yaml")
    land("a")
    with pytest.raises(UsageError, match="without a key"):
        graph.run_pipeline("pipeline.yaml", idempotency_key="k")
    Path("pipeline.yaml").write_text(
        "mode: overwrite\ninputs:\n- {data: a, since: last}\n- {data: b, since: first}\n"
        "- {format: jdbc, type: Note, since: last, name: x, options: {url: u}}\n"
    )
    with pytest.raises(RecipeInvalid) as caught:
        graph.run_pipeline("pipeline.yaml")
    told = [message for _, message in caught.value.mistakes]
    assert told == [
        "since: last needs a name of the pipeline",
        "since: last needs a name of the input",
        "since: last would overwrite what is there with what is new",
        "inputs[1].since is last, or left out; not 'first'",
        "inputs[2].since is for files, Delta and Iceberg",
        "since: last needs a name of the pipeline",
        "since: last would overwrite what is there with what is new",
    ]


# ── several runs at once, and runs that die ──────────────────────────────────────────────────────


def follow(folder: str, actor: str) -> int:
    os.chdir(folder)
    return sum(omnigraph.open("g").run_pipeline("pipeline.yaml", actor=actor).counts.values())


@pytest.mark.slow
def test_two_runs_at_once_load_a_file_once(graph: LocalGraph, tmp_path: Path) -> None:
    land("a", "b", "c")
    runners = [launch(follow, str(tmp_path), actor) for actor in ("dana", "eli")]
    assert sum(values_of(race(runners, timeout_s=240))) == 3
    assert notes(graph) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_run_that_is_killed_repeats_nothing(graph: LocalGraph, tmp_path: Path) -> None:
    """Each run is killed as soon as it has left another trace in the graph."""
    written = sorted(Path("g").rglob("*"))
    names = []
    for number in range(4):
        names.append(f"n{number}")
        land(names[-1])
        child = launch(follow, str(tmp_path), "dana")
        child.await_ready()
        child.begin()
        for _ in range(2_000):
            now = sorted(Path("g").rglob("*"))
            if len(now) > len(written) + 4 * number:
                break
            omnigraph.effects.REAL.sleep_ms(5)
        child.kill()
        child.finish(60)
        written = sorted(Path("g").rglob("*"))
    graph.run_pipeline("pipeline.yaml")
    assert notes(graph) == names
