"""`@check` on a real graph: too long values, and patterns only another program can run."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.catalog.regex import compile_pattern
from omnigraph.commit.manifest.create import create_graph
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.opening import tables_of
from omnigraph.errors import ConstraintViolation, SchemaInvalid
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores

FOREIGN = r"""
node Note { slug: String @key  text: String?  @check(text, "\\bword\\b") }
node Other { name: String @key }
"""


@pytest.fixture
def foreign(tmp_path: Path) -> str:
    """A graph as a program with another engine would have made it."""
    stores = open_stores(str(tmp_path / "g"), REAL, durability=Durability.RELAXED)
    contract = compile_active_schema(FOREIGN, name="s", in_force=True)
    create_graph(stores, contract.files(), tables_of(contract.catalog), actor=None)
    return str(tmp_path / "g")


def test_a_pattern_that_cannot_be_run_does_not_keep_a_graph_from_being_read(foreign: str) -> None:
    graph = omnigraph.open(foreign, read_only=True)
    assert graph.query("query q() { match { $n: Note } return { $n.slug } }").rows() == []


def test_a_pattern_that_cannot_be_run_lets_no_value_in_and_says_so(foreign: str) -> None:
    graph = omnigraph.open(foreign)
    with pytest.raises(ConstraintViolation) as caught:
        graph.insert("Note", [{"slug": "a", "text": "a word"}])
    message = str(caught.value)
    assert "cannot be checked against" in message
    assert "by Unicode cannot be found in linear time" in message
    assert "export the graph and load it under a schema with another pattern" in message
    graph.insert("Note", [{"slug": "b"}])
    graph.insert("Other", [{"name": "c"}])


def test_a_pattern_that_cannot_be_run_is_refused_when_the_schema_is_applied(foreign: str) -> None:
    graph = omnigraph.open(foreign)
    with pytest.raises(SchemaInvalid, match=r"\[C9\]"):
        graph.apply_schema(FOREIGN + "node Third { name: String @key }")


def test_a_value_too_long_for_its_pattern_is_refused_with_both_lengths(tmp_path: Path) -> None:
    pattern = "(a|b)*a(a|b){500}c"
    schema = f'node N {{ slug: String @key  text: String?  @check(text, "{pattern}|^x") }}'
    graph = omnigraph.init(tmp_path / "g", schema, durability=Durability.RELAXED)
    most = compile_pattern(f"{pattern}|^x").length_max
    with pytest.raises(ConstraintViolation, match=rf"too long: {most + 1:,} bytes.*{most:,} bytes"):
        graph.insert("N", [{"slug": "a", "text": "x" * (most + 1)}])
    graph.insert("N", [{"slug": "a", "text": "x" * most}])
