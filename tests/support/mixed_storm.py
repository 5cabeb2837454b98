"""A kill storm of mixed work: what is written is whole or absent, whatever else goes on.

The unit is a *bundle*: three documents and two links, named by the tag of the operation that
writes them, with one commit on main. An operation writes a bundle by a mutation, by a load, on a
branch of its own that is merged and deleted, or on a branch that others use too; or it retracts a
bundle that its thread was told of. Other operations change the schema, optimize, clean up and read;
none of them may change what main shows.
"""

import json
import random  # noqa: TID251 - a storm is repeated by its seed
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.maintain.doctor import CLEANUP, CLEANUP_LATER
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.opening import create
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import (
    BranchExists,
    ConflictError,
    InputError,
    NotFoundError,
    OutcomeUnknown,
    StorageFailure,
)
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.lang.source import Source
from omnigraph.pipeline.local_load import LocalLoader
from omnigraph.storage.tables import Tables
from support.publishing import Place
from support.storm import read_notes, reopen, settings_of

SCHEMA: Final = """
node Doc { name: String @key  bundle: String @index }
edge Link: Doc -> Doc { bundle: String }
"""
NOTED: Final = SCHEMA.replace("@index }", "@index  note: String? }")
"""The other schema: changes go to and fro between the two."""
DOC: Final = TableKey("node:Doc")
LINK: Final = TableKey("edge:Link")
WHOLE: Final = (3, 2)
"""The documents and the links of a bundle."""

PROGRAM: Final = Source(
    "<storm>",
    """
query put($a: String, $b: String, $c: String, $bundle: String) {
  insert Doc { name: $a, bundle: $bundle }
  insert Doc { name: $b, bundle: $bundle }
  insert Doc { name: $c, bundle: $bundle }
  insert Link { from: $a, to: $b, bundle: $bundle }
  insert Link { from: $b, to: $c, bundle: $bundle }
}
query retract($bundle: String) { delete Doc where bundle = $bundle }
""",
)
CLEAN: Final = CleanupRequest(RetentionPolicy(keep=5), is_confirmed=True)
REFUSED: Final = (InputError, ConflictError, NotFoundError)
"""What says that nothing was changed."""


def prepare(place: Place) -> None:
    create(place.uri, SCHEMA, settings=settings_of(place))


# ── the workers ──────────────────────────────────────────────────────────────────────────────────


def work(place: Place, notes: Path, worker: str, seed: int, steps: int, threads: int = 1) -> int:
    """Do something at random from several threads, noting it; how often it was acknowledged."""
    graph, tables = reopen(place), place.open().tables

    def work_alone(number: int) -> int:
        diary = notes.with_suffix(f".{number}{notes.suffix}")
        chance = random.Random(seed + number)
        return Worker(graph, tables, diary, f"{worker}.{number}", chance).run(steps)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work_alone, range(threads)))


