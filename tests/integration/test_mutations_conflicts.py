"""Writers that meet: who is told to look again, and who simply goes on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import omnigraph
from omnigraph.commit.attempt.locks import WriteLock, acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, Stage, TableWrite, WriterKind
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.updates import CommitIntent
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.tables.columns import build_table
from omnigraph.engine.write.batch import Existing, read_rows
from omnigraph.engine.write.mutate import (
    ON_MAIN,
    MutationResult,
    WriteOutcome,
    WriteRequest,
    WriteTask,
    carry_out,
)
from omnigraph.engine.write.upkeep import FRAGMENTS_MAX, Upkeep
from omnigraph.errors import (
    ConstraintViolation,
    ExpectedVersionMismatch,
    HeadMoved,
    KeyConflict,
    OmnigraphError,
    UsageError,
)
from omnigraph.ids import MAIN, CommitId, table_key
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.invariants import check_graph
from support.mutations import read_tables

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Other { name: String @key }
edge Knows: Person -> Person
"""
PERSON = table_key("node", "Person")
KNOWS = table_key("edge", "Knows")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[LocalGraph]:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "ann"}, {"name": "bob"}])
    yield made
    assert check_graph(stores_of(made)) == []


def stores_of(graph: LocalGraph) -> Stores:
    return open_stores(graph.uri, REAL, durability=Durability.RELAXED)


def people(graph: LocalGraph) -> set[str]:
    return set(read_tables(graph._graph, stores_of(graph))["Person"])


def all_at_once(work: Callable[[int], object], count: int) -> list[object]:
    """Results, or the errors instead."""
    start = Barrier(count)

    def one(number: int) -> object:
        start.wait()
        try:
            return work(number)
        except OmnigraphError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


def test_inserts_of_different_rows_all_succeed(graph: LocalGraph) -> None:
    results = all_at_once(lambda n: graph.insert("Person", [{"name": f"p{n}"}]), 8)
    assert not [each for each in results if isinstance(each, Exception)]
    assert people(graph) == {"ann", "bob", *(f"p{n}" for n in range(8))}


def test_of_inserts_of_one_row_exactly_one_succeeds(graph: LocalGraph) -> None:
    results = all_at_once(lambda _: graph.insert("Person", [{"name": "new"}]), 6)
    codes = sorted(each.code for each in results if isinstance(each, OmnigraphError))
    assert codes == ["key_conflict"] * 5


def test_of_rows_with_one_unique_value_exactly_one_gets_in(graph: LocalGraph) -> None:
    results = all_at_once(lambda n: graph.insert("Person", [{"name": f"p{n}", "mail": "m"}]), 6)
    codes = sorted(each.code for each in results if isinstance(each, OmnigraphError))
    assert codes == ["constraint_violation"] * 5


def test_upserts_of_one_row_all_succeed_and_leave_one_row(graph: LocalGraph) -> None:
    results = all_at_once(lambda n: graph.upsert("Person", [{"name": "ann", "age": n}]), 6)
    assert not [each for each in results if isinstance(each, Exception)]
    assert people(graph) == {"ann", "bob"}


# ── writers that had to wait ─────────────────────────────────────────────────────────────────────


def written_by_hand(graph: LocalGraph, lock: WriteLock, **columns: str) -> Change:
    """A person more, put there by a writer that asks nobody."""
    node = graph._graph.catalog.node("Person")
    assert node is not None
    rows = build_table(node, [{**columns, "id": columns["name"]}])
    tables = lock.context.stores.tables
    stage: Stage = lambda handle, mark: tables.stage_append(handle, rows, mark)  # noqa: E731
    version = lock.base.manifest.version_of(PERSON)
    return Change(WriterKind.LOAD, MAIN, (TableWrite(PERSON, version, (stage,)),))


def while_somebody_writes(graph: LocalGraph, work: Callable[[], object]) -> object:
    """What becomes of a call that comes in while another writer holds the tables, and writes."""
    context = graph._graph._context
    with ThreadPoolExecutor(1) as pool:
        with acquire_write_locks(context, MAIN, [PERSON, KNOWS]) as lock:
            waiting = pool.submit(work)
            while not any(len(line) > 1 for line in list(context.queues._queues.values())):
                REAL.sleep_ms(1)
            run(lock, written_by_hand(graph, lock, name="first"))
        return waiting.result()


