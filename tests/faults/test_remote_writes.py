"""Writes in a store that is asked for several things together, and that keeps leases (D30).

The store is a local one that says it is remote: the writer then sends its requests in parallel,
keeps its leases, and removes its sidecar after it has answered. Crashes and failures in between
must leave what they leave anywhere else.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Lock

import pytest

from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing, path_of
from omnigraph.commit.leases.lease_cache import LeaseCache
from omnigraph.commit.leases.owner import Owner
from omnigraph.commit.manifest.base import read_base
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.active_schema import read_active_schema
from omnigraph.engine.merge.plan import MergePlan, MergeRequest
from omnigraph.engine.merge.run import MergeResult, Vet, merge
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.write.idempotency import parse_key
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import (
    LeaseLost,
    MergeConflicts,
    OmnigraphError,
    OutcomeUnknown,
    QueryInvalid,
    StorageFailure,
)
from omnigraph.ids import MAIN, BranchName
from omnigraph.lang.source import Source
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.testing.failpoints import COMMIT, DELETE, PUT, SWAP
from omnigraph.testing.faults import Crash, Recorder, Watch, When, watch_stores
from support.breaking import (
    CASCADE,
    COMPANY,
    GONE,
    INSERT,
    KNOWS,
    PAIR,
    PERSON,
    SCHEMA,
    SIDE,
    UPDATE,
    Ask,
    BreakableGraph,
    Content,
    check_lasting,
    check_whole,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.folders import put_back, read_folder
from support.processes import launch, race, values_of

QUIET = replace(DEFAULT_TIMING, kept_ms=60_000, surrender_poll_ms=60_000)
"""No request but those of the writes: nothing is polled, and nothing expires, meanwhile."""
WARM = Ask("every", {"a": "warm"})


def open_remote(
    root: Path,
    watch: Watch | None = None,
    *,
    owner: Owner | None = None,
    timing: Timing = QUIET,
) -> BreakableGraph:
    local = stores_at(root)
    assert isinstance(local.tables, LanceTables)
    watched = local if watch is None else watch_stores(local, watch)
    # A fork puts its files one by one, as objects of the same store.
    store = replace(local.tables.store, objects=watched.objects, is_remote=True)
    remote = replace(local, tables=LanceTables(store))
    tables = remote.tables if watch is None else watch_stores(remote, watch).tables
    stores = replace(watched, tables=tables, is_remote=True)
    in_force = read_base(local, MAIN).manifest.log.schema_hash
    active = read_active_schema(local.objects, in_force)
    return BreakableGraph(stores, active, owner=owner, timing=timing)


def cache_of(graph: BreakableGraph) -> LeaseCache:
    cache = graph.context.leases._cache
    assert cache is not None
    return cache


class FaultAt:
    """From `start` on, the n-th write raises, before or after it happens; safe among threads."""

    def __init__(self, step: int, when: When, error: Callable[[str], BaseException]) -> None:
        self.step = step
        self.when = when
        self.error = error
        self.seen = 0
        self.is_on = False
        self.is_over = False
        self._lock = Lock()

    def start(self) -> None:
        self.is_on = True

    def before(self, call: str, *, is_write: bool) -> None:
        self._arrive(call, When.BEFORE, is_write=is_write)

    def after(self, call: str, *, is_write: bool) -> None:
        self._arrive(call, When.AFTER, is_write=is_write)

    def _arrive(self, call: str, when: When, *, is_write: bool) -> None:
        with self._lock:
            if self.is_over and self.error is Crash and when is When.BEFORE:
                raise Crash(call)
            if not (self.is_on and is_write and when is self.when):
                return
            if self.error is not Crash and call.startswith("volatile."):
                return  # a lease that cannot be released expires; `test_lease_cache` has the rest
            self.seen += 1
            if self.seen == self.step:
                self.is_over = True
                raise self.error(call)


def fail(call: str) -> BaseException:
    return StorageFailure("carry out", subject=call, reason="the test said so")


def faults(
    root: Path,
    ask: Ask,
    branch: BranchName,
    when: When,
    error: Callable[[str], BaseException],
    *,
    is_warm: bool = True,
) -> Iterator[tuple[BreakableGraph, BaseException | None]]:
    """A second write of a process that has kept its leases, with the fault one write later each
    time; yields the graph and what was raised, until the write survives.

    A process that is not warm has read the branch, and written nothing.
    """
    before = read_folder(root)
    for step in count(1):
        put_back(root, before)
        fault = FaultAt(step, when, error)
        graph = open_remote(root, fault, owner=GONE if error is Crash else None)
        if is_warm:
            graph.ask(WARM, branch)
        graph.context.bases.current(branch)
        graph.context.afterwards.close()
        fault.start()
        raised: BaseException | None = None
        try:
            graph.ask(ask, branch)
        except (Crash, OmnigraphError) as caught:
            raised = caught
        graph.context.afterwards.close()
        if error is Crash:
            cache_of(graph)._cached.clear()  # the dead release nothing, not even at the end
        if fault.seen < step:
            assert raised is None
            return
        yield graph, raised


@pytest.fixture
def root(tmp_path: Path) -> Path:
    populate(tmp_path / "g").create_branch(SIDE)
    return tmp_path / "g"


def allowed_of(root: Path, ask: Ask, branch: BranchName, *, is_warm: bool = True) -> list[Content]:
    before = read_folder(root)
    graph = open_mortal(root)
    if is_warm:
        graph.ask(WARM, branch)
    contents = [read_content(root)]
    graph.ask(ask, branch)
    contents.append(read_content(root))
    put_back(root, before)
    return contents


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
@pytest.mark.parametrize(
    ("ask", "branch"),
    [
        pytest.param(PAIR, MAIN, id="two tables"),
        pytest.param(CASCADE, SIDE, id="a cascade on a branch", marks=pytest.mark.slow),
    ],
)
def test_a_crash_anywhere_leaves_the_old_rows_or_the_new_ones(
    root: Path, ask: Ask, branch: BranchName, when: When
) -> None:
    allowed = allowed_of(root, ask, branch)
    outcomes = []
    for number, (_, raised) in enumerate(faults(root, ask, branch, when, Crash)):
        heal(open_mortal(root).context)
        outcomes.append(check_whole(root, allowed))
        assert isinstance(raised, Crash) or outcomes[-1] == 1, "only what is visible is answered"
        if number % 4 == 0:
            check_lasting(root)
    assert set(outcomes) == {0, 1}


@pytest.mark.parametrize(
    ("when", "error"),
    [
        pytest.param(When.BEFORE, Crash, id="a crash before"),
        pytest.param(When.AFTER, Crash, id="a crash after"),
        pytest.param(When.AFTER, fail, id="a lost reply"),
    ],
)
def test_a_first_write_of_a_branch_that_stops_anywhere_leaves_all_or_nothing(
    root: Path, when: When, error: Callable[[str], BaseException]
) -> None:
    """The tables are forked by single puts: of transactions and versions, then of refs."""
    allowed = allowed_of(root, PAIR, SIDE, is_warm=False)
    outcomes = []
    for graph, raised in faults(root, PAIR, SIDE, when, error, is_warm=False):
        if error is fail:
            graph.context.close()
        heal(open_mortal(root).context)
        outcomes.append(check_whole(root, allowed))
        assert raised is not None or outcomes[-1] == 1, "only what is visible is answered"
    check_lasting(root)
    assert set(outcomes) == {0, 1}
    assert len(outcomes) > 10, "two forks of three puts each are among the writes"


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_creation_of_a_branch_that_crashed_is_whole_or_can_be_repeated(
    root: Path, when: When
) -> None:
    new, before, whole = BranchName("new"), read_folder(root), []
    for step in count(1):
        put_back(root, before)
        fault = FaultAt(step, when, Crash)
        graph = open_remote(root, fault, owner=GONE)
        graph.context.bases.current(MAIN)
        fault.start()
        with suppress(Crash):
            graph.create_branch(new)
        cache_of(graph)._cached.clear()
        again = open_remote(root)
        whole.append(new in again.branches())
        if not whole[-1]:
            again.create_branch(new)
        again.ask(INSERT, new)
        again.context.close()
        content = read_content(root)
        assert content[MAIN] == content[SIDE] != content[new]
        if fault.seen < step:
            break
    assert set(whole) == {True, False}
    assert len(whole) > 3, "the puts of transaction, version and ref"


def test_a_new_branch_is_known_as_it_would_be_read(root: Path) -> None:
    graph = open_remote(root)
    graph.create_branch("new")
    known = graph.context.bases.known(BranchName("new"))
    assert known is not None
    read = read_base(stores_at(root), BranchName("new"))
    assert known.identifier == read.identifier
    assert known.handle.version == read.handle.version
    assert known.manifest.pins == read.manifest.pins
    assert known.manifest.head == read.manifest.head
    assert (known.manifest.branch, known.manifest.version) == ("new", read.manifest.version)
    graph.context.close()


def test_a_store_that_fails_anywhere_leaves_all_or_nothing(root: Path) -> None:
    allowed = allowed_of(root, PAIR, MAIN)
    outcomes = set()
    for graph, raised in faults(root, PAIR, MAIN, When.BEFORE, fail):
        if isinstance(raised, OutcomeUnknown) or raised is None:
            graph.context.close()
            open_mortal(root).refresh()
        graph.context.close()
        seen = check_whole(root, allowed)
        if raised is None:
            assert seen == 1
        elif not isinstance(raised, OutcomeUnknown):
            assert seen == 0, f"reported as failed: {raised}"
        outcomes.add(seen)
    assert outcomes == {0, 1}


# ── merges ───────────────────────────────────────────────────────────────────────────────────────


def merge_side(graph: BreakableGraph, vet: Vet | None = None) -> MergeResult:
    request, schema = MergeRequest(SIDE, MAIN), graph.active_schema()
    return merge(graph.context, schema, request, graph.settings, vet=vet)


def diverge(root: Path) -> None:
    """Both branches change, so that their merge writes a row and replaces another."""
    graph = open_mortal(root)
    graph.ask(INSERT, SIDE)
    graph.ask(UPDATE, SIDE)
    graph.ask(PAIR, MAIN)


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_merge_that_crashed_anywhere_is_whole_or_undone(root: Path, when: When) -> None:
    diverge(root)
    files, allowed = read_folder(root), [read_content(root)]
    merge_side(open_mortal(root))
    allowed.append(read_content(root))
    outcomes = []
    for step in count(1):
        put_back(root, files)
        fault = FaultAt(step, when, Crash)
        graph = open_remote(root, fault, owner=GONE)
        for each in (MAIN, SIDE):
            graph.context.bases.current(each)
        fault.start()
        with suppress(Crash):
            merge_side(graph)
        graph.context.afterwards.close()
        cache_of(graph)._cached.clear()
        heal(open_mortal(root).context)
        outcomes.append(check_whole(root, allowed))
        if fault.seen < step:
            break
    check_lasting(root)
    assert set(outcomes) == {0, 1}


def test_a_merge_plans_again_if_another_process_wrote_after_it_had_looked(root: Path) -> None:
    """Its lease was kept when it began, and surrendered before it locked."""
    here = open_remote(root, timing=replace(QUIET, surrender_poll_ms=10))
    here.ask(Ask("age", {"name": "bob", "age": 41}), SIDE)
    here.ask(INSERT)

    def meddle(plan: MergePlan, _: object) -> None:
        if not plans:
            there = open_remote(root)
            there.ask(Ask("age", {"name": "bob", "age": 99}))
            there.context.close()
        plans.append(plan)

    plans: list[MergePlan] = []
    with pytest.raises(MergeConflicts):
        merge_side(here, meddle)
    assert len(plans) == 1, "the second plan has a conflict, and is not vetted"
    here.context.close()
    (row,) = [row for row in rows_of(root) if row["p.name"] == "bob"]
    assert row["p.age"] == 99


def test_a_merge_under_a_schema_that_another_process_changed_is_planned_again(root: Path) -> None:
    """The schema that the process knew lacks a type that the branch has written."""
    open_mortal(root).delete_branch(SIDE)
    here = open_remote(root)
    here.ask(INSERT)
    here.context.close()
    there = open_mortal(root)
    there.apply_schema(SchemaRequest(SCHEMA + "node Tag { name: String @key }"))
    there.create_branch(SIDE)
    tag = Source("<q>", 'query q() { insert Tag { name: "new" } }')
    there.mutate(tag, request=WriteRequest(SIDE))
    assert here.merge(MergeRequest(SIDE, MAIN)).commit is not None
    here.context.close()
    asked = Source("<q>", "query q() { match { $t: Tag } return { $t.name } }")
    assert [row["t.name"] for row in open_mortal(root).query(asked).rows()] == ["new"]


def test_a_repeated_merge_is_answered_though_its_branch_is_gone(root: Path) -> None:
    diverge(root)
    graph = open_remote(root)
    key = parse_key("once", "merge", "side")
    first = graph.merge(MergeRequest(SIDE, MAIN, idempotency=key))
    graph.delete_branch(SIDE)
    assert graph.merge(MergeRequest(SIDE, MAIN, idempotency=key)).commit == first.commit
    graph.context.close()


class Order:
    """When each write began and ended."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self.at_commit: list[list[str]] = []
        self.at_swap: list[list[str]] = []

    def before(self, call: str, *, is_write: bool) -> None:
        if call == COMMIT:
            self.at_commit.append(list(self.ended))
        if call == SWAP:
            self.at_swap.append(list(self.ended))
        if is_write:
            self.began.append(call)

    def after(self, call: str, *, is_write: bool) -> None:
        if is_write:
            self.ended.append(call)


