"""LangGraph on a graph: its store against its own in-memory store, its own suite for the saver."""

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from typing import Any, TypedDict

import pytest

import omnigraph

pytest.importorskip("langgraph")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from omnigraph.integrations.langgraph import OmnigraphSaver, OmnigraphStore

WORDS = ("tea", "sea", "bee", "key")


def embed(texts: list[str]) -> list[list[float]]:
    """One dimension for each known word, and one for none."""
    return [[float(word in text) for word in WORDS] + [0.1] for text in texts]


INDEX: Any = {"dims": len(WORDS) + 1, "embed": embed, "fields": ["text"]}


def make(place: Path, **options: Any) -> OmnigraphStore:
    graph = omnigraph.init(place, "", durability=omnigraph.Durability.RELAXED)
    store = OmnigraphStore(graph, index=INDEX, **options)
    store.setup()
    return store


def seen(items: Any) -> list[tuple[tuple[str, ...], str, dict[str, Any]]]:
    return [(each.namespace, each.key, each.value) for each in items]


def test_items_live_in_namespaces(tmp_path: Path) -> None:
    store = make(tmp_path / "g")
    store.put(("users", "u/1"), "likes", {"text": "tea", "stars": 3})
    store.put(("users", "u/1"), "knows", {"text": "the sea", "stars": 5})
    store.put(("users", "u2"), "likes", {"text": "bees", "nested": {"a": 1}})
    first = store.get(("users", "u/1"), "likes")
    assert first is not None
    assert first.value == {"text": "tea", "stars": 3}
    store.put(("users", "u/1"), "likes", {"text": "green tea", "stars": 4})
    again = store.get(("users", "u/1"), "likes")
    assert again is not None
    assert (again.value["stars"], again.created_at) == (4, first.created_at)
    assert again.updated_at >= first.updated_at
    assert store.list_namespaces() == [("users", "u/1"), ("users", "u2")]
    assert store.list_namespaces(prefix=("*", "u2")) == [("users", "u2")]
    assert store.list_namespaces(max_depth=1) == [("users",)]
    found = store.search(("users", "u/1"), filter={"stars": {"$gte": 5}})
    assert seen(found) == [(("users", "u/1"), "knows", {"text": "the sea", "stars": 5})]
    assert len(store.search(("users",), filter={"nested": {"a": 1}})) == 1
    store.delete(("users", "u2"), "likes")
    assert store.get(("users", "u2"), "likes") is None
    assert len(store.search(("users",))) == 2


def test_words_find_the_most_similar_items(tmp_path: Path) -> None:
    store = make(tmp_path / "g")
    store.put(("m",), "a", {"text": "tea by the sea"})
    store.put(("m",), "b", {"text": "tea"})
    store.put(("m",), "c", {"text": "a bee"})
    store.put(("m",), "d", {"other": "no text"})
    found = store.search(("m",), query="tea", limit=4)
    assert [each.key for each in found] == ["b", "a", "c", "d"]
    assert found[0].score == pytest.approx(1.0)
    assert found[-1].score is None
    store.put(("m",), "b", {"text": "key"})
    assert store.search(("m",), query="tea", limit=1)[0].key == "a"
    store.put(("m",), "a", {"text": "tea"}, index=False)
    assert store.search(("m",), query="sea", limit=1)[0].key != "a"
    assert seen(store.search(("m",), query="key", filter={"text": "key"})) == [
        (("m",), "b", {"text": "key"})
    ]


def test_the_store_answers_as_the_one_in_memory(tmp_path: Path) -> None:
    ours, theirs = make(tmp_path / "g"), InMemoryStore(index=INDEX)
    spaces, texts, drops = cycle([("a",), ("a", "b"), ("c",)]), cycle(WORDS), cycle("00001")
    for number in range(14):
        namespace, text, is_dropped = next(spaces), next(texts), next(drops) == "1"
        value = None if is_dropped else {"text": f"{text} {WORDS[number % 3]}", "n": number % 3}
        for store in (ours, theirs):
            store.batch([PutOp(namespace, text[0], value)])
    for prefix in [(), ("a",), ("c",)]:
        for query, wanted in [(None, None), ("tea", None), ("sea", {"n": {"$lt": 2}})]:
            op = SearchOp(prefix, query=query, filter=wanted, limit=20)
            found: list[list[Any]] = [store.batch([op])[0] for store in (ours, theirs)]  # type: ignore[misc]
            assert sorted(map(str, seen(found[0]))) == sorted(map(str, seen(found[1])))
            if query is not None:
                left, right = ([round(one.score, 4) for one in each] for each in found)
                assert left == right
    assert ours.list_namespaces() == sorted(
        {each.namespace for each in theirs.search((), limit=50)}
    )


class State(TypedDict):
    text: str


def test_a_run_remembers_on_the_branch_of_its_thread(tmp_path: Path) -> None:
    store = make(tmp_path / "g", per_thread=True)
    saver = OmnigraphSaver(store.graph)
    saver.setup()

    def note(state: State) -> State:
        get_store().put(("notes",), state["text"], {"text": state["text"]})
        return {"text": state["text"].upper()}

    builder = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    agent = builder.compile(checkpointer=saver, store=store)
    config: Any = {"configurable": {"thread_id": "t1"}}
    assert agent.invoke({"text": "tea"}, config) == {"text": "TEA"}
    assert agent.get_state(config).values == {"text": "TEA"}
    assert len(list(agent.get_state_history(config))) == 3
    assert store.get(("notes",), "tea") is None, "main is as it was"
    assert store.for_thread("t1").get(("notes",), "tea") is not None
    store.merge_thread("t1")
    assert store.get(("notes",), "tea") is not None

    async def later() -> None:
        assert await agent.ainvoke({"text": "sea"}, config) == {"text": "SEA"}
        assert (await store.for_thread("t1").aget(("notes",), "sea")) is not None
        assert len([each async for each in agent.aget_state_history(config)]) == 6

    asyncio.run(later())
    saver.delete_thread("t1")
    assert agent.get_state(config).values == {}


def test_the_saver_passes_the_suite_of_langgraph(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", "", durability=omnigraph.Durability.RELAXED)
    saver = OmnigraphSaver(graph)
    saver.setup()

    @checkpointer_test(name="OmnigraphSaver")
    async def make_saver() -> AsyncIterator[OmnigraphSaver]:
        yield saver

    report = asyncio.run(validate(make_saver))
    assert report.passed_all_base(), report
