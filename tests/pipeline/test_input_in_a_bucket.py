"""Input at `s3://`: found, cut and read where it is, with options that only tasks carry."""

import gzip
import io
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.errors import FileUnreadable, LoadRejected
from omnigraph.ids import TableKey
from omnigraph.storage.bucket_options import resolve_bucket
from omnigraph.storage.durability import Durability
from omnigraph.storage.inputs import find_inputs, open_input
from omnigraph.storage.objects_cloud import connect
from support.loading import LARGE, SCHEMA, SMALL
from support.mutations import read_tables
from support.writing import stores_at

BUCKET = "inputs"
SECRET = "not-to-be-seen"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
    reached = {
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_endpoint": address,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    store = connect(resolve_bucket(f"s3://{BUCKET}", reached))
    people = b"".join(b'{"type":"Person","data":{"name":"p%02d"}}\n' % each for each in range(20))
    for key, data in {
        "in/people.jsonl": people,
        "in/deep/more.jsonl.gz": gzip.compress(b'{"type":"Person","data":{"name":"gz"}}\n'),
        "in/_SUCCESS": b"x",
        "tables/people.csv": b'name,age\n"with\nnewline",1\nbob,2\n',
        "tables/bad.csv": b"name,age\nada,1\nbob,x\n",
        "tables/people.parquet": parquet({"full": ["q1", "q2", "q3"], "age": [1, 2, 3]}),
        "packed/people.jsonl.zst": zstandard(b'{"type":"Person","data":{"name":"zst"}}\n'),
    }.items():
        obstore.put(store, key, data)
    yield reached
    server.stop()


def parquet(columns: dict[str, list[object]]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=1)
    return stream.getvalue()


def zstandard(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def names(source: str, options: dict[str, str]) -> list[str]:
    return [each.path.removeprefix(f"s3://{BUCKET}/") for each in find_inputs(source, options)]


def test_files_of_a_bucket_are_found_as_on_a_disk(options: dict[str, str]) -> None:
    root = f"s3://{BUCKET}"
    assert names(f"{root}/in/people.jsonl", options) == ["in/people.jsonl"]
    assert names(f"{root}/in", options) == ["in/deep/more.jsonl.gz", "in/people.jsonl"]
    assert names(f"{root}/in/", options) == ["in/deep/more.jsonl.gz", "in/people.jsonl"]
    assert names(f"{root}/*/people.*", options) == [
        "in/people.jsonl",
        "packed/people.jsonl.zst",
        "tables/people.csv",
        "tables/people.parquet",
    ]
    assert names(f"{root}/in/**/*.jsonl*", options) == ["in/deep/more.jsonl.gz", "in/people.jsonl"]
    for missing in (f"{root}/nowhere", f"{root}/in/*.csv", "s3://no-such-bucket/x", "s3://"):
        with pytest.raises(FileUnreadable):
            find_inputs(missing, options)


def test_any_place_in_an_object_can_be_read(options: dict[str, str]) -> None:
    with open_input(f"s3://{BUCKET}/in/people.jsonl", "people", options) as file:
        whole = file.read()
        file.seek(40)
        assert file.readline() == whole[40 : whole.index(b"\n", 40) + 1]
        assert file.tell() == whole.index(b"\n", 40) + 1


@pytest.fixture
def graph(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Graph:  # noqa: ARG001 - starts Spark
    settings = Settings(storage_options=options, durability=Durability.RELAXED)
    return create(str(tmp_path / "g"), SCHEMA, settings=settings)


def test_a_bucket_is_loaded_whatever_is_in_it(graph: Graph, tmp_path: Path) -> None:
    inputs = (
        f"s3://{BUCKET}/in",
        f"s3://{BUCKET}/packed/*.zst",
        Input(f"s3://{BUCKET}/tables/people.csv", type="Person"),
        Input(f"s3://{BUCKET}/tables/people.parquet", type="Person", mapping={"name": "full"}),
    )
    result = graph.load(LoadRequest(inputs, LoadMode.APPEND), LARGE)
    assert dict(result.counts) == {"node:Person": 20 + 1 + 1 + 2 + 3}
    found = read_tables(graph, stores_at(tmp_path / "g"))["Person"]
    assert {"p00", "p19", "gz", "zst", "with\nnewline", "bob", "q3"} <= set(found)
    assert found["q2"]["age"] == 2


def test_a_fault_in_a_bucket_has_its_address(graph: Graph) -> None:
    given = Input(f"s3://{BUCKET}/tables/bad.csv", type="Person")
    with pytest.raises(LoadRejected) as caught:
        graph.load(LoadRequest((given,), LoadMode.MERGE), SMALL)
    (fault,) = caught.value.faults
    assert (fault.file, fault.line) == (f"s3://{BUCKET}/tables/bad.csv", 3)


def test_options_are_kept_out_of_everything_that_is_shown(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    graph = omnigraph.init(tmp_path / "h", SCHEMA, storage_options=options)
    graph.load(f"s3://{BUCKET}/in/people.jsonl", mode="append")
    assert SECRET not in str(dict(spark.sparkContext.getConf().getAll()))
    with pytest.raises(FileUnreadable) as caught:
        graph.load(f"s3://{BUCKET}/in/nothing.jsonl", mode="append")
    assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_workers_of_spark_reach_a_graph_and_its_input_by_variables_alone(
    options: dict[str, str], tmp_path: Path
) -> None:
    """The command in a process of its own, because workers keep the variables of their start."""
    store = connect(resolve_bucket(f"s3://{BUCKET}", options))
    uri = f"s3://{BUCKET}/graphs/{tmp_path.name}"
    omnigraph.init(uri, SCHEMA, storage_options=options)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL_S3": options["aws_endpoint"],
        "AWS_ALLOW_HTTP": "true",
    }
    words = ["load", uri, f"s3://{BUCKET}/in", "--mode", "append", "--engine", "spark", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["engine"] == "spark"
    assert SECRET not in done.stdout + done.stderr
    graph = omnigraph.open(uri, read_only=True, storage_options=options)
    assert graph.snapshot().pins[TableKey("node:Person")].row_count == 21
    # Readers leave nothing behind, and neither do the tasks.
    listed = obstore.list(store, f"graphs/{tmp_path.name}/__probe").collect()
    assert list(listed) == []
