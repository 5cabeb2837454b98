"""Exports write dates as ISO text; loads read ISO text and numbers."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import LoadRejected
from omnigraph.sdk.embedded.graph import LocalGraph

SCHEMA = "node Event { name: String @key  day: Date?  at: DateTime?  days: [Date]? }"
DAY, AT = 19_844, 1_714_550_400_120
ISO_DAY, ISO_AT = "2024-05-01", "2024-05-01T08:00:00.120Z"


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(str(tmp_path / "g.omni"), SCHEMA)


def exported(graph: LocalGraph) -> dict[str, dict[str, object]]:
    records = [json.loads(line) for line in b"".join(graph.export_lines()).splitlines()]
    return {each["data"]["name"]: each["data"] for each in records}


def test_records_may_spell_dates_either_way(graph: LocalGraph, tmp_path: Path) -> None:
    rows = [
        {"name": "number", "day": DAY, "at": AT, "days": [DAY, 0]},
        {"name": "text", "day": ISO_DAY, "at": ISO_AT, "days": [ISO_DAY, "1970-01-01"]},
        {"name": "zone", "day": ISO_DAY, "at": "2024-05-01T10:00:00.120+02:00", "days": [DAY]},
        {"name": "null", "day": None, "at": None, "days": None},
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(json.dumps({"type": "Event", "data": each}) for each in rows))
    graph.load(source, mode="append", engine="local")
    found = exported(graph)
    for name in ("number", "text", "zone"):
        assert (found[name]["day"], found[name]["at"]) == (ISO_DAY, ISO_AT)
    assert found["number"]["days"] == found["text"]["days"] == [ISO_DAY, "1970-01-01"]
    assert (found["null"]["day"], found["null"]["at"], found["null"]["days"]) == (None, None, None)


def test_an_export_that_is_loaded_is_exported_alike(graph: LocalGraph, tmp_path: Path) -> None:
    graph.insert("Event", [{"name": "a", "day": ISO_DAY, "at": ISO_AT, "days": [ISO_DAY]}])
    graph.export(tmp_path / "all.jsonl")
    copy = omnigraph.init(str(tmp_path / "copy.omni"), SCHEMA)
    copy.load(tmp_path / "all.jsonl", mode="append", engine="local")
    assert b"".join(copy.export_lines()) == b"".join(graph.export_lines())


def test_parquet_may_spell_dates_either_way(graph: LocalGraph, tmp_path: Path) -> None:
    source = tmp_path / "rows.parquet"
    for number, (day, at) in enumerate([(DAY, AT), (ISO_DAY, ISO_AT)]):
        row = {"name": str(number), "day": day, "at": at}
        pq.write_table(pa.Table.from_pylist([row]), source)
        graph.load(source, type="Event", mode="append", engine="local")
    found = exported(graph)
    assert {(each["day"], each["at"]) for each in found.values()} == {(ISO_DAY, ISO_AT)}
    assert len(found) == 2


def test_digits_in_a_csv_are_no_date(graph: LocalGraph, tmp_path: Path) -> None:
    """`20240501` would be a day of the year 57386, so only ISO text is a date there."""
    source = tmp_path / "rows.csv"
    source.write_text(f"name,day,at\na,{ISO_DAY},{ISO_AT}\n")
    graph.load(source, type="Event", mode="append", engine="local")
    assert exported(graph)["a"]["day"] == ISO_DAY
    source.write_text("name,day\nb,20240501\n")
    with pytest.raises(LoadRejected, match="expected YYYY-MM-DD"):
        graph.load(source, type="Event", mode="append", engine="local")
