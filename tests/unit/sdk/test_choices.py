"""A setting is given as a word, as people write it, or as the member of its enumeration."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import UsageError

SCHEMA = "node Person { name: String @key }"

WRONG: dict[str, Callable[[str], object]] = {
    "durability is durable or relaxed, not 'x'": lambda uri: omnigraph.open(uri, durability="x"),
    "query_access is auto, resident or indexed, not 'x'": lambda uri: omnigraph.open(
        uri, query_access="x"
    ),
    "a load is append, merge or overwrite, not 'x'": lambda uri: omnigraph.open(uri).load(
        [{"type": "Person", "data": {"name": "ann"}}], mode="x"
    ),
    "an export is jsonl or parquet, not 'x'": lambda uri: omnigraph.open(uri).export(
        f"{uri}.out", format="x"
    ),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    omnigraph.init(tmp_path / "g", SCHEMA, durability="relaxed").close()
    return str(tmp_path / "g")


def test_words_are_taken(uri: str) -> None:
    with omnigraph.open(uri, durability="relaxed", query_access="indexed") as graph:
        graph.insert("Person", [{"name": "ann"}])
        assert graph.query("query q() { match { $p: Person } return { $p.name } }")
    omnigraph.clone(uri, f"{uri}2", durability="relaxed")


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_word_is_answered_with_the_right_ones(uri: str, message: str) -> None:
    with pytest.raises(UsageError) as told:
        WRONG[message](uri)
    assert str(told.value) == message
    with pytest.raises(UsageError):
        omnigraph.clone(uri, f"{uri}2", durability="x")
    assert not Path(f"{uri}2").exists()
