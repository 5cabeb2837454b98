"""Processes, clocks and faults by one seed: the commit layer and the writers, simulated.

Each process of a simulation is a task that stops before and after every call to a store. The seed
decides which task goes on, and what happens to it: it dies, it pauses for longer than its leases
live, a request fails or its reply is lost, an idempotent request arrives twice, the second time
late. Time is a number; waits cost nothing, and each process has a clock that is wrong in its own
way. Everything else is the product: `commit`, `engine.write`, and Lance on a file system in memory.

A process may have threads that share it, as those of a server do: their writes form groups. At any
moment one thread runs (`support.lockstep`). So a seed and a commit repeat a run.
"""

import argparse
import faulthandler
import random  # noqa: TID251 - a simulation is repeated by its seed
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Semaphore
from typing import Final, cast

from ulid import ULID

from omnigraph.commit.leases.heartbeat import Heartbeat, Renewable
from omnigraph.commit.leases.held_leases import HeldLeases
from omnigraph.commit.leases.lease import Timing
from omnigraph.commit.leases.owner import Owner
from omnigraph.commit.manifest.base import read_base
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.effects import REAL, Effects
from omnigraph.engine.active_schema import read_active_schema
from omnigraph.engine.maintain.doctor import CLEANUP_LATER
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.idempotency import parse_key
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import ConflictError, InputError, OmnigraphError, StorageFailure
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.storage.durability import Durability, RelaxedDisk
from omnigraph.storage.objects import Listed, Objects, StoredObject, Tag
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.stores import Stores, open_stores, open_tables
from omnigraph.testing.faults import Crash, watch_stores
from omnigraph.testing.invariants import check_graph
from support import mixed_storm
from support.breaking import BreakableGraph, find_audit_faults
from support.lockstep import FOR_EVER, Strand, in_lockstep
from support.storm import KNOWS, NAMES, PERSON, PROGRAM, SCHEMA, Asked, Model, read_notes

MEMORY: Final = Path("/dev/shm")
PROCESSES: Final = 4
STEPS: Final = 4_000
"""Of one world. Then it ends, and another one begins with the next seed."""
ENDING_STEPS_MAX: Final = 20_000
SIDE: Final = BranchName("left")
TIMING: Final = Timing(ttl_ms=800, heartbeat_ms=240, wait_ms_max=4_000, poll_ms=20)
BEGIN_MS: Final = 1_800_000_000_000
STEP_MS_MAX: Final = 4
SKEW_MS_MAX: Final = 3_600_000
PATIENCE_S: Final = 40.0
"""How long a thread of this program may take for one call to a store."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each fault is at one call to a store."""

    crash: float = 0.003
    pause: float = 0.02
    fail: float = 0.004
    lose_reply: float = 0.02
    twice: float = 0.1


FROZEN: Final = 0.5
"""How often a pause is one of the whole process, if it has several threads."""

CALM: Final = Faults(0, 0, 0, 0, 0)


