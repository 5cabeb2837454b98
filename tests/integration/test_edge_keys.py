"""Edges with a key: one edge for one key, whoever writes it and how often."""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import encode_ir
from omnigraph.catalog.portability import find_extensions
from omnigraph.cli.app import run
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.errors import KeyConflict, LoadRejected, MigrationUnsupported, UsageError
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from support.reference_grammar import KNOWN_IR_VERSION, find_refusal

PLAIN = """
node Person { name: String @key }
edge Knows: Person -> Person { since: Date  weight: F64? }
"""
KEYED = PLAIN.replace("-> Person {", "-> Person @key(@src, @dst) {")
DATED = PLAIN.replace("-> Person {", "-> Person @key(src, dst, since) {")
PEOPLE = '{"type":"Person","data":{"name":"a\\"b"}}\n{"type":"Person","data":{"name":"eve"}}\n'
ID = '["a\\"b","eve"]'


def edge(since: str = "2024-05-01", **data: object) -> str:
    whole = {"edge": "Knows", "from": 'a"b', "to": "eve", "data": {"since": since, **data}}
    return f"{json.dumps(whole)}\n"


def put(
    graph: LocalGraph, folder: Path, text: str, mode: str = "merge", branch: str = "main"
) -> None:
    path = folder / "input.jsonl"
    path.write_text(text)
    graph.load(path, mode=mode, branch=branch)


def edges(graph: LocalGraph, branch: str = "main") -> list[dict[str, object]]:
    lines = b"".join(graph.export_lines(types=["Knows"], branch=branch)).splitlines()
    return [json.loads(line)["data"] for line in lines]


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", KEYED)
    put(made, tmp_path, PEOPLE)
    return made


INSERT = 'query q($d: Date) { insert Knows { from: "a\\"b" to: "eve" since: $d } }'


def test_a_second_insert_replaces(graph: LocalGraph) -> None:
    graph.mutate(INSERT, {"d": "2024-05-01"})
    graph.mutate(INSERT, {"d": "2024-05-02"})
    assert [(each["id"], each["since"]) for each in edges(graph)] == [(ID, "2024-05-02")]


def test_a_strict_insert_of_an_existing_key_is_a_conflict(graph: LocalGraph) -> None:
    row = {"from": 'a"b', "to": "eve", "since": "2024-05-01"}
    graph.insert("Knows", [row])
    with pytest.raises(KeyConflict) as caught:
        graph.insert("Knows", [row])
    assert caught.value.ids == (ID,)
    graph.upsert("Knows", [{**row, "weight": 2.0}])
    assert [each["weight"] for each in edges(graph)] == [2.0]


def test_a_merge_load_upserts_and_an_append_is_refused(graph: LocalGraph, tmp_path: Path) -> None:
    put(graph, tmp_path, edge(weight=1))
    put(graph, tmp_path, edge(weight=2))
    assert [(each["id"], each["weight"]) for each in edges(graph)] == [(ID, 2.0)]
    with pytest.raises(KeyConflict):
        put(graph, tmp_path, edge(), mode="append")
    with pytest.raises(LoadRejected, match=r"@unique violation on Knows\.\(src, dst\)"):
        put(graph, tmp_path, edge() + edge())
    with pytest.raises(LoadRejected, match="is not the one the key spells"):
        put(graph, tmp_path, edge(id="mine"))


def test_tables_and_records_spell_the_same_ids(graph: LocalGraph, tmp_path: Path) -> None:
    put(graph, tmp_path, '{"type":"Person","data":{"name":"bob"}}\n')
    (tmp_path / "k.csv").write_text("src,dst,since\neve,bob,2024-05-01\nbob,eve,2024-05-01\n")
    graph.load(tmp_path / "k.csv", edge="Knows", mode="append")
    assert [each["id"] for each in edges(graph)] == ['["bob","eve"]', '["eve","bob"]']


def test_what_is_exported_loads_back(graph: LocalGraph, tmp_path: Path) -> None:
    put(graph, tmp_path, edge())
    graph.export(tmp_path / "all.jsonl")
    copy = omnigraph.init(tmp_path / "copy", KEYED)
    copy.load(tmp_path / "all.jsonl", mode="append")
    assert list(copy.export_lines()) == list(graph.export_lines())


def test_two_branches_that_add_one_edge_agree(graph: LocalGraph, tmp_path: Path) -> None:
    for branch in ("one", "two"):
        graph.branches.create(branch)
        put(graph, tmp_path, edge(), branch=branch)
        graph.merge(branch, into="main")
    assert [each["id"] for each in edges(graph)] == [ID]


