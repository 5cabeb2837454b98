"""What a load is cleared of without Spark, the evaluator finds right: nothing slips through.

The local engine runs the prefilter, and here it may join nothing, so it leaves what it does not
prove to the evaluator. `test_check_laws` compares what the joins find.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.commit.manifest.base import Bases
from omnigraph.engine.load.bulk import CheckResult, LoadMode
from omnigraph.engine.load.incoming import Incoming, evaluate
from omnigraph.engine.write.batch import Existing
from omnigraph.ids import MAIN
from omnigraph.pipeline.checks import prefilter
from omnigraph.pipeline.local_load import LocalLoader
from support.loading import SMALL, Loader, new_loader
from support.writing import stores_at

SCHEMA = """
node Ant { name: String @key  size: F32? @unique  born: Date?  rank: I32?  @unique(born, rank) }
node Bee { seen: I32? @unique }
edge Eats: Ant -> Bee @card(1..2) { day: I32?  @unique(src, day) }
edge Meets: Bee -> Bee @card(0..2)
"""
Record = Mapping[str, object]
BEFORE: Mapping[str, Sequence[Record]] = {
    "Ant": [
        {"name": "a", "size": 0, "born": 0, "rank": 0},
        {"name": "b", "size": 1, "born": 0, "rank": 1},
        {"name": "c"},
    ],
    "Bee": [{"id": "a", "seen": 0}, {"id": "b", "seen": 1}],
    "Eats": [
        {"id": "a", "from": "a", "to": "a", "day": 0},
        {"id": "b", "from": "a", "to": "b", "day": 1},
        {"id": "c", "from": "b", "to": "b", "day": 0},
    ],
    "Meets": [{"id": "a", "from": "a", "to": "a"}, {"id": "b", "from": "b", "to": "a"}],
}


@pytest.fixture(scope="module")
def colony(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    loader = new_loader(tmp_path_factory.mktemp("colony"), SMALL, SCHEMA)
    for name, rows in BEFORE.items():
        loader.graph.write_rows(name, rows, existing=Existing.REFUSE)
    return loader


def records_of(name: str, rows: Sequence[Record]) -> list[Record]:
    if name in ("Ant", "Bee"):
        return [{"type": name, "data": row} for row in rows]
    ends = ("from", "to")
    return [
        {
            "edge": name,
            **{end: row[end] for end in ends},
            "data": {key: cell for key, cell in row.items() if key not in ends},
        }
        for row in rows
    ]


def ask(
    loader: Loader, bulk: LocalLoader, mode: LoadMode, records: Sequence[Record]
) -> tuple[CheckResult | None, CheckResult]:
    """What is said without Spark, if anything is, and what the evaluator says."""
    stores = stores_at(Path(loader.graph.uri))
    manifest = Bases(stores).current(MAIN).manifest
    job = loader.job(mode, loader.write(*records), manifest, 100)
    with bulk.ingest(job) as ingested:
        assert not ingested.faults.count
        incoming = Incoming(loader.graph.catalog, mode, ingested)
        evaluated = evaluate(stores, manifest, incoming, errors_max=100)
        return ingested.check(manifest.pins), evaluated


NAMES, CELLS = st.sampled_from("abcd"), st.sampled_from([None, 0, 1, 2])


def rows_of(name: str) -> st.SearchStrategy[list[Record]]:
    columns: Mapping[str, Mapping[str, st.SearchStrategy[Any]]] = {
        "Ant": {"name": NAMES, "size": CELLS, "born": CELLS, "rank": CELLS},
        "Bee": {"id": NAMES, "seen": CELLS},
        "Eats": {"id": NAMES, "from": NAMES, "to": st.sampled_from("ab"), "day": CELLS},
        "Meets": {"id": NAMES, "from": st.sampled_from("abc"), "to": NAMES},
    }
    rows = st.lists(st.fixed_dictionaries(columns[name]), min_size=1, max_size=4)
    return rows.map(lambda some: records_of(name, some))


RECORDS = st.one_of(
    *(rows_of(name) for name in BEFORE),
    st.tuples(*(rows_of(name) for name in BEFORE)).map(lambda parts: [*chain(*parts)]),
)


READING = LocalLoader(small_bytes=0, split_bytes=150, bucket_count=3, join_rows_max=0)
ASKING = replace(READING, lookup_ratio=0)
"""What is there is looked up, and not read, if there are no values that are unique together."""
BULKS = pytest.mark.parametrize("bulk", [READING, ASKING], ids=["reading", "asking"])


@settings(max_examples=int(os.environ.get("OMNIGRAPH_PREFILTER_EXAMPLES", "60")), deadline=None)
@given(RECORDS, st.sampled_from(LoadMode), st.booleans())
def test_what_is_cleared_without_spark_is_right(
    colony: Loader,
    records: list[Record],
    mode: LoadMode,
    asks: bool,  # noqa: FBT001 - drawn
) -> None:
    said, evaluated = ask(colony, ASKING if asks else READING, mode, records)
    is_right = not evaluated.faults.count and not evaluated.existing
    if said is not None:
        assert (said.faults, said.existing) == (evaluated.faults, evaluated.existing)
        assert is_right
    elif mode is not LoadMode.MERGE:
        # Only what is replaced can be in doubt and right.
        assert not is_right


@BULKS
def test_merging_the_same_again_and_more_is_cleared(colony: Loader, bulk: LocalLoader) -> None:
    """It is what merges do, so it must not take a join."""
    more: Mapping[str, Sequence[Record]] = {
        "Ant": [{"name": "e", "size": 5, "born": 5, "rank": 5}],
        "Bee": [{"id": "e", "seen": 5}],
        "Eats": [{"id": "e", "from": "e", "to": "e", "day": 0}],
        "Meets": [{"id": "e", "from": "a", "to": "e"}],
    }
    records = [
        record for name, rows in BEFORE.items() for record in records_of(name, [*rows, *more[name]])
    ]
    said, _ = ask(colony, bulk, LoadMode.MERGE, records)
    assert said is not None
    assert not said.faults.count


def bee(**data: object) -> Record:
    return {"type": "Bee", "data": data}


def meeting(identity: str, source: str, target: str) -> Record:
    return {"edge": "Meets", "from": source, "to": target, "data": {"id": identity}}


APPEND, MERGE = LoadMode.APPEND, LoadMode.MERGE


@BULKS
def test_what_is_new_and_leads_to_what_is_there_is_cleared(
    colony: Loader, bulk: LocalLoader
) -> None:
    records = [bee(id="x", seen=7), meeting("x", "x", "a"), meeting("y", "b", "a")]
    said, _ = ask(colony, bulk, APPEND, records)
    assert said is not None
    assert not said.faults.count


@BULKS
@pytest.mark.parametrize(
    ("mode", "records"),
    [
        (APPEND, [bee(id="a")]),
        (APPEND, [bee(id="x"), bee(id="x")]),
        (APPEND, [bee(id="x", seen=0)]),
        (APPEND, [bee(id="x", seen=7), bee(id="y", seen=7)]),
        (APPEND, [meeting("x", "a", "nobody")]),
        (APPEND, [meeting("x", "a", "b"), meeting("y", "a", "b")]),
        (LoadMode.OVERWRITE, [bee(id="x")]),
        (MERGE, [bee(id="x", seen=0)]),
        (MERGE, [bee(id="b", seen=0)]),
        (MERGE, [bee(id="x", seen=7), bee(id="y", seen=7)]),
        (MERGE, [meeting("x", "nobody", "a")]),
        (MERGE, [meeting("x", "a", "b"), meeting("y", "a", "b")]),
        (MERGE, [meeting("x", "a", "b"), meeting("b", "a", "b")]),
    ],
)
def test_what_is_there_already_stands_against_what_comes_in(
    colony: Loader, bulk: LocalLoader, mode: LoadMode, records: list[Record]
) -> None:
    said, evaluated = ask(colony, bulk, mode, records)
    assert said is None
    assert evaluated.faults.count or evaluated.existing


@pytest.mark.parametrize(
    "records",
    [
        records_of("Ant", [{"name": "a", "size": 1}, {"name": "b", "size": 0}]),
        records_of("Bee", [{"id": "a"}, {"id": "c", "seen": 0}]),
        records_of("Bee", [{"id": "c", "seen": 2}, {"id": "c"}, {"id": "d", "seen": 2}]),
        records_of("Meets", [{"id": "a", "from": "b", "to": "a"}]),
    ],
    ids=["swapped", "given up", "of a row that does not count", "another source"],
)
def test_what_moves_from_row_to_row_is_left_to_the_join(
    colony: Loader, records: list[Record]
) -> None:
    said, evaluated = ask(colony, READING, LoadMode.MERGE, records)
    assert said is None
    assert not evaluated.faults.count


@pytest.mark.parametrize("mode", LoadMode)
def test_what_is_too_much_for_a_task_is_left_to_spark(
    colony: Loader, mode: LoadMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        *records_of("Bee", [{"id": "x", "seen": 7}]),
        *records_of("Meets", [{"id": "x", "from": "x", "to": "x"}]),
    ]
    if mode is LoadMode.OVERWRITE:
        records += records_of("Eats", [{"id": "x", "from": "a", "to": "x"}])
    said, _ = ask(colony, READING, mode, records)
    assert said is not None
    monkeypatch.setattr(prefilter, "ROWS_PER_BUCKET_MAX", 0)
    said, _ = ask(colony, READING, mode, records)
    assert said is None