@dataclass
class Worker:
    """One thread: it asks for one thing after the other, and notes each question and answer."""

    graph: Graph
    tables: Tables
    notes: Path
    name: str
    chance: random.Random
    cleaning: CleanupRequest = CLEAN
    loads: bool = True
    told: list[str] = field(default_factory=list)
    """The bundles that this thread was told of, and has not retracted."""

    def run(self, steps: int) -> int:
        return sum(self.step(f"{self.name}:{number}") for number in range(steps))

    def step(self, tag: str) -> bool:
        """One thing, by lot. Was it acknowledged?"""
        kinds: dict[Callable[[str], str | None], int] = {
            self.put: 6,
            self.retract: 4,
            self.load: 3 * self.loads,
            self.merge: 3,
            self.share: 3,
            self.read: 2,
            self.change_schema: 1,
            self.optimize: 1,
            self.clean_up: 1,
        }
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        try:
            commit = kind(tag)
        except REFUSED as refused:
            self.note("refused", tag, refused.code.value)
        except (OutcomeUnknown, StorageFailure):
            pass  # nothing was promised
        else:
            self.note("told", tag, commit)
            return True
        return False

    def note(self, *line: str | None) -> None:
        with self.notes.open("a") as diary:
            diary.write(json.dumps(line) + "\n")

    def put(
        self, tag: str, branch: BranchName = MAIN, actor: str | None = None, what: str = "bundle"
    ) -> str | None:
        self.note("asked", tag, what)
        one, two, three = names_of(tag)
        params = {"a": one, "b": two, "c": three, "bundle": tag}
        request = WriteRequest(branch, actor=actor or tag)
        result = self.graph.mutate(PROGRAM, name="put", params=params, request=request)
        if branch == MAIN:
            self.told.append(tag)
        return None if result.commit is None else result.commit.id

    def retract(self, tag: str) -> str | None:
        if not self.told:
            return self.put(tag)
        bundle = self.told[self.chance.randrange(len(self.told))]
        self.note("asked", tag, "retract", bundle)
        request = WriteRequest(MAIN, actor=tag)
        params = {"bundle": bundle}
        result = self.graph.mutate(PROGRAM, name="retract", params=params, request=request)
        self.told.remove(bundle)
        return None if result.commit is None else result.commit.id

    def load(self, tag: str) -> str | None:
        self.note("asked", tag, "bundle")
        names = names_of(tag)
        lines: list[object] = [
            {"type": "Doc", "data": {"name": each, "bundle": tag}} for each in names
        ]
        lines += [
            {"edge": "Link", "from": one, "to": two, "data": {"bundle": tag}}
            for one, two in pairwise(names)
        ]
        source = self.notes.with_name(f"input-{self.notes.name}")
        source.write_text("".join(json.dumps(each) + "\n" for each in lines))
        request = LoadRequest([str(source)], LoadMode.APPEND, actor=tag)
        result = self.graph.load(request, LocalLoader())
        self.told.append(tag)
        return None if result.commit is None else result.commit.id

    def merge(self, tag: str) -> str | None:
        branch = self.graph.create_branch(f"topic-{tag.replace(':', '-').replace('.', '-')}")
        self.put(tag, branch, actor=f"{tag}@branch")
        result = self.graph.merge(MergeRequest(branch, actor=tag))
        self.told.append(tag)
        with suppress(*REFUSED, OutcomeUnknown, StorageFailure):
            self.graph.delete_branch(branch)
        return None if result.commit is None else result.commit.id

    def share(self, tag: str) -> str | None:
        """A branch that others create, write, merge and delete too: what becomes of the bundle is
        open, but it must be whole wherever it is.
        """
        branch = BranchName(f"shared-{self.chance.randrange(3)}")
        with suppress(BranchExists):
            self.graph.create_branch(branch)
        self.put(tag, branch, actor=f"{tag}@branch", what="shared")
        ending = self.chance.choice(("delete", "merge", "leave"))
        if ending == "delete":
            self.graph.delete_branch(branch)
        if ending != "merge":
            return None
        result = self.graph.merge(MergeRequest(branch, actor=tag))
        return None if result.commit is None else result.commit.id

    def change_schema(self, tag: str) -> str | None:
        """Only main may exist, so the branches of all others are deleted first."""
        self.note("asked", tag, "schema")
        for branch in self.graph.branches():
            if branch != MAIN:
                with suppress(*REFUSED):
                    self.graph.delete_branch(branch)
        text = SCHEMA if "note" in self.graph.schema_source else NOTED
        is_hard = self.chance.random() < 0.5
        request = SchemaRequest(text, allow_data_loss=is_hard, actor=tag)
        result = self.graph.apply_schema(request)
        return None if result.commit is None else result.commit.id

    def optimize(self, tag: str) -> None:
        self.note("asked", tag, "optimize")
        self.graph.optimize()

    def clean_up(self, tag: str) -> None:
        self.note("asked", tag, "cleanup")
        self.graph.cleanup(self.cleaning)

    def read(self, tag: str) -> None:
        self.note("asked", tag, "read")
        for problem in find_halves(self.graph, self.tables, self.graph.snapshot()):
            self.note("saw", tag, problem)


