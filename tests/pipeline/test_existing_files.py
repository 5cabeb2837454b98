"""Files that exist: without headers, with repeated ones, stray quotes, dates of their own, and
edges whose ends are known by something else than their ids. Both engines read them alike.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.catalog.fitting import Misread
from omnigraph.catalog.types import Scalar
from omnigraph.engine.load.bulk import BulkLoader, LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.errors import FileUnreadable, KeyConflict, LoadRejected, RecipeInvalid
from omnigraph.pipeline.local_load import LocalLoader
from omnigraph.pipeline.sources.moments import MomentPattern, PatternUnknown, check_pattern
from support.loading import LARGE, SMALL, new_loader, person
from support.mutations import read_tables
from support.writing import stores_at

LOCALS: Final = (LocalLoader(), LocalLoader(small_bytes=0, split_bytes=20, bucket_count=2))
SCHEMA: Final = """
node Person { name: String @key  age: I32?  mail: String? @unique  born: Date?  seen: DateTime? }
edge Knows: Person -> Person { since: Date?  kind: String? }
"""
KEYED: Final = SCHEMA.replace("-> Person {", "-> Person @key(src, dst) {")


def outcome(
    folder: Path, bulk: BulkLoader, mode: LoadMode, *sources: Input, schema: str = SCHEMA
) -> object:
    """The rows after a load onto ada and eve, or its faults."""
    folder.mkdir()
    loader = new_loader(folder, LocalLoader(), schema)
    loader.put(LoadMode.APPEND, person("ada", mail="a@x"), person("eve", mail="e@x"))
    try:
        replace(loader, bulk=bulk).load(mode, *sources)
    except LoadRejected as rejected:
        return [
            (each.kind, each.message, Path(each.file or "").name, each.line, each.value)
            for each in rejected.faults
        ]
    except KeyConflict as conflict:
        return conflict.type_name, conflict.ids
    found = loader.tables()
    if schema is KEYED:
        return found["Person"], found["Knows"]
    return found["Person"], sorted(
        (row["src"], row["dst"], row["since"], row["kind"]) for row in found["Knows"].values()
    )


def local(folder: Path, mode: LoadMode, *sources: Input) -> object:
    """What the local engine makes of it, however it is cut."""
    found = [
        outcome(folder / f"local-{number}", bulk, mode, *sources)
        for number, bulk in enumerate(LOCALS)
    ]
    assert found[0] == found[1]
    return found[0]


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def rows(outcome: object) -> dict[str, Any]:
    assert isinstance(outcome, tuple), outcome
    people, edges = outcome
    return {"Person": {name: row for name, row in people.items() if name != "eve"}, "Knows": edges}


# ── headers, quotes, constants ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("bob,7\ncy,8\n", {"header": (), "mapping": {"name": "1", "age": "2"}}),
        ("\ufeffbob,7\ncy,8\n", {"header": (), "mapping": {"name": "1", "age": "2"}}),
        ("bob,7\ncy,8\n", {"header": ("name", "age")}),
        ("who,who\nbob,7\ncy,8\n", {"mapping": {"name": "1", "age": "2"}}),
        ("who,who\nbob,7\ncy,8\n", {"header": ("name", "age"), "skip": 1}),
        ('# "a note\n"\nx\nname,age\nbob,7\ncy,8\n', {"skip": 2}),
        ("name,age,x,x\nbob,7,1,2\ncy,8,1,2\n", {"mapping": {"age": "age"}}),
    ],
)
def test_columns_have_a_name_or_a_place(tmp_path: Path, text: str, how: dict[str, object]) -> None:
    source = Input(write(tmp_path, "a.csv", text), type="Person", **how)  # type: ignore[arg-type] # fields of an Input
    people = rows(local(tmp_path, LoadMode.MERGE, source))["Person"]
    assert {name: row["age"] for name, row in people.items()} == {"ada": None, "bob": 7, "cy": 8}


def test_a_record_has_as_many_cells_as_there_are_names(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "bob,7\ncy\n")
    assert local(tmp_path, LoadMode.MERGE, Input(path, type="Person", header=("name", "age"))) == [
        ("record", "expected 2 cells, found 1", "a.csv", 2, None)
    ]


def test_a_file_without_a_header_may_be_empty(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "")
    source = Input(path, type="Person", header=("name",))
    assert set(rows(local(tmp_path, LoadMode.MERGE, source))["Person"]) == {"ada"}
    with pytest.raises(FileUnreadable, match="it has no header"):
        outcome(tmp_path / "named", LOCALS[0], LoadMode.MERGE, Input(path, type="Person"))


def test_without_quotes_a_quote_is_a_character(tmp_path: Path) -> None:
    text = 'name|mail\n6" nail|"a\n"b"|x"\n'
    source = Input(write(tmp_path, "a.csv", text), type="Person", delimiter="|", is_quoted=False)
    people = rows(local(tmp_path, LoadMode.MERGE, source))["Person"]
    assert {name: row["mail"] for name, row in people.items()} == {
        "ada": "a@x",
        '6" nail': '"a',
        '"b"': 'x"',
    }


def test_a_constant_feeds_every_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "src,dst\nada,eve\neve,ada\n")
    source = Input(path, edge="Knows", constants={"kind": "friend", "since": "2024-05-01"})
    assert rows(local(tmp_path, LoadMode.MERGE, source))["Knows"] == [
        ("ada", "eve", 19844, "friend"),
        ("eve", "ada", 19844, "friend"),
    ]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"constants": {"age": "x"}}, "the constant of Person.age: expected an integer"),
        ({"constants": {"agee": "1"}}, "Person has no property 'agee'; did you mean 'age'?"),
        (
            {"constants": {"name": "x"}, "mapping": {"name": "name"}},
            "'name' of Person is fed twice",
        ),
        ({"patterns": {"age": "%Y"}}, "a pattern is for Date and DateTime, and Person.age is I32?"),
        ({"patterns": {"born": "%d"}}, "it names neither a day"),
        ({"lookups": {"from": "Person.mail"}}, "only the ends of edges are looked up"),
        ({"mapping": {"name": "3"}}, "there is no column '3'"),
    ],
)
def test_what_does_not_fit_is_told_before_any_row_is_read(
    tmp_path: Path, how: dict[str, object], message: str
) -> None:
    source = Input(write(tmp_path, "a.csv", "name\nbob\n"), type="Person", **how)  # type: ignore[arg-type] # fields of an Input
    found = local(tmp_path, LoadMode.MERGE, source)
    assert isinstance(found, list)
    assert message in found[0][1]


# ── moments ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "text", "ms"),
    [
        ("%d.%m.%Y", "1.5.2024", 19844 * 86_400_000),
        ("%Y%m%d%H%M%S%f", "20240501010203456", 19844 * 86_400_000 + 3_723_456),
        ("%d %b %Y %I:%M %p", "01 May 2024 12:30 AM", 19844 * 86_400_000 + 1_800_000),
        ("%B %d, %Y", "may 01, 2024", 19844 * 86_400_000),
        ("%Y-%m-%d %H:%M %z", "2024-05-01 01:00 +0100", 19844 * 86_400_000),
        ("%s", "-1", -1000),
        ("%Q", "1714521600000", 1_714_521_600_000),
    ],
)
def test_moments_are_read_by_their_pattern(pattern: str, text: str, ms: int) -> None:
    assert MomentPattern(pattern, Scalar.DATETIME).read(text) == ms
    assert MomentPattern(pattern, Scalar.DATE).read(text) == ms // 86_400_000


@pytest.mark.parametrize("text", ["31.02.2024", "1.5.24", "2024-05-01", "", "1.5.2024 "])
def test_a_text_that_differs_from_its_pattern_is_misread(text: str) -> None:
    assert isinstance(MomentPattern("%d.%m.%Y", Scalar.DATE).read(text), Misread)


@pytest.mark.parametrize(
    "pattern", ["%Y", "%Y-%m", "%d.%m.%Y %M", "%d.%m.%Y %I", "%x", "%Y%Y", "%"]
)
def test_a_pattern_that_names_no_moment_is_refused(pattern: str) -> None:
    with pytest.raises(PatternUnknown):
        check_pattern(pattern)


def test_moments_that_are_misread_are_faults_with_their_lines(tmp_path: Path) -> None:
    text = "name,born,seen\nbob,1.5.2024,1714521600\ncy,2024-05-01,\ndan,,x\n"
    patterns = {"born": "%d.%m.%Y", "seen": "%s"}
    path = write(tmp_path, "a.csv", text)
    told = "does not follow '%d.%m.%Y': it is spelled otherwise"
    assert local(tmp_path, LoadMode.MERGE, Input(path, type="Person", patterns=patterns)) == [
        (
            "value",
            f"Person.born is Date?: '2024-05-01' {told}",
            "a.csv",
            3,
            "2024-05-01",
        ),
        (
            "value",
            "Person.seen is DateTime?: 'x' does not follow '%s': it is spelled otherwise",
            "a.csv",
            4,
            "x",
        ),
    ]
    Path(path).write_text("name,born,seen\nbob,1.5.2024,1714521600\n")
    found = rows(local(tmp_path / "again", LoadMode.MERGE, replace_patterns(path, patterns)))
    bob = found["Person"]["bob"]
    assert (bob["born"], bob["seen"]) == (19844, 1_714_521_600_000)


def replace_patterns(path: str, patterns: dict[str, str]) -> Input:
    Path(path).parent.joinpath("again").mkdir(exist_ok=True)
    return Input(path, type="Person", patterns=patterns)


# ── lookups ──────────────────────────────────────────────────────────────────────────────────────

BY_MAIL: Final = {"from": "Person.mail", "to": "Person.mail"}


def edges_by_mail(folder: Path, text: str) -> Input:
    path = write(folder, "knows.csv", text)
    return Input(path, edge="Knows", mapping={"from": "a", "to": "b"}, lookups=BY_MAIL)


def test_ends_are_found_among_the_rows_that_come_and_those_that_are_there(tmp_path: Path) -> None:
    edges = edges_by_mail(tmp_path, "a,b\na@x,b@x\nb@x,e@x\n")
    people = Input(write(tmp_path, "people.csv", "name,mail\nbob,b@x\n"), type="Person")
    found = rows(local(tmp_path, LoadMode.MERGE, edges, people))
    assert [(one, other) for one, other, *_ in found["Knows"]] == [("ada", "bob"), ("bob", "eve")]


def test_a_row_that_is_replaced_is_found_by_what_it_has_now(tmp_path: Path) -> None:
    edges = edges_by_mail(tmp_path, "a,b\nnew@x,e@x\na@x,e@x\n")
    people = Input(write(tmp_path, "people.csv", "name,mail\nada,new@x\n"), type="Person")
    assert local(tmp_path, LoadMode.MERGE, people, edges) == [
        (
            "value",
            "Knows.from is looked up: no Person has the mail 'a@x'",
            "knows.csv",
            3,
            "a@x",
        )
    ]


def test_a_value_that_several_nodes_have_finds_none(tmp_path: Path) -> None:
    path = write(tmp_path, "knows.csv", "a,b\n7,ada\n")
    edges = Input(
        path, edge="Knows", mapping={"from": "a", "to": "b"}, lookups={"from": "Person.age"}
    )
    people = Input(write(tmp_path, "people.csv", "name,age\nbob,7\ncy,7\n"), type="Person")
    found = local(tmp_path, LoadMode.MERGE, people, edges)
    assert isinstance(found, list)
    assert found[0][1] == "Knows.from is looked up: several Person have the age 7"


def test_an_overwrite_finds_only_what_it_brings(tmp_path: Path) -> None:
    edges = edges_by_mail(tmp_path, "a,b\nb@x,a@x\n")
    people = Input(write(tmp_path, "people.csv", "name,mail\nbob,b@x\n"), type="Person")
    found = local(tmp_path, LoadMode.OVERWRITE, people, edges)
    assert isinstance(found, list)
    assert found[0][1] == "Knows.to is looked up: no Person has the mail 'a@x'"


def test_a_wrong_node_is_the_only_fault_while_nothing_can_be_looked_up(tmp_path: Path) -> None:
    edges = edges_by_mail(tmp_path, "a,b\nb@x,a@x\n")
    people = Input(write(tmp_path, "people.csv", "name,mail,age\nbob,b@x,old\n"), type="Person")
    found = local(tmp_path, LoadMode.MERGE, people, edges)
    assert isinstance(found, list)
    assert [(each[2], each[3]) for each in found] == [("people.csv", 2)]


# ── on Spark ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("bulk", [SMALL, LARGE])
@pytest.mark.parametrize("text", ["a;b;1.5.2024;\na@x;b@x;2.5.2024;\n", "a@x;b@x;x;\nq@x;e@x;;\n"])
def test_spark_makes_the_same_of_it(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
    bulk: BulkLoader,
    text: str,
) -> None:
    edges = Input(
        write(tmp_path, "knows.csv", text),
        edge="Knows",
        header=("a", "b", "when", "rest"),
        skip=int(text.startswith("a;")),
        delimiter=";",
        is_quoted=False,
        mapping={"from": "a", "to": "b", "since": "3"},
        lookups=BY_MAIL,
        constants={"kind": "friend"},
        patterns={"since": "%d.%m.%Y"},
    )
    people = Input(write(tmp_path, "people.csv", "name,mail\nbob,b@x\n"), type="Person")
    expected = local(tmp_path, LoadMode.MERGE, edges, people)
    assert outcome(tmp_path / "spark", bulk, LoadMode.MERGE, edges, people) == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.MERGE])
@pytest.mark.parametrize("text", ["ada,eve\neve,ada\n", "ada,eve\nada,eve\n"])
def test_spark_makes_the_same_of_keyed_edges(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
    mode: LoadMode,
    text: str,
) -> None:
    source = Input(write(tmp_path, "k.csv", text), edge="Knows", header=("src", "dst"))
    bulks: tuple[BulkLoader, ...] = (*LOCALS, SMALL, LARGE)
    found = [
        outcome(tmp_path / f"g{number}", bulk, mode, source, schema=KEYED)
        for number, bulk in enumerate(bulks)
    ]
    assert all(each == found[0] for each in found)
    assert isinstance(found[0], list) == (text.count("ada,eve") == 2)


@pytest.fixture
def place(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    monkeypatch.chdir(tmp_path)
    omnigraph.init("g", SCHEMA)
    Path("people.csv").write_text("no,who,country\n1,ada,PT\n2,bob,US\n")
    Path("mails.csv").write_text("no,mail\n1,a@x\n")
    Path("knows.csv").write_text("1|2|1\n1|2|9\n")
    return tmp_path


RECIPE: Final = """
mode: merge
inputs:
  - name: mails
    data: mails.csv
  - name: people
    data: people.csv
    type: Person
    columns: {name: who, mail: mails.mail}
    join: {mails: {no: no}}
    where: people.country is not null
  - name: knows
    data: knows.csv
    edge: Knows
    delimiter: "|"
    header: [a, b, since]
    from: people.who
    to: others.who
    join: {people: {a: no}, others: {b: no}}
    where: since = '1'
    columns: {since: "null"}
    const: {kind: met}
  - name: others
    data: people.csv
