"""The commands that make and look at graphs, as people and scripts meet them."""

import json
from pathlib import Path

import pytest

from omnigraph.cli.app import run
from omnigraph.storage.layout import fnv1a64

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"

Streams = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)


@pytest.fixture
def graph(tmp_path: Path, capsys: Streams) -> str:
    schema = tmp_path / "schema.pg"
    schema.write_text(SCHEMA)
    root = str(tmp_path / "g")
    assert run(["init", root, "--schema", str(schema), "--as", "ada"]) == 0
    assert capsys.readouterr().out == f"initialized {root}\n"
    return root


def configure(tmp_path: Path, text: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(text)


def document(capsys: Streams) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_snapshot_is_printed_for_people(graph: str, capsys: Streams) -> None:
    assert run(["snapshot", graph]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "branch: main",
        "manifest_version: 1",
        "edge:Knows v1 branch=main rows=0",
        "node:Person v1 branch=main rows=0",
    ]


def test_a_snapshot_as_json_speaks_both_generations(graph: str, capsys: Streams) -> None:
    assert run(["snapshot", graph, "--json"]) == 0
    found = document(capsys)
    assert found["branch"] == found["graph_branch"] == "main"
    assert found["manifest_version"] == found["graph_manifest_version"] == 1
    assert found["internal_schema_version"] == 4
    assert found["tables"] == [
        {
            "table_key": "edge:Knows",
            "table_path": f"edges/{fnv1a64('Knows')}",
            "table_version": 1,
            "table_branch": None,
            "row_count": 0,
        },
        {
            "table_key": "node:Person",
            "table_path": "nodes/40d76f1f51639ec0",
            "table_version": 1,
            "table_branch": None,
            "row_count": 0,
        },
    ]
    datasets = found["datasets"]
    assert isinstance(datasets, list)
    assert datasets[1] == {
        "entity_kind": "node",
        "type_name": "Person",
        "dataset_path": "nodes/40d76f1f51639ec0",
        "published_dataset_version": 1,
        "native_dataset_branch": None,
        "entity_count": 0,
    }


def test_branches_are_made_listed_and_deleted(graph: str, capsys: Streams) -> None:
    assert run(["branch", "create", "agent/1", graph]) == 0
    streams = capsys.readouterr()
    assert streams.out == "created branch agent/1 from main\n"
    assert streams.err == f"omnigraph branch create → {graph} (direct, local)\n"
    assert run(["branch", "create", "two", "--uri", graph, "--from", "agent/1", "--json"]) == 0
    assert document(capsys) == {"uri": graph, "from": "agent/1", "name": "two", "actor_id": None}
    assert run(["branch", "list", "--store", graph, "--json"]) == 0
    listed = document(capsys)
    assert listed["branches"] == ["main", "agent/1", "two"]
    summaries = listed["summaries"]
    assert isinstance(summaries, list)
    assert [(each["ahead"], each["behind"]) for each in summaries] == [(0, 0)] * 3
    assert {each["head"]["graph_commit_id"] for each in summaries} == {
        summaries[0]["head"]["graph_commit_id"]
    }
    assert run(["branch", "delete", "two", graph, "--quiet"]) == 0
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("deleted branch two\n", "")
    assert run(["branch", "list", graph, "--names"]) == 0
    assert capsys.readouterr().out == "main\nagent/1\n"
    assert run(["branch", "list", graph, "--names", "--json"]) == 0
    assert document(capsys) == {"branches": ["main", "agent/1"]}
    assert run(["branch", "list", graph]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["main", "agent/1"]
    assert lines[1].endswith("  ada  ahead 0, behind 0")


def test_commits_are_listed_and_shown(graph: str, capsys: Streams) -> None:
    assert run(["commit", "list", graph, "--json"]) == 0
    commits = document(capsys)["commits"]
    assert isinstance(commits, list)
    (genesis,) = commits
    assert genesis["actor_id"] == "ada"
    assert genesis["parent_commit_id"] is None
    assert genesis["manifest_branch"] is genesis["graph_branch"] is None
    commit_id = genesis["graph_commit_id"]
    for command in (
        ["commit", "show", commit_id, "--uri", graph],
        ["commit", "show", graph, commit_id],
    ):
        assert run([*command, "--json"]) == 0
        assert document(capsys) == genesis
    time = f"{genesis['created_at_iso'][:19]}Z"
    for command in (["commit", "list"], ["log"]):
        assert run([*command, graph]) == 0
        assert capsys.readouterr().out == f"commit {commit_id}\ntime: {time}\nactor: ada\n"
        assert run([*command, graph, "--oneline"]) == 0
        assert capsys.readouterr().out == f"{commit_id}  {time}  ada  -\n"
        assert run([*command, graph, "--graph", "--all"]) == 0
        assert capsys.readouterr().out == f"*  {commit_id}  {time}  ada  -  (main)\n"


def test_every_write_command_takes_a_message_that_the_log_shows(
    graph: str, capsys: Streams, tmp_path: Path
) -> None:
    data = tmp_path / "people.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded"}}\n')
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("mode: merge\ninputs:\n  - name: people\n    data: people.jsonl\n")
    grown = tmp_path / "grown.pg"
    grown.write_text(f"{SCHEMA}\nnode Extra {{ name: String @key }}\n")
    add = 'query q() { insert Person { name: "new" } }'
    writes = {
        "mutated": ["mutate", "q", graph, "-e", add],
        "loaded": ["load", graph, "--data", str(data), "--mode", "append"],
        "piped": ["pipeline", "run", str(pipeline), graph],
        "merged": ["branch", "merge", "side", graph, "--delete-branch"],
        "grown": ["schema", "apply", graph, "--schema", str(grown)],
        "indexed": ["index", graph],
        "tidied": ["optimize", graph],
    }
    assert run(["branch", "create", "side", graph, "--quiet"]) == 0
    inserted = 'query q() { insert Person { name: "side" } }'
    assert run(["mutate", "q", graph, "-e", inserted, "--branch", "side"]) == 0
    for message, words in writes.items():
        assert run([*words, "-m", message, "--quiet"]) == 0, words
    capsys.readouterr()
    assert run(["log", graph, "--json"]) == 0
    commits = document(capsys)["commits"]
    assert isinstance(commits, list)
    told = {each["message"]: each["row_counts"] for each in commits}
    assert {*writes} - told.keys() <= {"tidied"}  # nothing may be left to tidy
    assert told["mutated"] == {"inserted": 1, "updated": 0, "deleted": 0}
    assert told["piped"] == {"inserted": 0, "updated": 1, "deleted": 0}
    assert told["merged"] == {"inserted": 1, "updated": 0, "deleted": 0}
    assert run(["log", graph, "--graph"]) == 0
    assert "|\\" in capsys.readouterr().out.splitlines()
    made = tmp_path / "made.omni"
    assert run(["init", str(made), "--schema", str(grown), "-m", "the beginning"]) == 0
    capsys.readouterr()
    assert run(["log", str(made)]) == 0
    assert capsys.readouterr().out.endswith("\n\n    the beginning\n")


