"""A property that is called `id`, from the schema to the export: the system's id is `@id`."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import encode_ir
from omnigraph.catalog.migration.steps import describe_step, encode_step
from omnigraph.catalog.portability import find_extensions
from omnigraph.cli.app import run
from omnigraph.errors import (
    ConstraintViolation,
    KeyConflict,
    LoadRejected,
    MergeConflicts,
    MigrationUnsupported,
    OmnigraphError,
    ResolutionsInvalid,
    UsageError,
)
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.embedded.merging import conflict_file
from omnigraph.server.runtime.settings import Flags
from support.reference_grammar import KNOWN_IR_VERSION
from support.serving import running

PLAIN = "node Note { text: String }\n"
SCHEMA = """
node Person { id: I64 @key  name: String @index  age: I32?  @range(id, 0..1000) }
node Note { id: String? @index  text: String  scan: Blob? }
edge Knows: Person -> Person { id: String?  since: Date?  @unique(id) }
"""
RECORDS = [
    {"edge": "Knows", "from": "1", "to": "2", "data": {"@id": "k", "id": "one", "since": None}},
    {"type": "Note", "data": {"@id": "own", "id": "n-1", "scan": "base64:aGk=", "text": "x"}},
    {"type": "Person", "data": {"@id": "1", "age": None, "id": 1, "name": "Ann"}},
    {"type": "Person", "data": {"@id": "2", "age": 40, "id": 2, "name": "Bob"}},
]


def put(graph: LocalGraph, folder: Path, *records: object, mode: str = "merge") -> None:
    path = folder / "input.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    graph.load(path, mode=mode)


def exported(graph: LocalGraph, branch: str = "main") -> list[Any]:
    return [json.loads(line) for line in b"".join(graph.export_lines(branch=branch)).splitlines()]


def read(graph: LocalGraph, text: str, **parameters: object) -> list[dict[str, Any]]:
    return list(graph.query(text, parameters))


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA)
    put(made, tmp_path, *RECORDS)
    return made


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_both_ids_are_read(graph: LocalGraph) -> None:
    found = read(
        graph,
        "query q($i: I64) { match { $p: Person { id: $i }  $p $e:knows $q } "
        "return { $p.id  $p.@id  $e.id as edge  $e.@src as source  $e  $q } }",
        i=1,
    )
    assert found == [
        {
            "p.id": 1,
            "p.@id": "1",
            "edge": "one",
            "source": "1",
            "e": {"@id": "k", "@src": "1", "@dst": "2", "id": "one", "since": None},
            "q": {"@id": "2", "age": 40, "id": 2, "name": "Bob"},
        }
    ]
    assert graph.find("Person", "2") == {"@id": "2", "age": 40, "id": 2, "name": "Bob"}
    assert graph.find("Knows", "k") == {
        "@id": "k", "from": "1", "to": "2", "id": "one", "since": None,
    }  # fmt: skip


def test_filters_indexes_and_text_search_take_the_property(graph: LocalGraph) -> None:
    graph.optimize()
    for condition in ('$n.id = "n-1"', '$n.id >= "n"', 'search($n.id, "n")', '$n.@id = "own"'):
        text = f"query q() {{ match {{ $n: Note  {condition} }} return {{ $n.id as id }} }}"
        assert read(graph, text) == [{"id": "n-1"}], condition
    text = 'query q() { match { $n: Note  $n.id = "own" } return { $n.id } }'
    assert read(graph, text) == []
    plan = graph.explain("query q() { match { $p: Person { id: 2 } } return { $p.name } }")
    assert "look up $p: Person by id = 2" in str(plan)


def test_a_description_says_id(graph: LocalGraph) -> None:
    text = graph.describe(samples=2).text
    assert "id: I64 @key /* e.g. 1, 2 */" in text
    assert "_p_id" not in text


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_mutations_write_the_property(graph: LocalGraph) -> None:
    graph.mutate('query m($i: I64) { insert Person { id: $i  name: "Cy" } }', {"i": 3})
    graph.mutate("query m() { update Person set { age: 7 } where id = 3 }")
    assert graph.find("Person", "3") == {"@id": "3", "age": 7, "id": 3, "name": "Cy"}
    graph.mutate("query m() { delete Person where id = 3 }")
    assert graph.find("Person", "3") is None


def test_rows_spell_the_system_s_id_apart(graph: LocalGraph) -> None:
    graph.upsert("Person", [{"id": 2, "name": "Rob"}])
    assert graph.find("Person", "2") == {"@id": "2", "age": None, "id": 2, "name": "Rob"}
    graph.insert("Note", [{"@id": "mine", "id": "n-2", "text": "y"}, {"id": "n-3", "text": "z"}])
    rows = read(graph, "query q() { match { $n: Note } return { $n.id as id } order { $n.id } }")
    assert [each["id"] for each in rows] == ["n-1", "n-2", "n-3"]
    assert graph.find("Note", "mine") == {"@id": "mine", "id": "n-2", "text": "y"}


@pytest.mark.parametrize(
    ("type_name", "row", "told"),
    [
        ("Person", {"id": "x", "name": "n"}, "Person.id is I64: expected an integer"),
        ("Person", {"id": 5000, "name": "n"}, "@range violation on Person.id '5000'"),
        ("Person", {"name": "n"}, "missing required property 'id' of Person"),
        ("Person", {"id": 9, "@id": "8", "name": "n"}, "the id '8' is not the one the key spells"),
        ("Person", {"id": 9, "_p_id": 8, "name": "n"}, "Person has no property '_p_id'"),
        ("Knows", {"from": "1", "to": "1", "id": "one"}, "@unique violation on Knows.id: 'one'"),
        ("Note", {"@id": 7, "text": "t"}, "Note.@id is an id is a string"),
    ],
)
def test_a_fault_names_the_property(
    graph: LocalGraph, type_name: str, row: dict[str, object], told: str
) -> None:
    with pytest.raises(ConstraintViolation) as caught:
        graph.insert(type_name, [row])
    assert told in str(caught.value)
    assert all(each.property_name != "_p_id" or "_p_id" in row for each in caught.value.violations)


def test_an_existing_key_is_a_conflict(graph: LocalGraph) -> None:
    with pytest.raises(KeyConflict):
        graph.insert("Person", [{"id": 1, "name": "again"}])


def test_a_blob_may_be_called_id(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", "node Scan { id: Blob  name: String @key }")
    graph.insert("Scan", [{"id": b"bytes", "name": "s"}])
    assert graph.blob("node", "Scan", "s", "id").read() == b"bytes"


# ── loading and exporting ────────────────────────────────────────────────────────────────────────


def test_what_is_exported_loads_back(graph: LocalGraph, tmp_path: Path) -> None:
    assert exported(graph) == RECORDS
    graph.export(tmp_path / "all.jsonl")
    copy = omnigraph.init(tmp_path / "copy", SCHEMA)
    copy.load(tmp_path / "all.jsonl", mode="append")
    assert exported(copy) == RECORDS
    graph.export(tmp_path / "tables", format="parquet")
    again = omnigraph.init(tmp_path / "again", SCHEMA)
    for name in ("Person", "Note"):
        again.load(tmp_path / "tables" / "nodes" / name, type=name, mode="append")
    again.load(tmp_path / "tables" / "edges" / "Knows", edge="Knows", mode="append")
    assert exported(again) == RECORDS


def test_a_header_id_is_the_property(graph: LocalGraph, tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text("id,name,age\n10,Dan,1\n11,Eve,\n")
    graph.load(table, type="Person", mode="append")
    table.write_text("@id,id,text\nx-1,n-7,seven\n")
    graph.load(table, type="Note", mode="append")
    table.write_text("from,to,id\n10,11,two\n")
    graph.load(table, edge="Knows", mode="append")
    assert graph.find("Person", "11") == {"@id": "11", "age": None, "id": 11, "name": "Eve"}
    assert graph.find("Note", "x-1") == {"@id": "x-1", "id": "n-7", "text": "seven"}
    rows = read(
        graph, 'query q() { match { $p: Person  $p $e:knows $q  $e.id = "two" } return { $q.id } }'
    )
    assert rows == [{"q.id": 11}]
    table.write_text("id,name\nten,Dan\n12,\n")
    with pytest.raises(LoadRejected) as caught:
        graph.load(table, type="Person", mode="append")
    assert [(each.line, each.property_name) for each in caught.value.faults] == [
        (2, "id"),
        (3, "name"),
    ]
    table.write_text("key,name\n12,Dan\n")
    with pytest.raises(LoadRejected, match="no column feeds 'id' of Person"):
        graph.load(table, type="Person", mode="append", mapping={"name": "name"})


def test_ends_are_looked_up_by_the_property(graph: LocalGraph, tmp_path: Path) -> None:
    table = tmp_path / "k.csv"
    table.write_text("one,other\n2,1\n")
    source = omnigraph.Input(
        table,
        edge="Knows",
        mapping={"from": "one", "to": "other"},
        lookups={"from": "Person.id", "to": "Person.id"},
    )
    graph.load(source, mode="append")
    ends = {(each["from"], each["to"]) for each in exported(graph) if "edge" in each}
    assert ends == {("1", "2"), ("2", "1")}


def test_a_repeated_key_is_named(graph: LocalGraph, tmp_path: Path) -> None:
    row = {"type": "Person", "data": {"id": 5, "name": "n"}}
    with pytest.raises(LoadRejected, match=r"@unique violation on Person\.id: '5'"):
        put(graph, tmp_path, row, row)


# ── branches and history ─────────────────────────────────────────────────────────────────────────


def test_a_conflict_names_the_property_and_is_resolved(graph: LocalGraph, tmp_path: Path) -> None:
    graph.branches.create("side")
    note = {"@id": "own", "text": "x"}
    graph.upsert("Note", [{**note, "id": "theirs"}], branch="side")
    graph.upsert("Note", [{**note, "id": "ours"}])
    file = tmp_path / "conflicts.json"
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("side", into="main", detect="property")
    (conflict,) = caught.value.conflicts
    assert (conflict.property_name, conflict.ours, conflict.theirs) == ("id", "ours", "theirs")
    assert "both branches set 'id'" in conflict.message
    whole = json.loads(
        conflict_file(graph.merge("side", dry_run=True, detect="property"), "property")
    )
    whole["conflicts"][0]["resolution"] = {"value": 4}
    file.write_text(json.dumps(whole))
    with pytest.raises(ResolutionsInvalid, match=r"Note\.id"):
        graph.merge("side", into="main", resolutions=file)
    whole["conflicts"][0]["resolution"] = {"value": "both"}
    file.write_text(json.dumps(whole))
    graph.merge("side", into="main", resolutions=file)
    assert graph.find("Note", "own") == {"@id": "own", "id": "both", "text": "x"}


def test_a_row_written_in_a_file_of_resolutions_keeps_both_ids(
    graph: LocalGraph, tmp_path: Path
) -> None:
    graph.branches.create("side")
    graph.upsert("Person", [{"id": 2, "name": "theirs"}], branch="side")
    graph.upsert("Person", [{"id": 2, "name": "ours"}])
    whole = json.loads(conflict_file(graph.merge("side", dry_run=True), "row"))
    row = {"id": 2, "name": "both", "age": 3}
    assert whole["conflicts"][0]["ours"].keys() == row.keys()
    whole["conflicts"][0]["resolution"] = {"value": row}
    (tmp_path / "conflicts.json").write_text(json.dumps(whole))
    graph.merge("side", resolutions=tmp_path / "conflicts.json")
    assert graph.find("Person", "2") == {"@id": "2", **row}


def test_history_shows_the_property(graph: LocalGraph) -> None:
    before = graph.commits()[0].id
    graph.upsert("Note", [{"@id": "own", "id": "new", "text": "x"}])
    after = graph.commits()[0].id
    (change,) = graph.diff(before, after).changes()
    assert change.id == "own"
    assert change.before is not None
    assert change.after is not None
    assert (change.before.properties["id"], change.after.properties["id"]) == ("n-1", "new")
    origins = {each.name: each.value for each in graph.blame("Note", "own")}
    assert origins == {"id": "new", "scan": None, "text": "x"}


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────


def test_every_route_says_id(graph: LocalGraph, tmp_path: Path) -> None:
    flags = Flags(graphs=(f"g={graph.uri}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        before = remote.commits()[0].id
        cursor = remote.changes(start="now").cursor
        remote.insert("Person", [{"id": 3, "name": "Cyd"}])
        assert remote.find("Person", "3") == graph.find("Person", "3")
        asked = "query q($i: I64) { match { $p: Person { id: $i } } return { $p, $p.id, $p.@id } }"
        assert list(remote.query(asked, {"i": 3})) == list(graph.query(asked, {"i": 3}))
        remote.mutate("query q($i: I64) { update Person set { age: 5 } where id = $i }", {"i": 3})
        put_lines = b'{"type":"Note","data":{"@id":"m","id":"n-2","text":"y"}}\n'
        (tmp_path / "n.jsonl").write_bytes(put_lines)
        remote.load(tmp_path / "n.jsonl", mode="append")
        assert b"".join(remote.export_lines()) == b"".join(graph.export_lines())
        assert put_lines.replace(b'"text"', b'"scan":null,"text"') in b"".join(
            remote.export_lines()
        )
        told = [each for block in remote.changes(cursor).blocks for each in block.changes]
        assert [(each.id, each.after and each.after.properties["id"]) for each in told] == [
            ("3", 3),
            ("3", 3),
            ("m", "n-2"),
        ]
        assert list(remote.diff(before, "main").changes()) == list(
            graph.diff(before, "main").changes()
        )
        assert [each.name for each in remote.blame("Person", "3")] == ["age", "id", "name"]
        remote.delete("Note", ["m"])
        remote.upsert("Person", [{"id": 3, "name": "Cyd", "age": 6}])
        found = remote.find("Person", "3")
        assert found == {"@id": "3", "id": 3, "name": "Cyd", "age": 6}
        assert remote.find("Note", "m") is None


# ── migration ────────────────────────────────────────────────────────────────────────────────────


def test_the_property_is_added_renamed_and_dropped(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", PLAIN)
    put(graph, tmp_path, {"type": "Note", "data": {"id": "own", "text": "x"}})
    added = graph.plan_schema("node Note { id: String  text: String }")
    assert not added.migration.supported
    with pytest.raises(MigrationUnsupported, match="property 'id' of node 'Note' is required"):
        graph.apply_schema("node Note { id: String  text: String }")
    graph.apply_schema("node Note { id: String  text: String }", backfill={"Note.id": "upper(id)"})
    assert exported(graph) == [
        {"type": "Note", "data": {"@id": "own", "id": "OWN", "text": "x"}},
    ]
    renamed = 'node Note { code: String @rename_from("id")  text: String }'
    (step,) = graph.plan_schema(renamed).migration.steps
    assert describe_step(step) == "rename property 'id' of node 'Note' to 'code'"
    assert encode_step(step)["from"] == "id"
    graph.apply_schema(renamed)
    assert exported(graph) == [
        {"type": "Note", "data": {"id": "own", "code": "OWN", "text": "x"}},
    ]
    graph.apply_schema('node Note { id: String @rename_from("code")  text: String }')
    assert exported(graph)[0]["data"]["id"] == "OWN"
    graph.apply_schema(PLAIN)
    assert exported(graph) == [{"type": "Note", "data": {"id": "own", "text": "x"}}]


# ── the reference ────────────────────────────────────────────────────────────────────────────────


def test_the_reference_refuses_the_canonical_form() -> None:
    catalog = compile_schema(Source("s", SCHEMA))
    assert encode_ir(catalog)["ir_version"] != KNOWN_IR_VERSION
    assert {each.entity for each in find_extensions(catalog)} == {
        "node:Note", "node:Person", "edge:Knows",
    }  # fmt: skip
    assert encode_ir(compile_schema(Source("s", PLAIN)))["ir_version"] == KNOWN_IR_VERSION


def test_portability_can_be_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    Path("s.pg").write_text("node Person { id: I64 @key }")
    told = "the reference 0.8 cannot open a graph with this schema: node:Person: a property called"
    assert run(["init", "p", "--schema", "s.pg", "--portable"]) == 2
    assert told in capsys.readouterr().err
    with pytest.raises(UsageError, match="not portable"):
        omnigraph.init("p", "node Person { id: I64 @key }", portable=True)
    assert run(["init", "p", "--schema", "s.pg"]) == 0
    assert told in capsys.readouterr().err


def test_a_type_cannot_take_the_column_for_itself(tmp_path: Path) -> None:
    with pytest.raises(OmnigraphError, match="_p_id has a name that the storage keeps for itself"):
        omnigraph.init(tmp_path / "g", "node Person { _p_id: I64 }")
