"""The command line against a server: addresses, profiles, tokens, aliases."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.tokens import INLINE
from support.serving import running

SCHEMA = "node Person { name: String @key age: I32? }"
ADD = "query add($n: String) { insert Person { name: $n } }"
READ = "query q() { match { $p: Person } return { $p.name, $p.age } }"
POLICY = """
version: 1
groups: { all: [ada] }
rules:
  - id: r
    allow:
      actors: { group: all }
      actions:
        [read, change, export, invoke_query, schema_apply, branch_create, branch_delete,
         branch_merge, admin]
"""

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def url(graph: LocalGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.gq").write_text(
        "query find($name: String) { match { $p: Person { name: $name } } return { $p.name } }\n"
        + ADD
    )
    flags = Flags(
        graphs=(f"g={graph.uri}",),
        policies=(f"g={tmp_path / 'policy.yaml'}",),
        queries=(f"g={tmp_path / 'queries'}",),
    )
    with running(flags, {INLINE: json.dumps({"ada": "secret"})}) as server:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "config.yaml").write_text(
            f"servers: {{ prod: {{ url: '{server.url}' }} }}\n"
            "profiles: { ops: { server: prod, default_graph: g } }\n"
            "operator: { actor: somebody }\n"
            "aliases: { who: { server: prod, graph: g, query: find, args: [name] } }\n"
        )
        yield server.url


def out(capsys: Streams) -> str:
    return capsys.readouterr().out


def test_a_day_with_a_server(
    url: str, graph: LocalGraph, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["login", "prod", "--token", "secret"]) == 0
    there = ["--server", "prod", "--graph", "g"]
    params = ["--params", '{"n": "Ada"}']
    assert run(["mutate", "-e", ADD, *params, *there]) == 0
    shown = capsys.readouterr()
    assert "changed main via add: 1 node, 0 edges" in shown.out
    assert f"{url}/graphs/g (served)" in shown.err
    assert graph.commits()[0].actor == "ada"
    assert run(["query", "-e", READ, "--json", *there]) == 0
    assert json.loads(out(capsys))["rows"] == [{"p.name": "Ada", "p.age": None}]
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "ops")
    assert run(["query", "find", "--params", '{"name": "Ada"}', "--format", "csv"]) == 0
    assert out(capsys).splitlines() == ["p.name", "Ada"]
    assert run(["mutate", "add", "--params", '{"n": "Bo"}', "--quiet"]) == 0
    capsys.readouterr()
    assert run(["branch", "create", "review/a", "--json"]) == 0
    assert json.loads(out(capsys))["actor_id"] == "ada"
    assert run(["branch", "list", "--names"]) == 0
    assert out(capsys).splitlines()[-2:] == ["main", "review/a"]
    assert run(["branch", "merge", "review/a", "--json"]) == 0
    assert json.loads(out(capsys))["outcome"] == "already_up_to_date"
    assert run(["branch", "delete", "review/a"]) == 1, "nobody said yes"
    assert f"{url}/graphs/g: not confirmed" in capsys.readouterr().err
    assert run(["branch", "delete", "review/a", "--yes", "--json"]) == 0
    assert json.loads(out(capsys))["actor_id"] == "ada"
    assert run(["queries", "list"]) == 0
    assert out(capsys).splitlines() == ["add(n: string) mutation", "find(name: string) read"]
    for command in (["commit", "list"], ["snapshot"], ["schema", "show"], ["export"]):
        assert run(command) == 0, command
    assert '"name":"Bo"' in out(capsys).replace(": ", ":")
    assert run(["alias", "who", "Ada", "--json"]) == 0
    assert json.loads(out(capsys))["row_count"] == 1
    assert run(["alias", "who", "Ada", "too many"]) == 2
    assert run(["mutate", "-e", ADD, *params, "--as", "eve"]) == 1


@pytest.mark.usefixtures("url")
def test_a_served_graph_is_put_in_shape_by_its_server(
    graph: LocalGraph, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["login", "prod", "--token", "secret"]) == 0
    for at in range(3):
        graph.insert("Person", [{"name": f"n{at}"}])
    there = ["--server", "prod", "--graph", "g"]
    capsys.readouterr()
    assert run(["optimize", *there]) == 0
    assert "node:Person: optimized, -3 +1 fragments" in out(capsys)
    assert graph.commits()[0].actor == "ada"
    assert run(["optimize", *there, "--json"]) == 0
    assert json.loads(out(capsys))["commits"] == []
    assert run(["optimize", *there, "--spark-master", "local[1]"]) == 2
    assert "a server chooses its Spark" in capsys.readouterr().err
    assert run(["optimize", *there, "--as", "eve"]) == 1
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD", "wrong")
    assert run(["optimize", *there]) == 1
    assert "invalid bearer token" in capsys.readouterr().err


@pytest.mark.usefixtures("url")
def test_the_past_what_changed_and_the_schema_are_a_servers_affair_too(
    graph: LocalGraph, capsys: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(["login", "prod", "--token", "secret"]) == 0
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "ops")
    graph.insert("Person", [{"name": "Ada", "age": 1}])
    graph.branches.create("b")
    graph.upsert("Person", [{"name": "Ada", "age": 2}], branch="b")
    before, after = graph.commits()[0].id, graph.commits("b")[0].id
    capsys.readouterr()
    aside = ["--store", graph.uri]
    commands = [
        ["query", "-e", READ, "--branch", "b", "--version", "2", "--json"],
        ["query", "-e", READ, "--snapshot", before, "--json"],
        ["query", "-e", READ, "--at", "2999-01-01T00:00:00Z", "--json"],
        ["entity", "Person", "Ada", "--branch", "b", "--json"],
        ["entity", "Person", "Ada", "--snapshot", before],
        ["diff", "main..b"],
        ["diff", "main..b", "--json", "--op", "update"],
        ["diff", "main..b", "--summary", "--json"],
        ["commit", "changes", after, "--json"],
        ["commit", "changes", after],
        ["changes", "poll", "--start", "beginning", "--branch", "b", "--json"],
        ["changes", "poll", "--start", f"after:{before}", "--branch", "b"],
        ["changes", "baseline", "--branch", "b"],
        ["export", "--snapshot", before],
        ["export", "--branch", "b", "--version", "2"],
    ]
    for command in commands:
        assert run(command) == 0, command
        served = out(capsys)
        assert served, command
        assert run([*command, *aside]) == 0
        assert served == out(capsys), command
    assert run(["entity", "Person", "nobody"]) == 1
    capsys.readouterr()
    assert run(["changes", "baseline", "--out", str(tmp_path / "base"), "--json"]) == 0
    cursor = json.loads(out(capsys))["resume_cursor"]
    last = (tmp_path / "base").read_text().splitlines()[-1]
    assert json.loads(last)["baseline"]["resume_cursor"] == cursor
    packed = tmp_path / "main.jsonl.gz"
    assert run(["export", "-o", str(packed)]) == 0
    assert run(["export", "-o", str(tmp_path / "plain.jsonl"), *aside]) == 0
    assert gzip.decompress(packed.read_bytes()) == (tmp_path / "plain.jsonl").read_bytes()
    assert run(["export", "--spark-master", "local[1]"]) == 2, "a server has its own"
    graph.branches.delete("b")
    wider = tmp_path / "wider.pg"
    wider.write_text(SCHEMA.replace("age: I32?", "age: I32? nick: String?"))
    plan = ["schema", "plan", "--schema", str(wider)]
    assert run(plan) == 0
    served = out(capsys)
    assert "add property 'nick: String?'" in served
    assert run([*plan, *aside]) == 0
    assert served == out(capsys)
    assert run(["schema", "apply", "--schema", str(wider), "--as", "eve"]) == 1
    assert run(["schema", "apply", "--schema", str(wider), "--json"]) == 0
    assert json.loads(out(capsys))["applied"] is True
    assert graph.commits()[0].actor == "ada"


def test_a_token_is_asked_for_where_somebody_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal of its own, which shows nothing of what is typed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    terminal, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "login", "prod"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as login:
        os.close(theirs)
        shown = b""
        while b"token for prod: " not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"hush\n")
        with suppress(OSError):  # which is how a terminal ends
            while piece := os.read(terminal, 1000):
                shown += piece
        os.close(terminal)
        assert login.wait(300) == 0, shown
    assert b"hush" not in shown
    assert "hush" in (tmp_path / ".omnigraph" / "credentials").read_text()


def test_tokens_are_found_and_kept_where_nobody_else_reads(
    url: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ["branch", "list", "--server", "prod", "--graph", "g"]
    assert run(there) == 1
    assert "missing bearer token" in capsys.readouterr().err
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD", "secret")
    assert run(there) == 0
    monkeypatch.delenv("OMNIGRAPH_TOKEN_PROD")
    assert run(["login", "prod", "--token", "wrong"]) == 0
    assert run(there) == 1
    captured = capsys.readouterr()
    assert "wrong" not in captured.err + captured.out.replace("wrong ", "")
    assert run(["login", "prod", "--token", "secret", "--json"]) == 0
    document = json.loads(out(capsys))
    assert document["declared"] is True
    file = Path(document["credentials_path"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert run(there) == 0
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "secret")
    assert run(["branch", "list", "--server", url.replace("127.0.0.1", "localhost")]) == 0
    monkeypatch.delenv("OMNIGRAPH_BEARER_TOKEN")
    file.chmod(0o644)
    assert run(there) == 1
    assert "others may read it" in capsys.readouterr().err
    file.chmod(0o600)
    assert run(["logout", "prod"]) == run(["logout", "prod"]) == 0
    assert run(there) == 1
    assert os.environ.get("OMNIGRAPH_TOKEN_PROD") is None


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize(
    "command",
    [
        ["branch", "list", "--server", "nowhere"],
        ["branch", "list", "g.omni", "--server", "prod"],
        ["branch", "list", "https://host/g"],
        ["init", "x", "--server", "prod", "--schema", "s.pg", "--profile", "no"],
        ["lint", "--server", "prod", "--query", "q.gq"],
        ["query", "--server", "prod", "--graph", "g"],
        ["alias", "nobody"],
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(command: list[str]) -> None:
    assert run(command) in (1, 2)


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize(
    "command",
    [
        ["login", "DEFAULT", "--token", "t"],
        ["login", "a]b", "--token", "t"],
        ["login", "prod", "--token", "two\nlines"],
        ["branch", "list", "--server", "http://[::1"],
        ["mutate", "add", "--server", "prod", "--graph", "g", "--if-commit", "é"],
    ],
    ids=["default", "name", "token", "address", "commit"],
)
def test_what_no_file_and_no_header_can_hold_is_refused(
    command: list[str], capsys: Streams
) -> None:
    assert run(["login", "prod", "--token", "secret"]) == 0
    assert run(command) == 2
    assert run(["branch", "list", "--server", "prod", "--graph", "g"]) == 0
    assert "two" not in capsys.readouterr().err


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("token", ["sécret", "sec\nret"])
def test_a_token_that_cannot_be_sent_is_not_repeated(
    token: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD", token)
    assert run(["branch", "list", "--server", "prod", "--graph", "g"]) == 2
    error = capsys.readouterr().err
    assert "the token" in error
    assert token[:3] not in error


@pytest.mark.usefixtures("url")
def test_profiles_are_shown(capsys: Streams) -> None:
    assert run(["profile", "list", "--json"]) == 0
    (profile,) = json.loads(out(capsys))
    assert (profile["name"], profile["scope_kind"], profile["valid"]) == ("ops", "server", True)
    assert run(["profile", "show", "ops"]) == 0
    assert "default_graph: g" in out(capsys)
    assert run(["profile", "show", "nobody"]) == 1


def test_stored_queries_are_checked_before_a_server_has_them(
    graph: LocalGraph, tmp_path: Path, capsys: Streams
) -> None:
    folder, schema = tmp_path / "queries", tmp_path / "s.pg"
    folder.mkdir()
    schema.write_text(SCHEMA)
    (folder / "q.gq").write_text(
        "query near($v: Vector(3), $n: I64?) { match { $p: Person } return { $p.name } }"
    )
    words = ["--queries", str(folder), "--json"]
    assert run(["queries", "validate", graph.uri, *words]) == 0
    report = json.loads(out(capsys))
    assert (report["ok"], report["breakages"]) == (True, [])
    assert [each["query"] for each in report["warnings"]] == ["near"]
    assert run(["queries", "list", "--schema", str(schema), *words]) == 0
    (listed,) = json.loads(out(capsys))["queries"]
    assert (listed["mcp_expose"], listed["tool_name"], listed["mutation"]) == (
        True,
        listed["name"],
        False,
    )
    types = [(each["name"], each["type"], each["nullable"]) for each in listed["params"]]
    assert types == [("v", "Vector(3)", False), ("n", "I64", True)]
    (folder / "bad.gq").write_text("query b() { match { $p: Nobody } return { $p.name } }")
    assert run(["queries", "validate", graph.uri, *words]) == 1
    (breakage,) = json.loads(out(capsys))["breakages"]
    assert breakage["query"].endswith("bad.gq:b")
    assert "Nobody" in breakage["message"]
    assert run(["queries", "validate", graph.uri, "--queries", str(folder)]) == 1
    assert "1 query valid, 1 broken" in out(capsys)
    assert run(["queries", "list", graph.uri]) == 1


def test_a_policy_is_checked_before_it_is_in_force(tmp_path: Path, capsys: Streams) -> None:
    policy, cases = tmp_path / "p.yaml", tmp_path / "cases.yaml"
    policy.write_text(POLICY)
    cases.write_text(
        "version: 1\ncases:\n"
        "- { id: a, actor: ada, action: change, branch: main, expect: allow }\n"
        "- { id: b, actor: eve, action: read, branch: main, expect: deny }\n"
    )
    assert run(["policy", "validate", "--file", str(policy)]) == 0
    assert out(capsys) == f"policy valid: bundle '{policy}' [1 actor]\n"
    assert run(["policy", "test", "--file", str(policy), "--tests", str(cases)]) == 0
    assert out(capsys) == "policy tests passed: 2 cases\n"
    cases.write_text(cases.read_text().replace("deny", "allow"))
    assert run(["policy", "test", "--file", str(policy), "--tests", str(cases)]) == 1
    assert "FAILED b" in out(capsys)
    asked = ["--actor", "ada", "--action", "branch-merge", "--target-branch", "main"]
    assert run(["policy", "explain", "--file", str(policy), *asked]) == 0
    assert "decision: allow" in out(capsys)
    policy.write_text("version: 2")
    assert run(["policy", "validate", "--file", str(policy)]) == 1
