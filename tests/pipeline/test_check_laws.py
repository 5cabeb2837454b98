"""Both kinds of joins find what the evaluator finds, in any input and whatever is there before."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings, strategies as st
from pyspark.sql import SparkSession

from omnigraph.commit.manifest.base import Bases
from omnigraph.engine.load.bulk import BulkLoader, CheckResult, LoadMode
from omnigraph.engine.load.incoming import Incoming, evaluate
from omnigraph.ids import MAIN
from omnigraph.pipeline.local_load import LocalLoader
from support.loading import LARGE, SMALL, Loader, new_loader
from support.writing import stores_at

SCHEMA = """
node Ant {
  name: String @key
  size: F32? @unique
  born: Date?  rank: U64?
  @unique(born, rank)
}
node Bee { seen: DateTime? @unique }
node Cow { name: String @key  bell: String? @unique }
edge Eats: Ant -> Bee @card(1..2) { day: Date?  @unique(src, day) }
edge Meets: Bee -> Bee @card(2..3)
edge Keeps: Ant -> Ant | Cow @card(1..2)
"""

Record = Mapping[str, object]
NAMES = st.sampled_from(["a", "b", "c"])
SIZES = st.sampled_from([None, 0.0, -0.0, 0.1, 2])
DAYS = st.sampled_from([None, "1970-01-01", 0, "2024-05-01"])
RANKS = st.sampled_from([None, 0, 2**64 - 1])
BELLS = st.sampled_from([None, "", "it's"])
INSTANTS = st.sampled_from([None, "1970-01-01T00:00:00Z", 0, 5])


def data(**parts: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(parts)


def edges(
    name: str, sources: object, targets: object, **parts: object
) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries(
        {"edge": st.just(name), "from": sources, "to": targets, "data": data(**parts)}  # type: ignore[dict-item, arg-type] # drawn from strategies
    )


RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("Ant"),
            "data": data(name=NAMES, size=SIZES, born=DAYS, rank=RANKS),
        }
    ),
    st.fixed_dictionaries({"type": st.just("Bee"), "data": data(id=NAMES, seen=INSTANTS)}),
    st.fixed_dictionaries({"type": st.just("Cow"), "data": data(name=NAMES, bell=BELLS)}),
    edges("Eats", NAMES, NAMES, id=NAMES, day=DAYS),
    edges("Meets", NAMES, NAMES, id=NAMES),
    edges("Keeps.Ant.Ant", NAMES, NAMES, id=NAMES),
    edges("Keeps.Ant.Cow", NAMES, NAMES, id=NAMES),
)
INPUT = st.lists(RECORDS, min_size=1, max_size=9)
BEFORE: tuple[Record, ...] = (
    {"type": "Ant", "data": {"name": "a", "size": 0.1, "born": 0, "rank": 0}},
    {"type": "Ant", "data": {"name": "d", "size": 2}},
    {"type": "Cow", "data": {"name": "a", "bell": ""}},
    {"type": "Cow", "data": {"name": "d", "bell": "it's"}},
    {"type": "Bee", "data": {"id": "a", "seen": 5}},
    {"type": "Bee", "data": {"id": "d"}},
    {"edge": "Eats", "from": "a", "to": "a", "data": {"id": "a", "day": 0}},
    {"edge": "Eats", "from": "d", "to": "a", "data": {"id": "x"}},
    {"edge": "Meets", "from": "a", "to": "a", "data": {"id": "b"}},
    {"edge": "Meets", "from": "a", "to": "d", "data": {"id": "x"}},
    {"edge": "Keeps.Ant.Ant", "from": "a", "to": "d", "data": {"id": "a"}},
    {"edge": "Keeps.Ant.Cow", "from": "a", "to": "a", "data": {"id": "a"}},
    {"edge": "Keeps.Ant.Cow", "from": "d", "to": "a", "data": {"id": "b"}},
)


@pytest.fixture(scope="module")
def colony(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    loader = new_loader(tmp_path_factory.mktemp("colony"), LocalLoader(), SCHEMA)
    loader.put(LoadMode.APPEND, *BEFORE)
    return loader


@pytest.fixture(scope="module")
def desert(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    return new_loader(tmp_path_factory.mktemp("desert"), LocalLoader(), SCHEMA)


def summary(result: CheckResult) -> object:
    """What is reported, in its order. Which of two equal zeros is shown does not matter."""
    faults = [
        (each.kind, each.message.replace("-0.0", "0.0"), each.file, each.line, each.ids)
        for each in result.faults.listed
    ]
    return faults, dict(result.existing)


def ask(loader: Loader, bulk: BulkLoader, mode: LoadMode, path: str) -> CheckResult:
    stores = stores_at(Path(loader.graph.uri))
    manifest = Bases(stores).current(MAIN).manifest
    job = loader.job(mode, path, manifest, 1000)
    with bulk.ingest(job) as ingested:
        assert not ingested.faults.count
        incoming = Incoming(loader.graph.catalog, mode, ingested)
        checked = ingested.check(manifest.pins)
        return checked or evaluate(stores, manifest, incoming, errors_max=1000)


Law = Callable[..., None]
EXAMPLES = int(os.environ.get("OMNIGRAPH_CHECK_EXAMPLES", "5"))


def about_any_load(law: Law) -> Law:
    drawn = given(
        records=INPUT, mode=st.sampled_from(LoadMode), is_empty=st.booleans(), asks=st.booleans()
    )
    lost_edge = example(
        # A source loses its only edge to a later line with the same id.
        records=[
            {"edge": "Meets", "from": "a", "to": "b", "data": {"id": "c"}},
            {"edge": "Meets", "from": "b", "to": "a", "data": {"id": "c"}},
            {"edge": "Meets", "from": "c", "to": "b", "data": {"id": "b"}},
        ],
        mode=LoadMode.MERGE,
        is_empty=False,
        asks=False,
    )
    taken = example(
        # Its id is taken, and who has it leaves a source that must have an edge.
        records=[{"edge": "Eats", "from": "b", "to": "a", "data": {"id": "a", "day": None}}],
        mode=LoadMode.APPEND,
        is_empty=False,
        asks=True,
    )
    other_pair = example(
        # The source has an edge of one pair already, and gets one of each.
        records=[
            {"edge": "Keeps.Ant.Cow", "from": "d", "to": "a", "data": {"id": "c"}},
            {"edge": "Keeps.Ant.Ant", "from": "d", "to": "a", "data": {"id": "c"}},
        ],
        mode=LoadMode.MERGE,
        is_empty=False,
        asks=False,
    )
    return other_pair(lost_edge(taken(drawn(law))))


@settings(max_examples=12 * EXAMPLES, deadline=None)
@about_any_load
def test_joins_in_memory_find_what_the_evaluator_finds(
    colony: Loader,
    desert: Loader,
    records: list[Record],
    mode: LoadMode,
    is_empty: bool,  # noqa: FBT001 - drawn
    asks: bool,  # noqa: FBT001 - drawn
) -> None:
    loader = desert if is_empty else colony
    path = loader.write(*records)
    joins = LocalLoader(small_bytes=0, split_bytes=150, bucket_count=2)
    joins = replace(joins, lookup_ratio=0) if asks else joins
    expected = summary(ask(loader, LocalLoader(), mode, path))
    assert summary(ask(loader, joins, mode, path)) == expected


@pytest.mark.slow
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    # An example takes seconds; a smaller one is not worth the minutes of finding it.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@about_any_load
def test_joins_find_what_the_evaluator_finds(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    colony: Loader,
    desert: Loader,
    records: list[Record],
    mode: LoadMode,
    is_empty: bool,  # noqa: FBT001 - drawn
    asks: bool,  # noqa: FBT001 - drawn
) -> None:
    loader = desert if is_empty else colony
    path = loader.write(*records)
    large = replace(LARGE, lookup_ratio=0) if asks else LARGE
    assert summary(ask(loader, large, mode, path)) == summary(ask(loader, SMALL, mode, path))
