"""What the pipeline believes of Arrow's readers and writers. A new version is met here first."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import json as arrow_json

FIELDS: dict[str, pa.DataType] = {"a": pa.int64(), "s": pa.string(), "f": pa.float64()}
SCHEMA = pa.schema(FIELDS)


def read(text: str) -> pa.Table:
    return arrow_json.read_json(
        io.BytesIO(text.encode()),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=SCHEMA, unexpected_field_behavior="error"
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"a": "1"}',
        '{"a": 1.5}',
        '{"a": 1.0}',
        '{"a": true}',
        '{"a": 1e2}',
        '{"a": 9223372036854775808}',
        '{"s": 1}',
        '{"f": "1"}',
        '{"b": 1}',
        '{"b": null}',
        '{"a": 1, "a": 1}',
        '{"a": 1,}',
        '{"a": 01}',
        '{"a": 1} x',
        "[]",
    ],
)
def test_arrow_refuses_what_we_refuse(line: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read(line)


def test_arrow_reads_several_objects_of_one_line_as_several_rows() -> None:
    assert read('{"a": 1} {"a": 2}').num_rows == 2


def test_arrow_drops_blank_lines() -> None:
    assert read('{"a": 1}\n\n{"a": 2}\n').num_rows == 2


def test_arrow_takes_a_nan_for_a_number() -> None:
    assert str(read('{"f": NaN}')["f"][0]) == "nan"


def test_arrow_tells_no_null_from_nothing() -> None:
    assert read('{"a": null}\n{}')["a"].null_count == 2


def test_parquet_keeps_no_time_of_day_of_a_date64(tmp_path: Path) -> None:
    """Why rows that are put aside are not Parquet."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - for this one belief

    at = pa.array([1_500], pa.int64()).view(pa.date64())
    pq.write_table(pa.table({"at": at}), str(tmp_path / "at.parquet"))
    back = pq.read_table(str(tmp_path / "at.parquet"))["at"]
    assert back.cast(pa.date64()).combine_chunks().view(pa.int64()).to_pylist() != [1_500]


def test_arrow_files_keep_a_date64_whole(tmp_path: Path) -> None:
    at = pa.table({"at": pa.array([1_500], pa.int64()).view(pa.date64())})
    with pa.ipc.new_file(str(tmp_path / "at.arrow"), at.schema) as file:
        file.write_table(at)
    back = pa.ipc.open_file(str(tmp_path / "at.arrow")).read_all()
    assert back["at"].combine_chunks().view(pa.int64()).to_pylist() == [1_500]
    assert json.dumps(back.schema.names) == '["at"]'
