"""A kill storm: processes write at random while others are killed and frozen at random.

Every write has a name of its own, which the commit keeps as its actor. A worker records its request
before it sends it, and the answer after it; both records survive its death. A worker of several
threads publishes groups. Afterwards the history
is replayed over a plain model: every acknowledged write must be in it exactly once, no other write
may be in it, and the graph must equal the model.
"""

import json
import random  # noqa: TID251 - a storm is repeated by its seed
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.commit.leases.lease import Timing
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import ConflictError, InputError, OutcomeUnknown, StorageFailure
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.lang.source import Source
from omnigraph.storage.tables import Tables
from support.publishing import Place

SCHEMA: Final = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
PERSON: Final = TableKey("node:Person")
KNOWS: Final = TableKey("edge:Knows")

PROGRAM: Final = Source(
    "<storm>",
    """
query put($name: String, $age: I64) { insert Person { name: $name, age: $age } }
query link($a: String, $b: String, $n: I64) { insert Knows { from: $a, to: $b, since: $n } }
query pair($a: String, $b: String, $n: I64) {
  insert Person { name: $a, age: $n }
  insert Person { name: $b, age: $n }
  insert Knows { from: $a, to: $b, since: $n }
}
query age($name: String, $age: I64) { update Person set { age: $age } where name = $name }
query drop($name: String) { delete Person where name = $name }
query unlink($a: String) { delete Knows where from = $a }
""",
)

NAMES: Final = tuple(f"p{number}" for number in range(12))
BRANCHES: Final = (MAIN, BranchName("left"), BranchName("right"))
TIMING: Final = Timing(ttl_ms=1500, heartbeat_ms=300, wait_ms_max=20_000, poll_ms=2)


@dataclass(frozen=True, slots=True)
class Asked:
    """One write, as its worker noted it before asking."""

    tag: str
    branch: BranchName
    query: str
    params: Mapping[str, str | int]


# ── the workers ──────────────────────────────────────────────────────────────────────────────────


def prepare(place: Place) -> None:
    graph = create(place.uri, SCHEMA, settings=settings_of(place))
    for branch in BRANCHES[1:]:
        graph.create_branch(branch)


def settings_of(place: Place) -> Settings:
    return Settings(
        storage_options=place.storage_options, durability=place.durability, timing=TIMING
    )


def reopen(place: Place, mode: Mode = Mode.READ_WRITE) -> Graph:
    return open_in(place.open(), mode, settings_of(place))


def work(place: Place, notes: Path, worker: str, seed: int, writes: int, threads: int = 1) -> int:
    """Write at random from several threads, noting everything; how many were acknowledged."""
    graph = reopen(place)

    def work_alone(number: int) -> int:
        diary = notes.with_suffix(f".{number}{notes.suffix}")
        return _work(graph, diary, f"{worker}.{number}", seed + number, writes)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work_alone, range(threads)))


def _work(graph: Graph, notes: Path, worker: str, seed: int, writes: int) -> int:
    chance = random.Random(seed)
    done = 0
    with notes.open("a", buffering=1) as diary:
        for number in range(writes):
            asked = _draw(chance, f"{worker}:{number}")
            diary.write(json.dumps(["asked", asked.tag, asked.branch, asked.query, asked.params]))
            diary.write("\n")
            try:
                result = graph.mutate(
                    PROGRAM,
                    name=asked.query,
                    params=asked.params,
                    request=WriteRequest(asked.branch, actor=asked.tag),
                )
            except (InputError, ConflictError) as refused:
                diary.write(json.dumps(["refused", asked.tag, refused.code.value]) + "\n")
                continue
            except (OutcomeUnknown, StorageFailure):
                continue  # nothing was promised
            commit = None if result.commit is None else result.commit.id
            diary.write(json.dumps(["told", asked.tag, commit]) + "\n")
            done += 1
    return done


def _draw(chance: "random.Random", tag: str) -> Asked:
    branch = chance.choice(BRANCHES)
    one, two = chance.choice(NAMES), chance.choice(NAMES)
    number = chance.randrange(1000)
    wishes: list[tuple[str, dict[str, str | int]]] = [
        ("put", {"name": one, "age": number}),
        ("put", {"name": one, "age": number}),
        ("pair", {"a": one, "b": two, "n": number}),
        ("link", {"a": one, "b": two, "n": number}),
        ("age", {"name": one, "age": number}),
        ("drop", {"name": one}),
        ("unlink", {"a": one}),
    ]
    query, params = chance.choice(wishes)
    return Asked(tag, branch, query, params)


