"""Scenes: a graph in some state, and one operation on it during which something fails.

A scene is set up once and restored as often as needed, at the same place: branches of a table
record where they were made.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.write.upkeep import FRAGMENTS_MAX
from omnigraph.ids import MAIN, BranchName
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.tables import Handle, Mark, Staged, TableSettings
from omnigraph.testing.failpoints import COMMIT, SWAP, Act, At, Trigger, crash, kill
from omnigraph.testing.faults import Crash
from support.breaking import (
    CASCADE,
    LONER,
    PAIR,
    PERSON,
    SCHEMA,
    SIDE,
    Ask,
    BreakableGraph,
    Content,
    open_living,
    open_mortal,
    populate,
    read_content,
)
from support.failpoints import FAILPOINTS, Failpoint, Scene
from support.folders import put_back, read_folder

Work = Callable[[BreakableGraph], object]

GROWN: Final = (
    SCHEMA.replace("age: I64?", "age: I64?  mail: String?").replace(
        "node Company { name: String @key }",
        "node Company { name: String @key  n: I32? @default(3) }",
    )
    + "node Pet { name: String @key }\n"
)
REWORDED: Final = SCHEMA.replace("node Company", 'node Company @description("who pays")')
SHRUNK: Final = SCHEMA.replace(" { since: I64? }", "")
CLEAN: Final = CleanupRequest(RetentionPolicy(keep=1), is_confirmed=True, debris_age_ms=-60_000)
"""What died a moment ago counts as old."""


def act(scene: Scene, graph: BreakableGraph) -> object:
    """Do what a scene is about."""
    match scene:
        case Scene.WRITE:
            return graph.ask(PAIR)
        case Scene.FIRST_WRITE | Scene.RECLAIM:
            return graph.ask(PAIR, SIDE)
        case Scene.DELETE:
            return graph.ask(CASCADE)
        case Scene.DELETE_LONER:
            return graph.ask(LONER)
        case Scene.UPKEEP:
            return graph.tidy(PERSON)
        case Scene.INDEX:
            return graph.ensure_indices()
        case Scene.FORWARD | Scene.BACK | Scene.DISCARD:
            return heal(graph.context)
        case Scene.SCHEMA:
            return graph.apply_schema(SchemaRequest(GROWN))
        case Scene.SCHEMA_WORDS:
            return graph.apply_schema(SchemaRequest(REWORDED))
        case Scene.HARD_DROP:
            return graph.apply_schema(SchemaRequest(SHRUNK, allow_data_loss=True))
        case Scene.OPTIMIZE:
            return graph.optimize()
        case Scene.CLEANUP:
            return graph.cleanup(CLEAN)
        case Scene.CREATE_BRANCH:
            return graph.create_branch(SIDE)
        case Scene.DELETE_BRANCH:
            return graph.delete_branch(SIDE)


def act_for(point: Failpoint, graph: BreakableGraph) -> object:
    """Do what its scene is about."""
    assert isinstance(point.scene, Scene), "merges and stories are acted elsewhere"
    return act(point.scene, graph)


def _prepare(scene: Scene, root: Path) -> None:
    graph = populate(root)
    if scene in (
        Scene.FIRST_WRITE,
        Scene.DISCARD,
        Scene.RECLAIM,
        Scene.DELETE_BRANCH,
        Scene.CLEANUP,
    ):
        graph.create_branch(SIDE)
    match scene:
        case Scene.UPKEEP:
            for number in range(FRAGMENTS_MAX):
                graph.ask(Ask("put", {"name": f"p{number}", "age": number}))
        case Scene.OPTIMIZE:
            for number in range(3):
                graph.ask(Ask("put", {"name": f"p{number}", "age": number}))
            set_purging(graph)
        case Scene.CLEANUP:
            for number in range(3):
                graph.ask(Ask("put", {"name": f"p{number}", "age": number}))
            graph.context.stores.tables.fork(graph.open_table(graph.snapshot(), PERSON), "nobody")
        case Scene.FORWARD:
            die(root, At(SWAP), lambda each: each.ask(PAIR))
        case Scene.BACK:
            die(root, At(COMMIT, 3), lambda each: each.ask(CASCADE))
        case Scene.DISCARD:
            die(root, At(SWAP), lambda each: each.ask(PAIR, SIDE))
            graph.delete_branch(SIDE)
            graph.create_branch(SIDE)
        case Scene.RECLAIM:
            graph.ask(PAIR, SIDE)
            # As if the deletion of the branch had died as soon as the branch was gone.
            graph.context.stores.tables.clear_branch(MANIFEST, SIDE)
            open_mortal(root).create_branch(SIDE)
        case Scene.DELETE_BRANCH:
            graph.ask(PAIR, SIDE)
        case _:
            pass


def set_purging(graph: BreakableGraph) -> None:
    """As another program may have left a table: it would purge what commits show."""
    tables = graph.context.stores.tables
    purging = TableSettings(config={"lance.auto_cleanup.interval": "1000"})

    def stage(handle: Handle, mark: Mark) -> Staged:
        return tables.stage_settings(handle, purging, mark)

    with acquire_write_locks(graph.context, MAIN, [PERSON]) as lock:
        version = lock.base.manifest.pins[PERSON].version
        run(lock, Change(WriterKind.MUTATION, MAIN, (TableWrite(PERSON, version, (stage,)),)))


def die(root: Path, at: At, work: Work) -> None:
    """Work, and die there."""
    trigger = Trigger(at, crash)
    with suppress(Crash):
        work(open_mortal(root, trigger, observe=trigger.observe))
    assert trigger.fired, f"it never came to {at}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A scene that was set, what it shows, and what it shows once it went well."""

    scene: Scene
    root: Path
    files: Mapping[str, bytes]
    before: Content
    after: Content

    def reset(self) -> None:
        put_back(self.root, self.files)

    @property
    def allowed(self) -> Sequence[Content]:
        return (self.before, self.after)


def set_stage(scene: Scene, root: Path) -> Stage:
    _prepare(scene, root)
    files = read_folder(root)
    before = read_content(root)
    act(scene, open_mortal(root))
    return Stage(scene, root, files, before, read_content(root))


def set_write(ask: Ask, branch: BranchName, root: Path) -> Stage:
    """A write that is no scene of its own: on main, or the first of a branch."""
    populate(root).create_branch(SIDE)
    files = read_folder(root)
    before = read_content(root)
    open_mortal(root).ask(ask, branch)
    return Stage(Scene.WRITE, root, files, before, read_content(root))


def play(root: Path, name: str, how: Act) -> None:
    """Act a failpoint's scene with this happening there, in a graph of this process."""
    point = FAILPOINTS[name]
    trigger = Trigger(point.at, how)
    act_for(point, open_living(root, trigger, observe=trigger.observe))
    assert trigger.fired, f"it never came to {name}"


def play_to_death(root: Path, name: str) -> None:
    """For a process of its own."""
    play(root, name, kill)
