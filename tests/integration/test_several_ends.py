"""One edge name over several pairs of ends, from its first graph to a schema with one more."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Input
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import encode_ir
from omnigraph.cli.app import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.write.batch import Existing, read_rows
from omnigraph.engine.write.mutate import WriteRequest, carry_out
from omnigraph.errors import (
    ConstraintViolation,
    LoadRejected,
    MergeConflicts,
    QueryInvalid,
    TypeUnknown,
    UsageError,
)
from omnigraph.ids import MAIN
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from support.reference_grammar import KNOWN_IR_VERSION, find_refusal

SCHEMA = """
interface Message { length: I32? }
node Post implements Message { code: String @key }
node Comment implements Message { code: String @key }
node Person { name: String @key }
node City { name: String @key }
node Country { name: String @key }
edge IsLocatedIn: Person | Message -> City | Country @key(src, dst) { since: I32? }
edge ReplyOf: Comment -> Message
edge IsPartOf: City -> Country
"""
WIDER = SCHEMA.replace("edge IsLocatedIn: Person |", "node Company { name: String @key }\n"
                       "edge IsLocatedIn: Company | Person |")  # fmt: skip

RECORDS = """
{"type":"Person","data":{"name":"ada"}}
{"type":"Person","data":{"name":"bob"}}
{"type":"Post","data":{"code":"p1","length":3}}
{"type":"Comment","data":{"code":"c1","length":4}}
{"type":"Comment","data":{"code":"c2","length":5}}
{"type":"City","data":{"name":"Turin"}}
{"type":"City","data":{"name":"Italy"}}
{"type":"Country","data":{"name":"Italy"}}
{"edge":"IsPartOf","from":"Turin","to":"Italy"}
{"edge":"isLocatedIn","from":{"Person":"ada"},"to":{"City":"Turin"},"data":{"since":2001}}
{"edge":"IsLocatedIn.Post.Country","from":"p1","to":"Italy"}
{"edge":"ReplyOf","from":"c1","to":{"Post":"p1"}}
{"edge":"ReplyOf","from":{"Comment":"c2"},"to":{"Comment":"c1"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA)
    put(made, tmp_path, RECORDS)
    return made


def put(graph: LocalGraph, folder: Path, text: str, branch: str = "main") -> None:
    path = folder / "input.jsonl"
    path.write_text(text)
    graph.load(path, mode="merge", branch=branch)


def located(graph: LocalGraph, branch: str = "main") -> list[tuple[str, str, str]]:
    """The pair of each edge, and its ends."""
    lines = b"".join(graph.export_lines(types=["IsLocatedIn"], branch=branch)).splitlines()
    found = []
    for each in map(json.loads, lines):
        ((source, from_),), ((target, to),) = each["from"].items(), each["to"].items()
        found.append((f"{each['edge']}.{source}.{target}", from_, to))
    return found


def ask(graph: LocalGraph, body: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in graph.query(f"query q() {{ {body} }}").rows()]


IN_TURIN = ("IsLocatedIn.Person.City", "ada", "Turin")
POST = ("IsLocatedIn.Post.Country", "p1", "Italy")


def test_the_whole_life_of_such_an_edge(graph: LocalGraph, tmp_path: Path) -> None:
    assert located(graph) == [IN_TURIN, POST]
    graph.branches.create("more")
    graph.insert(
        "IsLocatedIn",
        [
            {"from": {"Person": "bob"}, "to": {"City": "Italy"}},
            {"from": {"Person": "bob"}, "to": {"Country": "Italy"}, "since": 2002},
        ],
        branch="more",
    )
    insert = "insert IsLocatedIn { from: { Comment: $c }, to: { Country: $i } }"
    graph.mutate(
        f"query q($c: String, $i: String) {{ {insert} }}", {"c": "c1", "i": "Italy"}, branch="more"
    )
    graph.upsert("IsLocatedIn.Person.City", [{"from": "ada", "to": "Italy"}])
    graph.merge("more", into="main")
    every = [
        ("IsLocatedIn.Comment.Country", "c1", "Italy"),
        ("IsLocatedIn.Person.City", "ada", "Italy"),
        IN_TURIN,
        ("IsLocatedIn.Person.City", "bob", "Italy"),
        ("IsLocatedIn.Person.Country", "bob", "Italy"),
        POST,
    ]
    assert located(graph) == every

    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"".join(graph.export_lines()))
    again = omnigraph.init(tmp_path / "again", SCHEMA)
    again.load(dump, mode="append")
    assert located(again) == every

    again.apply_schema(WIDER)
    again.insert("Company", [{"name": "acme"}])
    (tmp_path / "firms.csv").write_text("src,dst\nacme,Turin\n")
    again.load(tmp_path / "firms.csv", edge="IsLocatedIn.Company.City", mode="append")
    assert located(again) == sorted([*every, ("IsLocatedIn.Company.City", "acme", "Turin")])
    pattern = '$c: Country { name: "Italy" } $t isPartOf $c $x: Company | Person $x isLocatedIn $t'
    outputs = "return { $x.name, $x.@type, $t.name } order { $x.name }"
    assert ask(again, f"match {{ {pattern} }} {outputs}") == [
        ("acme", "Company", "Turin"),
        ("ada", "Person", "Turin"),
    ]

    graph.mutate('query q() { delete IsLocatedIn where to = "Italy" }')
    assert located(graph) == [IN_TURIN]
    graph.delete("IsLocatedIn", ['["ada","Turin"]'])
    assert located(graph) == []


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (
            "match { $x: Person  $x isLocatedIn $y } return { $y.name, $y.@type }",
            [("Turin", "City")],
        ),
        (
            "match { $y: Country | City $x isLocatedIn $y } return { $x.@id as i } order { i }",
            [("ada",), ("p1",)],
        ),
        (
            "match { $p: Post  $c replyOf{1,2} $p } return { $c.code } order { $c.code }",
            [("c1",), ("c2",)],
        ),
        (
            "match { $c: Comment $c replyOf $m } return { $c.code, $m.length } order { $c.code }",
            [("c1", 3), ("c2", 4)],
        ),
        (
            "match { $a: Person  $a $e:isLocatedIn $_ } return { $e.since, $e.@type }",
            [(2001, "IsLocatedIn")],
        ),
        (
            (
                "match { $x: Person | City $y: City | Country $x $e:isLocatedIn|isPartOf $y }"
                " return { $e.@type as t, $x.@id as i } order { t, i }"
            ),
            [("IsLocatedIn", "ada"), ("IsPartOf", "Turin")],
        ),
        (
            (
                'match { $x: Post | Person $x $e:isLocatedIn $y  $e.@type = "IsLocatedIn" }'
                " return { $x.@id as i } order { i }"
            ),
            [("ada",), ("p1",)],
        ),
        (
            (
                "match { $c: Post | Comment optional { $c $e:isLocatedIn $y } }"
                " return { $c.code as i, $e.@type } order { i }"
            ),
            [("c1", None), ("c2", None), ("p1", "IsLocatedIn")],
        ),
        (
            "match { $m: Message  not { $m isLocatedIn $_ } } return { $m.code } order { $m.code }",
            [("c1",), ("c2",)],
        ),
    ],
)
def test_a_walk_takes_the_pairs_that_fit(
    graph: LocalGraph, body: str, rows: list[tuple[object, ...]]
) -> None:
    assert ask(graph, body) == rows


