"""A graph as tools for agents: what is offered, what comes of a call, what cannot end a session."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import omnigraph
from omnigraph.cli.app import run
from omnigraph.cli.exits import Exit
from omnigraph.mcp.graph_tools import GraphToolbox
from omnigraph.mcp.protocol import Session
from omnigraph.mcp.stored_query_tools import FolderQueries, ServerQueries
from omnigraph.sdk.remote.graph import RemoteGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

ROOT = Path(__file__).parents[2]
SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
QUERIES = """
query find_person($name: String) @description("Look one person up") @instruction("By full name") {
    match { $p: Person { name: $name } } return { $p.name, $p.age }
}
query everybody() { match { $p: Person } return { $p.name } order { $p.name asc } }
query add_person($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query read($branch: String) { match { $p: Person { name: $branch } } return { $p.name } }
"""
PEOPLE: list[dict[str, object]] = [{"name": "Ada", "age": 36}, {"name": "Bo"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "people.gq").write_text(QUERIES)
    return folder


@pytest.fixture(params=["embedded", "served"])
def toolbox(request: pytest.FixtureRequest, tmp_path: Path, folder: Path) -> Iterator[GraphToolbox]:
    place = tmp_path / "g"
    local = omnigraph.init(place, SCHEMA, durability=omnigraph.Durability.RELAXED)
    local.insert("Person", PEOPLE)
    if request.param == "embedded":
        yield GraphToolbox(local, FolderQueries(local, folder, "agent"), "agent")
        return
    flags = Flags(graphs=(f"g={place}",), queries=(f"g={folder}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        assert isinstance(remote, RemoteGraph)
        yield GraphToolbox(remote, ServerQueries(remote))


class Client:
    """A client of a session."""

    def __init__(self, toolbox: GraphToolbox) -> None:
        self.session = Session(toolbox, "1.2.3")

    def ask(self, method: str, /, **params: object) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        reply = self.session.reply_to(json.dumps(message))
        assert isinstance(reply, dict)
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
        return reply

    def call(self, name: str, /, **arguments: object) -> dict[str, Any]:
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        (content,) = result["content"]
        assert not result["isError"], content["text"]
        assert json.loads(content["text"]) == result["structuredContent"]
        found: dict[str, Any] = result["structuredContent"]
        return found

    def fail(self, name: str, /, **arguments: object) -> str:
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert result["isError"]
        return str(result["content"][0]["text"])

    def tools(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.ask("tools/list")["result"]["tools"]}


@pytest.fixture
def client(toolbox: GraphToolbox) -> Client:
    return Client(toolbox)


def test_a_session_agrees_on_a_version_and_tells_what_it_is(client: Client) -> None:
    reply = client.ask("initialize", protocolVersion="2025-03-26", capabilities={})["result"]
    assert reply["protocolVersion"] == "2025-03-26"
    assert reply["serverInfo"] == {"name": "omnigraph", "version": "1.2.3"}
    assert set(reply["capabilities"]) == {"tools", "resources"}
    assert client.ask("initialize", protocolVersion="1999")["result"]["protocolVersion"] > "2025-06"
    assert client.ask("ping")["result"] == {}


def test_stored_queries_are_tools_with_the_parameters_they_declare(client: Client) -> None:
    tools = client.tools()
    found = tools["find_person"]
    assert found["description"] == "Look one person up\n\nBy full name"
    assert found["inputSchema"]["required"] == ["name"]
    assert found["inputSchema"]["properties"]["name"] == {"type": "string"}
    assert found["annotations"]["readOnlyHint"]
    added = tools["add_person"]
    assert added["inputSchema"]["properties"]["age"] == {"type": ["integer", "null"]}
    assert added["inputSchema"]["required"] == ["name"]
    assert not added["annotations"]["readOnlyHint"]
    assert added["annotations"]["destructiveHint"], "for all that is known"
    own = tools["stored_read"]["inputSchema"]
    assert own["properties"]["branch"] == {"type": "string"}, "a parameter of that name wins"
    assert "max_rows" in own["properties"]
    assert "max_rows" not in added["inputSchema"]["properties"]
    assert tools["read"]["inputSchema"]["required"] == ["query"]


def test_a_refused_program_comes_back_with_a_valid_one(client: Client) -> None:
    broken = "query q() { match { (p:Person)-[:KNOWS]->(f) } return f.name }"
    valid = "query q() { match { $p: Person  $p knows $f } return { $f.name } }"
    assert client.fail("read", query=broken).endswith(f"This program is valid:\n{valid}")
    result = client.ask("tools/call", name="read", arguments={"query": broken})["result"]
    facts = result["structuredContent"]["facts"]
    assert result["structuredContent"]["code"] == "query_invalid"
    assert facts["repair"]["program"] == valid
    assert facts["findings"][0]["span"] == {"start": 22, "end": 23, "line": 1, "column": 23}
    assert client.call("read", query=valid)["rows"] == []


def test_stored_queries_are_run_by_their_names(client: Client) -> None:
    assert client.call("find_person", name="Ada")["rows"] == [{"p.name": "Ada", "p.age": 36}]
    assert client.call("stored_read", branch="Bo")["rows"] == [{"p.name": "Bo"}]
    for _ in range(2):
        added = client.call("add_person", name="Cy", idempotency_key="once")
        assert added["affected_nodes"] == 1
    client.call("branches_create", name="draft")
    client.call("add_person", name="Di", age=4, branch="draft")
    everybody = client.call("everybody", branch="draft")["rows"]
    assert [each["p.name"] for each in everybody] == ["Ada", "Bo", "Cy", "Di"]
    assert client.call("everybody")["row_count"] == 3


def test_the_day_of_an_agent(client: Client) -> None:
    assert client.call("schema_get")["schema_source"] == SCHEMA
    assert client.call("describe", budget=1000)["omitted"] == []
    client.call("branches_create", name="task")
    insert = "query q($n: String) { insert Person { name: $n } }"
    change = {"query": insert, "params": {"n": "Ed"}, "branch": "task", "idempotency_key": "once"}
    first = client.call("change", **change)
    assert client.call("change", **change)["commit"] == first["commit"], "repeated, done once"
    assert client.call("branches_list")["branches"] == ["main", "task"]
    assert client.call("branches_merge", source="task")["outcome"] in ("fast_forward", "merged")
    client.call("branches_delete", name="task")
    (newest, *_) = client.call("commits_list", limit=3)["commits"]
    assert client.call("commits_get", commit_id=newest["graph_commit_id"]) == newest
    tables = {each["table_key"]: each["row_count"] for each in client.call("snapshot")["tables"]}
    assert tables["node:Person"] == 3
    grown = SCHEMA.replace("age: I32?", "age: I32?  mail: String?")
    assert client.call("schema_apply", schema_source=grown)["applied"]
    uris = [each["uri"] for each in client.ask("resources/list")["result"]["resources"]]
    assert uris == ["omnigraph://language", "omnigraph://schema", "omnigraph://branches"]
    read = [client.ask("resources/read", uri=uri)["result"]["contents"][0]["text"] for uri in uris]
    assert read[1:] == [grown, '{"branches": ["main"]}']


def test_a_long_answer_is_cut_and_says_so(client: Client) -> None:
    query = "query q() { match { $p: Person } return { $p.name } order { $p.name asc } }"
    answer = client.call("read", query=query, max_rows=1)
    assert (answer["rows"], answer["row_count"]) == ([{"p.name": "Ada"}], 2)
    assert answer["truncated"]
    assert "truncated" not in client.call("read", query=query)
    stored = client.call("everybody", max_rows=1)
    assert (len(stored["rows"]), stored["row_count"], stored["truncated"]) == (1, 2, True)
    assert "truncated" not in client.call("everybody")


NOBODY = "query q() { match { $x: Nobody } return { $x.y } }"
MISTAKES: list[tuple[str, dict[str, object], str]] = [
    ("read", {}, "needs 'query'"),
    ("read", {"query": 5}, "type string"),
    ("read", {"query": "q", "max_rows": True}, "type integer"),
    ("read", {"query": NOBODY}, "Nobody"),
    ("read", {"query": "q", "max_rows": -1}, "at least 0"),
    ("commits_list", {"limit": 0}, "at least 1"),
    ("ingest", {"data": "{}", "mode": "replace"}, "merge or append or overwrite"),
    ("ingest", {"data": "\ud800"}, "a lone surrogate"),
    ("find_person", {"name": "Ada", "age": 1}, "takes no 'age'"),
    ("find_person", {}, "needs 'name'"),
    ("find_person", {"name": "Ada", "branch": "nowhere"}, "nowhere"),
    ("branches_merge", {"source": "nowhere"}, "nowhere"),
    ("commits_get", {"commit_id": "nobody"}, "nobody"),
]


def test_what_goes_wrong_in_a_tool_is_an_answer_to_learn_from(client: Client) -> None:
    for name, arguments, word in MISTAKES:
        assert word in client.fail(name, **arguments)
    assert client.call("everybody")["row_count"] == 2, "and the session goes on"


def test_what_is_wrong_with_a_message_is_told_by_its_number(client: Client) -> None:
    assert client.ask("tools/call", name="drop_everything")["error"]["code"] == -32602
    assert client.ask("tools/fly")["error"]["code"] == -32601
    assert client.ask("resources/read", uri="omnigraph://moon")["error"]["code"] == -32002
    session = client.session
    nameless = '{"jsonrpc": "2.0", "id": 1}'
    odd = '{"jsonrpc": "2.0", "id": [1], "method": "ping"}'
    refused = ["5", "[]", '{"id": 1, "method": "ping"}', nameless, odd]
    for line, code in [("{", -32700), *((each, -32600) for each in refused)]:
        reply = session.reply_to(line)
        assert isinstance(reply, dict)
        assert reply["error"]["code"] == code
    wrong = session.reply_to('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}')
    assert isinstance(wrong, dict)
    assert wrong["error"]["code"] == -32602
    assert session.reply_to('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert session.reply_to('{"jsonrpc": "2.0", "id": 1, "result": {}}') is None
    batch = '[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "ping"}]'
    assert session.reply_to(batch) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_who_may_only_read_is_offered_nothing_else(toolbox: GraphToolbox) -> None:
    reading = Client(GraphToolbox(toolbox.graph, toolbox.stored, read_only=True)).tools()
    assert {"read", "find_person"} <= set(reading)
    assert not {"change", "ingest", "add_person", "schema_apply"} & set(reading)
    stored = Client(GraphToolbox(toolbox.graph, toolbox.stored, only_stored=True))
    assert set(stored.tools()) == {"find_person", "everybody", "add_person", "read"}
    assert stored.ask("resources/list")["result"] == {"resources": []}


class NoGraph:
    """A toolbox without anything in it."""

    instructions = ""

    def tools(self) -> list[Any]:
        return []

    def resources(self) -> list[Any]:
        return []


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("id"), inner),
)


@given(st.one_of(st.text(), VALUES.map(json.dumps)))
def test_no_line_ends_a_session(line: str) -> None:
    sent: list[str] = []
    Session(NoGraph(), "0").serve([line], sent.append)
    assert all(each.isascii() for each in sent), "whoever writes it to a pipe cannot fail"


def test_half_a_character_is_sent_back_as_it_came() -> None:
    sent: list[str] = []
    lines = [json.dumps({"jsonrpc": "2.0", "id": "\ud800", "method": "\udfff"})]
    Session(NoGraph(), "0").serve(lines, sent.append)
    assert json.loads(sent[0].encode())["id"] == "\ud800"


RUN = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"


def test_the_command_speaks_the_protocol_and_nothing_else(tmp_path: Path, folder: Path) -> None:
    """As the documentation says that it is started."""
    block, *_ = re.findall(r"```json\n(.*?)```", (ROOT / "docs/mcp.md").read_text(), re.DOTALL)
    (_, place, _, queries) = arguments = json.loads(block)["mcpServers"]["museum"]["args"]
    omnigraph.init(tmp_path / place, SCHEMA).insert("Person", PEOPLE)
    (tmp_path / queries).parent.mkdir()
    folder.rename(tmp_path / queries)
    asked = {"name": "find_person", "arguments": {"name": "Ada"}}
    messages: list[dict[str, object]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=tmp_path,
        input="".join(f"{json.dumps(each)}\n" for each in messages),
        capture_output=True,
        text=True,
        check=False,
    )
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (0, "")
    assert first["result"]["serverInfo"]["version"] == omnigraph.__version__
    assert second["result"]["structuredContent"]["rows"] == [{"p.name": "Ada", "p.age": 36}]


def test_a_command_that_cannot_serve_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "g")
    omnigraph.init(place, SCHEMA)
    assert run(["mcp", place, "--queries", str(tmp_path / "none")]) == Exit.FAILED
    assert "no such folder" in capsys.readouterr().err
    assert run(["mcp", place, "--only-stored"]) == Exit.USAGE
    told = capsys.readouterr()
    assert "--queries" in told.err
    assert told.out == ""
