"""A full disk, a disk that became read-only, too few file descriptors, a clock that jumps.

The errors are typed, what failed has changed nothing or says that it is not known, and everything
goes on once the cause is gone.
"""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.errors import OmnigraphError, OutcomeUnknown, StorageFailure
from omnigraph.testing.faults import STRIDE
from support.breaking import (
    INSERT,
    PAIR,
    BreakableGraph,
    check_lasting,
    check_whole,
    open_living,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.folders import put_back, read_folder
from support.power_story import load
from support.processes import Raised, Returned, launch

PAGE_BYTES: Final = 4096
PAGES_MAX: Final = 400
"""A write needs less than this."""

Work = Callable[[BreakableGraph], object]


def insert(graph: BreakableGraph) -> object:
    return graph.ask(PAIR)


@contextmanager
def mounted(place: Path) -> Iterator[Path]:
    """A small disk in memory. Skips where nothing may be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk") as place:
        yield place


@contextmanager
def almost_full(disk: Path, pages: int) -> Iterator[None]:
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail
    ballast.write_bytes(bytes((free - pages) * PAGE_BYTES))
    try:
        yield
    finally:
        ballast.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("work", [insert, load])
def test_a_disk_that_fills_up_at_any_write_fails_it_typed_and_loses_nothing(
    disk: Path, work: Work
) -> None:
    """The disk has room for no page, for one, and so on, until the write succeeds."""
    root = disk / "g"
    populate(root)
    files, before = read_folder(root), read_content(root)
    work(open_mortal(root))
    after = read_content(root)
    failures = 0
    for pages in range(0, PAGES_MAX, STRIDE):
        put_back(root, files)
        graph, known = open_living(root), None
        try:
            with almost_full(disk, pages):
                work(graph)
        except OmnigraphError as error:
            failures += 1
            known = not isinstance(error, OutcomeUnknown)
        open_in(stores_at(root), Mode.READ_WRITE)
        shown = check_whole(root, [before, after])
        if known is None:
            assert shown == 1, "it was acknowledged"
            break
        assert not (known and shown), f"it was called failed with {pages} pages, and is there"
        open_mortal(root).ask(INSERT)
    assert failures > 1
    check_lasting(root)


def test_a_disk_that_became_read_only_is_read_and_refuses_to_be_written(disk: Path) -> None:
    root = disk / "g"
    populate(root)
    before = read_content(root)
    graph = open_living(root)
    remount = ["mount", "-o", "remount", str(disk)]
    subprocess.run([*remount[:2], "remount,ro", str(disk)], check=True)
    try:
        with pytest.raises(StorageFailure):
            graph.ask(PAIR)
        reader = open_in(stores_at(root), Mode.READ_ONLY)
        assert reader.snapshot().commit is not None
        with pytest.raises(StorageFailure):
            open_living(root).ask(PAIR)
    finally:
        subprocess.run([*remount[:2], "remount,rw", str(disk)], check=True)
    check_whole(root, [before])
    graph.ask(PAIR)
    check_lasting(root)


def write_with_descriptors(root: Path, count: int) -> None:
    """For a process of its own."""
    graph = open_living(root)
    graph.snapshot()
    limit = len(list(Path("/proc/self/fd").iterdir())) + count
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    graph.ask(PAIR)


@pytest.mark.slow
def test_too_few_file_descriptors_fail_a_write_typed_and_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "g"
    populate(root)
    files, before = read_folder(root), read_content(root)
    open_mortal(root).ask(PAIR)
    after = read_content(root)
    kinds = []
    for count in (0, 1, 2, 4, 64):
        put_back(root, files)
        writer = launch(write_with_descriptors, root, count)
        writer.await_ready()
        writer.begin()
        outcome = writer.finish(120)
        open_in(stores_at(root), Mode.READ_WRITE)
        shown = check_whole(root, [before, after])
        if isinstance(outcome, Returned):
            assert shown == 1
        else:
            assert isinstance(outcome, Raised), outcome
            assert outcome.kind in ("StorageFailure", "OutcomeUnknown"), outcome.report
            assert not (shown and outcome.kind == "StorageFailure")
        kinds.append(type(outcome))
    assert kinds[0] is Raised
    assert kinds[-1] is Returned
    check_lasting(root)


@pytest.mark.parametrize("jump_ms", [-86_400_000, 86_400_000])
def test_a_clock_that_jumps_changes_no_order(tmp_path: Path, jump_ms: int) -> None:
    root = tmp_path / "g"
    first = populate(root).snapshot().commit
    stores = stores_at(root)
    wrong = replace(REAL, now_ms=lambda: REAL.now_ms() + jump_ms)
    graph = open_living(root)
    jumped = BreakableGraph(replace(stores, effects=wrong), graph.active_schema())
    second = jumped.ask(PAIR).commit
    third = graph.ask(INSERT).commit
    assert first is not None
    assert second is not None
    assert third is not None
    assert [each.id for each in graph.commits()][:3] == [third.id, second.id, first.id]
    check_lasting(root)