def test_no_table_moves_before_sidecar_and_leases_were_answered(root: Path) -> None:
    order = Order()
    graph = open_remote(root, order)
    graph.ask(WARM)
    graph.context.afterwards.close()
    order.ended.clear()
    order.at_commit.clear()
    order.at_swap.clear()
    graph.ask(PAIR)
    graph.context.afterwards.close()
    for ended in order.at_commit:
        assert ended.count(PUT) == 1
        assert ended.count("volatile.put_if_match") == 2, "one for each table"
    assert [ended.count(COMMIT) for ended in order.at_swap] == [2]
    assert order.ended.index(DELETE) > order.ended.index(SWAP)
    graph.context.close()


def test_a_kept_lease_saves_every_request_about_leases_but_one(root: Path) -> None:
    calls = Recorder()
    graph = open_remote(root, calls)
    graph.ask(INSERT)
    graph.context.afterwards.close()
    calls.calls.clear()
    graph.ask(Ask("put", {"name": "next", "age": 1}))
    graph.context.afterwards.close()
    leases = [each for each in calls.calls if each.startswith("volatile.")]
    assert leases == ["volatile.put_if_match", "volatile.list"], "its own; the queue of publishers"
    graph.context.close()


def test_what_another_process_wrote_between_two_writes_is_seen(root: Path) -> None:
    """Its lease was asked for and surrendered, so nothing that was read before counts."""
    here = open_remote(root, timing=replace(QUIET, surrender_poll_ms=10))
    here.ask(Ask("put", {"name": "here", "age": 1}))
    there = open_remote(root)
    there.ask(Ask("age", {"name": "here", "age": 2}))
    there.context.close()
    here.ask(Ask("age", {"name": "here", "age": 3}))
    here.context.close()
    (row,) = [row for row in rows_of(root) if row["p.name"] == "here"]
    assert row["p.age"] == 3


