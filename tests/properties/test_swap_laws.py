"""Whatever is swapped, by whom and in which form: a manifest is what a dict would be."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from omnigraph.commit.manifest.base import Base, Bases, read_base
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.effects import REAL
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, TableKey
from omnigraph.storage import layout
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import Landed, ManifestSwap, Mark, TableRef
from support.publishing import Place, advance, new_intent

EXAMPLES = int(os.environ.get("OMNIGRAPH_SWAP_EXAMPLES", "12"))
MANIFEST = TableRef(layout.MANIFEST)
COLUMNS: dict[str, pa.DataType] = {"key": pa.string(), "value": pa.int64()}
SCHEMA = pa.schema(COLUMNS)

WRITERS = [(form, number) for form in ManifestSwap for number in range(2)]
SWAPS = st.lists(
    st.tuples(
        st.sampled_from(WRITERS),
        st.integers(0, 600),
        st.integers(1, 200),
        st.sets(st.integers(0, 800), max_size=4),
    ),
    min_size=4,
    max_size=14,
)
"""Who, the first of a run of keys, how many, and others."""


def entries(keys: set[str], value: int) -> pa.Table:
    return pa.table({"key": sorted(keys), "value": [value] * len(keys)}, schema=SCHEMA)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SWAPS)
def test_swaps_leave_what_a_dict_would_hold_at_every_version(
    swaps: list[tuple[tuple[ManifestSwap, int], int, int, set[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            (form, number): open_stores(
                str(Path(folder) / "g"), REAL, durability=Durability.RELAXED, swap=form
            )
            for form, number in WRITERS
        }
        first = stores[ManifestSwap.REWRITE_TAIL, 0].tables
        staged = first.stage_create(MANIFEST, SCHEMA, Mark(REAL.new_id()), entries({"head"}, 0))
        assert isinstance(first.commit_exact(staged), Landed)
        expected = {1: {"head": 0}}
        for value, (writer, begin, count, others) in enumerate(swaps, start=1):
            tables = stores[writer].tables
            keys = {"head"} | {f"k{each}" for each in {*range(begin, begin + count), *others}}
            handle = tables.open_at(MANIFEST)
            rows, mark = entries(keys, value), Mark(REAL.new_id())
            outcome = tables.single_step.swap_rows(handle, rows, key="key", mark=mark)
            assert isinstance(outcome, Landed)
            expected[value + 1] = expected[value] | dict.fromkeys(keys, value)
        for version, values in expected.items():
            found = first.read(first.open_at(MANIFEST, version))
            pairs = list(zip(*(found[each].to_pylist() for each in ("key", "value")), strict=True))
            assert len(pairs) == len(values), "a key appears twice"
            assert dict(pairs) == values


A = TableKey("node:A")
GRAPH = "node A { name: String @key }"
PUBLISHES = st.lists(
    st.tuples(st.sampled_from(WRITERS), st.integers(1, 90), st.booleans()), min_size=3, max_size=10
)
"""Who, how many commits, and whether somebody reads on then."""


def told(base: Base) -> tuple[object, ...]:
    manifest, log = base.manifest, base.manifest.log
    return manifest.version, manifest.pins, log.head, log.commits, log.ancestors


@settings(max_examples=EXAMPLES, deadline=None)
@given(PUBLISHES)
def test_reading_on_tells_what_reading_everything_does(
    publishes: list[tuple[tuple[ManifestSwap, int], int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "g")
        create(
            uri, "node A { name: String @key }", settings=Settings(durability=Durability.RELAXED)
        )
        places = {writer: Place(uri, swap=writer[0]) for writer in WRITERS}
        stores = {writer: place.open() for writer, place in places.items()}
        writers = {writer: Bases(each) for writer, each in stores.items()}
        reading = Place(uri).open()
        reader = Bases(reading)
        reader.current(MAIN)
        for writer, count, is_read in publishes:
            moved = advance(writers[writer], A)
            chain = tuple(new_intent() for _ in range(count))
            publication = Publication(MAIN, chain, moved.updates, expected=moved.expected)
            publish(stores[writer], writers[writer], publication)
            if is_read:
                assert told(reader.current(MAIN)) == told(read_base(reading, MAIN))
        assert told(reader.current(MAIN)) == told(read_base(reading, MAIN))