def test_three_dots_compare_with_the_state_at_which_the_branches_parted(
    graph: str, capsys: Streams
) -> None:
    add = "query q($n: String) { insert Person { name: $n } }"
    assert run(["branch", "create", "side", graph, "--quiet"]) == 0
    for branch in ("main", "side"):
        params = json.dumps({"n": branch})
        words = ["mutate", "q", graph, "-e", add, "--params", params, "--branch", branch]
        assert run(words) == 0
    capsys.readouterr()
    for sides, counts in (
        ("main..side", "+1 ~0 −1"),
        ("main...side", "+1 ~0 −0"),
        ("side...", "+1"),
    ):
        assert run(["diff", sides, graph, "--summary"]) == 0
        assert capsys.readouterr().out.startswith(f"node:Person: {counts}")
    for wrong in ("main", "a....b", "a..b..c"):
        assert run(["diff", wrong, graph]) == 2
        assert "A...B" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["actor=ada"], 1),
        (["actor=bo"], 0),
        (["actor="], 0),
        (["since=2001-01-01"], 1),
        (["since=2999-01-01T00:00:00Z"], 0),
        (["actor=ada", "since=2001-01-01T00:00:00+02:00"], 1),
    ],
)
def test_commits_are_filtered(graph: str, capsys: Streams, filters: list[str], count: int) -> None:
    options = [part for each in filters for part in ("--filter", each)]
    assert run(["commit", "list", graph, "--oneline", *options]) == 0
    assert len(capsys.readouterr().out.splitlines()) == count


