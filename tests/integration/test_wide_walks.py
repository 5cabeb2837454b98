"""A walk that turns out to be wide in the middle of a query answers as any other."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.query.columns import view
from omnigraph.engine.query.operators import walker
from omnigraph.storage.durability import Durability

SCHEMA = """
node Person { name: String @key  age: I32 }
edge Follows: Person -> Person { since: I32 }
"""
COUNT = 12
READ = """query q() { match { $a: Person $a $e:follows $b }
    return { $a.name, $b.name, $b.age, $e.since as since } order { $b.age desc, since } }"""


def test_rows_from_before_and_after_are_put_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one variable are all of one kind, or ordinals of two tables would be mixed."""
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    lines = [
        f'{{"type": "Person", "data": {{"name": "p{at}", "age": {at}}}}}' for at in range(COUNT)
    ]
    pairs = [(at, (at * 5 + step) % COUNT) for at in range(COUNT) for step in (1, 2)]
    lines += [
        f'{{"edge": "Follows", "from": "p{a}", "to": "p{b}", "data": {{"since": {a}}}}}'
        for a, b in pairs
    ]
    source = tmp_path / "data.jsonl"
    source.write_text("\n".join(lines))
    graph.load(str(source), mode="append", engine="local")
    monkeypatch.setattr(view, "SMALL_ROWS", 0)
    monkeypatch.setattr(view, "LOOK_UP_COST", 100)
    monkeypatch.setattr(view, "LOOK_UP_COST_PER_ID", 0)
    monkeypatch.setattr(view, "LOOK_UP_COST_PER_ROW", 0)
    monkeypatch.setattr(walker, "SEARCHES_MAX", 1)
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    found = omnigraph.open(graph.uri).query(READ).rows()
    assert [(each["since"], each["b.age"]) for each in found] == expected
    assert [each["b.name"] for each in found] == [f"p{b}" for _, b in expected]