def test_an_edge_that_leads_to_other_types_is_not_walked_undirected(graph: LocalGraph) -> None:
    with pytest.raises(QueryInvalid, match="cannot be walked undirected"):
        ask(graph, "match { $a: Comment  $a <replyOf> $b } return { $a.code }")


def test_an_edge_among_several_types_is_walked_both_ways(tmp_path: Path) -> None:
    graph = omnigraph.init(
        tmp_path / "g",
        "node A { k: String @key } node B { k: String @key } edge Sees: A | B -> A | B { n: I32 }",
    )
    graph.insert("A", [{"k": "a"}, {"k": "x"}])
    graph.insert("B", [{"k": "b"}, {"k": "x"}])
    ends = [("A", "a", "B", "b"), ("B", "x", "A", "a"), ("A", "a", "A", "x"), ("B", "b", "B", "x")]
    rows = [{"from": {s: f}, "to": {t: g}, "n": n} for n, (s, f, t, g) in enumerate(ends)]
    graph.insert("Sees", rows)
    pattern = 'match { $a: A { k: "a" } $a <$e:sees> $y } return { $y.@type, $y.k, $e.n }'
    expected = [("A", "x", 2), ("B", "b", 0), ("B", "x", 1)]
    assert sorted(ask(graph, pattern.replace("<$e:sees>", "$e:<sees>"))) == expected
    pattern = 'match { $a: A { k: "a" } $a <sees>{1,2} $y } return { $y.@type, $y.k }'
    assert sorted(ask(graph, pattern)) == [("A", "x"), ("B", "b"), ("B", "x")]


def test_describe_shows_samples_of_edges(graph: LocalGraph) -> None:
    outline = graph.describe(types=["Person", "City"], samples=2)
    assert "since: I32? /* e.g. 2001 */" in outline.text
    assert "e.g." not in graph.describe(types=["Person", "City"]).text


