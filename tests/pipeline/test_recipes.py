"""Pipeline files: what they may say, what they feed, and that all of it is one commit."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.cli.app import run
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.inputs import Format
from omnigraph.errors import FileUnreadable, JobFailed, LoadRejected, RecipeInvalid
from omnigraph.pipeline.recipes.recipe import Recipe, read_recipe
from omnigraph.sdk.embedded.graph import LocalGraph
from support.loading import SCHEMA
from support.mutations import Tables, read_tables
from support.writing import stores_at


def read(folder: Path, text: str) -> Recipe:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return read_recipe(path)


def test_a_recipe_is_read_whole(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        """
mode: append
branch: nightly
from: main
max_errors: 7
inputs:
  - name: people
    data: [a.csv, s3://b/c.csv]
    type: Person
    format: csv
    delimiter: ";"
    null: NA
    columns: {name: upper(n), age: a}
    where: a > 3
  - {data: rest.jsonl}
""",
    )
    assert (recipe.mode, recipe.branch, recipe.from_branch) == (LoadMode.APPEND, "nightly", "main")
    assert recipe.errors_max == 7
    people, rest = recipe.inputs
    assert people.data == (str(tmp_path / "a.csv"), "s3://b/c.csv")
    assert (people.type, people.format, people.delimiter, people.null) == (
        "Person",
        Format.CSV,
        ";",
        "NA",
    )
    assert people.columns == {"name": "upper(n)", "age": "a"}
    assert (people.where, people.line) == ("a > 3", 7)
    assert (rest.name, rest.type) == ("input 2", None)


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("", [(1, "the file is empty")]),
        ("[]", [(1, "the file must be a mapping"), (1, "mode is"), (1, "inputs must be")]),
        ("mode: [", [(1, "it is not YAML")]),
        ("[" * 5_000, [(1, "it is nested more than 100 levels deep")]),
        ("mode: merge\n", [(1, "inputs must be a list")]),
        ("mode: update\ninputs: [{data: a}]", [(1, "mode is append, merge or overwrite")]),
        (
            "mode: merge\nbranhc: x\ninputs:\n- data: a\n  colums: {}\n",
            [(2, "'branhc'; did you mean 'branch'?"), (5, "'colums'; did you mean 'columns'?")],
        ),
        ("mode: merge\ninputs:\n- type: P\n", [(3, "inputs[0].data is missing")]),
        (
            "mode: merge\ninputs:\n- data: a\n  type: P\n  edge: E\n",
            [(5, "inputs[0] feeds a type or an edge, not both")],
        ),
        ("mode: merge\ninputs:\n- data: a\n  where: x\n", [(4, "inputs[0].where is for tables")]),
        ("mode: merge\nmode: merge\ninputs: [{data: a}]", [(2, "gives 'mode' twice")]),
        ("mode: merge\nmax_errors: 0\ninputs: [{data: a}]", [(2, "max_errors is a positive")]),
        (
            "mode: merge\ninputs:\n- {data: a, type: P, format: parqet}\n- {data: b, format: orc}",
            [(3, "'parqet'; did you mean 'parquet'?"), (4, "inputs[1] is a table")],
        ),
        (
            "mode: merge\ninputs:\n- {data: a, options: {x: y}}\n- {data: a, reader: java}\n",
            [(3, "options is for the formats"), (4, "reader is spark, or left out; not 'java'")],
        ),
        (
            "mode: merge\ninputs:\n- {data: a, name: x}\n- {data: b, name: x}\n",
            [(4, "'x' is the name of line 3 too")],
        ),
        ("mode: merge\ninputs:\n- {data: a, type: [P]}\n", [(3, "inputs[0].type must be text")]),
    ],
)
def test_every_mistake_is_told_with_its_line(
    tmp_path: Path, text: str, mistakes: list[tuple[int, str]]
) -> None:
    with pytest.raises(RecipeInvalid) as caught:
        read(tmp_path, text)
    found = caught.value.mistakes
    assert [line for line, _ in found] == [line for line, _ in mistakes], found
    for (_, message), (_, wanted) in zip(found, mistakes, strict=True):
        assert wanted in message
    assert f"pipeline.yaml:{mistakes[0][0]}:" in str(caught.value)


def test_a_recipe_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable):
        read_recipe(tmp_path / "none.yaml")


# ── on Spark ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001 - starts Spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    omnigraph.init("g", SCHEMA)
    Path("people.csv").write_text('n,a,country\nada,36,PT\nbob,7,US\n"e\nve",1,PT\n')
    pq.write_table(
        pa.table({"name": ["u", "v"], "age": pa.array([1, 2], pa.uint64()), "x": [True, False]}),
        "more.parquet",
        row_group_size=1,
    )
    Path("knows.csv").write_text("src,dst\nada,u\n")
    Path("notes.jsonl").write_text('{"type":"Note","data":{"id":"n"}}\n')
    Path("pipeline.yaml").write_text(RECIPE)
    return tmp_path


RECIPE = """
mode: merge
inputs:
  - name: people
    data: people.csv
    type: Person
    columns: {name: upper(n), age: a}
    where: country = 'PT'
  - name: more
    data: more.parquet
    type: Person
    columns: {age: age + 1, mail: "concat(name, '@x')"}
    where: x
  - name: knows
    data: knows.csv
    edge: Knows
    columns: {from: upper(src)}
  - data: notes.jsonl
"""


def tables(graph: LocalGraph) -> Tables:
    return read_tables(graph._graph, stores_at(Path(graph.uri)))


@pytest.mark.usefixtures("place")
def test_a_recipe_is_one_commit_of_all_its_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    graph = omnigraph.open("g")
    before = len(graph.commits())
    assert run(["pipeline", "run", "pipeline.yaml", "g", "--as", "dana", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_entities"] == 5
    assert len(graph.commits()) == before + 1
    found = tables(graph)
    assert found["Person"] == {
        "ADA": {"name": "ADA", "age": 36, "mail": None},
        "E\nVE": {"name": "E\nVE", "age": 1, "mail": None},
        "u": {"name": "u", "age": 2, "mail": "u@x"},
    }
    assert [(row["src"], row["dst"]) for row in found["Knows"].values()] == [("ADA", "u")]
    assert list(found["Note"]) == ["n"]


@pytest.mark.usefixtures("place")
def test_a_plan_says_what_is_fed_and_loads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    graph = omnigraph.open("g")
    before = graph.snapshot()
    assert run(["pipeline", "plan", "pipeline.yaml", "g"]) == 0
    shown = capsys.readouterr().out
    assert "people → node:Person" in shown
    assert "name: String ← upper(n) (string)" in shown
    assert "age: I32? ← age + 1 (decimal128" in shown
    assert run(["pipeline", "plan", "pipeline.yaml", "g", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["table_key"] for each in document["inputs"]] == [
        "node:Person",
        "node:Person",
        "edge:Knows",
        None,
    ]
    assert document["inputs"][1]["files"] == ["more.parquet"]
    assert graph.snapshot() == before
    Path("pipeline.yaml").write_text(
        "mode: merge\ninputs:\n- {data: more.parquet, type: Person, columns: {age: name}}\n"
    )
    assert run(["pipeline", "plan", "pipeline.yaml", "g"]) == 1
    shown = capsys.readouterr().out
    assert "the column 'name' is string, and Person.age is I32?" in shown
    assert "problem: more.parquet: no column feeds 'name' of Person" in shown


@pytest.mark.usefixtures("place")
def test_faults_of_computed_rows_are_placed_in_their_files() -> None:
    graph = omnigraph.open("g")
    Path("people.csv").write_text("n,a,country\nada,x,PT\nbob,y,US\n\neve,1.5,PT\n")
    with pytest.raises(LoadRejected) as caught:
        graph.run_pipeline("pipeline.yaml")
    found = [(fault.file, fault.line, fault.value) for fault in caught.value.faults]
    assert found == [("people.csv", 2, "x"), ("people.csv", 5, "1.5")]
    Path("people.csv").write_text("n,a,country\nada,1,PT\nADA,1,PT\n")
    with pytest.raises(LoadRejected, match=r"given at people\.csv:2 and at people\.csv:3"):
        graph.run_pipeline("pipeline.yaml")
    Path("people.csv").write_text("n,a,country\nada,1\n")
    with pytest.raises(JobFailed, match="line 2: expected 3 cells, found 2"):
        graph.run_pipeline("pipeline.yaml")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ("type: Persn", "did you mean 'Person'?"),
        ("type: Person, columns: {name: upper(m)}", "'name' of columns: [UNRESOLVED_COLUMN"),
        ("type: Person, columns: {name: upper((n)}", "'name' of columns: "),
        ("type: Person, where: n", "where: a condition is true or false, not string"),
    ],
)
def test_what_spark_does_not_understand_is_told_with_its_line(lines: str, mistake: str) -> None:
    Path("pipeline.yaml").write_text(f"mode: merge\ninputs:\n- {{data: people.csv, {lines}}}\n")
    with pytest.raises(RecipeInvalid) as caught:
        omnigraph.open("g").plan_pipeline("pipeline.yaml")
    ((line, message),) = caught.value.mistakes
    assert line == 3
    assert mistake in message


@pytest.mark.usefixtures("place")
def test_a_run_that_fails_in_an_expression_leaves_nothing_behind() -> None:
    graph = omnigraph.open("g")
    Path("pipeline.yaml").write_text("""
mode: append
branch: fresh
from: main
inputs:
  - {data: more.parquet, type: Person, columns: {age: age}}
  - {data: people.csv, type: Person, columns: {name: n, age: cast(country as int)}}
""")
    for branch in ("fresh", "main"):
        before = sorted(str(each) for each in Path("g").rglob("*") if each.is_file())
        with pytest.raises(JobFailed, match=r"CAST_INVALID_INPUT.*The value 'PT'"):
            graph.run_pipeline("pipeline.yaml", branch=branch)
        assert list(graph.branches.list()) == ["main"]
        after = sorted(str(each) for each in Path("g").rglob("*") if each.is_file())
        assert [each for each in after if "__leases" not in each] == [
            each for each in before if "__leases" not in each
        ]


@pytest.mark.usefixtures("place")
def test_a_plan_tells_of_a_name_that_several_columns_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("people.csv").write_text("name,age,age\nada,1,2\n")
    Path("pipeline.yaml").write_text("mode: merge\ninputs:\n- {data: people.csv, type: Person}\n")
    assert run(["pipeline", "plan", "pipeline.yaml", "g"]) == 1
    shown = capsys.readouterr().out
    assert "name: String ← name (string)" in shown
    assert "problem: people.csv: several columns are called 'age'" in shown
