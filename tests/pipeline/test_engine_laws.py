"""All engines make the same graph of the same input, or report the same faults in one order."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import SparkSession

from omnigraph.engine.load.bulk import BulkLoader, LoadEngine, LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.errors import KeyConflict, LoadRejected, UsageError
from omnigraph.pipeline.head_start import HeadStartLoader, Rest, StartingSpark
from omnigraph.pipeline.load import LOCAL, PipelineLoader
from omnigraph.pipeline.local_load import LocalLoader
from omnigraph.pipeline.spark.jobs import run_tasks
from omnigraph.pipeline.tasks import begin_here
from support.loading import (
    HUGE,
    LARGE,
    SETTINGS,
    SMALL,
    Loader,
    knows,
    new_loader,
    note,
    person,
    wrote,
)

NAMES = st.sampled_from(["ada", "bob", "cy"])
MAILS = st.sampled_from([None, "a@x", "b@x"])
IDS = st.sampled_from(["n1", "n2", "n3"])
RECORDS: Final = st.one_of(
    st.builds(lambda name, mail: person(name, mail=mail), NAMES, MAILS),
    st.builds(lambda identity: note(id=identity), IDS),
    st.builds(
        lambda source, target, identity: knows(source, target, id=identity), NAMES, NAMES, IDS
    ),
    st.builds(lambda source, target, identity: wrote(source, target, id=identity), NAMES, IDS, IDS),
    st.sampled_from(["{", '{"type": "Person", "data": {"name": 1}}', '{"type": "Persn"}']),
)
LOCALS: Final[tuple[BulkLoader, ...]] = (
    LocalLoader(small_bytes=0, split_bytes=150, bucket_count=2),
    HeadStartLoader(SETTINGS, split_bytes=150),
    HeadStartLoader(SETTINGS, ahead_bytes=0, memory_bytes=0, split_bytes=150),
)
BEFORE: Final = (
    person("ada", mail="a@x"),
    person("dee"),
    note(id="n1"),
    knows("ada", "dee", id="n1"),
    wrote("dee", "n1", id="n1"),
)


def outcome(folder: Path, bulk: BulkLoader, mode: LoadMode, records: list[object]) -> object:
    """What a load onto a graph with some rows leaves behind, or how it is refused."""
    folder.mkdir()
    loader = new_loader(folder, LocalLoader())
    loader.put(LoadMode.APPEND, *BEFORE)
    try:
        result = replace(loader, bulk=bulk).put(mode, *records)
    except LoadRejected as rejected:
        return [
            (each.kind, each.message.replace(str(folder), ""), each.line, each.ids, each.value)
            for each in rejected.faults
        ]
    except KeyConflict as conflict:
        return conflict.type_name, conflict.ids
    return loader.tables(), result.counts


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("OMNIGRAPH_ENGINE_EXAMPLES", "8")),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(LoadMode), st.data())
def test_engines_agree(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path_factory: pytest.TempPathFactory,
    records: list[object],
    mode: LoadMode,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("engines")
    on_spark = data.draw(st.sampled_from([SMALL, LARGE, HUGE]), "on Spark")
    expected = outcome(folder / "spark", on_spark, mode, records)
    another = data.draw(st.sampled_from(LOCALS), "in this process")
    for number, local in enumerate((LocalLoader(), another)):
        assert outcome(folder / f"local-{number}", local, mode, records) == expected


def test_the_size_of_the_input_chooses_the_engine(
    loader: Loader,
    spark: SparkSession,  # noqa: ARG001 - a session that is there is used
) -> None:
    path = loader.write(person("ada"))
    size_bytes = Path(path).stat().st_size
    for local_bytes, expected in (
        (size_bytes, LoadEngine.LOCAL),
        (size_bytes - 1, LoadEngine.SPARK),
    ):
        bulk = PipelineLoader(SETTINGS, local_bytes=local_bytes)
        result = replace(loader, bulk=bulk).load(LoadMode.MERGE, path)
        assert result.engine is expected


LOAD: Final = """
import sys
import omnigraph

graph = omnigraph.open(sys.argv[1])
print(graph.load(sys.argv[2], mode="append", engine="auto").engine, "pyspark" in sys.modules)
"""


def test_a_larger_file_starts_no_spark_in_a_process_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = new_loader(tmp_path, LocalLoader())
    path = loader.write(person("ada"), person("bob"), knows("ada", "bob"))
    monkeypatch.setenv(LOCAL, "1")
    command = [sys.executable, "-c", LOAD, loader.graph.uri, path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["local", "False"]
    assert {name: len(rows) for name, rows in loader.tables().items() if rows} == {
        "Person": 2,
        "Knows": 1,
    }


ELSEWHERE: Final = """
import sys
import omnigraph
from omnigraph.pipeline import SparkSettings

elsewhere = SparkSettings(remote="sc://127.0.0.1:1")
try:
    omnigraph.open(sys.argv[1]).load(sys.argv[2], mode="append", engine="auto", spark=elsewhere)
except omnigraph.errors.SparkUnusable as error:
    print(error)
"""


def test_a_larger_file_waits_for_a_spark_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = new_loader(tmp_path, LocalLoader())
    path = loader.write(person("ada"))
    monkeypatch.setenv(LOCAL, "1")
    command = [sys.executable, "-c", ELSEWHERE, loader.graph.uri, path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nobody answers at sc://127.0.0.1:1" in shown.stdout
    assert not any(loader.tables().values())


def tell(number: int) -> dict[str, int]:
    return {"number": number, "process": os.getpid()}


def test_tasks_run_here_until_spark_has_started_and_then_there(spark: SparkSession) -> None:
    has_started = iter([False, False, True])
    here = begin_here(tell, 5, "asking", lambda: next(has_started))
    there = run_tasks(spark, Rest(tell, len(here)), 5 - len(here), job="asking")
    assert [each["number"] for each in (*here, *there)] == [0, 1, 2, 3, 4]
    assert {each["process"] for each in here} == {os.getpid()}
    assert os.getpid() not in {each["process"] for each in there}
    starting = StartingSpark(SETTINGS)
    starting.find()
    assert os.getpid() not in {each["process"] for each in starting.run(tell, 2, "asking")}


def test_the_local_engine_refuses_a_data_frame(loader: Loader, spark: SparkSession) -> None:
    frame = spark.createDataFrame([("ada",)], "name string")
    bulk = PipelineLoader(SETTINGS, LoadEngine.LOCAL)
    with pytest.raises(UsageError, match="the local engine reads files"):
        replace(loader, bulk=bulk).load(LoadMode.MERGE, Input(frame, type="Person"))
