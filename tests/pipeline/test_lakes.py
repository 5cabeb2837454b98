"""Delta and Iceberg tables, read by the packages of their formats, on both engines."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Input
from omnigraph.cli.app import run
from omnigraph.engine.load.inputs import Format
from omnigraph.errors import ExtraMissing, FileUnreadable, LoadRejected, RecipeInvalid
from omnigraph.sdk.embedded.graph import LocalGraph
from support.loading import SCHEMA
from support.mutations import read_tables
from support.writing import stores_at


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalGraph:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return omnigraph.init("g", SCHEMA)


@pytest.fixture
def delta(tmp_path: Path) -> str:
    """A table whose names hold what paths must escape."""
    table = str(tmp_path / "people")
    write_deltalake(table, people("ada", "b b"), partition_by=["mail"])
    write_deltalake(table, people("eve"), mode="append", partition_by=["mail"])
    return table


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    made = load_catalog("lake", **where)
    made.create_namespace("ns")
    table = made.create_table("ns.people", schema=people("ada").schema)
    table.append(people("ada", "bob"))
    table.append(people("eve"))
    return made


def people(*names: str) -> pa.Table:
    mails = [f"{name}@x y" for name in names]
    ages = pa.array([len(name) for name in names], pa.int32())
    return pa.table({"name": list(names), "age": ages, "mail": mails})


def rows(graph: LocalGraph) -> dict[str, object]:
    found = read_tables(graph._graph, stores_at(Path(graph.uri)))["Person"]
    return {name: row["age"] for name, row in found.items()}


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_delta_table_is_loaded_at_a_version(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    graph: LocalGraph,
    delta: str,
    engine: str,
) -> None:
    source = Input(delta, type="Person", format=Format.DELTA, options={"version": "0"})
    result = graph.load(source, mode="append", engine=engine)
    assert result.engine == engine
    assert rows(graph) == {"ada": 3, "b b": 3}
    graph.load(Input(delta, type="Person", format=Format.DELTA), mode="merge", engine=engine)
    assert rows(graph) == {"ada": 3, "b b": 3, "eve": 3}


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_iceberg_table_is_loaded_without_the_rows_it_deleted(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    graph: LocalGraph,
    catalog: Catalog,
    engine: str,
) -> None:
    table = catalog.load_table("ns.people")
    table.delete("name = 'bob'")
    source = Input(table.metadata_location, type="Person", format=Format.ICEBERG)
    assert graph.load(source, mode="append", engine=engine).engine == engine
    assert rows(graph) == {"ada": 3, "eve": 3}


def test_an_iceberg_table_is_found_by_its_catalog_and_its_snapshot(
    graph: LocalGraph, catalog: Catalog, tmp_path: Path
) -> None:
    first = catalog.load_table("ns.people").metadata.snapshots[0].snapshot_id
    Path("pipeline.yaml").write_text(
        f"""
mode: merge
engine: local
inputs:
  - data: ns.people
    type: Person
    format: iceberg
    options:
      {{catalog: lake, type: sql, uri: "sqlite:///{tmp_path}/c.db", snapshot: "{first}"}}
