"""What is cleared without a join is right, and texts that are equal meet in one bucket."""

from collections import Counter
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.commit.base import Bases
from omnigraph.ids import MAIN
from omnigraph.pipeline.buckets import BucketFile, Texts, find_buckets, sort_texts
from omnigraph.pipeline.sift import Apart, Counted, Distinct, Plain, Sift, Stored, Within
from omnigraph.pipeline.stage import Storage
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import LOOKED_UP_MAX, TableRef
from omnigraph.testing.faults import Recorder, watch_stores
from omnigraph.testing.writing import PERSON, bench_of, new_graph, stores_at, write

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
    sorted_ = [some.to_pylist() for some in sort_texts(array.slice(len(before)), buckets)]
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


def is_clear(question: Plain, buckets: int) -> bool:
    work = Sift((question,), buckets)
    return not any(work(bucket)["doubts"] for bucket in range(buckets))


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

    def put(texts: list[str]) -> tuple[Texts, ...]:
        """Two files, the one written in two pieces, beside a column of something else."""
        files = []
        for some in (texts[::2], texts[1::2]):
            path = Path(folder) / f"{next(NUMBERS)}.arrow"
            file = BucketFile(path, ("other", "text"), buckets)
            for piece in (some[:1], some[1:]):
                column = pa.array([*piece, None], pa.string())
                other = pa.array(["x"] * len(column), pa.string())
                file.write(pa.table({"other": other, "text": column}))
            written = file.close()
            assert written is not None
            files.append(written)
        return (Texts(tuple(files), ("other", "text"), "text", len(texts)),)

    mine, others = put(ours), put(theirs)
    both = Counter([*ours, *theirs])
    assert is_clear(Distinct(mine), buckets) == (len(set(ours)) == len(ours))
    assert is_clear(Apart(mine, others), buckets) == (not set(ours) & set(theirs))
    assert is_clear(Within(mine, others), buckets) == (set(ours) <= set(theirs))
    assert is_clear(Within(mine, ()), buckets) == (not ours)
    fits = all(low <= times <= high for times in both.values())
    assert is_clear(Counted((*mine, *others), low, high), buckets) == fits
    assert is_clear(Counted(mine, low, None), buckets) == all(
        low <= times for times in Counter(ours).values()
    )


def test_columns_that_are_left_out_are_empty(tmp_path: Path) -> None:
    file = BucketFile(tmp_path / "some.arrow", ("id", "src"), 3)
    rows = pa.table({"id": ["1", "2"], "src": ["a", "b"]})
    file.write(rows, without=("id",))
    file.write(rows)
    path = file.close()
    assert path is not None
    for name, expected in (("id", ["1", "2"]), ("src", ["a", "a", "b", "b"])):
        texts = Texts((path,), ("id", "src"), name, 4)
        found = [text for bucket in range(3) for some in texts.read(bucket, 3) for text in some]
        assert sorted(str(text) for text in found) == expected


def test_what_is_stored_is_asked_for_as_many_at_a_time_as_an_index_answers(tmp_path: Path) -> None:
    """Asked for more at once, the store would read the whole column."""
    root = tmp_path / "g"
    new_graph(root)
    write(bench_of(stores_at(root)), "there")
    pin = Bases(stores_at(root)).current(MAIN).manifest.pins[PERSON]
    recorder = Recorder()

    class Watched(Storage):
        def open(self) -> Stores:
            return watch_stores(stores_at(root), recorder)

    storage = Watched(stores_at(root).root, {}, Durability.RELAXED)
    stored = Stored(storage, TableRef(pin.path), pin.version, "id")
    texts = pa.array([*(f"p{number}" for number in range(2 * LOOKED_UP_MAX)), "there"])
    assert [text.as_py() for some in stored.find(texts) for text in some] == ["there"]
    assert recorder.calls.count("tables.locate") == 3
