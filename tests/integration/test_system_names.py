"""`$p.@id`, `$e.@src`, `$e.@dst`: what every row has, readable wherever a property is."""

import json

import pytest

import omnigraph
from omnigraph.errors import QueryInvalid
from omnigraph.sdk.embedded.graph import LocalGraph

SCHEMA = """
node Person { name: String }
node Dog { tag: String @key }
edge Knows: Person -> Person { since: Date? }
edge Owns: Person -> Dog
"""
RECORDS = [
    {"type": "Person", "data": {"id": "a", "name": "Ann"}},
    {"type": "Person", "data": {"id": "b", "name": "Bob"}},
    {"type": "Dog", "data": {"tag": "d1"}},
    {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k"}},
    {"edge": "Owns", "from": "b", "to": "d1"},
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("names")
    made = omnigraph.init(folder / "g", SCHEMA)
    source = folder / "records.jsonl"
    source.write_text("".join(f"{json.dumps(each)}\n" for each in RECORDS))
    made.load(source, mode="append", engine="local")
    return made


CASES = [
    (
        "$p: Person } return { $p.@id, $p.name } order { $p.@id desc",
        [{"p.@id": "b", "p.name": "Bob"}, {"p.@id": "a", "p.name": "Ann"}],
    ),
    (
        "$p: Person  $p $e:knows $q } return { $e.@id, $e.@src, $e.@dst as dst, $q.@id",
        [{"e.@id": "k", "e.@src": "a", "dst": "b", "q.@id": "b"}],
    ),
    ('$p: Person  $p.@id = "b" } return { $p.name', [{"p.name": "Bob"}]),
    ('$p: Person  $p.@id in ["a", "x"] } return { $p.@id', [{"p.@id": "a"}]),
    (
        '$p: Person  $p $e:knows $q  $e.@dst = "b" } return { count($e.@id) as n, $e.@src',
        [{"n": 1, "e.@src": "a"}],
    ),
    ("$p: Person  $p knows $q  $q owns $d } return { $d.@id", [{"d.@id": "d1"}]),
    (
        "$p: Person  optional { $p owns $d } } return { $p.@id, $d.@id } order { $p.@id",
        [{"p.@id": "a", "d.@id": None}, {"p.@id": "b", "d.@id": "d1"}],
    ),
    (
        "$p: Person } return { min($p.@id) as m, count(distinct $p.@id) as n",
        [{"m": "a", "n": 2}],
    ),
]


@pytest.mark.parametrize(("inner", "rows"), CASES)
def test_system_names_are_read_like_properties(
    graph: LocalGraph, inner: str, rows: list[dict[str, object]]
) -> None:
    assert graph.query(f"query q() {{ match {{ {inner} }} }}").rows() == rows


def test_words_are_not_searched_in_ids(graph: LocalGraph) -> None:
    with pytest.raises(QueryInvalid, match="searches a String property"):
        graph.query('query q() { match { $p: Person  search($p.@id, "a") } return { $p.name } }')


@pytest.mark.parametrize(
    ("name", "hint"),
    [("id", "write `@id`"), ("@src", "a node has @id and @type, an edge also @src and @dst")],
)
def test_what_a_node_lacks_is_told(graph: LocalGraph, name: str, hint: str) -> None:
    with pytest.raises(QueryInvalid, match=hint):
        graph.query(f"query q() {{ match {{ $p: Person }} return {{ $p.{name} }} }}")