def test_properties_of_a_key_tell_edges_apart(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", DATED)
    put(graph, tmp_path, PEOPLE)
    put(graph, tmp_path, edge("2024-05-01") + edge("2024-05-02"))
    assert [each["id"] for each in edges(graph)] == [
        '["a\\"b","eve","19844"]',
        '["a\\"b","eve","19845"]',
    ]


# ── migration ────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_added_and_history_says_so(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", PLAIN)
    put(graph, tmp_path, PEOPLE + edge(id="k1"))
    before = graph.commits()[0].id
    plan = graph.plan_schema(KEYED)
    assert [(each.key, each.effect.value) for each in plan.effects] == [("edge:Knows", "rekeyed")]
    result = graph.apply_schema(KEYED)
    assert result.commit is not None
    assert [each["id"] for each in edges(graph)] == [ID]
    changed = [(each.op.value, each.id) for each in graph.diff(before, result.commit.id).changes()]
    assert changed == [("insert", ID), ("delete", "k1")]
    page = graph.changes(start=f"after:{before}")
    told = [(each.op.value, each.id) for block in page.blocks for each in block.changes]
    assert sorted(told) == sorted(changed)
    assert result.commit.row_counts == RowCounts(inserted=1, deleted=1)
    assert {each.commit and each.commit.id for each in graph.blame("Knows", ID)} == {
        result.commit.id
    }
    graph.mutate(INSERT, {"d": "2024-05-02"})
    assert len(edges(graph)) == 1


def test_a_key_that_edges_share_is_refused_and_they_are_named(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", PLAIN)
    put(graph, tmp_path, PEOPLE + edge(id="k1") + edge("2024-05-02", id="k2"))
    before = graph.snapshot()
    with pytest.raises(MigrationUnsupported, match=r"several edges have the key .*\(k1, k2\)"):
        graph.apply_schema(KEYED)
    assert graph.snapshot() == before
    graph.apply_schema(DATED)
    assert len(edges(graph)) == 2


def test_a_member_of_a_new_key_is_there_first(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", PLAIN)
    wanted = KEYED.replace("@dst)", "@dst, kind)").replace(
        "weight", "kind: I32 @default(1)  weight"
    )
    with pytest.raises(MigrationUnsupported, match="'kind' is new"):
        graph.apply_schema(wanted)
    graph.apply_schema(wanted.replace("@key(@src, @dst, kind)", ""))
    graph.apply_schema(wanted)


# ── the reference ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [KEYED, DATED, PLAIN.replace("}", "@key(src, dst) }", 2)[1:]])
def test_the_reference_refuses_such_a_schema(text: str) -> None:
    catalog = compile_schema(Source("s", text.replace("@key @key(src, dst)", "@key")))
    assert find_refusal(text) is not None
    assert encode_ir(catalog)["ir_version"] != KNOWN_IR_VERSION


def test_a_schema_without_extensions_is_the_reference_s() -> None:
    catalog = compile_schema(Source("s", PLAIN))
    assert find_refusal(PLAIN) is None
    assert find_extensions(catalog) == ()
    assert encode_ir(catalog)["ir_version"] == KNOWN_IR_VERSION


def test_portability_is_told_once_and_can_be_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    Path("plain.pg").write_text(PLAIN)
    Path("keyed.pg").write_text(KEYED)
    Path("more.pg").write_text(KEYED.replace("weight", "note: String?  weight"))
    told = "the reference 0.8 cannot open a graph with this schema: edge:Knows: @key(src, dst)"
    assert run(["init", "k", "--schema", "keyed.pg"]) == 0
    assert told in capsys.readouterr().err
    assert run(["init", "p", "--schema", "keyed.pg", "--portable"]) == 2
    assert told in capsys.readouterr().err
    with pytest.raises(UsageError, match="not portable"):
        omnigraph.init("p", KEYED, portable=True)
    assert run(["init", "p", "--schema", "plain.pg", "--portable"]) == 0
    assert "reference" not in capsys.readouterr().err
    assert run(["schema", "apply", "p", "--schema", "keyed.pg", "--portable"]) == 2
    capsys.readouterr()
    assert run(["schema", "apply", "p", "--schema", "keyed.pg"]) == 0
    assert told in capsys.readouterr().err
    assert run(["schema", "apply", "p", "--schema", "more.pg"]) == 0
    assert "reference" not in capsys.readouterr().err
    Path("q.gq").write_text("query q() { match { $p: Person } return { $p.name } }")
    assert run(["lint", "--schema", "keyed.pg", "--query", "q.gq", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["severity"], each["code"]) for each in findings] == [("info", "L301")]