@pytest.mark.parametrize(
    "text",
    [
        'query q() { update Person set { age: 1 } where name = "ann" }',
        'query q() { delete Person where name = "ann" }',
        'query q() { insert Other { name: "x" }  update Person set { age: 1 } where name = "ann" }',
    ],
)
def test_an_update_or_delete_is_told_when_its_table_moved_meanwhile(
    graph: LocalGraph, text: str
) -> None:
    with pytest.raises(ExpectedVersionMismatch) as caught:
        while_somebody_writes(graph, lambda: graph.mutate(text))
    assert caught.value.table_key == PERSON
    assert people(graph) == {"ann", "bob", "first"}


def test_deleting_by_id_is_as_strict_as_any_delete(graph: LocalGraph) -> None:
    with pytest.raises(ExpectedVersionMismatch):
        while_somebody_writes(graph, lambda: graph.delete("Person", ["ann"]))


def test_an_insert_simply_goes_on_and_sees_what_was_written(graph: LocalGraph) -> None:
    while_somebody_writes(graph, lambda: graph.insert("Person", [{"name": "second"}]))
    assert people(graph) == {"ann", "bob", "first", "second"}


def test_an_insert_finds_the_row_that_was_written_while_it_waited(graph: LocalGraph) -> None:
    with pytest.raises(KeyConflict):
        while_somebody_writes(graph, lambda: graph.insert("Person", [{"name": "first"}]))


def test_a_delete_of_edges_does_not_mind_that_nodes_moved(graph: LocalGraph) -> None:
    graph.insert("Knows", [{"from": "ann", "to": "bob"}])
    text = 'query q() { delete Knows where from = "ann" }'
    result = while_somebody_writes(graph, lambda: graph.mutate(text))
    assert isinstance(result, MutationResult)
    assert result.affected_edges == 1


# ── tables that are only read ────────────────────────────────────────────────────────────────────


def interrupted(
    graph: LocalGraph,
    task: WriteTask,
    interruption: Callable[[], object],
    order: WriteRequest = ON_MAIN,
) -> WriteOutcome:
    """Carry a task out; right before it would become visible, somebody else does something."""
    stores = stores_of(graph)
    done: list[str] = []

    def observe(step: str) -> None:
        if step == "publish" and not done:
            done.append(step)
            interruption()

    context = WriteContext(stores, Bases(stores), observe=observe)
    return carry_out(context, compile_active_schema(SCHEMA, name="<schema>"), task, order)


def knows(graph: LocalGraph, source: str, target: str) -> WriteTask:
    edge = graph._graph.catalog.edge("Knows")
    assert edge is not None
    rows = [{"from": source, "to": target}]
    (task,) = read_rows([edge], rows, Existing.REFUSE, REAL.new_id)
    return task


def test_an_edge_lands_although_its_ends_were_written_meanwhile(graph: LocalGraph) -> None:
    written = interrupted(
        graph,
        knows(graph, "ann", "bob"),
        lambda: graph.mutate('query q() { update Person set { age: 7 } where name = "ann" }'),
    )
    assert written.commit is not None
    assert graph.commits()[0].id == written.commit.id
    tables = read_tables(graph._graph, stores_of(graph))
    assert (len(tables["Knows"]), tables["Person"]["ann"]["age"]) == (1, 7)


def test_an_edge_whose_end_vanished_meanwhile_is_refused_and_undone(graph: LocalGraph) -> None:
    """As a load that replaces the nodes, and holds no edges, could make it happen."""

    def vanish() -> None:
        stores = stores_of(graph)
        context = WriteContext(stores, Bases(stores))
        with acquire_write_locks(context, MAIN, [PERSON]) as lock:
            version = lock.base.manifest.version_of(PERSON)
            stage: Stage = lambda handle, mark: stores.tables.stage_delete(  # noqa: E731
                handle, "id = 'bob'", mark
            )
            run(lock, Change(WriterKind.LOAD, MAIN, (TableWrite(PERSON, version, (stage,)),)))

    with pytest.raises(ConstraintViolation, match="dst 'bob' not found in Person"):
        interrupted(graph, knows(graph, "ann", "bob"), vanish)
    assert read_tables(graph._graph, stores_of(graph))["Knows"] == {}