"""
    )
    graph.run_pipeline("pipeline.yaml")
    assert rows(graph) == {"ada": 3, "bob": 3}


@pytest.mark.usefixtures("spark")
def test_expressions_see_the_rows_of_a_lake(
    graph: LocalGraph, delta: str, catalog: Catalog
) -> None:
    place = catalog.load_table("ns.people").metadata_location
    lake = "columns: {name: upper(name), age: age + 1, mail: mail}, where: name <> 'b b'"
    Path("pipeline.yaml").write_text(
        "mode: merge\ninputs:\n"
        f"- {{data: {delta}, type: Person, format: delta, {lake}}}\n"
        f"- {{data: '{place}', type: Person, format: iceberg, columns: {{name: lower(name)}},"
        " where: name = 'bob'}\n"
    )
    graph.run_pipeline("pipeline.yaml")
    assert rows(graph) == {"ADA": 4, "EVE": 4, "bob": 3}


def test_a_fault_names_the_data_file_and_the_row(graph: LocalGraph, delta: str) -> None:
    wrong = pa.table({"name": pa.array(["x", None]), "age": pa.array([1, 2]), "mail": ["m", "m"]})
    write_deltalake(delta, wrong.cast(people("ada").schema), mode="append")
    with pytest.raises(LoadRejected) as caught:
        graph.load(Input(delta, type="Person", format=Format.DELTA), mode="append", engine="local")
    (fault,) = caught.value.faults
    assert fault.line == 2
    assert str(fault.file).startswith(f"{delta} part-")


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_what_is_no_table_is_told(graph: LocalGraph, name: str) -> None:
    Path("nothing").mkdir()
    with pytest.raises(FileUnreadable, match="nothing"):
        graph.load(Input("nothing", type="Person", format=Format(name)), mode="append")
    source = Input("file:///none/v1.metadata.json", type="Person", format=Format(name))
    with pytest.raises(FileUnreadable):
        graph.load(source, mode="append")


def test_options_that_no_reader_knows_are_told(graph: LocalGraph, delta: str) -> None:
    Path("pipeline.yaml").write_text(
        f"mode: merge\ninputs:\n- {{data: {delta}, type: Person, format: delta,"
        " options: {versoin: '1'}}\n"
    )
    with pytest.raises(RecipeInvalid, match="delta has no option 'versoin'; there are version"):
        graph.run_pipeline("pipeline.yaml")


@pytest.mark.parametrize(("name", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_an_extra_that_is_missing_is_named(
    graph: LocalGraph, name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, each)
    kept = [each for each in sys.path if "site-packages" not in each]
    monkeypatch.setattr(sys, "path", kept)
    with pytest.raises(ExtraMissing, match=rf"omnigraph\[{name}\]"):
        graph.load(Input("t", type="Person", format=Format(name)), mode="append", engine="local")


# ── since: last ──────────────────────────────────────────────────────────────────────────────────

FOLLOW = """
name: nightly
mode: append
engine: local
inputs:
  - name: people
    data: {data}
    format: {format}
    type: Person
    since: last
"""


def test_only_new_versions_of_a_delta_table_are_loaded(
    graph: LocalGraph, delta: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pipeline.yaml").write_text(FOLLOW.format(data=delta, format="delta"))
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Person": 3}
    assert graph.run_pipeline("pipeline.yaml").commit is None
    write_deltalake(delta, people("new one"), mode="append")
    DeltaTable(delta).optimize.compact()  # it moves rows, and adds none
    assert run(["pipeline", "plan", "pipeline.yaml", "g", "--json"]) == 0
    (planned,) = json.loads(capsys.readouterr().out)["inputs"]
    assert planned["since"]["version_before"] == 1
    assert planned["since"]["new_files"] == len(planned["files"]) == 1
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Person": 1}
    assert set(rows(graph)) == {"ada", "b b", "eve", "new one"}
    DeltaTable(delta).delete("name = 'ada'")
    with pytest.raises(RecipeInvalid, match=r"changes or deletes rows.*--full"):
        graph.run_pipeline("pipeline.yaml")


def test_only_new_snapshots_of_an_iceberg_table_are_loaded(
    graph: LocalGraph, catalog: Catalog, tmp_path: Path
) -> None:
    text = FOLLOW.format(data="ns.people", format="iceberg")
    text += f'    options: {{catalog: lake, type: sql, uri: "sqlite:///{tmp_path}/c.db"}}\n'
    Path("pipeline.yaml").write_text(text)
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Person": 3}
    assert graph.run_pipeline("pipeline.yaml").commit is None
    catalog.load_table("ns.people").append(people("new"))
    assert graph.run_pipeline("pipeline.yaml").counts == {"node:Person": 1}
    catalog.load_table("ns.people").delete("name = 'ada'")
    with pytest.raises(RecipeInvalid, match=r"snapshot \d+ is '\w+'.*--full"):
        graph.run_pipeline("pipeline.yaml")
    text = text.replace("append", "merge")
    Path("pipeline.yaml").write_text(text)
    assert graph.run_pipeline("pipeline.yaml", full=True).counts == {"node:Person": 3}
    assert graph.run_pipeline("pipeline.yaml").commit is None