class World:
    """The clock, the store and the tasks of one simulation."""

    def __init__(self, root: Path, seed: int, faults: Faults) -> None:
        self.root = root
        self.dice = random.Random(seed)
        self.faults = faults
        self.now_ms = BEGIN_MS
        self.modified: dict[str, int] = {}
        self.tasks: list[Task] = []
        self.steps = 0
        self.faulted: Counter[str] = Counter()
        self.log: list[str] = []
        """Every step, for comparing two runs."""
        self.is_ending = False
        """Does no task begin another work?"""
        self.turn = Semaphore(0)
        self.running: Strand | None = None
        self.stuck: list[str] = []
        """Threads that wait for each other."""
        self.late: list[tuple[int, str, str, bytes]] = []
        """Repetitions on their way: when they arrive, the method, the key and the data."""

    def run(self, until: int) -> None:
        """Let the tasks go on by turns, until so many steps are done or all tasks have ended."""
        while self.steps < until and (living := self._find_living()) and not self.stuck:
            self._deliver()
            ready = [each for each in living if each.wakes_ms <= self.now_ms]
            if not ready:
                soonest = min(each.wakes_ms for each in living)
                if soonest >= FOR_EVER:
                    self.stuck = [f"{each.name} waits for ever" for each in living]
                self.now_ms = soonest
                continue
            self.running = self.dice.choice(ready)
            self.steps += 1
            self.now_ms += self.dice.randint(0, STEP_MS_MAX)
            self.running.go.release()
            if not self.turn.acquire(timeout=PATIENCE_S):
                faulthandler.dump_traceback()
                raise AssertionError(f"{self.running.name} waits in secret: {self.log[-5:]}")
            self.running = None

    def _find_living(self) -> list[Strand]:
        return [each for task in self.tasks for each in task.strands if not each.is_over]

    def _deliver(self) -> None:
        arrived = [each for each in self.late if each[0] <= self.now_ms]
        self.late = [each for each in self.late if each not in arrived]
        for _, method, key, data in arrived:
            objects = Clocked(self, LocalObjects(self.root, RelaxedDisk()))
            with suppress(OmnigraphError):
                if method == "delete":
                    objects.delete(key)
                else:
                    objects.put_over(key, data)

    def effects_of(self, task: "Task") -> Effects:
        chance = random.Random(self.dice.random())
        skew_ms = self.dice.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
        booted_ms = self.dice.randint(0, BEGIN_MS)

        def new_id() -> str:
            time_ms = self.now_ms + skew_ms
            return str(ULID(time_ms.to_bytes(6, "big") + chance.randbytes(10)))

        return Effects(
            now_ms=lambda: self.now_ms + skew_ms,
            monotonic_ms=lambda: self.now_ms - booted_ms,
            sleep_ms=task.sleep_ms,
            new_id=new_id,
        )


class Clocked:
    """`Objects` of a folder, by the clock of the simulation."""

    def __init__(self, world: World, inner: LocalObjects) -> None:
        self._world = world
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def _touch(self, key: str, tag: Tag) -> Tag:
        self._world.modified[key] = self._world.now_ms
        return tag

    def read(self, key: str) -> StoredObject:
        return replace(self._inner.read(key), modified_ms=self._world.modified.get(key, 0))

    def list(self, prefix: str) -> Sequence[Listed]:
        modified = self._world.modified
        found = self._inner.list(prefix)
        return [replace(each, modified_ms=modified.get(each.key, 0)) for each in found]

    def put_over(self, key: str, data: bytes) -> Tag:
        return self._touch(key, self._inner.put_over(key, data))

    def put_new(self, key: str, data: bytes) -> Tag:
        return self._touch(key, self._inner.put_new(key, data))

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        return self._touch(key, self._inner.put_if_match(key, data, tag=tag))

    def delete(self, key: str, *, is_flushed: bool = True) -> None:
        self._inner.delete(key, is_flushed=is_flushed)

    def clock_ms(self) -> int:
        return self._world.now_ms


class Repeating(Clocked):
    """The objects of one process: now and then a request arrives once more, much later."""

    def put_over(self, key: str, data: bytes) -> Tag:
        self._repeat("put_over", key, data)
        return super().put_over(key, data)

    def delete(self, key: str, *, is_flushed: bool = True) -> None:
        self._repeat("delete", key, b"")
        super().delete(key, is_flushed=is_flushed)

    def _repeat(self, method: str, key: str, data: bytes) -> None:
        world = self._world
        if world.dice.random() < world.faults.twice:
            world.faulted["twice"] += 1
            world.late.append((world.now_ms + world.dice.randint(0, 500), method, key, data))


class Beat(Heartbeat):
    """Renews leases when the simulation lets the process go on, and so not while it is paused."""

    def __init__(self, task: "Task") -> None:
        super().__init__(TIMING.heartbeat_ms)
        self._task = task
        self._held: list[Renewable] = []
        self._due_ms = 0

    def add(self, leases: Renewable) -> None:
        if leases not in self._held:
            self._held.append(leases)

    def remove(self, leases: Renewable) -> None:
        if leases in self._held:
            self._held.remove(leases)

    def beat(self, now_ms: int) -> None:
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + TIMING.heartbeat_ms
        for each in list(self._held):
            # The call that the process makes may be a renewal itself; a thread would wait for it.
            assert isinstance(each, HeldLeases)
            if not each._lock.locked():
                each.renew()


