"""What workers merge is what one upsert would have made of it, row ids included."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import SparkSession

from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.write.batch import Existing
from omnigraph.errors import LoadRejected
from omnigraph.ids import BranchName, TableKey
from omnigraph.pipeline.spark_load import SparkIngested
from omnigraph.storage.tables import ROW_ID, Pieces, ScanRequest, TableRef
from omnigraph.testing.invariants import check_graph
from support.loading import HUGE, SMALL, Loader, new_loader
from support.writing import stores_at

SCHEMA: Final = """
node Ant { name: String @key  size: F32?  tags: [String]?  vector: Vector(2)? }
node Bee { text: String? }
"""
EATS: Final = "edge Eats: Ant -> Bee"
Record = Mapping[str, object]
NUMBERS = count()
NAMES = st.sampled_from("abcdef")
TEXTS = st.one_of(st.none(), st.text(max_size=3))


def bees(text: st.SearchStrategy[object]) -> st.SearchStrategy[Record]:
    data = st.fixed_dictionaries({"id": NAMES, "text": text})
    return st.fixed_dictionaries({"type": st.just("Bee"), "data": data})


ANTS: st.SearchStrategy[list[Record]] = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("Ant"),
            "data": st.fixed_dictionaries(
                {
                    "name": NAMES,
                    "size": st.sampled_from([None, 0.5, 1e9]),
                    "tags": st.sampled_from([None, [], ["x", "y"]]),
                    "vector": st.sampled_from([None, [1.5, 2.0]]),
                }
            ),
        }
    ),
    max_size=6,
    unique_by=lambda each: each["data"]["name"],  # type: ignore[index] # drawn
)
INPUT = st.tuples(ANTS, st.lists(bees(TEXTS), max_size=12)).map(lambda both: [*both[0], *both[1]])


def loader_at(folder: Path, *, is_huge: bool) -> Loader:
    folder.mkdir()
    return new_loader(folder, HUGE if is_huge else SMALL, SCHEMA)


def row_ids(loader: Loader, key: str) -> dict[str, int]:
    graph = loader.graph
    stores = stores_at(Path(graph.uri))
    pin = graph.snapshot().pins[TableKey(key)]
    rows = stores.tables.read(
        graph.open_table(graph.snapshot(), pin.key), ScanRequest(("id",), with_row_id=True)
    )
    return dict(zip(map(str, rows["id"].to_pylist()), rows[ROW_ID].to_pylist(), strict=True))  # type: ignore[arg-type] # never null


@pytest.mark.slow
@settings(
    max_examples=4,
    deadline=None,
    # An example takes seconds; a smaller one is not worth the minutes of finding it.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(before=INPUT, merged=st.lists(INPUT, min_size=1, max_size=2))
def test_a_merge_by_workers_equals_one_upsert(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path_factory: pytest.TempPathFactory,
    before: list[Record],
    merged: list[list[Record]],
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    sides = [loader_at(folder / str(side), is_huge=bool(side)) for side in range(2)]
    for records in (before, *merged):
        known = [{key: row_ids(each, key) for key in ("node:Ant", "node:Bee")} for each in sides]
        for each in sides:
            each.put(LoadMode.MERGE, *records)
        assert sides[0].tables() == sides[1].tables()
        for each, ids in zip(sides, known, strict=True):
            for key, of_rows in ids.items():
                now = row_ids(each, key)
                assert {name: now[name] for name in of_rows} == of_rows
    for each in sides:
        assert check_graph(stores_at(Path(each.graph.uri))) == []


@pytest.fixture
def huge(spark: SparkSession, tmp_path: Path) -> Loader:  # noqa: ARG001 - starts Spark
    return new_loader(tmp_path, HUGE, SCHEMA)


def ant(name: str, **data: object) -> Record:
    return {"type": "Ant", "data": {"name": name, **data}}


def test_what_workers_replaced_is_found_by_the_next_write(huge: Loader) -> None:
    huge.put(LoadMode.APPEND, *[ant(f"a{number}", size=1) for number in range(20)])
    huge.put(LoadMode.MERGE, *[ant(f"a{number}", size=2) for number in range(10, 30)])
    huge.graph.write_rows("Ant", [{"name": "a15", "size": 3}], existing=Existing.REPLACE)
    huge.put(LoadMode.MERGE, ant("a15", size=4), ant("a0", size=4))
    sizes = {name: row["size"] for name, row in huge.tables()["Ant"].items()}
    assert len(sizes) == 30
    assert (sizes["a0"], sizes["a9"], sizes["a15"], sizes["a29"]) == (4, 1, 4, 2)


@pytest.mark.parametrize("mode", LoadMode)
def test_workers_write_to_a_fork_that_was_just_made(huge: Loader, mode: LoadMode) -> None:
    huge.put(LoadMode.APPEND, ant("a", size=1), ant("b", size=1))
    side = BranchName("side")
    huge.graph.create_branch(side)
    names = ["c", "d"] if mode is LoadMode.APPEND else ["b", "c"]
    huge.put(mode, *[ant(name, size=2) for name in names], branch=side)
    kept = {} if mode is LoadMode.OVERWRITE else {"a": 1.0, "b": 1.0}
    after = {name: row["size"] for name, row in huge.tables(side)["Ant"].items()}
    assert after == {**kept, **dict.fromkeys(names, 2.0)}
    assert {name: row["size"] for name, row in huge.tables()["Ant"].items()} == {"a": 1, "b": 1}
    assert check_graph(stores_at(Path(huge.graph.uri))) == []


def test_files_of_a_rejected_load_are_deleted_at_once(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path: Path,
) -> None:
    huge = new_loader(tmp_path, HUGE, SCHEMA + EATS)
    huge.put(LoadMode.APPEND, ant("a"), ant("b"))
    folder = Path(huge.graph.uri)

    def files() -> set[Path]:
        return {each for each in folder.rglob("*") if each.is_file() and "data" in each.parts}

    before = files()
    edge = {"edge": "Eats", "from": "a", "to": "nobody", "data": {}}
    for mode in LoadMode:
        with pytest.raises(LoadRejected, match="nobody"):
            huge.put(mode, ant("a", size=2), edge)
        assert files() == before


def test_a_table_that_moved_while_workers_merged_is_merged_again(
    huge: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge.put(LoadMode.APPEND, ant("a", size=1), ant("b", size=1))
    versions = []
    write = SparkIngested.write_pending

    def meddling(self: SparkIngested, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        pieces = write(self, key, pin, ref)
        versions.append(pin.version)
        if len(versions) == 1:
            huge.graph.write_rows("Ant", [{"name": "b", "size": 5}], existing=Existing.REPLACE)
        return pieces

    monkeypatch.setattr(SparkIngested, "write_pending", meddling)
    huge.put(LoadMode.MERGE, ant("a", size=2), ant("c", size=2))
    assert len(versions) == 2
    sizes = {name: row["size"] for name, row in huge.tables()["Ant"].items()}
    assert sizes == {"a": 2, "b": 5, "c": 2}