"""


@pytest.mark.usefixtures("place")
def test_inputs_are_joined() -> None:
    Path("pipeline.yaml").write_text(RECIPE)
    graph = omnigraph.open("g")
    plan = graph.plan_pipeline("pipeline.yaml")
    assert [(each.name, each.table_key) for each in plan.inputs] == [
        ("mails", None),
        ("people", "node:Person"),
        ("knows", "edge:Knows"),
        ("others", None),
    ]
    graph.run_pipeline("pipeline.yaml")
    found = read_tables(graph._graph, stores_at(Path(graph.uri)))
    assert {name: row["mail"] for name, row in found["Person"].items()} == {
        "ada": "a@x",
        "bob": None,
    }
    (edge,) = found["Knows"].values()
    assert (edge["src"], edge["dst"], edge["kind"]) == ("ada", "bob", "met")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ("type: Person, join: {mail: {no: no}}", "join names 'mail'; did you mean 'mails'?"),
        ("type: Person, join: {mails: {nr: no}}", "join of 'mails': there is no column 'nr'"),
        ("type: Person, header: [], columns: {name: who}", "header is none, or a list of names"),
        ("type: Person, from: {Person.mail: who}", "from is for edges"),
        ("edge: Knows, from: {mail: who}", "{Type.property: column}"),
        ("type: Person, skip: x", "skip is a number of records"),
        ("type: Person, quote: double", "quote is none, or left out"),
    ],
)
def test_mistakes_about_files_are_told_with_their_lines(lines: str, mistake: str) -> None:
    Path("pipeline.yaml").write_text(
        f"mode: merge\ninputs:\n- {{name: mails, data: mails.csv, type: Person}}\n"
        f"- {{name: people, data: people.csv, {lines}}}\n"
    )
    with pytest.raises(RecipeInvalid) as caught:
        omnigraph.open("g").plan_pipeline("pipeline.yaml")
    assert any(line == 4 and mistake in message for line, message in caught.value.mistakes)
