"""Tables as input: Parquet, CSV and data frames feed one type each, checked like records."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.cli.app import run
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.inputs import Format, Input
from omnigraph.errors import FileUnreadable, LoadRejected, TypeUnknown, UsageError
from support.loading import LARGE, SCHEMA as PEOPLE, SMALL, Loader, knows, new_loader, person
from support.mutations import Tables

APPEND, MERGE = LoadMode.APPEND, LoadMode.MERGE

EVERYTHING = """
node Thing {
  code: String @key
  flag: Bool?  kind: enum(a, b)?
  i32: I32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  at: DateTime?
  tags: [String]?  days: [Date]?  vec: Vector(2)?  blob: Blob?
}
edge Links: Thing -> Thing { weight: F64? }
"""
ROW: dict[str, Any] = {
    "code": "x",
    "flag": True,
    "kind": "a",
    "i32": -7,
    "u64": 2**64 - 1,
    "f32": 0.1,
    "f64": 1e300,
    "day": date(1969, 12, 31),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999_900, UTC),
    "tags": ["a", "b, c", 'd"'],
    "days": [date(2024, 5, 1)],
    "vec": [0.1, 2.0],
}
TYPES: dict[str, pa.DataType] = {
    "code": pa.string(),
    "flag": pa.bool_(),
    "kind": pa.dictionary(pa.int32(), pa.string()),
    "i32": pa.int64(),
    "u64": pa.uint64(),
    "f32": pa.float64(),
    "f64": pa.float64(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "tags": pa.list_(pa.string()),
    "days": pa.large_list(pa.date32()),
    "vec": pa.list_(pa.float64(), 2),
}
RECORD = {
    **ROW,
    "day": "1969-12-31",
    "at": "1969-12-31T23:59:59.9999Z",
    "days": ["2024-05-01"],
}
CELLS = {
    **{name: str(value) for name, value in RECORD.items()},
    "flag": "true",
    "tags": '"[""a"", ""b, c"", ""d\\""""]"',
    "days": '"[""2024-05-01""]"',
    "vec": '"[0.1, 2.0]"',
}


