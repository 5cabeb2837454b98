"""Die at every single write of a schema change, of each kind of step, and look at what is left.

Whatever dies wherever: the schema is the old one or the new one, whole, and so are the rows; no
lock, no note and no half-made table stays; the same change can be made again.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.storage.layout import SCHEMA_LOCK_OWNER
from omnigraph.testing.failpoints import Trigger, kill
from omnigraph.testing.faults import Crash, CrashAt, CrashOn, FailAt, When, sweep
from support.breaking import (
    COMPANY,
    INSERT,
    PERSON,
    SCHEMA,
    SIDE,
    WORKS,
    Content,
    check_whole,
    open_living,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.failpoints import FAILPOINTS
from support.folders import put_back, read_folder
from support.processes import Died, launch

STRIDE = int(os.environ.get("OMNIGRAPH_SWEEP_STRIDE", "6"))

CHANGES = {
    "a type is added": SchemaRequest(SCHEMA + "node Pet { name: String @key }\n"),
    "a property is added": SchemaRequest(SCHEMA.replace("age: I64?", "age: I64?  mail: String?")),
    "a property is filled": SchemaRequest(
        SCHEMA.replace("age: I64?", "age: I64?  n: I32 @default(3)")
    ),
    "a property is renamed": SchemaRequest(
        SCHEMA.replace("age: I64?", 'years: I64? @rename_from("age")')
    ),
    "a property is dropped for good": SchemaRequest(
        SCHEMA.replace("  age: I64?", ""), allow_data_loss=True
    ),
    "a type is renamed": SchemaRequest(
        SCHEMA.replace("node Company", 'node Firm @rename_from("Company")').replace(
            "-> Company", "-> Firm"
        )
    ),
    "a type is dropped": SchemaRequest(SCHEMA.replace("edge Works: Person -> Company", "")),
    "only a description changes": SchemaRequest(
        SCHEMA.replace("node Company", 'node Company @description("who pays")')
    ),
    "everything at once": SchemaRequest(
        """
