"""What is cleared without a join is right, and texts that are equal meet in one bucket."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.commit.manifest.base import Bases
from omnigraph.engine.load.bulk import type_of
from omnigraph.engine.opening import create
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import build_column, column_type
from omnigraph.engine.write.batch import Existing
from omnigraph.ids import MAIN, TableKey
from omnigraph.pipeline.checks.prefilter import (
    CommittedLookup,
    Counted,
    CountedPairs,
    Disjoint,
    Distinct,
    KeyCondition,
    Paired,
    ProveConditions,
    Subset,
)
from omnigraph.pipeline.stage.buckets import (
    BucketColumn,
    BucketOrder,
    BucketPairs,
    BucketTexts,
    BucketWriter,
    find_buckets,
    own_buckets,
)
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.keys import texts_of
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import LOOKED_UP_MAX, TableRef
from omnigraph.testing.faults import Recorder, watch_stores
from support.writing import PERSON, bench_of, new_graph, stores_at, write

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["", "a", "b", "ab", "a long text of one kind", "a long text of two kinds"]
        ),
        st.text(max_size=12),
    ),
    max_size=12,
)
COUNTS = st.integers(1, 5)
NUMBERS = count()


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS, COUNTS)
def test_a_text_is_in_one_bucket_whatever_is_around_it(
    before: list[str], texts: list[str], buckets: int
) -> None:
    alone = [int(find_buckets(pa.array([text]), buckets)[0]) for text in texts]
    array = pa.array([*before, *texts], pa.string())
    assert find_buckets(array.slice(len(before)), buckets).tolist() == alone
    mine = array.slice(len(before))
    sorted_ = [some.to_pylist() for some in BucketOrder.of(mine, buckets).sort(mine)]
    assert sorted_ == [
        [text for text, at in zip(texts, alone, strict=True) if at == bucket]
        for bucket in range(buckets)
    ]


@pytest.mark.parametrize(
    "spell",
    ["p{:08}", "https://example.org/people/{:07}/index.html", "{}", "{:032x}", "{:06}@example.org"],
)
def test_keys_as_people_make_them_spread_over_the_buckets(spell: str) -> None:
    found = Counter(find_buckets(pa.array([spell.format(n) for n in range(20_000)]), 8).tolist())
    assert len(found) == 8
    assert max(found.values()) < 2 * min(found.values())


def find_unproven(question: KeyCondition, buckets: int) -> set[str]:
    work = ProveConditions((question,), buckets)
    return {str(text) for bucket in range(buckets) for text in work.find(question, bucket)}


def put(folder: Path, pairs: Sequence[tuple[str, str]], buckets: int) -> BucketPairs:
    """Two files, the one written in two pieces, beside a column of something else."""
    files = []
    columns = (*own_buckets("other", "text"), BucketColumn("who", "text"))
    for some in (pairs[::2], pairs[1::2]):
        path = folder / f"{next(NUMBERS)}.arrow"
        file = BucketWriter(path, columns, buckets)
        for piece in (some[:1], some[1:]):
            text, who = zip(*piece, (None, "nobody"), strict=True)
            rows = {"other": ["x"] * len(text), "text": text, "who": who}
            file.write(pa.table({name: pa.array(each, pa.string()) for name, each in rows.items()}))
        written = file.close()
        assert written is not None
        files.append(written)
    texts, partners = (
        BucketTexts(tuple(files), columns, column, len(pairs)) for column in columns[1:]
    )
    return BucketPairs(texts, partners)


def miscounted(counts: Mapping[str, int], low: int, high: int | None) -> set[str]:
    return {
        text for text, times in counts.items() if times < low or (high is not None and times > high)
    }


@settings(max_examples=150, deadline=None)
@given(ours=TEXTS, theirs=TEXTS, buckets=COUNTS, low=st.integers(0, 2), high=st.integers(0, 3))
def test_what_is_cleared_is_what_is_so(
    tmp_path_factory: pytest.TempPathFactory,
    ours: list[str],
    theirs: list[str],
    buckets: int,
    low: int,
    high: int,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    mine, others = (
        (put(folder, [(text, "") for text in each], buckets).texts,) for each in (ours, theirs)
    )
    in_ours, in_both = Counter(ours), Counter([*ours, *theirs])
    assert find_unproven(Distinct(mine), buckets) == miscounted(in_ours, 0, 1)
    assert find_unproven(Disjoint(mine, others), buckets) == set(ours) & set(theirs)
    assert find_unproven(Subset(mine, others), buckets) == set(ours) - set(theirs)
    assert find_unproven(Subset(mine, ()), buckets) == set(ours)
    counted = Counted((*mine, *others), low, high)
    assert find_unproven(counted, buckets) == miscounted(in_both, low, high)
    assert find_unproven(Counted(mine, low, None), buckets) == miscounted(in_ours, low, None)


PAIRS = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "ab", "c"]), st.sampled_from("xyz")), max_size=8
)


@settings(max_examples=100, deadline=None)
@given(ours=PAIRS, theirs=PAIRS, buckets=COUNTS, low=st.integers(0, 2), high=st.integers(0, 3))
def test_what_is_cleared_of_pairs_is_what_is_so(
    tmp_path_factory: pytest.TempPathFactory,
    ours: list[tuple[str, str]],
    theirs: list[tuple[str, str]],
    buckets: int,
    low: int,
    high: int,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    mine, others = ((put(folder, each, buckets),) for each in (ours, theirs))
    touched = {text for text, _ in ours}
    together = Counter(text for text, _ in {*ours, *theirs} if text in touched)
    alone = Counter(text for text, _ in {*ours})
    assert find_unproven(Paired(mine, others), buckets) == miscounted(together, 0, 1)
    assert find_unproven(Paired(mine, ()), buckets) == miscounted(alone, 0, 1)
    counted = CountedPairs(mine, others, low, high)
    assert find_unproven(counted, buckets) == miscounted(together, low, high)
    counted = CountedPairs(mine, others, low, None)
    assert find_unproven(counted, buckets) == miscounted(together, low, None)


def test_columns_that_are_left_out_are_empty(tmp_path: Path) -> None:
    columns = (*own_buckets("id", "src"), BucketColumn("src", "id"), BucketColumn("id", "src"))
    file = BucketWriter(tmp_path / "some.arrow", columns, 3)
    rows = pa.table({"id": ["1", "2"], "src": ["a", "b"]})
    file.write(rows, without=("id",))
    file.write(rows)
    path = file.close()
    assert path is not None
    expected = (["1", "2"], ["a", "a", "b", "b"], ["a", "b"], ["1", "1", "2", "2"])
    for column, held in zip(columns, expected, strict=True):
        texts = BucketTexts((path,), columns, column, 4)
        found = [text for bucket in range(3) for some in texts.read(bucket, 3) for text in some]
        assert sorted(str(text) for text in found) == held


def test_what_is_stored_is_asked_for_as_many_at_a_time_as_an_index_answers(tmp_path: Path) -> None:
    """Asked for more at once, the store would read the whole column."""
    root = tmp_path / "g"
    graph = new_graph(root)
    write(bench_of(stores_at(root)), "there")
    pin = Bases(stores_at(root)).current(MAIN).manifest.pins[PERSON]
    recorder = Recorder()

    class Watched(Storage):
        def open(self) -> Stores:
            return watch_stores(stores_at(root), recorder)

    storage = Watched(stores_at(root).root, {}, Durability.RELAXED)
    stored = CommittedLookup(
        storage, TableRef(pin.path), pin.version, type_of(graph.catalog, PERSON), "id"
    )
    texts = pa.array([*(f"p{number}" for number in range(2 * LOOKED_UP_MAX)), "there"])
    assert stored.find(texts).to_pylist() == [{"text": "there", "partner": "there"}]
    assert recorder.calls.count("tables.read") == 3


SCALARS: dict[str, tuple[str, list[Cell], Cell]] = {
    "text": ("String", ["it's", "", "1:a"], "nowhere"),
    "small": ("I32", [-(2**31), 0, 7], 8),
    "large": ("I64", [-(2**63), 2**63 - 1, 0], 1),
    "natural": ("U64", [2**64 - 1, 0, 3], 2**63),
    "single": ("F32", [-0.0, 0.1, 1e30], 0.2),
    "double": ("F64", [0.1, 0.0, -1e300], 0.10000000000000002),
    "flag": ("Bool", [True, None, None], False),
    "day": ("Date", [-1, 0, 19_844], 1),
    "instant": ("DateTime", [-1, 1_714_525_323_004, 0], 1),
    "kind": ("enum(a, b, c, d)", ["a", "b", "c"], "d"),
}
"""Of each column its type, what three rows hold, and what none holds."""


def test_unique_values_of_every_type_are_found_where_they_are_stored(tmp_path: Path) -> None:
    columns = "  ".join(f"{name}: {type_}? @unique" for name, (type_, _, _) in SCALARS.items())
    graph = create(str(tmp_path / "g"), f"node Thing {{ key: String @key  {columns} }}")
    held = {name: cells for name, (_, cells, _) in SCALARS.items()}
    rows = [{"key": f"k{at}", **{name: held[name][at] for name in held}} for at in range(3)]
    graph.write_rows("Thing", rows, existing=Existing.REFUSE)
    pin = graph.snapshot().pins[TableKey("node:Thing")]
    thing = type_of(graph.catalog, pin.key)
    storage = Storage(stores_at(tmp_path / "g").root, {}, Durability.RELAXED)
    for name, (_, (first, *_), absent) in SCALARS.items():
        column = build_column([first, absent], column_type(thing, name))
        texts = texts_of(thing, pa.table({name: column}), (name,))
        stored = CommittedLookup(
            storage, TableRef(pin.path), pin.version, thing, name, is_unique=True
        )
        assert stored.find(texts).to_pylist() == [{"text": texts[0].as_py(), "partner": "k0"}], name