# ── the judge ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Model:
    """What a branch should hold."""

    people: dict[str, int] = field(default_factory=dict)
    knows: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def apply(self, asked: Asked) -> None:
        params = asked.params
        match asked.query:
            case "put" | "age":
                self.people[str(params["name"])] = int(params["age"])
            case "pair":
                self.people[str(params["a"])] = self.people[str(params["b"])] = int(params["n"])
                self.knows[str(params["a"]), str(params["b"]), int(params["n"])] += 1
            case "link":
                self.knows[str(params["a"]), str(params["b"]), int(params["n"])] += 1
            case "drop":
                gone = str(params["name"])
                self.people.pop(gone)
                for edge in [each for each in self.knows if gone in each[:2]]:
                    del self.knows[edge]
            case "unlink":
                for edge in [each for each in self.knows if each[0] == params["a"]]:
                    del self.knows[edge]
            case query:
                raise AssertionError(query)


@dataclass(frozen=True, slots=True)
class Diary:
    """What the workers noted, all of them together."""

    asked: Mapping[str, Asked]
    told: Mapping[str, str | None]
    refused: Mapping[str, str]


def read_diaries(notes: Sequence[Path]) -> Diary:
    asked: dict[str, Asked] = {}
    told: dict[str, str | None] = {}
    refused: dict[str, str] = {}
    for line in read_notes(notes):
        match line:
            case ["asked", tag, branch, query, params]:
                asked[tag] = Asked(tag, BranchName(branch), query, params)
            case ["told", tag, commit]:
                told[tag] = commit
            case ["refused", tag, code]:
                refused[tag] = code
            case _:
                raise AssertionError(line)
    return Diary(asked, told, refused)


def read_notes(notes: Sequence[Path]) -> Iterator[list[Any]]:
    """What every thread of every worker noted, line by line."""
    for path in sorted(each for some in notes for each in some.parent.glob(f"{some.stem}.*")):
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                # The worker died while it wrote its last line.
                continue


def judge(place: Place, notes: Sequence[Path]) -> list[str]:
    """Everything that is wrong with the graph; nothing, it is hoped."""
    diary = read_diaries(notes)
    graph = reopen(place)
    problems: list[str] = []
    for branch in BRANCHES:
        model = Model()
        seen: Counter[str] = Counter()
        for commit in reversed(graph.commits(branch)):
            asked = diary.asked.get(commit.actor or "")
            if commit.branch == branch and asked is not None:
                seen[asked.tag] += 1
                model.apply(asked)
        problems += _judge_history(branch, diary, seen)
        problems += _judge_rows(graph, place.open().tables, branch, model)
    return problems


def find_group_sizes(place: Place) -> list[int]:
    """The size of every group of two or more that was published on any branch."""
    graph = reopen(place, Mode.READ_ONLY)
    sizes = {
        each.extension.group.id: each.extension.group.size
        for branch in graph.branches()
        for each in graph.commits(branch)
        if each.extension.group is not None
    }
    return list(sizes.values())


def _judge_history(branch: BranchName, diary: Diary, seen: Counter[str]) -> Iterator[str]:
    for tag, times in seen.items():
        if times > 1:
            yield f"{branch}: {tag} is there {times} times"
        if tag in diary.refused:
            yield f"{branch}: {tag} was refused as {diary.refused[tag]}, and is there"
        if tag in diary.told and diary.told[tag] is None:
            yield f"{branch}: {tag} was told it changed nothing, and is there"
    for tag, commit in diary.told.items():
        if commit is not None and diary.asked[tag].branch == branch and tag not in seen:
            yield f"{branch}: {tag} was acknowledged as {commit}, and is gone"


def _judge_rows(graph: Graph, tables: Tables, branch: BranchName, model: Model) -> Iterator[str]:
    snapshot = graph.snapshot(branch)
    people_rows = tables.read(graph.open_table(snapshot, PERSON)).to_pylist()
    knows_rows = tables.read(graph.open_table(snapshot, KNOWS)).to_pylist()
    people = {row["id"]: row["age"] for row in people_rows}
    knows = Counter((row["src"], row["dst"], row["since"]) for row in knows_rows)
    if people != model.people:
        yield f"{branch}: people are {people}, should be {model.people}"
    if knows != model.knows:
        yield f"{branch}: edges are {knows}, should be {model.knows}"
