"""A small graph to break, the ways to write to it, and what must hold of it after any fault.

Mutations and graph are real; a test can watch stores and steps, and can declare the owner
dead. Afterwards the graph shows the state before the write or the state after it, whole,
with no remains.
"""

import json
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import Observer, WriteContext, unobserved
from omnigraph.commit.leases.lease import DEFAULT_TIMING, Lease, Timing, decode_lease
from omnigraph.commit.leases.owner import Owner, is_dead
from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.recovery.audit import read_audit
from omnigraph.commit.recovery.classify import OPERATION
from omnigraph.commit.recovery.drift import HEALED
from omnigraph.commit.recovery.recovery_commit import ACTOR
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import ActiveSchema, read_active_schema
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import MutationResult, WriteRequest
from omnigraph.engine.write.upkeep import Upkeep
from omnigraph.engine.write.write_queue import WriteQueue
from omnigraph.errors import LeaseCorrupt
from omnigraph.ids import MAIN, BranchName, TableKey, split_table_key
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import LEASES, lease_key
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, Mark, Staged, TableSettings
from omnigraph.testing.faults import Watch, watch_stores
from omnigraph.testing.invariants import check_graph
from support.folders import read_folder
from support.mutations import comparable, read_tables

SCHEMA: Final = """
node Person { name: String @key  age: I64? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge Works: Person -> Company
"""
PERSON: Final = TableKey("node:Person")
COMPANY: Final = TableKey("node:Company")
KNOWS: Final = TableKey("edge:Knows")
WORKS: Final = TableKey("edge:Works")
SIDE: Final = BranchName("side")

