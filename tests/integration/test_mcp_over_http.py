"""A served graph as tools, asked by the client of the official package."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

mcp = pytest.importorskip("mcp")
httpx2 = pytest.importorskip("httpx2")

SCHEMA = """
node Person { name: String @key  note: String? @index  age: I32? }
edge Knows: Person -> Person
"""
QUERIES = """
query find_person($name: String) @description("Look one person up") {
    match { $p: Person { name: $name } } return { $p.name, $p.age }
}
"""
POLICY = """
version: 1
groups:
  agents: [agent]
  readers: [reader]
protected_branches: [main]
rules:
  - id: all-read
    allow: {actors: {group: agents}, actions: [read, export], branch_scope: any}
  - id: agents-try
    allow: {actors: {group: agents}, actions: [change], branch_scope: unprotected}
  - id: agents-branch
    allow: {actors: {group: agents}, actions: [branch_create], target_branch_scope: unprotected}
  - id: agents-propose
    allow: {actors: {group: agents}, actions: [propose], target_branch_scope: any}
  - id: agents-invoke
    allow: {actors: {group: agents}, actions: [invoke_query]}
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""
TOKENS = {
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"agent": "t-agent", "reader": "t-reader"})
}
PEOPLE = [{"name": f"p{n:03}", "note": f"likes tea and number {n}", "age": n} for n in range(300)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("served")
    graph = omnigraph.init(place / "g", SCHEMA, durability=omnigraph.Durability.RELAXED)
    graph.insert("Person", PEOPLE)
    (place / "q").mkdir()
    (place / "q" / "people.gq").write_text(QUERIES)
    (place / "policy.yaml").write_text(POLICY)
    flags = Flags(
        graphs=(f"g={place / 'g'}",),
        queries=(f"g={place / 'q'}",),
        policies=(f"g={place / 'policy.yaml'}",),
    )
    with running(flags, TOKENS) as server:
        yield f"{server.url}/graphs/g/mcp"


def ask(url: str, token: str, talk: Callable[[Any], Awaitable[None]]) -> None:
    """Talk to the server through the package's own client."""
    connect = mcp.client.streamable_http.streamable_http_client

    async def run() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            mcp.Client(connect(url, http_client=http)) as client,
        ):
            await talk(client)

    asyncio.run(run())


async def call(client: Any, tool: str, /, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


def test_tools_and_resources_are_those_that_the_policy_leaves(url: str) -> None:
    async def as_agent(client: Any) -> None:
        names = {each.name for each in (await client.list_tools()).tools}
        assert {"describe", "read", "find_person", "search", "changes", "diff"} <= names
        assert {"task_begin", "change", "proposal_open"} <= names
        assert not names & {"schema_apply", "branches_merge"}
        uris = {str(each.uri) for each in (await client.list_resources()).resources}
        assert "omnigraph://language" in uris
        page = await client.read_resource("omnigraph://language")
        assert "query on_floor" in page.contents[0].text

    async def as_reader(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert all(each.annotations.read_only_hint for each in tools)
        assert "find_person" not in {each.name for each in tools}
        with pytest.raises(mcp.MCPError, match="no tool 'change'"):
            await client.call_tool("change", {"query": "query q() { }"})

    ask(url, "t-agent", as_agent)
    ask(url, "t-reader", as_reader)


def test_reads_go_on_from_a_cursor_in_the_same_state(url: str) -> None:
    program = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"

    async def talk(client: Any) -> None:
        described = await call(client, "describe", question="which person likes tea")
        assert "node Person" in described["text"]
        names: list[str] = []
        cursor: dict[str, str] = {}
        pages = 0
        while True:
            page = await call(client, "read", query=program, budget=400, **cursor)
            names += [each["p.name"] for each in page["rows"]]
            pages += 1
            if "cursor" not in page:
                break
            cursor = {"cursor": page["cursor"]}
        assert names == [each["name"] for each in PEOPLE]
        assert pages > 2
        found = await call(client, "find_person", name="p007")
        assert found["rows"] == [{"p.name": "p007", "p.age": 7}]
        best = await call(client, "search", type="Person", words="number 42", budget=100)
        assert best["rows"][0]["name"] == "p042"
        assert best["cursor"]
        changes = await call(client, "changes", budget=300)
        assert changes["blocks"]
        assert len(json.dumps(changes)) < 8_000

    ask(url, "t-agent", talk)


def test_a_task_becomes_a_proposal(url: str) -> None:
    async def talk(client: Any) -> None:
        task = await call(client, "task_begin", title="Add Ada Ümit, please!")
        assert task["branch"].startswith("task/add-ada-umit-please")
        program = 'query add() { insert Person { name: "Ada", age: 36 } }'
        refused = await client.call_tool("change", {"query": program})
        assert refused.is_error
        assert refused.structured_content["code"] == "forbidden"
        done = await call(client, "change", query=program, branch=task["branch"])
        assert done["affected_nodes"] == 1
        shown = await call(client, "diff", branch=task["branch"])
        assert [each["id"] for each in shown["changes"]] == ["Ada"]
        opened = await call(client, "proposal_open", branch=task["branch"], title="Ada")
        assert opened["state"] == "open"
        assert opened["author"] == "agent"
        listed = await call(client, "proposals_list", state="open")
        assert opened["id"] in [each["id"] for each in listed["proposals"]]

    ask(url, "t-agent", talk)


def test_a_refused_program_brings_a_valid_one(url: str) -> None:
    async def talk(client: Any) -> None:
        broken = "MATCH (p:Person) WHERE p.age > 298 RETURN p.name"
        refused = await client.call_tool("read", {"query": broken})
        assert refused.is_error
        valid = refused.structured_content["facts"]["repair"]["program"]
        assert (await call(client, "read", query=valid))["rows"] == [{"p.name": "p299"}]

    ask(url, "t-agent", talk)


def test_no_token_no_answer_and_no_other_site(url: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    assert httpx.post(url, json=message, headers=accept).status_code == 401
    allowed = accept | {"Authorization": "Bearer t-agent"}
    assert httpx.post(url, json=message, headers=allowed).status_code == 200
    foreign = allowed | {"Origin": "https://elsewhere.example"}
    assert httpx.post(url, json=message, headers=foreign).status_code == 403
    assert httpx.get(url, headers=allowed).status_code == 405
    assert httpx.post(url, content=b"{", headers=allowed).status_code == 400