def test_a_pair_that_cannot_be_told_is_refused(graph: LocalGraph, tmp_path: Path) -> None:
    with pytest.raises(ConstraintViolation, match=r"row 2: edge IsLocatedIn .* cannot be told"):
        graph.insert(
            "IsLocatedIn",
            [{"from": {"Person": "bob"}, "to": {"City": "Turin"}}, {"from": "bob", "to": "Turin"}],
        )
    with pytest.raises(ConstraintViolation, match="it has no such pair of ends"):
        graph.insert("IsLocatedIn", [{"from": {"City": "Turin"}, "to": {"City": "Turin"}}])
    with pytest.raises(LoadRejected, match="cannot be told, 'from' is 'ada'") as caught:
        put(graph, tmp_path, '{"edge":"IsLocatedIn","from":"ada","to":"Turin"}\n')
    assert (caught.value.faults[0].type_name, caught.value.faults[0].line) == ("IsLocatedIn", 1)
    with pytest.raises(QueryInvalid, match="has ends of several types"):
        graph.mutate('query q() { insert IsLocatedIn { from: "ada", to: "Turin" } }')
    (tmp_path / "t.csv").write_text("src,dst\nada,Turin\n")
    with pytest.raises(LoadRejected, match="nothing says the type of 'from' of IsLocatedIn, which"):
        graph.load(tmp_path / "t.csv", edge="IsLocatedIn", mode="append")
    with pytest.raises(ConstraintViolation, match="src 'nobody' not found in Person"):
        graph.insert("IsLocatedIn", [{"from": {"Person": "nobody"}, "to": {"City": "Turin"}}])
    assert located(graph) == [IN_TURIN, POST]


@pytest.mark.parametrize("quoted", ["ada", '"a""da"'])
def test_a_table_says_the_types_of_the_ends_row_by_row(
    graph: LocalGraph, tmp_path: Path, quoted: str
) -> None:
    graph.insert("Person", [{"name": 'a"da'}])
    path = tmp_path / "t.csv"
    path.write_text(
        f"src_type,src,to_type,dst\nPerson,{quoted},Country,Italy\nPost,p1,City,Turin\n"
    )
    graph.load(path, edge="isLocatedIn", mode="merge")
    added = [
        ("IsLocatedIn.Person.Country", quoted.strip('"').replace('""', '"'), "Italy"),
        ("IsLocatedIn.Post.City", "p1", "Turin"),
    ]
    assert located(graph) == sorted([*added, IN_TURIN, POST])
    for wrong in ("City", "", "person"):
        path.write_text(
            f"from_type,src,to_type,dst\nPerson,ada,City,Turin\n{wrong},ada,City,Turin\n"
        )
        with pytest.raises(LoadRejected, match="no such pair of ends: 'from_type' is") as caught:
            graph.load(path, edge="IsLocatedIn", mode="merge")
        assert [each.line for each in caught.value.faults] == [3]


def test_a_constant_or_a_lookup_says_the_type_of_an_end(graph: LocalGraph, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("from,name\nbob,Italy\n")
    given = Input(
        str(path),
        edge="IsLocatedIn",
        mapping={"to": "name"},
        constants={"from_type": "Person"},
        lookups={"to": "Country.name"},
    )
    graph.load(given, mode="append")
    assert located(graph) == [IN_TURIN, ("IsLocatedIn.Person.Country", "bob", "Italy"), POST]
    with pytest.raises(LoadRejected, match="'from' of IsLocatedIn is a node of type Comment"):
        graph.load(replace(given, constants={"from_type": "City"}), mode="append")


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_an_export_loads_again_by_the_one_name(
    graph: LocalGraph, tmp_path: Path, format_: str
) -> None:
    before = located(graph)
    graph.export(tmp_path / "out", format=format_, types=["IsLocatedIn"])
    graph.delete("IsLocatedIn", ['["ada","Turin"]', '["p1","Italy"]'])
    assert located(graph) == []
    if format_ == "jsonl":
        graph.load(tmp_path / "out", mode="append")
    else:
        graph.load(
            f"{tmp_path}/out/edges/IsLocatedIn.*/*.parquet", edge="IsLocatedIn", mode="append"
        )
    assert located(graph) == before


def test_changes_are_found_by_the_name_of_the_edge(graph: LocalGraph) -> None:
    before = graph.commits()[0].id
    graph.delete("IsLocatedIn.Person.City", ['["ada","Turin"]'])
    diff = graph.diff(before, "main", types=["IsLocatedIn"]).changes()
    assert [each.type_name for each in diff] == ["IsLocatedIn.Person.City"]
    with pytest.raises(TypeUnknown):
        graph.diff(before, "main", types=["IsLocated"])


def test_a_plain_edge_becomes_one_with_several_ends_and_keeps_its_rows(tmp_path: Path) -> None:
    plain = "node A { k: String @key } node B { k: String @key } edge Sees: A -> B"
    graph = omnigraph.init(tmp_path / "g", plain)
    graph.insert("A", [{"k": "a"}])
    graph.insert("B", [{"k": "b"}])
    graph.insert("Sees", [{"from": "a", "to": "b"}])
    graph.apply_schema(plain.replace("A -> B", "A | B -> B"))
    graph.insert("Sees", [{"from": {"B": "b"}, "to": "b"}])
    found = ask(graph, "match { $x: A | B  $x sees $y } return { $x.@type, $y.k } order { $x.k }")
    assert found == [("A", "b"), ("B", "b")]


def test_the_reference_refuses_such_a_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_refusal(SCHEMA) is not None
    assert encode_ir(compile_schema(Source("s.pg", SCHEMA)))["ir_version"] != KNOWN_IR_VERSION
    with pytest.raises(UsageError, match=r"not portable: .* edge:ReplyOf: ends of several types"):
        omnigraph.init(tmp_path / "no", SCHEMA, portable=True)
    assert not (tmp_path / "no").exists()
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "q.gq").write_text("query q() { match { $p: Person } return { $p.name } }")
    capsys.readouterr()
    run(["lint", "--schema", str(tmp_path / "s.pg"), "--query", str(tmp_path / "q.gq")])
    told = capsys.readouterr()
    assert "L301" in told.out
    assert "Comment -> Comment | Post" in told.out