def write_csv(path: Path, rows: Sequence[Mapping[str, str]]) -> str:
    names = list(rows[0])
    lines = [",".join(names), *(",".join(row[name] for name in names) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def everything(spark: SparkSession, tmp_path: Path) -> Loader:  # noqa: ARG001 - starts Spark
    return new_loader(tmp_path, SMALL, EVERYTHING)


def fed(loader: Loader, *inputs: Input | str, mode: LoadMode = APPEND) -> Tables:
    loader.load(mode, *inputs)
    return loader.tables()


# ── the same data ────────────────────────────────────────────────────────────────────────────────


def test_the_same_data_gives_the_same_graph_whatever_it_comes_in(
    spark: SparkSession, everything: Loader, tmp_path: Path
) -> None:
    empty = dict.fromkeys(ROW) | {"code": "empty"}
    table = pa.Table.from_pylist([ROW, empty], pa.schema(TYPES))
    pq.write_table(table, tmp_path / "things.parquet")
    cells = write_csv(
        tmp_path / "things.csv", [CELLS, dict.fromkeys(CELLS, "") | {"code": "empty"}]
    )
    records = everything.write({"type": "Thing", "data": RECORD}, {"type": "Thing", "data": empty})
    fields = (
        "code string, flag boolean, kind string, i32 int, u64 decimal(20,0), f32 float, f64 double,"
        " day date, at timestamp, tags array<string>, days array<date>, vec array<float>"
    )
    typed = ({**row, "u64": row["u64"] and Decimal(row["u64"])} for row in (ROW, empty))
    frame = spark.createDataFrame([tuple(row.values()) for row in typed], fields)

    wanted = fed(everything, records)
    assert wanted["Thing"]["x"]["at"] == -1
    for number, each in enumerate(
        [
            Input(str(tmp_path / "things.parquet"), type="Thing"),
            Input(cells, type="Thing"),
            Input(frame, type="Thing"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert fed(new_loader(folder, SMALL, EVERYTHING), each) == wanted


# ── mapping ──────────────────────────────────────────────────────────────────────────────────────


def test_columns_are_mapped_and_the_others_left_out(loader: Loader, tmp_path: Path) -> None:
    table = pa.table({"full": ["ada", "bob"], "age": [1, 2], "junk": [None, b"x"]})
    pq.write_table(table, tmp_path / "people.parquet")
    edges = pa.table({"who": ["ada"], "whom": ["bob"], "since": ["2024-05-01"]})
    pq.write_table(edges, tmp_path / "knows.parquet")
    tables = fed(
        loader,
        Input(str(tmp_path / "people.parquet"), type="Person", mapping={"name": "full"}),
        Input(str(tmp_path / "knows.parquet"), edge="knows", mapping={"src": "who", "to": "whom"}),
    )
    assert tables["Person"]["bob"] == {"name": "bob", "age": 2, "mail": None}
    assert list(tables["Knows"].values()) == [{"src": "ada", "dst": "bob", "since": 19844}]


@pytest.mark.parametrize(
    ("columns", "mapping", "reasons"),
    [
        ({"name": ["a"], "agee": [1]}, {}, ["'agee' feeds nothing of Person; did you mean 'age'?"]),
        ({"age": [1]}, {}, ["no column feeds 'name' of Person"]),
        ({"name": [1]}, {}, ["the column 'name' is int64, and Person.name is String"]),
        ({"name": ["a"], "age": [1.0]}, {}, ["'age' is double, and Person.age is I32?"]),
        (
            {"name": ["a"]},
            {"nmae": "name"},
            ["no property 'nmae'; did you mean 'name'?", "no column feeds 'name'"],
        ),
        ({"name": ["a"]}, {"age": "old"}, ["there is no column 'old'; there are name"]),
        (
            {"nam": ["a"], "age": ["1"]},
            {},
            ["the column 'nam' feeds nothing", "no column feeds 'name'", "'age' is string"],
        ),
    ],
)
def test_a_table_that_cannot_fit_is_refused_before_it_is_read(
    tmp_path: Path,
    loader: Loader,
    columns: dict[str, list[object]],
    mapping: dict[str, str],
    reasons: list[str],
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    with pytest.raises(LoadRejected) as caught:
        loader.load(APPEND, Input(str(tmp_path / "p.parquet"), type="Person", mapping=mapping))
    found = [fault.message for fault in caught.value.faults]
    assert len(found) == len(reasons)
    for reason in reasons:
        assert any(reason in each for each in found), found
    assert {fault.kind for fault in caught.value.faults} == {"column"}
    assert str(tmp_path / "p.parquet") in str(caught.value)


def test_a_table_without_a_type_and_a_type_there_is_not_are_mistakes(
    tmp_path: Path, loader: Loader
) -> None:
    path = write_csv(tmp_path / "p.csv", [{"name": "a"}])
    for given, error in [
        (Input(path), UsageError),
        (Input(path, type="Person", edge="Knows"), UsageError),
        (Input(path, type="Persn"), TypeUnknown),
        (Input(path, type="Person", delimiter="ab"), UsageError),
        (Input(3, type="Person"), UsageError),
        (Input(path, type="Person", format=Format.PARQUET), FileUnreadable),
    ]:
        with pytest.raises(error):
            loader.load(APPEND, given)


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["small", "large"])
def people(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Loader:  # noqa: ARG001 - starts Spark
    return new_loader(tmp_path, SMALL if request.param == "small" else LARGE, PEOPLE)


def test_every_bad_row_of_a_table_is_reported_and_none_is_loaded(
    spark: SparkSession, people: Loader, tmp_path: Path
) -> None:
    bad = {13: 2**31, 14: -(2**31) - 1, 40: 2**40}
    ages = [bad.get(row, row) for row in range(1, 61)]
    names = [f"p{row}" for row in range(1, 61)]
    table = pa.table({"name": names, "age": ages})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=7)
    rows = list(zip(names, ages, strict=True))
    cells = [{"name": f'"line\n{name}"', "age": str(age)} for name, age in rows]
    csv = write_csv(tmp_path / "p.csv", cells)
    frame = spark.createDataFrame(rows, "name string, age bigint").repartition(3)
    before = people.graph.snapshot()

    def lines(given: Input) -> list[tuple[int | None, object]]:
        with pytest.raises(LoadRejected) as caught:
            people.load(MERGE, given)
        assert caught.value.count == len(bad)
        assert {fault.property_name for fault in caught.value.faults} == {"age"}
        return [(fault.line, fault.value) for fault in caught.value.faults]

    assert lines(Input(str(tmp_path / "p.parquet"), type="Person")) == list(bad.items())
    # Every record takes two lines, and the header is the first.
    assert lines(Input(csv, type="Person")) == [(2 * row, age) for row, age in bad.items()]
    in_frame = [row["age"] for row in frame.collect()]
    found = lines(Input(frame, type="Person"))
    assert [in_frame[int(line or 0) - 1] for line, _ in found] == [age for _, age in found]
    assert people.graph.snapshot() == before


def test_what_spans_tables_is_checked_and_placed(people: Loader, tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["ada", "bob", "ada"]}), tmp_path / "p.parquet")
    with pytest.raises(LoadRejected) as caught:
        people.load(MERGE, Input(str(tmp_path / "p.parquet"), type="Person"))
    (fault,) = caught.value.faults
    assert fault.line == 3
    assert "p.parquet:1 and at" in fault.message
    edges = write_csv(
        tmp_path / "k.csv", [{"src": "ada", "dst": "ada"}, {"src": "ada", "dst": "gone"}]
    )
    with pytest.raises(LoadRejected) as caught:
        people.load(MERGE, people.write(person("ada")), Input(edges, edge="Knows"))
    assert [(fault.line, fault.value) for fault in caught.value.faults] == [(3, "gone")]


# ── together ─────────────────────────────────────────────────────────────────────────────────────


def test_inputs_of_every_kind_are_one_commit(
    spark: SparkSession, people: Loader, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"name": ["ada"], "age": [1]}), tmp_path / "p.parquet")
    csv = write_csv(tmp_path / "p.tsv", [{"name": "bob"}])
    frame = spark.createDataFrame([("ada", "bob"), ("bob", "eve")], "src string, dst string")
    before = len(people.graph.commits())
    result = people.load(
        APPEND,
        people.write(person("eve"), knows("eve", "ada")),
        Input(frame, edge="Knows"),
        Input(str(tmp_path / "p.parquet"), type="Person"),
        Input(csv, type="Person"),
    )
    assert dict(result.counts) == {"edge:Knows": 3, "node:Person": 3}
    assert len(people.graph.commits()) == before + 1
    assert set(people.tables()["Person"]) == {"ada", "bob", "eve"}


def test_of_an_id_in_two_inputs_the_later_one_counts(
    spark: SparkSession, people: Loader, tmp_path: Path
) -> None:
    first = spark.createDataFrame([("n", "frame")], "id string, text string")
    pq.write_table(pa.table({"id": ["n"], "text": ["file"]}), tmp_path / "n.parquet")
    file = Input(str(tmp_path / "n.parquet"), type="Note")
    people.load(MERGE, Input(first, type="Note"), file)
    assert people.tables()["Note"] == {"n": {"text": "file"}}
    people.load(MERGE, file, Input(first, type="Note"))
    assert people.tables()["Note"] == {"n": {"text": "frame"}}


# ── the command line ─────────────────────────────────────────────────────────────────────────────


def test_tables_are_loaded_from_the_command_line(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    omnigraph.init("g", PEOPLE)
    Path("p.csv").write_text("who;age\nada;NA\nbob;x\n")
    command = ["load", "g", "--data", "p.csv", "--mode", "append", "--type", "Person"]
    options = ["--map", "name=who", "--delimiter", ";", "--null", "NA", "--rejects", "r.jsonl"]
    assert run([*command, *options]) == 1
    (reject,) = map(json.loads, Path("r.jsonl").read_text().splitlines())
    assert (reject["file"], reject["line"], reject["value"]) == ("p.csv", 3, "x")
    Path("p.csv").write_text("who;age\nada;NA\nbob;7\n")
    assert run([*command, *options]) == 0
    assert "node:Person rows=2" in capsys.readouterr().out
    assert run([*command, "--map", "name"]) == 2
    assert run([*command, "--format", "xml"]) == 2
