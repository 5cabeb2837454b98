"""The totals of texts survive compaction without being counted again, and never change a score."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.effects import REAL
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.texts import TextColumn, read_totals, totals_key
from omnigraph.engine.search.totals import Ledger
from omnigraph.engine.tables.metered import Metered
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import (
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    Mark,
    Refused,
    Staged,
    TableRef,
    TableSettings,
)
from omnigraph.testing.faults import Recorder, watch_stores

BODY = IndexSpec("body", IndexKind.INVERTED)
SCHEMA = pa.schema({"id": pa.string(), "body": pa.string()})
BEST = "fox word3"


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return open_stores(str(tmp_path), REAL, durability=Durability.RELAXED)


def commit(stores: Stores, staged: Staged) -> Handle:
    outcome = stores.tables.commit_exact(staged)
    assert isinstance(outcome, Landed)
    return outcome.handle


def mark() -> Mark:
    return Mark(REAL.new_id())


def texts(start: int, count: int) -> Iterator[dict[str, str | None]]:
    """Of growing length, and now and then none."""
    for number in range(start, start + count):
        body = None if number % 7 == 5 else " ".join([f"word{number % 9}", *["fox"] * (number % 4)])
        yield {"id": f"d{number:03}", "body": body}


@pytest.fixture
def handle(stores: Stores) -> Handle:
    """Three fragments of ten rows and a large one with an index over them; rows are gone."""
    found = commit(stores, stores.tables.stage_create(TableRef("t"), SCHEMA, mark()))
    for start, count in ((0, 10), (10, 10), (20, 10), (30, 60)):
        rows = pa.Table.from_pylist(list(texts(start, count)), schema=SCHEMA)
        found = commit(stores, stores.tables.stage_append(found, rows, mark()))
    indexed = stores.tables.stage_indices(found, [BODY], IndexScope.UNCOVERED, mark())
    assert indexed is not None
    found = commit(stores, indexed)
    doomed = "id IN ('d003', 'd004') OR (id >= 'd050' AND id < 'd060')"
    found = commit(stores, stores.tables.stage_delete(found, doomed, mark()))
    return commit(stores, Ledger(stores.tables).stage(("body",), found, mark()))


def score(stores: Stores, handle: Handle, scan_rows_max: int) -> dict[str, float]:
    read = TextColumn(Metered(stores.tables, handle), "body", scan_rows_max, KeptTexts(0))
    ids, scores = read.collection(BEST).score(BEST.split())
    values = scores.to_numpy(zero_copy_only=False).tolist()
    return dict(zip(map(str, ids.to_pylist()), values, strict=True))


@pytest.mark.parametrize(("rows_per_file", "counted"), [(1_000, 0), (23, 25)])
def test_compacted_fragments_have_the_totals_a_count_would_give_them(
    stores: Stores, handle: Handle, rows_per_file: int, counted: int
) -> None:
    """Of a group that became several fragments, all but the largest are counted."""
    recorder = Recorder()
    ledger = Ledger(watch_stores(stores, recorder).tables)
    staged = stores.tables.stage_compaction(handle, rows_per_file=rows_per_file)
    assert staged is not None
    ledger.carry_over(handle, stores.tables.inspect(handle), ["body"], staged)
    outcome = stores.tables.single_step.commit_compaction(staged)
    assert isinstance(outcome, Landed)
    after = commit(stores, ledger.stage(("body",), outcome.handle, mark()))
    noted = read_totals(after.config, "body")
    fragments = stores.tables.inspect(after).fragments
    assert noted == TextColumn(Metered(stores.tables, after), "body", kept=KeptTexts(0)).count(
        fragments
    )
    assert recorder.count("tables.scan") == (1 if counted else 0)
    others = [group.after[:-1] for group in staged.groups]
    sizes = {each.identity: each.row_count for each in fragments}
    assert sum(sizes[each] for group in others for each in group) == counted
    assert score(stores, after, 0) == pytest.approx(score(stores, after, 1_000))
    assert len(score(stores, after, 0)) > 50


def test_what_was_never_counted_is_counted_after_the_compaction(
    stores: Stores, handle: Handle
) -> None:
    ledger = Ledger(stores.tables)
    staged = stores.tables.stage_compaction(handle)
    assert staged is not None
    nothing_noted = commit(
        stores,
        stores.tables.stage_settings(handle, TableSettings({totals_key("body"): None}), mark()),
    )
    ledger.carry_over(nothing_noted, stores.tables.inspect(handle), ["body"], staged)
    outcome = stores.tables.single_step.commit_compaction(staged)
    assert not isinstance(outcome, Refused)
    after = commit(stores, ledger.stage(("body",), outcome.handle, mark()))
    fragments = stores.tables.inspect(after).fragments
    counted = TextColumn(Metered(stores.tables, after), "body", kept=KeptTexts(0)).count(fragments)
    assert read_totals(after.config, "body") == counted