def names_of(tag: str) -> tuple[str, str, str]:
    return f"{tag}/0", f"{tag}/1", f"{tag}/2"


# ── the judge ────────────────────────────────────────────────────────────────────────────────────


def count_bundles(
    graph: Graph, tables: Tables, snapshot: ManifestSnapshot
) -> dict[str, tuple[int, int]]:
    """The documents and links of every bundle that a snapshot shows."""
    docs, links = (
        Counter(map(str, tables.read(graph.open_table(snapshot, key))["bundle"].to_pylist()))
        for key in (DOC, LINK)
    )
    return {each: (docs[each], links[each]) for each in sorted({*docs, *links})}


def find_halves(graph: Graph, tables: Tables, snapshot: ManifestSnapshot) -> Iterator[str]:
    for bundle, counts in count_bundles(graph, tables, snapshot).items():
        if counts != WHOLE:
            yield f"{bundle} has {counts[0]} documents and {counts[1]} links"


def judge(place: Place, notes: Sequence[Path]) -> list[str]:
    return find_problems(reopen(place), place.open().tables, notes)


def find_problems(graph: Graph, tables: Tables, notes: Sequence[Path]) -> list[str]:
    """Everything that is wrong with the graph; nothing, it is hoped."""
    asked: dict[str, tuple[str, ...]] = {}
    told: dict[str, str | None] = {}
    refused: dict[str, str] = {}
    problems: list[str] = []
    for kind, tag, *rest in read_notes(notes):
        match kind:
            case "asked":
                asked[tag] = tuple(rest)
            case "told":
                told[tag] = rest[0]
            case "refused":
                refused[tag] = rest[0]
            case _:
                problems.append(f"{tag} saw that {rest[0]}")
    snapshot = graph.snapshot()
    for branch in graph.branches():
        problems += find_halves(graph, tables, graph.snapshot(branch))
    shown = count_bundles(graph, tables, snapshot)
    retracts: dict[str, list[str]] = {}
    for tag, what in asked.items():
        if what[0] == "retract":
            retracts.setdefault(what[1], []).append(tag)
    for tag in (tag for tag, what in asked.items() if what[0] == "bundle"):
        tries = retracts.get(tag, [])
        if tag not in shown:
            if tag in told and all(each in refused for each in tries):
                problems.append(f"{tag} was acknowledged as {told[tag]}, and is gone")
        elif tag in refused:
            problems.append(f"{tag} was refused as {refused[tag]}, and is there")
        elif any(each in told for each in tries):
            problems.append(f"{tag} was retracted by one of {tries}, and is there")
    history = Counter(str(each.id) for each in graph.commits())
    actors = Counter(each.actor for each in graph.commits() if each.actor in asked)
    problems += [f"{tag} is there {times} times" for tag, times in actors.items() if times > 1]
    problems += [f"{tag} was refused, and is in the history" for tag in refused if actors[tag] > 0]
    problems += [
        f"the commit {commit} of {tag} is in the history {history[commit]} times"
        for tag, commit in told.items()
        if commit is not None and history[commit] != 1
    ]
    return problems


def examine(place: Place) -> Sequence[object]:
    """What the doctor finds, but for files and forks that the next cleanup removes."""
    findings = reopen(place).examine(is_deep=True)
    return [each for each in findings if each.remedy not in (CLEANUP, CLEANUP_LATER)]


def tidy(place: Place) -> None:
    """Remove all that a cleanup may remove, and find nothing wrong with the rest."""
    graph = reopen(place)
    for branch in graph.branches():
        if branch != MAIN:
            graph.delete_branch(branch)
    graph.optimize()
    policy = RetentionPolicy(keep=1)  # older commits keep the parts that optimize merged
    graph.cleanup(replace(CLEAN, policy=policy, debris_age_ms=-60_000))
    assert graph.examine(is_deep=True) == []
