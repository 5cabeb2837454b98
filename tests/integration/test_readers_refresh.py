"""A handle that lives long reads only what is new, and knows as much as one that reads all."""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import HealthCheck, example, given, settings, strategies as st

from omnigraph.commit.manifest.base import Base, Bases, read_base
from omnigraph.commit.manifest.branches import create_branch
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.updates import CommitIntent, DropTable, RegisterTable, Update
from omnigraph.effects import REAL
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings as OpenSettings
from omnigraph.errors import UpdateRefused
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Mark, TableSettings
from omnigraph.testing.faults import watch_stores
from support.publishing import Place, lineage_only, new_intent, pin_at

A, NEW = TableKey("node:A"), TableKey("node:New")
SIDE = BranchName("side")


@dataclass(frozen=True)
class Writer:
    """Somebody else. Does what a publish may do, and what it may not do but once did."""

    stores: Stores
    bases: Bases
    branch: BranchName
    reader: Bases
    """Whose handle lives long."""

    @property
    def base(self) -> Base:
        return self.bases.current(self.branch)

    def publish(self, *updates: Update, intents: tuple[CommitIntent, ...] = ()) -> None:
        publication = Publication(self.branch, intents or (new_intent(),), updates)
        publish(self.stores, self.bases, publication)

    def nothing(self) -> None:
        """Nobody writes."""

    def lineage(self) -> None:
        self.publish()

    def move(self) -> None:
        at = self.base.manifest.version_of(A)
        self.publish(pin_at(A, at + 1, row_count=at, owner=self.branch))

    def move_far(self) -> None:
        for _ in range(20):
            self.move()

    def hand_over(self) -> None:
        shown = self.base.manifest.latest[A]
        owner = SIDE if shown.owner == MAIN else MAIN
        self.publish(pin_at(A, shown.version, row_count=shown.row_count, owner=owner))

    def register(self) -> None:
        number = len(self.base.manifest.paths)
        key = TableKey(f"node:T{number}")
        self.publish(RegisterTable(key, f"nodes/{number:016x}"), pin_at(key, 1))

    def register_again(self) -> None:
        self.publish(RegisterTable(A, self.base.manifest.paths[A]))

    def drop(self) -> None:
        self.publish(DropTable(A, Version(self.base.manifest.latest[A].version)))

    def chain(self) -> None:
        self.publish(intents=(new_intent(), new_intent("omnigraph:recovery")))

    def merge(self) -> None:
        foreign = self.base.manifest.log.commits[0]
        carried = type(foreign)(
            CommitId(REAL.new_id()), SIDE, Version(9), foreign.id, None, "somebody", 7
        )
        merged = CommitIntent(
            CommitId(REAL.new_id()), 8, merged_parent=carried.id, carried=(carried,)
        )
        self.publish(intents=(merged,))

    def change_settings(self) -> None:
        staged = self.stores.tables.stage_settings(
            self.base.handle, TableSettings(config={"note": REAL.new_id()}), Mark(REAL.new_id())
        )
        self.stores.tables.commit_exact(staged)

    def slip(self) -> None:
        """Publish while the settings change: the commit is written once more, to put it right."""
        stores = watch_stores(self.stores, Slip(self))
        Writer(stores, Bases(stores), self.branch, self.reader).move()


@dataclass
class Slip:
    """Changes the settings before the first swap, and lets the reader look before the second."""

    writer: Writer
    swaps: int = 0

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - one call is meant
        if call == "tables.single_step.swap_rows":
            self.swaps += 1
            if self.swaps == 1:
                self.writer.change_settings()
            else:
                self.writer.reader.current(self.writer.branch)

    def after(self, call: str, *, is_write: bool) -> None:
        pass


ACTS: list[Callable[[Writer], None]] = [
    Writer.nothing,
    Writer.lineage,
    Writer.move,
    Writer.move_far,
    Writer.hand_over,
    Writer.register,
    Writer.register_again,
    Writer.drop,
    Writer.chain,
    Writer.merge,
    Writer.change_settings,
    Writer.slip,
]


def everything_in(base: Base) -> dict[str, object]:
    manifest = base.manifest
    return {
        "version": (manifest.version, base.handle.version, manifest.branch, base.identifier),
        "paths": dict(manifest.paths),
        "latest": dict(manifest.latest),
        "tombstones": dict(manifest.tombstones),
        "pins": dict(manifest.pins),
        "head": manifest.head,
        "commits": manifest.log.commits,
        "ancestors": sorted(each.id for each in manifest.log.ancestors),
    }


def make(root: str) -> Stores:
    place = Place(root)
    create(root, "node A { name: String @key }", settings=OpenSettings(durability=place.durability))
    return place.open()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rounds=st.lists(st.lists(st.sampled_from(ACTS), max_size=3), min_size=1, max_size=5),
    branch=st.sampled_from([MAIN, SIDE]),
    age=st.sampled_from([0, 3, 15]),
)
@example(rounds=[[Writer.slip]], branch=MAIN, age=0)
@example(rounds=[[Writer.lineage]], branch=SIDE, age=15)
def test_reading_on_tells_the_same_as_reading_all(
    rounds: list[list[Callable[[Writer], None]]], branch: BranchName, age: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stores = make(f"{folder}/g")
        bases, reader = Bases(stores), Bases(stores)
        for _ in range(age):
            publish(stores, bases, lineage_only())
        if branch != MAIN:
            create_branch(stores, branch, bases.current(MAIN).handle)
        writer = Writer(stores, bases, branch, reader)
        reader.current(branch)
        for acts in rounds:
            for act in acts:
                with suppress(UpdateRefused):  # dropped twice, say
                    act(writer)
            read_on, read_all = reader.current(branch), read_base(stores, branch)
            assert everything_in(read_on) == everything_in(read_all)


@dataclass
class Slow:
    """Opening takes a while, so that all who want to open are there."""

    opened: int = 0

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        if call == "tables.open_at":
            self.opened += 1
            REAL.sleep_ms(100)

    def after(self, call: str, *, is_write: bool) -> None:
        pass


def test_of_many_who_see_a_branch_move_one_reads_what_is_new(place: Place) -> None:
    stores = place.open()
    slow = Slow()
    reader = Bases(watch_stores(stores, slow))
    reader.current(MAIN)
    slow.opened = 0
    publish(stores, Bases(stores), Publication(MAIN, (new_intent(),), ()))
    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(lambda _: reader.current(MAIN).handle.version, range(8)))
    assert seen == {read_base(stores, MAIN).handle.version}
    assert slow.opened == 1