PROGRAM: Final = Source(
    "<breaking>",
    """
query put($name: String, $age: I64) { insert Person { name: $name, age: $age } }
query age($name: String, $age: I64) { update Person set { age: $age } where name = $name }
query drop($name: String) { delete Person where name = $name }
query link($a: String, $b: String, $n: I64) { insert Knows { from: $a, to: $b, since: $n } }
query pair($a: String) {
  insert Person { name: $a, age: 1 }
  insert Company { name: $a }
}
query every($a: String) {
  insert Person { name: $a, age: 1 }
  insert Company { name: $a }
  insert Knows { from: $a, to: $a }
  insert Works { from: $a, to: $a }
}
query populate() {
  insert Person { name: "ann", age: 30 }
  insert Person { name: "bob", age: 40 }
  insert Person { name: "carl", age: 50 }
  insert Company { name: "acme" }
  insert Knows { from: "ann", to: "bob", since: 1 }
  insert Knows { from: "bob", to: "bob", since: 2 }
  insert Works { from: "ann", to: "acme" }
}
""",
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One mutation, with its values."""

    query: str
    params: Mapping[str, str | int]


INSERT: Final = Ask("put", {"name": "dora", "age": 1})
REPLACE: Final = Ask("put", {"name": "ann", "age": 31})
UPDATE: Final = Ask("age", {"name": "bob", "age": 41})
CASCADE: Final = Ask("drop", {"name": "ann"})
LONER: Final = Ask("drop", {"name": "carl"})
LINK: Final = Ask("link", {"a": "bob", "b": "carl", "n": 3})
PAIR: Final = Ask("pair", {"a": "eve"})
EVERY: Final = Ask("every", {"a": "next"})


# ── graphs whose writers can die ─────────────────────────────────────────────────────────────────


def stores_at(root: Path) -> Stores:
    return open_stores(str(root), REAL, durability=Durability.RELAXED)


GONE: Final = Owner(host=socket.gethostname(), boot_id="an earlier boot", pid=1, pid_start=1)
"""A process that counts as dead: the one that simulates a death is itself alive."""


class BreakableGraph(Graph):
    """A graph whose steps are watched, and whose owner can be somebody else.

    Upkeep is left out, so that a write is the same sequence of calls every time.
    """

    def __init__(
        self,
        stores: Stores,
        contract: ActiveSchema,
        *,
        owner: Owner | None = None,
        timing: Timing = DEFAULT_TIMING,
        observe: Observer = unobserved,
    ) -> None:
        super().__init__(
            stores,
            Bases(stores),
            contract,
            Mode.READ_WRITE,
            settings=Settings(maintenance=False, timing=timing),
        )
        self._context = WriteContext(
            stores, self._bases, timing=timing, owner=owner, observe=observe, is_grouping=True
        )
        self._queue = WriteQueue(self._context)

    @property
    def context(self) -> WriteContext:
        return self._context

    def ask(
        self, ask: Ask, branch: BranchName = MAIN, *, actor: str | None = "writer"
    ) -> MutationResult:
        order = WriteRequest(branch, actor=actor)
        return self.mutate(PROGRAM, name=ask.query, params=ask.params, request=order)

    def tidy(self, key: TableKey, branch: BranchName = MAIN) -> bool:
        return Upkeep(self._context, self.catalog).tidy(branch, key)


def open_living(
    root: Path,
    watch: Watch | None = None,
    *,
    timing: Timing = DEFAULT_TIMING,
    observe: Observer = unobserved,
) -> BreakableGraph:
    """A graph of this process. It is opened without healing: its first write does that."""
    return _open(root, watch, None, timing, observe)


def open_mortal(
    root: Path, watch: Watch | None = None, *, observe: Observer = unobserved
) -> BreakableGraph:
    """A graph whose process counts as dead as soon as it stops."""
    return _open(root, watch, GONE, DEFAULT_TIMING, observe)


def _open(
    root: Path, watch: Watch | None, owner: Owner | None, timing: Timing, observe: Observer
) -> BreakableGraph:
    stores = stores_at(root)
    watched = stores if watch is None else watch_stores(stores, watch)
    in_force = read_base(stores, MAIN).manifest.log.schema_hash
    contract = read_active_schema(stores.objects, in_force)
    return BreakableGraph(watched, contract, owner=owner, timing=timing, observe=observe)


def populate(root: Path) -> BreakableGraph:
    """Three people, a company, and edges of both types."""
    create(str(root), SCHEMA, settings=Settings(durability=Durability.RELAXED))
    graph = open_mortal(root)
    graph.ask(Ask("populate", {}))
    return graph


RIVALS: Final[Mapping[TableKey, tuple[str | None, Mapping[str, str | None]]]] = {
    PERSON: ("rival", {"name": "rival", "age": None}),
    COMPANY: ("rival", {"name": "rival"}),
    KNOWS: (None, {"src": "bob", "dst": "bob", "since": None}),
}
"""The row a second writer adds to each table: its id, or none if it is made up, and the rest."""


def slip_in(context: WriteContext, key: TableKey, branch: BranchName = MAIN) -> None:
    """Add the rival's row, as a writer does that had healed before the one it meets died."""
    known_id, columns = RIVALS[key]
    row = {"id": known_id or context.stores.effects.new_id(), **columns}

    def stage(handle: Handle, mark: Mark) -> Staged:
        rows = pa.Table.from_pylist([row], schema=handle.schema)
        return context.stores.tables.stage_append(handle, rows, mark)

    with acquire_write_locks(context, branch, [key]) as lock:
        version = lock.base.manifest.pins[key].version
        write = TableWrite(key, version, (stage,))
        run(lock, Change(WriterKind.MUTATION, branch, (write,), actor="rival"))


def maintain_late(root: Path, branch: BranchName = MAIN) -> None:
    """Move the persons as an optimize does that paused, was recovered, and landed afterwards."""
    graph, tables = open_mortal(root), stores_at(root).tables
    mark = Mark(REAL.new_id(), {OPERATION: REAL.new_id()})
    setting = TableSettings(config={"omnigraph.test": mark.uuid})
    staged = tables.stage_settings(graph.open_table(graph.snapshot(branch), PERSON), setting, mark)
    assert staged is not None
    tables.commit_exact(staged)


# ── what must hold ───────────────────────────────────────────────────────────────────────────────

Content = Mapping[BranchName, Mapping[str, Counter[str]]]
"""The rows every branch shows of every type, without the ids that are made up."""


def read_content(root: Path) -> Content:
    """Raises AssertionError if a table holds two rows of one id."""
    graph = open_mortal(root)
    stores = stores_at(root)
    content = {}
    for branch in graph.branches():
        tables = read_tables(graph, stores, branch)
        for key, pin in graph.snapshot(branch).pins.items():
            assert len(tables[split_table_key(key)[1]]) == pin.row_count, f"{key} repeats an id"
        content[branch] = comparable(graph.catalog, tables)
    return content


def with_rival(
    content: Content, key: TableKey, branch: BranchName = MAIN, *, times: int = 1
) -> Content:
    """What a graph shows once a rival slipped in."""
    _, type_name = split_table_key(key)
    known_id, columns = RIVALS[key]
    row = repr((known_id, sorted(columns.items())))
    shown = content[branch]
    rows = shown[type_name] + Counter({row: times})
    return {**content, branch: {**shown, type_name: rows}}


def check_whole(root: Path, allowed: Sequence[Content], *, is_cleaned: bool = False) -> int:
    """Which of the allowed contents the graph shows. Raises AssertionError for anything wrong."""
    stores = stores_at(root)
    assert check_graph(stores, is_strict=not is_cleaned) == []
    assert list(find_debris(stores)) == []
    assert list(find_audit_faults(stores)) == []
    content = read_content(root)
    assert content in allowed, f"neither old nor new: {content}"
    return allowed.index(content)


def check_lasting(root: Path, *, is_cleaned: bool = False) -> None:
    """Opening the graph again changes nothing, and every table can be written. (2.14: 7 and 8)

    Whoever writes takes over what the dead still hold; of a branch that is gone, nobody does.
    """
    files = read_folder(root)
    open_in(stores_at(root), Mode.READ_WRITE)
    assert read_folder(root) == files, "an immediate reopen changes something"
    stores = stores_at(root)
    wanted = set()
    for branch in find_branches(stores):
        graph = open_mortal(root)
        graph.ask(EVERY, branch)
        pins = Bases(stores).current(branch).manifest.pins
        for key in pins.keys() - {PERSON, COMPANY, KNOWS, WORKS}:
            new: list[dict[str, object]] = [{"name": "next"}]
            _, name = split_table_key(key)
            graph.write_rows(name, new, existing=Existing.REPLACE, request=WriteRequest(branch))
        wanted |= {lease_key(key, branch) for key in pins}
    assert check_graph(stores, is_strict=not is_cleaned) == []
    lock = {key for key, lease in _read_leases(stores) if lease is None or not lease.is_free}
    assert not lock & wanted, "a lease of the dead was not taken over"


def find_debris(stores: Stores) -> Iterator[str]:
    """Notes, tickets of waiters, and leases of the living."""
    yield from (f"the note of {each}" for each in find_sidecars(stores.objects))
    for key, lease in _read_leases(stores):
        if lease is None:
            yield f"the ticket {key}"
        elif not lease.is_free and not is_dead(lease.owner):
            yield f"the lease {key}"


def _read_leases(stores: Stores) -> Iterator[tuple[str, Lease | None]]:
    """None for what is a ticket, and for what a power cut tore."""
    for listed in stores.objects.list(LEASES):
        data = stores.objects.read(listed.key).data
        lease = None
        if listed.key.endswith(".json"):
            with suppress(LeaseCorrupt):
                lease = decode_lease(data, key=listed.key)
        yield listed.key, lease


def find_orphans(stores: Stores) -> Iterator[str]:
    """Forks that no branch shows."""
    manifests = {each: Bases(stores).current(each).manifest for each in find_branches(stores)}
    owned = {
        (pin.path, pin.owner) for manifest in manifests.values() for pin in manifest.pins.values()
    }
    for path in sorted(manifests[MAIN].paths.values()):
        for fork in stores.tables.find_branches(path):
            if (path, fork.name) not in owned:
                yield f"the fork {fork.name} of {path}"


def is_healing(commit: Commit) -> bool:
    """Does the commit publish drift? No operation was recovered."""
    told = commit.extension.recovery
    return isinstance(told, dict) and told.get("recovery_kind") == HEALED


def find_audit_faults(stores: Stores, *, lost_branches: bool = False) -> Iterator[str]:
    """One row and one commit for each recovered operation, and both say what happened.

    Rows outlive the branches they are about, and then cannot be compared with anything.
    """
    audited = read_audit(stores).to_pylist()
    rows = {row["graph_commit_id"]: row for row in audited}
    if len(rows) != len(audited):
        yield "a recovery is recorded twice"
    recovered: dict[str, str | None] = {}
    visible: set[str | None] = set()
    for branch in find_branches(stores):
        for commit in Bases(stores).current(branch).manifest.log.commits:
            if commit.actor == ACTOR and not is_healing(commit):
                recovered[commit.id] = commit.extension.operation_id
            else:
                visible.add(commit.extension.operation_id)
    if lost_branches:
        rows = {each: row for each, row in rows.items() if each in recovered}
    if recovered != {each: row["operation_id"] for each, row in rows.items()}:
        yield f"commits of recoveries are {recovered}, the audit says {rows}"
    for row in rows.values():
        is_forward = row["recovery_kind"] == "RolledForward"
        if is_forward is not (row["operation_id"] in visible):
            yield f"{row['recovery_kind']} is not what became of {row['operation_id']}"
        for outcome in json.loads(row["per_table_outcomes_json"]):
            if is_forward is not (outcome["to_version"] > outcome["from_version"]):
                yield f"{row['recovery_kind']} says {outcome}"