# ── on top of one commit and no other ────────────────────────────────────────────────────────────


def test_a_write_on_top_of_the_head_succeeds_and_another_one_is_told(graph: LocalGraph) -> None:
    head = graph.commits()[0].id
    first = graph.insert("Person", [{"name": "x"}], if_commit=head)
    assert first.commit is not None
    late: list[Callable[[], MutationResult]] = [
        lambda: graph.insert("Other", [{"name": "x"}], if_commit=head),
        lambda: graph.upsert("Other", [{"name": "x"}], if_commit=head),
        lambda: graph.delete("Person", ["x"], if_commit=head),
        lambda: graph.mutate('query q() { insert Other { name: "x" } }', if_commit=head),
    ]
    for work in late:
        with pytest.raises(HeadMoved) as caught:
            work()
        assert (caught.value.expected, caught.value.actual) == (head, first.commit.id)


def test_a_commit_to_any_table_right_before_ours_is_noticed(graph: LocalGraph) -> None:
    head = CommitId(graph.commits()[0].id)
    with pytest.raises(HeadMoved):
        interrupted(
            graph,
            knows(graph, "ann", "bob"),
            lambda: graph.insert("Other", [{"name": "x"}]),
            WriteRequest(if_commit=head),
        )
    assert read_tables(graph._graph, stores_of(graph))["Knows"] == {}


def test_a_commit_that_moves_no_table_is_noticed_too(graph: LocalGraph) -> None:
    head = CommitId(graph.commits()[0].id)
    context = graph._graph._context

    def say_something() -> None:
        intent = CommitIntent(id=CommitId(REAL.new_id()), created_at_us=REAL.now_ms() * 1000)
        publish(context.stores, context.bases, Publication(MAIN, (intent,)))

    with pytest.raises(HeadMoved):
        interrupted(graph, knows(graph, "ann", "bob"), say_something, WriteRequest(if_commit=head))
    assert read_tables(graph._graph, stores_of(graph))["Knows"] == {}


# ── tidying up changes nobody's mind ─────────────────────────────────────────────────────────────


@pytest.fixture
def untidy(graph: LocalGraph) -> LocalGraph:
    """With as many fragments as make a writer tidy up, and nobody to do it by itself."""
    made = omnigraph.open(graph.uri, durability=Durability.RELAXED, maintenance=False)
    for number in range(FRAGMENTS_MAX + 1):
        made.insert("Person", [{"name": f"p{number}"}])
    return made


def test_a_head_that_only_upkeep_moved_is_still_the_one_to_build_on(untidy: LocalGraph) -> None:
    head = untidy.commits()[0].id
    assert Upkeep(untidy._graph._context, untidy._graph.catalog).tidy(MAIN, PERSON)
    assert untidy.commits()[0].id != head
    untidy.insert("Person", [{"name": "on top"}], if_commit=head)
    with pytest.raises(HeadMoved):
        untidy.insert("Person", [{"name": "too late"}], if_commit=head)


def test_an_update_does_not_mind_that_its_table_was_tidied_meanwhile(untidy: LocalGraph) -> None:
    context = untidy._graph._context
    tidier = Upkeep(context, untidy._graph.catalog)
    text = 'query q() { update Person set { age: 1 } where name = "p7" }'

    def is_waiting() -> bool:
        return any(len(line) > 1 for line in list(context.queues._queues.values()))

    with ThreadPoolExecutor(1) as pool:
        with acquire_write_locks(context, MAIN, [PERSON]) as lock:
            updating = pool.submit(untidy.mutate, text)
            for _ in range(5000):
                if is_waiting():
                    break
                REAL.sleep_ms(1)
            assert is_waiting()
            assert tidier.tidy_held(lock, PERSON)
        assert updating.result().affected_nodes == 1
    assert read_tables(untidy._graph, stores_of(untidy))["Person"]["p7"]["age"] == 1


def test_nobody_signs_with_a_name_of_ours(graph: LocalGraph) -> None:
    with pytest.raises(UsageError, match="omnigraph:"):
        graph.insert("Other", [{"name": "x"}], actor="omnigraph:upkeep")
