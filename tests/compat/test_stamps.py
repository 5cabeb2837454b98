"""Which formats are refused, where, and when."""

from pathlib import Path

import pytest

from omnigraph.commit.compat.migrate import STEPS
from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.publish import publish
from omnigraph.commit.manifest.stamp import CURRENT, FLOOR, KEY, read_stamp
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.errors import FormatTooNew, FormatTooOld
from omnigraph.ids import MAIN
from omnigraph.storage.stores import Stores, open_stores
from support.folders import read_folder
from support.old_graphs import (
    FEATURE,
    GENESIS,
    PERSON,
    SCHEMA,
    STAMP,
    V0,
    V3_BRANCHED,
    V4,
    V5,
    set_stamp,
    write_old_graph,
)
from support.publishing import lineage_only

BOTH_MODES = pytest.mark.parametrize("mode", list(Mode))


def stores_of(root: Path) -> Stores:
    return open_stores(str(root), REAL)


def test_every_format_from_the_floor_to_the_current_one_has_a_step() -> None:
    """Raising `CURRENT` without a step, or `FLOOR` without dropping one, fails here."""
    assert set(STEPS) == set(range(FLOOR, CURRENT))


def test_the_fixtures_and_the_program_mean_the_same_key() -> None:
    assert KEY == STAMP


@BOTH_MODES
def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, mode: Mode) -> None:
    graph = write_old_graph(tmp_path / "g", V5)
    before = read_folder(graph.root)
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first") as refused:
        open_graph(str(graph.root), mode=mode)
    assert (refused.value.found, refused.value.supported) == (5, CURRENT)
    assert read_folder(graph.root) == before


@BOTH_MODES
def test_a_format_below_the_floor_is_refused_and_left_alone(tmp_path: Path, mode: Mode) -> None:
    graph = write_old_graph(tmp_path / "g", V0)
    before = read_folder(graph.root)
    with pytest.raises(FormatTooOld, match="older release first") as refused:
        open_graph(str(graph.root), mode=mode)
    assert (refused.value.found, refused.value.supported) == (0, FLOOR)
    assert read_folder(graph.root) == before


@BOTH_MODES
def test_a_newer_format_is_told_apart_from_a_broken_schema(tmp_path: Path, mode: Mode) -> None:
    """A newer program may well keep its schema in files that make no sense to us."""
    graph = write_old_graph(tmp_path / "g", V5)
    (graph.root / "__schema_state.json").write_text('{"format_version": 2}')
    with pytest.raises(FormatTooNew):
        open_graph(str(graph.root), mode=mode)


@pytest.mark.parametrize(("stamp", "error"), [("5", FormatTooNew), ("0", FormatTooOld)])
def test_a_branch_of_an_unsupported_format_is_refused_while_main_is_read(
    tmp_path: Path, stamp: str, error: type[Exception]
) -> None:
    graph = write_old_graph(tmp_path / "g", V3_BRANCHED)
    set_stamp(graph.root / "__manifest", stamp, FEATURE)
    opened = open_graph(str(graph.root))
    stores = stores_of(graph.root)

    assert opened.snapshot().commit == graph.main[-1]
    with pytest.raises(error):
        opened.snapshot(FEATURE)
    with pytest.raises(error):
        opened.commits(FEATURE)
    with pytest.raises(error):
        publish(stores, Bases(stores), lineage_only(FEATURE))


def test_a_branch_that_becomes_too_new_is_refused_by_a_graph_that_is_open(tmp_path: Path) -> None:
    graph = write_old_graph(tmp_path / "g", V3_BRANCHED)
    opened = open_graph(str(graph.root), mode=Mode.READ_ONLY)
    assert opened.snapshot(FEATURE).commit == graph.feature[-1]
    set_stamp(graph.root / "__manifest", "5", FEATURE)
    with pytest.raises(FormatTooNew):
        opened.snapshot(FEATURE)


@pytest.mark.parametrize("stamp", ["", "four", "-1", "1.5", "²"])
def test_a_stamp_that_is_no_number_means_the_first_format(tmp_path: Path, stamp: str) -> None:
    graph = write_old_graph(tmp_path / "g", V4)
    set_stamp(graph.root / "__manifest", stamp)
    stores = stores_of(graph.root)
    assert read_stamp(read_base(stores, MAIN).handle) == 1
    opened = open_graph(str(graph.root))
    assert read_stamp(read_base(stores, MAIN).handle) == CURRENT
    assert tuple(reversed(opened.commits())) == graph.main


def test_a_new_graph_is_stamped_from_its_first_version_on(tmp_path: Path) -> None:
    create(str(tmp_path / "g"), SCHEMA)
    stores = stores_of(tmp_path / "g")
    base = read_base(stores, MAIN)
    assert (base.handle.version, read_stamp(base.handle)) == (1, CURRENT)


def test_versions_of_the_past_are_read_whatever_their_stamp(tmp_path: Path) -> None:
    """The first version of a graph of the reference has no stamp, and genesis is read there."""
    graph = write_old_graph(tmp_path / "g", V4)
    opened = open_graph(str(graph.root))
    genesis = opened.snapshot_at_commit(GENESIS)
    assert (genesis.manifest_version, genesis.commit) == (1, graph.main[0])
    assert opened.open_table(genesis, PERSON).row_count == 0


def test_a_version_of_the_past_with_a_newer_stamp_is_read(tmp_path: Path) -> None:
    graph = write_old_graph(tmp_path / "g", V4)
    manifest = graph.root / "__manifest"
    set_stamp(manifest, "5")
    set_stamp(manifest, "4")
    opened = open_graph(str(graph.root))
    newest = opened.snapshot().manifest_version
    past = opened.snapshot_at_version(MAIN, type(newest)(newest - 1))
    assert past.pins == opened.snapshot().pins
