"""Die at every store call of the driver while it commits what workers wrote.

Workers have done their part: fragments lie in their tables, and nobody refers to them. Whatever the
driver does from there on, it loads all of it or nothing.
"""

import json
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.context import WriteContext
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.run import LoadRequest, load
from omnigraph.engine.settings import Settings
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import STAGING
from omnigraph.testing.faults import Crash, CrashAt, FailAt, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.alone import Alone
from support.writing import (
    COMPANY,
    PERSON,
    SCHEMA,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

CONTRACT = compile_active_schema(SCHEMA, name="schema")
RELAXED = Settings(durability=Durability.RELAXED)
SIDE = BranchName("side")
OLD, SHARED, NEW = "first", "both", "second"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A graph with two rows in each table, and input that has one of them and a new one."""
    root = tmp_path / "before"
    new_graph(root)
    for name in (OLD, SHARED):
        write(mortal_bench(stores_at(root)), name)
    return root


def write_input(folder: Path, *names: str) -> str:
    path = folder / "input.jsonl"
    lines = [
        json.dumps({"type": each, "data": {"name": name}})
        for each in ("Person", "Company")
        for name in names
    ]
    path.write_text("\n".join(lines))
    return str(path)


def expected(mode: LoadMode) -> tuple[tuple[str, ...], set[str]]:
    """What comes in, and what is there afterwards."""
    match mode:
        case LoadMode.APPEND:
            return (NEW,), {OLD, SHARED, NEW}
        case LoadMode.MERGE:
            return (SHARED, NEW), {OLD, SHARED, NEW}
        case LoadMode.OVERWRITE:
            return (SHARED, NEW), {SHARED, NEW}


def run_load(context: WriteContext, scratch: Path, order: LoadRequest) -> None:
    load(context, CONTRACT, Alone(scratch), order, RELAXED)


def check_after(root: Path, branch: BranchName, allowed: tuple[set[str], ...]) -> set[str]:
    """The branch shows one of these, and the next one who comes can write."""
    heal(mortal_bench(stores_at(root)))
    people = names_in(root, PERSON, branch)
    assert people == names_in(root, COMPANY, branch), "half a load is visible"
    assert people in allowed
    write(mortal_bench(stores_at(root)), "third", branch=branch)
    assert names_in(root, PERSON, branch) == people | {"third"}
    assert check_graph(stores_at(root)) == []
    assert find_sidecars(stores_at(root).objects) == ()
    return people


@pytest.mark.parametrize("mode", LoadMode)
@pytest.mark.parametrize("when", When)
def test_a_crash_leaves_all_that_workers_wrote_or_nothing(
    tmp_path: Path, before: Path, when: When, mode: LoadMode
) -> None:
    names, after = expected(mode)
    order = LoadRequest((write_input(tmp_path, *names),), mode)
    seen = set()
    for step in count(1):
        root = tmp_path / str(step)
        shutil.copytree(before, root)
        fault = CrashAt(step, when)
        try:
            run_load(mortal_bench(watch_stores(stores_at(root), fault)), tmp_path / "s", order)
        except Crash:
            """It died; somebody else comes."""
        people = check_after(root, MAIN, ({OLD, SHARED}, after))
        seen.add(frozenset(people))
        shutil.rmtree(root)
        if not fault.dead:
            assert people == after
            break
    assert len(seen) == 2, "some crashes come before the commit and some after"


@pytest.mark.parametrize("mode", LoadMode)
def test_a_crash_while_workers_fill_a_fork_leaves_all_or_nothing(
    tmp_path: Path, mode: LoadMode
) -> None:
    """A fork knows the folder it came from, so each try needs a graph of its own."""
    names, after = expected(mode)
    order = LoadRequest((write_input(tmp_path, *names),), mode, SIDE)
    for step in count(1):
        root = tmp_path / str(step)
        graph = new_graph(root)
        for name in (OLD, SHARED):
            write(mortal_bench(stores_at(root)), name)
        graph.create_branch(SIDE)
        fault = CrashAt(step, When.AFTER)
        try:
            run_load(mortal_bench(watch_stores(stores_at(root), fault)), tmp_path / "s", order)
        except Crash:
            """It died; somebody else comes."""
        people = check_after(root, SIDE, ({OLD, SHARED}, after))
        assert names_in(root, PERSON) == {OLD, SHARED}
        shutil.rmtree(root)
        if not fault.dead:
            assert people == after
            break


@pytest.mark.parametrize("mode", LoadMode)
def test_what_is_said_of_a_store_call_that_fails_is_true(
    tmp_path: Path, before: Path, mode: LoadMode
) -> None:
    names, after = expected(mode)
    order = LoadRequest((write_input(tmp_path, *names),), mode)
    for step in count(1):
        root = tmp_path / str(step)
        shutil.copytree(before, root)
        fault = FailAt(step)
        allowed: tuple[set[str], ...] = (after,)
        try:
            run_load(mortal_bench(watch_stores(stores_at(root), fault)), tmp_path / "s", order)
        except OutcomeUnknown:
            allowed = ({OLD, SHARED}, after)
        except StorageFailure:
            allowed = ({OLD, SHARED},)
        check_after(root, MAIN, allowed)
        shutil.rmtree(root)
        if fault.seen < step:
            break


def interrupt_at(step: int) -> Callable[[str], None]:
    seen: list[str] = []

    def observe(name: str) -> None:
        seen.append(name)
        if len(seen) == step:
            raise KeyboardInterrupt

    return observe


@pytest.mark.parametrize("mode", LoadMode)
def test_an_interrupted_load_leaves_nothing_and_no_record(
    tmp_path: Path, before: Path, mode: LoadMode
) -> None:
    names, after = expected(mode)
    order = LoadRequest((write_input(tmp_path, *names),), mode)
    for step in count(1):
        root = tmp_path / str(step)
        shutil.copytree(before, root)
        context = WriteContext(
            stores_at(root), mortal_bench(stores_at(root)).bases, observe=interrupt_at(step)
        )
        try:
            run_load(context, tmp_path / "s", order)
        except KeyboardInterrupt:
            assert find_sidecars(stores_at(root).objects) == ()
            assert list((root / STAGING).iterdir()) == []
            check_after(root, MAIN, ({OLD, SHARED}, after))
            shutil.rmtree(root)
        else:
            break
    assert step > 3, "an attempt has more steps than that"