node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age")  n: I32 }
node Pet { name: String @key }
edge Knows: Human -> Human { since: I64?  note: String? }
""",
        backfill={"Human.n": "coalesce(age, 0)"},
    ),
}

every_change = pytest.mark.parametrize("order", [pytest.param(o, id=n) for n, o in CHANGES.items()])


class Stage:
    """A graph before a change, and what it shows before and after."""

    def __init__(self, root: Path, order: SchemaRequest) -> None:
        self.root = root
        self.order = order
        populate(root)
        self.files = read_folder(root)
        before = read_content(root)
        old = open_mortal(root).schema_source
        open_mortal(root).apply_schema(order)
        self.allowed: tuple[Content, Content] = (before, read_content(root))
        self.sources = (old, order.text)

    def deaths(self, when: When) -> Iterator[CrashAt]:
        def attempt(fault: CrashAt) -> None:
            put_back(self.root, self.files)
            open_mortal(self.root, fault).apply_schema(self.order)

        yield from sweep(when, attempt)

    def check(self) -> int:
        """Which of the two states the graph is in, wholly. Raises AssertionError."""
        graph = open_mortal(self.root)
        assert graph.examine(is_deep=True) == []
        stores = stores_at(self.root)
        assert not stores.objects.exists(SCHEMA_LOCK_OWNER)
        if self.allowed[0] == self.allowed[1]:
            outcome = self.sources.index(graph.schema_source)
            check_whole(self.root, self.allowed)
            return outcome
        outcome = check_whole(self.root, self.allowed)
        assert graph.schema_source == self.sources[outcome]
        return outcome


@every_change
def test_a_crash_anywhere_leaves_the_old_schema_or_the_new_one(
    tmp_path: Path, order: SchemaRequest
) -> None:
    stage = Stage(tmp_path / "g", order)
    outcomes = []
    for fault in stage.deaths(When.BEFORE):
        if not fault.dead:
            break
        open_mortal(stage.root).refresh()
        outcomes.append(stage.check())
        if outcomes[-1] == 0 and fault.step % 4 == 0:
            assert open_mortal(stage.root).apply_schema(order).applied, "it can be made again"
            assert stage.check() == 1
    assert outcomes == sorted(outcomes), "once it cannot be undone it is never undone"
    assert set(outcomes) == {0, 1}
    assert stage.check() == 1, "the run that survived"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES if STRIDE == 1 else ["everything at once"])
def test_recovering_a_schema_change_may_die_anywhere_too(tmp_path: Path, name: str) -> None:
    stage = Stage(tmp_path / "g", CHANGES[name])
    for first in count(1, STRIDE):
        for second in count(1, STRIDE):
            put_back(stage.root, stage.files)
            with suppress(Crash):
                open_mortal(stage.root, CrashAt(first, When.BEFORE)).apply_schema(stage.order)
                return
            again = CrashAt(second, When.BEFORE)
            with suppress(Crash):
                open_mortal(stage.root, again).refresh()
            open_mortal(stage.root).refresh()
            stage.check()
            if not again.dead:
                break


def test_a_hard_drop_that_died_before_its_purge_stands_and_cleanup_reclaims_it(
    tmp_path: Path,
) -> None:
    """schema.before_hard_gc."""
    root = tmp_path / "g"
    path = populate(root).snapshot().pins[WORKS].path
    order = SchemaRequest(SCHEMA.replace("edge Works: Person -> Company", ""), allow_data_loss=True)
    with pytest.raises(Crash):
        open_mortal(root, CrashOn("objects.delete_prefix")).apply_schema(order)
    graph = open_mortal(root)
    graph.refresh()
    assert WORKS not in graph.snapshot().pins
    assert (root / path).exists()
    clean = CleanupRequest(RetentionPolicy(keep=1), is_confirmed=True, debris_age_ms=-60_000)
    graph.cleanup(clean)
    assert not (root / path).exists()


def change_and_die(root: Path, name: str) -> None:
    """In a process of its own: change the schema, and be killed on the way."""
    trigger = Trigger(FAILPOINTS[name].at, kill)
    open_living(root, trigger, observe=trigger.observe).apply_schema(CHANGES["a type is added"])


def be_killed(root: Path, name: str) -> None:
    victim = launch(change_and_die, root, name)
    victim.await_ready()
    victim.begin()
    outcome = victim.finish(300)
    assert isinstance(outcome, Died), outcome
    assert outcome.exit_code == -9, outcome.report


def test_a_merge_needs_no_reopening_after_a_schema_change_was_killed(tmp_path: Path) -> None:
    """The lock is there, and nobody stands behind it."""
    root = tmp_path / "g"
    populate(root).create_branch(SIDE)
    graph = open_living(root)
    graph.ask(INSERT, SIDE)
    be_killed(root, "schema.after_lock")
    merged = graph.merge(MergeRequest(SIDE))
    assert merged.tables == (PERSON,)
    assert not stores_at(root).objects.exists(SCHEMA_LOCK_OWNER)
    assert graph.examine(is_deep=True) == []


@pytest.mark.parametrize(
    ("name", "is_done"),
    [
        ("schema.after_lock", False),
        ("mutation.post_finalize_pre_publisher", True),
        ("schema.before_lock_release", True),
    ],
)
def test_indexes_need_no_reopening_after_a_schema_change_was_killed(
    tmp_path: Path, name: str, *, is_done: bool
) -> None:
    root = tmp_path / "g"
    populate(root)
    graph = open_living(root)
    be_killed(root, name)
    built = graph.ensure_indices()
    assert {each.table for each in built.indexes} >= {PERSON, COMPANY}
    assert ("Pet" in graph.schema_source) is is_done
    assert not stores_at(root).objects.exists(SCHEMA_LOCK_OWNER)
    assert graph.examine(is_deep=True) == []


class FailDurably(FailAt):
    """Leases that cannot be given back are another story: they run out."""

    def before(self, call: str, *, is_write: bool) -> None:
        super().before(call, is_write=is_write and not call.startswith("volatile."))


@pytest.mark.parametrize("name", ["everything at once", "only a description changes"])
def test_a_store_that_fails_anywhere_leaves_all_or_nothing(tmp_path: Path, name: str) -> None:
    stage = Stage(tmp_path / "g", CHANGES[name])
    for step in count(1):
        put_back(stage.root, stage.files)
        fault = FailDurably(step)
        graph = open_living(stage.root, fault)
        try:
            graph.apply_schema(stage.order)
        except StorageFailure:
            graph.refresh()
            assert stage.check() == 0
        except OutcomeUnknown:
            graph.refresh()
            stage.check()
        else:
            graph.refresh()
            assert stage.check() == 1
        if fault.seen < step:
            return
