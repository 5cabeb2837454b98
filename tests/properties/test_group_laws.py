"""A group of writes is the same writes one after the other: answers, history, feed and rows."""

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, event, given, note, settings, strategies as st

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import ConstraintViolation, LoadRejected, OmnigraphError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.grouping import Answer, Result, run_grouped, run_in_turn
from support.mutations import read_tables

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  @range(age, 0..3) }
edge Knows: Person -> Person @card(0..2) { since: I32? }
"""
NAMES = tuple("abcdefghijklmnopqrst")

PROGRAM = """
query put($name: String, $age: I32, $mail: String?) {
  insert Person { name: $name, age: $age, mail: $mail }
}
query age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query all($age: I32, $new: I32) { update Person set { age: $new } where age = $age }
query link($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query both($a: String, $b: String) {
  insert Person { name: $a }
  insert Knows { from: $a, to: $b }
}
query drop($name: String) { delete Person where name = $name }
query unlink($a: String) { delete Knows where from = $a }
"""

EXAMPLES = int(os.environ.get("OMNIGRAPH_GROUP_EXAMPLES", "25"))


@dataclass(frozen=True)
class Wish:
    """One write, with everything that a caller may add to it."""

    verb: str
    values: Mapping[str, Any]
    actor: str | None
    key: str | None
    on_head: bool

    def call(self, graph: LocalGraph, head: str) -> Callable[[], Result]:
        extra: dict[str, Any] = {
            "actor": self.actor,
            "idempotency_key": self.key,
            "if_commit": head if self.on_head else None,
            "message": f"{self.verb} {sorted(self.values.items())}",
        }
        match self.verb:
            case "insert":
                return lambda: graph.insert("Person", [self.values], **extra)
            case "upsert":
                return lambda: graph.upsert("Person", [self.values], **extra)
            case "append" | "merge" as mode:
                del extra["if_commit"]
                source = self._write_file(Path(graph.uri).parent)
                return lambda: graph.load(source, mode=mode, engine="local", **extra)
            case "delete":
                return lambda: graph.delete("Person", [self.values["name"]], **extra)
            case name:
                return lambda: graph.mutate(PROGRAM, name=name, params=self.values, **extra)

    def _write_file(self, folder: Path) -> Path:
        """A node, and for one age an edge too."""
        name = self.values["name"]
        lines = [
            {"type": "Person", "data": self.values},
            {"edge": "Knows", "from": name, "to": "a", "data": {"id": f"edge of {name}"}},
        ]
        text = "\n".join(map(json.dumps, lines[: 1 + (self.values["age"] == 2)]))
        path = folder / f"{zlib.crc32(text.encode())}.jsonl"
        path.write_text(text)
        return path


names = st.sampled_from(NAMES)
ages = st.sampled_from((0, 0, 1, 2, 2, 3, 3, 4))
mails = st.sampled_from((None, None, None, "a@x", "b@x"))
rows = st.fixed_dictionaries({"name": names, "age": ages, "mail": mails})
shapes = st.one_of(
    st.tuples(st.sampled_from(("insert", "upsert", "put")), rows),
    st.tuples(st.sampled_from(("insert", "upsert", "put")), rows),
    st.tuples(st.sampled_from(("append", "merge")), rows),
    st.tuples(st.sampled_from(("delete", "drop")), st.fixed_dictionaries({"name": names})),
    st.tuples(st.just("age"), st.fixed_dictionaries({"name": names, "age": ages})),
    st.tuples(st.just("all"), st.fixed_dictionaries({"age": ages, "new": ages})),
    st.tuples(st.sampled_from(("link", "both")), st.fixed_dictionaries({"a": names, "b": names})),
    st.tuples(st.just("unlink"), st.fixed_dictionaries({"a": names})),
)
wishes = st.builds(
    lambda shape, actor, key, on_head: Wish(shape[0], shape[1], actor, key, on_head),
    shapes,
    st.sampled_from((None, "act-a", "act-b")),
    st.sampled_from((None, None, None, "k1", "k2")),
    st.sampled_from((False,) * 9 + (True,)),
)


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=EXAMPLES == 25,
)
@given(st.lists(wishes, max_size=2), st.lists(wishes, min_size=3, max_size=10))
def test_a_group_equals_its_writes_in_turn(before: list[Wish], asked: list[Wish]) -> None:
    with TemporaryDirectory() as folder:
        alone = prepare(Path(folder) / "alone", before, group=False)
        grouped = prepare(Path(folder) / "grouped", before, group=True)
        heads = [each.commits()[0].id for each in (alone, grouped)]
        one = run_in_turn([each.call(alone, heads[0]) for each in asked])
        two = run_grouped(grouped.engine, [each.call(grouped, heads[1]) for each in asked])
        note(f"{one}\n{two}")
        assert answers(grouped, two) == answers(alone, one)
        assert history(grouped) == history(alone)
        assert feed(grouped) == feed(alone)
        assert own_changes(grouped) == own_changes(alone)
        assert rows_of(grouped) == rows_of(alone)
        assert check_graph(open_stores(grouped.uri, REAL)) == []
        event(f"largest group {largest_group(grouped)}")


def prepare(root: Path, before: Sequence[Wish], *, group: bool) -> LocalGraph:
    omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    graph = omnigraph.open(root, durability=Durability.RELAXED, group=group, maintenance=False)
    graph.insert("Person", [{"name": each, "age": 1} for each in NAMES[::2]])
    head = graph.commits()[0].id
    run_in_turn([each.call(graph, head) for each in before])
    return graph


def answers(graph: LocalGraph, given: Sequence[Answer]) -> list[object]:
    """Commits by their position in the history, and violations without the ids of new edges."""
    places = {each.id: at for at, each in enumerate(reversed(graph.commits()))}
    told: list[object] = []
    for each in given:
        if isinstance(each, ConstraintViolation):
            told.append([(found.kind, found.type_name) for found in each.violations])
        elif isinstance(each, LoadRejected):
            told.append([(found.kind, found.type_name, found.line) for found in each.faults])
        elif isinstance(each, OmnigraphError):
            told.append(each.code)
        else:
            place = None if each.commit is None else places[each.commit.id]
            rows = each.counts if isinstance(each, LoadResult) else affected_of(each)
            told.append((rows, each.actor, place))
    return told


def affected_of(result: MutationResult) -> tuple[int, int]:
    return result.affected_nodes, result.affected_edges


def history(graph: LocalGraph) -> list[object]:
    commits = list(reversed(graph.commits()))
    assert [each.parent for each in commits[1:]] == [each.id for each in commits[:-1]]
    times = [each.created_at_us for each in commits]
    assert times == sorted(times)
    return [
        (each.actor, each.message, each.counts, each.extension.idempotency) for each in commits[1:]
    ]


def feed(graph: LocalGraph) -> list[object]:
    places = {each.id: at for at, each in enumerate(reversed(graph.commits()))}
    page = graph.changes(start="beginning")
    return [
        (places[block.cause.id], sorted(map(spell_change, block.changes))) for block in page.blocks
    ]


def own_changes(graph: LocalGraph) -> list[object]:
    """The changes of each commit, asked for one by one."""
    return [
        sorted(map(spell_change, graph.commit_changes(each.id).changes))
        for each in reversed(graph.commits()[:-1])
    ]


def spell_change(change: Any) -> str:
    identity = change.id if change.kind == "node" else "an edge"
    return str((change.kind, change.type_name, identity, change.op, change.before, change.after))


def rows_of(graph: LocalGraph) -> object:
    tables = read_tables(graph.engine, open_stores(graph.uri, REAL))
    return {
        name: sorted(str(sorted(row.items())) for row in found.values())
        for name, found in tables.items()
    }


def largest_group(graph: LocalGraph) -> int:
    return max(
        1 if each.extension.group is None else each.extension.group.size for each in graph.commits()
    )