EVERYBODY = Source("<q>", "query q() { match { $p: Person } return { $p.name, $p.age } }")


def rows_of(root: Path) -> list[dict[str, object]]:
    return list(open_mortal(root).query(EVERYBODY).rows())


def test_a_lease_that_was_lost_leaves_no_sidecar(root: Path) -> None:
    """The process slept; another one took the lease and gave it back."""
    graph = open_remote(root)
    graph.ask(INSERT)
    graph.context.afterwards.close()
    stores = stores_at(root)
    (lock_key,) = cache_of(graph)._cached
    freed = stores.objects.read(path_of(lock_key)).data.replace(b'free": false', b'free": true ')
    stores.objects.put_over(path_of(lock_key), freed)
    with pytest.raises(LeaseLost):
        graph.ask(Ask("put", {"name": "late", "age": 1}))
    assert find_sidecars(stores.objects) == ()
    graph.ask(Ask("put", {"name": "late", "age": 1}))
    graph.context.close()


def test_a_schema_that_another_process_changed_is_found_by_the_next_write(root: Path) -> None:
    """The writer decided under the schema that it knew, without asking first."""
    open_mortal(root).delete_branch(SIDE)
    here = open_remote(root)
    here.ask(INSERT)
    here.context.close()
    grown = SCHEMA.replace("age: I64?", "age: I64?  mail: String?")
    open_mortal(root).apply_schema(SchemaRequest(grown))
    mail = Source("<q>", 'query q() { insert Person { name: "new", mail: "n@x" } }')
    assert here.mutate(mail).commit is not None
    here.ask(Ask("put", {"name": "more", "age": 1}))
    with pytest.raises(QueryInvalid):
        here.mutate(Source("<q>", 'query q() { insert Person { name: "new", fax: "1" } }'))
    here.context.close()


ROUNDS = 3


def write_all_ways(root: Path, name: str) -> int:
    """Keep one lease, then want both, again and again."""
    graph = open_remote(root, timing=replace(DEFAULT_TIMING, surrender_poll_ms=10))
    for number in range(ROUNDS):
        graph.ask(Ask("put", {"name": f"{name}{number}", "age": number}))
        graph.ask(Ask("link", {"a": "ann", "b": "bob", "n": number}))
        graph.ask(Ask("every", {"a": f"{name}-{number}"}))
    graph.context.close()
    return ROUNDS


def test_processes_that_keep_what_the_other_wants_finish(root: Path) -> None:
    runners = [launch(write_all_ways, root, name) for name in ("p", "q")]
    assert values_of(race(runners, timeout_s=300)) == [ROUNDS, ROUNDS]
    pins = open_mortal(root).snapshot().pins
    assert pins[PERSON].row_count == 3 + 2 * 2 * ROUNDS
    assert pins[COMPANY].row_count == 1 + 2 * ROUNDS
    assert pins[KNOWS].row_count == 2 + 2 * 2 * ROUNDS
    check_lasting(root)