# ── counting across pairs ────────────────────────────────────────────────────────────────────────

COUNTED = """
node Person { name: String @key }
node City { name: String @key }
node Country { name: String @key }
edge LivesIn: Person -> City | Country @card(0..1)
"""
TURIN = {"from": "ada", "to": {"City": "Turin"}}
ITALY = {"from": "ada", "to": {"Country": "Italy"}}


@pytest.fixture
def counted(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "counted", COUNTED)
    for type_name, name in (("Person", "ada"), ("City", "Turin"), ("Country", "Italy")):
        made.insert(type_name, [{"name": name}])
    return made


def test_the_edges_of_all_pairs_count_together(counted: LocalGraph, tmp_path: Path) -> None:
    refused = r"@card violation on edge LivesIn: 'ada' has 2 \(max 1\)"
    with pytest.raises(ConstraintViolation, match=refused):
        counted.insert("LivesIn", [TURIN, ITALY])
    counted.insert("LivesIn", [TURIN])
    with pytest.raises(ConstraintViolation, match=refused):
        counted.insert("LivesIn", [ITALY])
    for mode in ("append", "merge"):
        (tmp_path / "l.jsonl").write_text(json.dumps({"edge": "LivesIn", **ITALY}))
        with pytest.raises(LoadRejected, match=refused) as caught:
            counted.load(tmp_path / "l.jsonl", mode=mode)
        assert caught.value.faults[0].line == 1
    counted.mutate('query q() { delete LivesIn where from = "ada" }')
    counted.insert("LivesIn", [ITALY])


def test_two_branches_that_add_an_edge_of_two_pairs_are_in_conflict(counted: LocalGraph) -> None:
    counted.branches.create("other")
    counted.insert("LivesIn", [TURIN], branch="other")
    counted.insert("LivesIn", [ITALY])
    with pytest.raises(MergeConflicts) as caught:
        counted.merge("other", into="main")
    (conflict,) = caught.value.conflicts
    assert (conflict.kind, conflict.row_id) == ("cardinality_violation", "ada")
    counted.merge("other", into="main", on_conflict="theirs")
    found = ask(counted, "match { $p: Person  $p livesIn $x } return { $x.name }")
    assert found == [("Turin",)]


def test_two_writers_cannot_each_add_the_last_edge(counted: LocalGraph) -> None:
    stores = open_stores(counted.uri, REAL, durability=Durability.RELAXED)
    done: list[str] = []

    def observe(step: str) -> None:
        if step == "publish" and not done:
            done.append(step)
            counted.insert("LivesIn", [ITALY])

    schema = compile_active_schema(COUNTED, name="<schema>")
    (task,) = read_rows(schema.catalog.pairs("LivesIn"), [TURIN], Existing.REFUSE, REAL.new_id)
    context = WriteContext(stores, Bases(stores), observe=observe)
    with pytest.raises(ConstraintViolation, match="'ada' has 2"):
        carry_out(context, schema, task, WriteRequest(MAIN))
    assert done
    found = ask(counted, "match { $p: Person  $p livesIn $x } return { $x.name }")
    assert found == [("Italy",)]
