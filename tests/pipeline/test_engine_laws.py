"""Both engines make the same graph of the same input, or report the same faults in one order."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import SparkSession

from omnigraph.engine.load.bulk import BulkLoader, LoadEngine, LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.errors import KeyConflict, LoadRejected, UsageError
from omnigraph.pipeline.load import PipelineLoader
from omnigraph.pipeline.local_load import LocalLoader
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
LOCALS: Final = (LocalLoader(), LocalLoader(small_bytes=0, split_bytes=150, bucket_count=2))
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
    for number, local in enumerate(LOCALS):
        assert outcome(folder / f"local-{number}", local, mode, records) == expected


def test_the_size_of_the_input_chooses_the_engine(loader: Loader) -> None:
    path = loader.write(person("ada"))
    size_bytes = Path(path).stat().st_size
    for local_bytes, expected in (
        (size_bytes, LoadEngine.LOCAL),
        (size_bytes - 1, LoadEngine.SPARK),
    ):
        bulk = PipelineLoader(SETTINGS, local_bytes=local_bytes)
        result = replace(loader, bulk=bulk).load(LoadMode.MERGE, path)
        assert result.engine is expected


def test_the_local_engine_refuses_a_data_frame(loader: Loader, spark: SparkSession) -> None:
    frame = spark.createDataFrame([("ada",)], "name string")
    bulk = PipelineLoader(SETTINGS, LoadEngine.LOCAL)
    with pytest.raises(UsageError, match="the local engine reads files"):
        replace(loader, bulk=bulk).load(LoadMode.MERGE, Input(frame, type="Person"))
