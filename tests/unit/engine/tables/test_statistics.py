"""The file of statistics: what is written is read, and nothing else is."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.compiler.ir import Direction
from omnigraph.compiler.statistics import UNKNOWN, Degrees, Departure, Statistics, Values
from omnigraph.engine.tables.statistics import NAME, KeptStatistics, read, write
from omnigraph.storage.mapped import OF_GRAPH, MappedFiles

OUT, BACK = Departure("Knows", Direction.OUT), Departure("Knows", Direction.IN)
SOME = Statistics(
    {OUT: Degrees(2.5, 9)},
    {(BACK, OUT): 1.25},
    {("Person", "age"): Values(3, 0.25, (1, 2, 9)), ("Person", "name"): Values(2, 0.0, ("a", "ö"))},
)


@pytest.fixture
def mapped(tmp_path: Path) -> MappedFiles:
    return MappedFiles(tmp_path)


def test_statistics_are_read_as_they_were_written(mapped: MappedFiles) -> None:
    write(mapped, "this state", SOME)
    found = read(mapped)
    assert found is not None
    made_of, statistics = found
    assert made_of == "this state"
    assert statistics.degrees == SOME.degrees
    assert statistics.pulls == SOME.pulls
    assert statistics.values == SOME.values


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format":2,"made_of":"","degrees":[],"pulls":[],"values":[]}',
        '{"format":1,"made_of":"","degrees":[],"pulls":[]}',
        '{"format":1,"made_of":"","degrees":[["Knows","up",1,1]],"pulls":[],"values":[]}',
        '{"format":1,"made_of":"","degrees":[],"pulls":[["Knows"]],"values":[]}',
        '{"format":1,"made_of":"","degrees":[],"pulls":[],"values":[["P","a",1,0,[1,"b"]]]}',
        '{"format":1,"made_of":"","degrees":7,"pulls":[],"values":[]}',
    ],
)
def test_what_cannot_be_read_is_no_statistics(mapped: MappedFiles, text: str) -> None:
    mapped.write(OF_GRAPH, NAME, {NAME: pa.array([text])})
    assert read(mapped) is None
    assert KeptStatistics(mapped).at(object()) is UNKNOWN


def test_a_damaged_file_is_no_statistics(mapped: MappedFiles) -> None:
    write(mapped, "", SOME)
    (file,) = mapped.root.rglob("*.arrow")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    assert read(mapped) is None


def test_the_file_is_looked_at_once_for_each_moment(mapped: MappedFiles) -> None:
    """Plans are kept by the identity of statistics, so an unchanged file keeps its object."""
    kept, first, second, third = KeptStatistics(mapped), object(), object(), object()
    assert kept.at(first) is UNKNOWN
    write(mapped, "", SOME)
    assert kept.at(first) is UNKNOWN
    found = kept.at(second)
    assert found.degrees == SOME.degrees
    assert kept.at(third) is found


def test_a_store_that_is_no_folder_has_none() -> None:
    assert KeptStatistics(None).at(object()) is UNKNOWN