@pytest.mark.parametrize("wrong", ["colour=red", "actor", "since=yesterday"])
def test_a_filter_that_means_nothing_is_a_usage_error(
    graph: str, capsys: Streams, wrong: str
) -> None:
    assert run(["commit", "list", graph, "--filter", wrong]) == 2
    assert wrong.partition("=")[2] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["branch", "create", "main"], "already exists"),
        (["branch", "create", "a b"], "cannot name a branch"),
        (["branch", "create", "x", "--from", "nope"], "branch 'nope' not found"),
        (["branch", "delete", "nope"], "branch 'nope' not found"),
        (["branch", "delete", "main"], "main cannot be deleted"),
        (["commit", "show", "01NONE"], "01NONE"),
        (["snapshot", "--branch", "nope"], "branch 'nope' not found"),
        (["snapshot", "--version", "99"], "version 99"),
    ],
)
def test_mistakes_are_told_in_a_line_and_exit_with_1(
    graph: str, capsys: Streams, arguments: list[str], message: str
) -> None:
    assert run([*arguments, "--store", graph]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert message in streams.err
    assert "Traceback" not in streams.err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["snapshot", "--branch", "nope"], "omnigraph branch list"),
        (["commit", "show", "01NONE"], "omnigraph commit list"),
        (["recovery", "show", "01NONE"], "omnigraph recovery list"),
    ],
)
def test_people_and_programs_are_told_which_command_helps(
    graph: str, capsys: Streams, arguments: list[str], hint: str
) -> None:
    assert run([*arguments, "--store", graph]) == 1
    assert f"  hint: {hint}" in capsys.readouterr().err
    assert run([*arguments, "--store", graph, "--errors", "json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert told.keys() == {"error", "code", "facts", "retryable", "hint"}
    assert hint in told["hint"]


def test_a_server_that_is_not_there_is_told_with_what_to_do(capsys: Streams) -> None:
    assert run(["branch", "list", "--server", "http://127.0.0.1:1", "--graph", "g"]) == 1
    told = capsys.readouterr().err
    assert "no answer from http://127.0.0.1:1" in told
    assert "omnigraph serve" in told


def test_a_new_graph_is_told_as_json(tmp_path: Path, capsys: Streams) -> None:
    schema = tmp_path / "schema.pg"
    schema.write_text(SCHEMA)
    assert run(["init", str(tmp_path / "new"), "--schema", str(schema), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"uri": str(tmp_path / "new")}


def test_an_initialised_graph_is_refused(graph: str, tmp_path: Path, capsys: Streams) -> None:
    schema = str(tmp_path / "schema.pg")
    for extra in ([], ["--force"]):
        assert run(["init", graph, "--schema", schema, *extra]) == 1
        assert "already initialized" in capsys.readouterr().err


def test_a_place_without_a_graph_says_how_to_make_one(tmp_path: Path, capsys: Streams) -> None:
    assert run(["snapshot", str(tmp_path / "none")]) == 1
    assert "omnigraph init" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["snapshot"], "no graph addressed"),
        (["snapshot", "g", "--store", "h"], "name the graph once"),
        (["recovery", "list", "--server", "prod"], "works on storage"),
        (["snapshot", "--server", "prod"], "no server 'prod'"),
        (["snapshot", "https://example.org"], "server's address"),
        (["snapshot", "g", "--graph", "x"], "a store is one graph"),
        (["snapshot", "--profile", "nope"], "no profile 'nope'"),
    ],
)
def test_an_address_that_does_not_hold_is_refused(
    capsys: Streams, arguments: list[str], message: str
) -> None:
    assert run(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_profile_wins_over_the_defaults_and_a_flag_over_both(
    graph: str, tmp_path: Path, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(
        tmp_path,
        f"operator: {{ actor: dana }}\ndefaults: {{ store: {tmp_path}/nowhere }}\n"
        f"profiles: {{ mine: {{ store: {graph} }}, prod: {{ server: s }} }}\n",
    )
    assert run(["snapshot"]) == 1
    assert "nowhere" in capsys.readouterr().err
    assert run(["snapshot", "--profile", "mine"]) == 0
    assert run(["snapshot", graph, "--profile", "prod"]) == 0
    assert run(["snapshot", "--profile", "mine", "--graph", "x"]) == 1
    assert "drop --graph" in capsys.readouterr().err
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "mine")
    assert run(["branch", "create", "x", "--json"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "prod")
    assert run(["recovery", "list"]) == 1
    assert "profile 'prod' names the server 's'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not YAML"),
        ("[" * 5_000, "nested more than 100 levels deep"),
        ("[]", "must be a mapping"),
        ("defaults: {}\ndefaults: {}", "'defaults' is there twice"),
        ("defaults: 3", "defaults must be a mapping"),
        ("defaults: { store: 3 }", "must be text"),
        ("profiles: { p: {} }", "needs one of"),
        ("profiles: { p: { store: a, server: b } }", "needs one of"),
        ("defaults: { store: a, default_graph: b }", "drop default_graph"),
        ("defaults: { store: a, server: b }", "not both"),
        ("defaults: { table_cell_layout: round }", "truncate or wrap"),
        ("defaults: { table_max_column_width: wide }", "must be a number"),
        ("clusters: { c: {} }", "needs a root"),
        ("aliases: { a: { server: s, query: q, format: xml } }", "is none of"),
    ],
)
def test_a_configuration_that_is_wrong_is_named(
    tmp_path: Path, capsys: Streams, text: str, message: str
) -> None:
    configure(tmp_path, text)
    assert run(["snapshot"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "config.yaml" in error


def test_an_unknown_key_of_the_configuration_is_warned_about(
    graph: str, tmp_path: Path, capsys: Streams
) -> None:
    configure(tmp_path, f"colour: red\ndefaults: {{ store: {graph}, shade: 1 }}")
    assert run(["branch", "create", "x"]) == 0
    errors = capsys.readouterr().err
    assert errors.count("unknown key 'colour'") == 1
    assert errors.count("unknown key 'defaults.shade'") == 1


def test_deleting_from_a_bucket_needs_a_yes(capsys: Streams) -> None:
    assert run(["branch", "delete", "x", "--store", "s3://nowhere/g"]) == 1
    assert "--yes" in capsys.readouterr().err


def test_queries_are_linted_and_explained_against_the_schema_of_a_graph(
    graph: str, tmp_path: Path, capsys: Streams
) -> None:
    queries = tmp_path / "q.gq"
    queries.write_text("query q() { match { $p: Person } return { $p.name } }")
    assert run(["lint", graph, "--query", str(queries), "--json"]) == 0
    assert document(capsys)["schema_source"] == {"kind": "graph", "uri": graph}
    assert run(["explain", "--store", graph, "--query", str(queries)]) == 0
    assert "Person" in capsys.readouterr().out
    assert run(["lint", "--query", str(queries)]) == 1
    assert "no graph addressed" in capsys.readouterr().err