# ── a process ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Deed:
    """One write that a client asked for: what came of it, and when."""

    asked: Asked
    if_commit: CommitId | None
    is_keyed: bool
    begun: int
    ended: int | None = None
    told: str | None = None
    """The commit that acknowledged it."""
    is_empty: bool = False
    """Acknowledged, and nothing had to be changed."""
    refused: str | None = None

    @property
    def outcome(self) -> str:
        if self.told is not None:
            return "committed"
        return "without effect" if self.is_empty else "refused" if self.refused else "unknown"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one read returned."""

    branch: BranchName
    commit: CommitId
    people: Mapping[str, int]
    knows: Counter[tuple[str, str, int]]


@dataclass
class History:
    deeds: list[Deed] = field(default_factory=list)
    reads: list[Seen] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


class Task:
    """A process: works through its list, call by call, until it is done or dies."""

    clients = 1
    """How many of its threads do so."""
    processes = PROCESSES
    """How many of them there are at a time."""
    branches: tuple[BranchName, ...] = (MAIN, SIDE)
    faults = Faults()
    kinds: Sequence[int] = range(12)
    """Of its works: a read, an optimize, a keyed write, one with `if_commit`; all else writes."""

    def __init__(self, world: World, name: str, history: History) -> None:
        self.world = world
        self.name = name
        self.history = history
        self.is_dead = False
        self.frozen_until_ms = 0
        self.beat = Beat(self)
        self._is_beating = False
        self.effects = world.effects_of(self)
        self.strands: list[Strand] = []
        self.start(self._live, "")

    @property
    def is_over(self) -> bool:
        return all(each.is_over for each in self.strands)

    def start(self, work: Callable[[], object], name: str) -> Strand:
        """Another thread of the process."""
        strand = Strand(self.world, self, partial(self._run, work), f"{self.name} {name}".strip())
        self.strands.append(strand)
        return strand

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Crash:
            self.is_dead = True
        except BaseException as error:  # noqa: BLE001 - the judge is told
            where = "".join(traceback.format_tb(error.__traceback__)[-4:])
            self.history.unexpected.append(f"{self.name}: {error!r} at\n{where}")

    def _live(self) -> None:
        try:
            graph = self._open()
        except OmnigraphError as error:
            # A process that cannot even open the graph ends, and another one is started.
            self.world.log.append(f"{self.name} gave up: {error.code.value}")
            self.is_dead = True
            return
        for each in range(1, self.clients):
            self.start(partial(self._serve, graph, f"{self.name}.{each}"), f"client {each}")
        self._serve(graph, self.name)

    def _serve(self, graph: BreakableGraph, client: str) -> None:
        for number in count():
            if self.world.is_ending:
                break
            self._work(graph, f"{client}:{number}")

    def die_if_dead(self) -> None:
        if self.is_dead:
            raise Crash(self.name)

    @property
    def _running(self) -> Strand:
        running = self.world.running
        assert running is not None, "a process does nothing unless it is its turn"
        return running

    def sleep_ms(self, duration_ms: int) -> None:
        self._running.sleep_ms(duration_ms)
        self.die_if_dead()
        self._beat()

    def _pause(self, duration_ms: int) -> None:
        """One request is slow, or the whole process is frozen."""
        if self.clients > 1 and self.world.dice.random() < FROZEN:
            self.frozen_until_ms = self.world.now_ms + duration_ms
        self.sleep_ms(duration_ms)

    # `Watch`: every call to a store

    def before(self, call: str, *, is_write: bool) -> None:
        self._step(call, "before")
        faults = self.world.faults
        if self._happens("fail", faults.fail):
            raise StorageFailure("send", subject=call, reason="the request was lost")
        if is_write and self._happens("pause", faults.pause):
            self._pause(self.world.dice.randint(1, 4 * TIMING.ttl_ms))

    def after(self, call: str, *, is_write: bool) -> None:
        self._step(call, "after")
        if is_write and self._happens("lose_reply", self.world.faults.lose_reply):
            raise StorageFailure("receive", subject=call, reason="the reply was lost")

    def _step(self, call: str, when: str) -> None:
        self.die_if_dead()
        self.world.log.append(f"{self._running.name} {when} {call}")
        self._running.hand_over()
        self.die_if_dead()
        if self._happens("crash", self.world.faults.crash):
            self.is_dead = True
            raise Crash(call)
        self._beat()

    def _happens(self, fault: str, chance: float) -> bool:
        happens = self.world.dice.random() < chance
        self.world.faulted[fault] += happens
        return happens

    def _beat(self) -> None:
        if self._is_beating:
            return
        self._is_beating = True
        try:
            self.beat.beat(self.world.now_ms)
        finally:
            self._is_beating = False

    # what it does

    def _open(self) -> BreakableGraph:
        stores = watch_stores(stores_of(self.world, self.effects), self)
        contract = read_active_schema(
            stores.objects, read_base(stores, MAIN).manifest.log.schema_hash
        )
        owner = Owner(f"host of {self.name}", "boot", 1, 1)
        graph = BreakableGraph(stores, contract, owner=owner, timing=TIMING)
        graph.context.leases._heartbeat = self.beat
        graph.refresh()
        return graph

    def _work(self, graph: BreakableGraph, tag: str) -> None:
        dice = self.world.dice
        branch = dice.choice(self.branches)
        kind = dice.choice(self.kinds)
        try:
            if kind == 0:
                self.history.reads.append(_look(graph, branch))
            elif kind == 1:
                graph.optimize(branch)
            else:
                self._write(graph, branch, tag, kind)
        except OmnigraphError as error:
            self.world.log.append(f"{self.name} was told {error.code.value}")

    def _write(self, graph: BreakableGraph, branch: BranchName, tag: str, kind: int) -> None:
        is_keyed, is_conditional = kind == 2, kind == 3
        if_commit = None
        if is_conditional:
            head = graph.snapshot(branch).commit
            if_commit = None if head is None else head.id
        deed = Deed(_draw(self.world.dice, tag, branch), if_commit, is_keyed, self.world.steps)
        self.history.deeds.append(deed)
        for _ in range(3 if is_keyed else 1):
            if self._ask(graph, deed):
                return

    def _ask(self, graph: BreakableGraph, deed: Deed) -> bool:
        """True once the outcome is known."""
        asked = deed.asked
        key = parse_key(asked.tag, asked.query, dict(asked.params)) if deed.is_keyed else None
        request = WriteRequest(
            asked.branch, actor=asked.tag, if_commit=deed.if_commit, idempotency=key
        )
        try:
            result = graph.mutate(PROGRAM, name=asked.query, params=asked.params, request=request)
        except (InputError, ConflictError) as error:
            deed.refused = error.code.value
        except StorageFailure:
            # Not even the product knows: the failure may be the reply of the publish.
            return False
        except OmnigraphError as error:
            self.world.log.append(f"{self.name} was told {error.code.value}")
            return False
        else:
            deed.told = None if result.commit is None else result.commit.id
            deed.is_empty = result.commit is None
        deed.ended = self.world.steps
        return True


class GroupTask(Task):
    """A process of several threads that share a graph, so that their writes form groups (D29)."""

    clients = 8
    processes = 2
    branches = (MAIN, MAIN, MAIN, SIDE)
    kinds = (0, 1, 2, 2, 2, 2, *[3] * 8, *range(4, 10))
    # A death ends the work of all threads, and a failure that of all members.
    faults = Faults(crash=0.001, pause=0.01, fail=0.001, lose_reply=0.006)


class MixedTask(Task):
    """A process that does all kinds of work, as those of a mixed storm."""

    clients = 2
    faults = Faults(crash=0.0015, pause=0.01, fail=0.002, lose_reply=0.01)

    def _serve(self, graph: BreakableGraph, client: str) -> None:
        notes = notes_of(self.world.root, client)
        self.workers[client] = mixed_storm.Worker(
            graph, graph.tables, notes, client, self.world.dice, CAREFUL
        )
        super()._serve(graph, client)

    @cached_property
    def workers(self) -> dict[str, mixed_storm.Worker]:
        """Of each thread."""
        return {}

    def _work(self, graph: BreakableGraph, tag: str) -> None:  # noqa: ARG002 - a worker has it
        self.workers[tag.partition(":")[0]].step(tag)


CAREFUL: Final = replace(mixed_storm.CLEAN, debris_age_ms=BEGIN_MS)
"""Lance dates its files by the clock of the machine, so no file counts as debris."""


def notes_of(root: Path, name: str) -> Path:
    return root.with_name(f"{root.name}-{name}.jsonl")


def _look(graph: BreakableGraph, branch: BranchName) -> Seen:
    snapshot = graph.snapshot(branch)
    assert snapshot.commit is not None
    people = graph.tables.read(graph.open_table(snapshot, PERSON)).to_pylist()
    knows = graph.tables.read(graph.open_table(snapshot, KNOWS)).to_pylist()
    return Seen(
        branch,
        snapshot.commit.id,
        {row["id"]: row["age"] for row in people},
        Counter((row["src"], row["dst"], row["since"]) for row in knows),
    )


def _draw(dice: "random.Random", tag: str, branch: BranchName) -> Asked:
    one, two, number = dice.choice(NAMES[:6]), dice.choice(NAMES[:6]), dice.randrange(1000)
    wishes: list[tuple[str, dict[str, str | int]]] = [
        ("put", {"name": one, "age": number}),
        ("put", {"name": one, "age": number}),
        ("pair", {"a": one, "b": two, "n": number}),
        ("link", {"a": one, "b": two, "n": number}),
        ("age", {"name": one, "age": number}),
        ("drop", {"name": one}),
        ("unlink", {"a": one}),
    ]
    query, params = dice.choice(wishes)
    return Asked(tag, branch, query, params)


def stores_of(world: World, effects: Effects) -> Stores:
    """Lance on the folder of the simulation, with the clock of the simulation."""
    stores = open_stores(str(world.root), effects, durability=Durability.RELAXED)
    objects = cast("Objects", Repeating(world, LocalObjects(world.root, RelaxedDisk())))
    tables = open_tables(stores.root, objects, RelaxedDisk(), {})
    return replace(stores, objects=objects, volatile=objects, tables=tables)


# ── a run, and what must hold of its history ─────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    steps: int
    told: Mapping[str, int]
    """What became of the writes, and how many reads there were."""
    faulted: Mapping[str, int]
    log: Sequence[str]
    problems: Sequence[str]


class Kind(StrEnum):
    """What the processes of a world do."""

    ALONE = "alone"
    """Each has one thread, and mutates."""
    GROUPS = "groups"
    """Each has several threads, whose mutations form groups."""
    MIXED = "mixed"
    """Each has two threads, which load, merge, clean up and change the schema, too."""


def simulate(
    root: Path,
    seed: int,
    *,
    steps: int = STEPS,
    faults: Faults | None = None,
    kind: Kind = Kind.ALONE,
) -> Outcome:
    """One world: processes work, die, pause and meet each other; then all is calm and judged."""
    is_mixed = kind is Kind.MIXED
    schema = mixed_storm.SCHEMA if is_mixed else SCHEMA
    created = create(str(root), schema, settings=Settings(durability=Durability.RELAXED))
    if not is_mixed:
        created.create_branch(SIDE)
    world, history = World(root, seed, faults or TASKS[kind].faults), History()
    with in_lockstep(world):
        _run(world, TASKS[kind], history, steps)
    unfinished = [f"{each.name} does not end" for each in world.tasks if not each.is_over]
    problems = [*history.unexpected, *world.stuck, *unfinished]
    last = MixedJudge(world, history) if is_mixed else Judge(world, history)
    problems += last.find_problems() if not problems else []
    told = last.count()
    return Outcome(seed, world.steps, told, dict(world.faulted), world.log, problems)


TASKS: Final = {Kind.ALONE: Task, Kind.GROUPS: GroupTask, Kind.MIXED: MixedTask}


def _run(world: World, start: type[Task], history: History, steps: int) -> None:
    numbers = count()
    while world.steps < steps and not world.stuck:
        # As a supervisor starts a process again.
        world.tasks = [each for each in world.tasks if not each.is_over]
        while len(world.tasks) < start.processes:
            world.tasks.append(start(world, f"p{next(numbers)}", history))
        world.run(min(steps, world.steps + 50))
    world.faults, world.is_ending = CALM, True
    world.run(world.steps + ENDING_STEPS_MAX)


def _apply(model: Model, deed: Deed) -> None:
    """A keyed write that finds nothing to change makes a commit all the same (D14)."""
    asked = deed.asked
    is_empty = asked.query in ("age", "drop") and asked.params["name"] not in model.people
    if not (deed.is_keyed and is_empty):
        model.apply(asked)


class Judge:
    """A process that comes last, and compares the graph with what the others were told."""

    def __init__(self, world: World, history: History) -> None:
        self._root = world.root
        self._history = history
        self._steps = world.steps
        world.now_ms += 100 * TIMING.ttl_ms

        def sleep_ms(duration_ms: int) -> None:
            world.now_ms += duration_ms

        effects = Effects(lambda: world.now_ms, lambda: world.now_ms, sleep_ms, REAL.new_id)
        self._stores = stores_of(world, effects)
        in_force = read_base(self._stores, MAIN).manifest.log.schema_hash
        contract = read_active_schema(self._stores.objects, in_force)
        owner = Owner("host of the judge", "boot", 1, 1)
        self._graph = BreakableGraph(self._stores, contract, owner=owner, timing=TIMING)

    def count(self) -> Counter[str]:
        told = Counter(each.outcome for each in self._history.deeds)
        told["reads"] = len(self._history.reads)
        for branch in (MAIN, SIDE):
            for commit in self._graph.commits(branch):
                is_member = commit.extension.group is not None and commit.branch == branch
                told["in groups"] += is_member
        return told

    def find_problems(self) -> Iterator[str]:
        graph, stores = self._graph, self._stores
        graph.refresh()
        # Maintenance that landed after its writer was recovered is published by the next writer.
        for branch in (MAIN, SIDE):
            asked = Asked(f"judge:{branch}", branch, "pair", {"a": "x", "b": "y", "n": 1})
            deed = Deed(asked, None, is_keyed=False, begun=self._steps)
            self._history.deeds.append(deed)
            request = WriteRequest(branch, actor=asked.tag)
            made = graph.mutate(PROGRAM, name="pair", params=asked.params, request=request)
            deed.told = None if made.commit is None else made.commit.id
        yield from (f"doctor: {each}" for each in graph.examine(is_deep=True))
        yield from (f"{each} left a sidecar" for each in find_sidecars(stores.objects))
        yield from map(str, check_graph(stores))
        yield from find_audit_faults(stores, lost_branches=True)
        for branch in (MAIN, SIDE):
            yield from self._judge_branch(branch)

    def _judge_branch(self, branch: BranchName) -> Iterator[str]:
        """Acknowledged exactly once, refused never, in the order of time, and as a model says."""
        deeds = {each.asked.tag: each for each in self._history.deeds}
        model, order = Model(), list[str]()
        states: dict[str, tuple[dict[str, int], Counter[tuple[str, str, int]]]] = {}
        commits = list(reversed(self._graph.commits(branch)))
        for commit in commits:
            deed = deeds.get(commit.actor or "")
            if deed is not None and deed.asked.branch == branch and commit.branch == branch:
                order.append(deed.asked.tag)
                try:
                    _apply(model, deed)
                except KeyError as missing:
                    yield f"{deed.asked.tag} is there, and {missing} was not when it came"
                if deed.if_commit is not None and commit.parent != deed.if_commit:
                    yield f"{deed.asked.tag} is on top of {commit.parent}, not {deed.if_commit}"
            states[commit.id] = dict(model.people), Counter(model.knows)
        yield from self._judge_order(branch, order, deeds)
        yield from _judge_groups([each for each in commits if each.branch == branch])
        for read in self._history.reads:
            if read.branch == branch and states.get(read.commit) != (read.people, read.knows):
                yield f"a read at {read.commit} saw {read}, not {states.get(read.commit)}"
        seen = _look(self._graph, branch)
        if (seen.people, seen.knows) != (model.people, model.knows):
            yield f"{branch} shows {seen}, not {model}"

    def _judge_order(
        self, branch: BranchName, order: Sequence[str], deeds: Mapping[str, Deed]
    ) -> Iterator[str]:
        times = Counter(order)
        for tag, deed in deeds.items():
            if deed.asked.branch != branch:
                continue
            if times[tag] > 1:
                yield f"{tag} is there {times[tag]} times"
            if times[tag] and deed.refused is not None:
                yield f"{tag} was refused as {deed.refused}, and is there"
            if not times[tag] and deed.told is not None:
                yield f"{tag} was acknowledged as {deed.told}, and is gone"
            if times[tag] and deed.is_empty:
                yield f"{tag} was told that it changes nothing, and is there"
        begun_max = -1
        for tag in order:
            deed = deeds[tag]
            if deed.ended is not None and deed.told is not None and deed.ended < begun_max:
                yield f"{tag} had ended before one that stands below it began"
            begun_max = max(begun_max, deed.begun)


def _judge_groups(commits: Sequence[Commit]) -> Iterator[str]:
    """All members of a group are there, in their order, one upon the other, by one publish."""
    groups: dict[str, list[Commit]] = {}
    for commit in commits:
        if commit.extension.group is not None:
            groups.setdefault(commit.extension.group.id, []).append(commit)
    for name, members in groups.items():
        places = [each.extension.group for each in members]
        indexes = [each.index for each in places if each is not None]
        sizes = {each.size for each in places if each is not None}
        if sizes != {len(members)} or indexes != list(range(len(members))):
            yield f"of group {name} there are the members {indexes}, of {sizes}"
        if any(after.parent != before.id for before, after in pairwise(members)):
            yield f"group {name} is not in one piece"
        if len({each.manifest_version for each in members}) > 1:
            yield f"group {name} was published in pieces"


class MixedJudge(Judge):
    """The same, by the notes of tasks that did all kinds of work."""

    @property
    def _notes(self) -> list[Path]:
        return sorted(self._root.parent.glob(notes_of(self._root, "p*").name))

    def count(self) -> Counter[str]:
        kinds = {"told": "committed", "refused": "refused", "asked": "asked"}
        return Counter(kinds.get(line[0], "saw") for line in read_notes(self._notes))

    def find_problems(self) -> Iterator[str]:
        graph = self._graph
        graph.refresh()
        # Maintenance that landed after its writer was recovered is published by the next writer.
        notes = notes_of(self._root, "p-last")
        worker = mixed_storm.Worker(graph, graph.tables, notes, "last", random.Random(1), CAREFUL)
        worker.put("last:0")
        graph.cleanup(CAREFUL)  # a deleted branch may have left forks
        yield from (
            f"doctor: {each}"
            for each in graph.examine(is_deep=True)
            if each.remedy != CLEANUP_LATER
        )
        yield from (f"{each} left a sidecar" for each in find_sidecars(self._stores.objects))
        yield from mixed_storm.find_problems(graph, graph.tables, self._notes)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000, help="in all worlds together")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), default=Kind.ALONE)
    given = parser.parse_args(arguments)
    done, faulted, told, bad = 0, Counter[str](), Counter[str](), 0
    for seed in count(given.seed):
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
            outcome = simulate(Path(place, "graph"), seed, kind=given.kind)
        done += outcome.steps
        faulted.update(outcome.faulted)
        told.update(outcome.told)
        for problem in outcome.problems:
            bad += 1
            sys.stdout.write(f"seed {seed}: {problem}\n")
        if done >= given.steps:
            worlds = seed - given.seed + 1
            sys.stdout.write(f"{done} steps in {worlds} worlds, {bad} problems\n")
            sys.stdout.write(f"faults: {dict(faulted)}\nwrites: {dict(told)}\n")
            break
    sys.exit(bool(bad))


if __name__ == "__main__":
    main(sys.argv[1:])
