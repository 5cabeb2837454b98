"""Four processes work at random on one graph, and are killed and frozen at random."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.testing.invariants import check_graph
from support import mixed_storm, storm
from support.bucket_front import DyingFront, dying_front
from support.bucket_server import serving_bucket
from support.processes import Process, Raised, Returned, launch
from support.publishing import Place
from support.storm import TIMING, find_group_sizes, read_notes

WORKERS = 4
FILES_MAX = 600
"""Of a graph that was tidied after a storm, however long it was."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the workers of a storm do, and how it is checked."""

    prepare: Callable[[Place], None]
    work: Callable[[Place, Path, str, int, int, int], int]
    judge: Callable[[Place, Sequence[Path]], list[str]]
    examine: Callable[[Place], Sequence[object]]
    threads: int
    """Of each worker: their writes wait for each other, and form groups."""


MUTATIONS = Story(
    storm.prepare, storm.work, storm.judge, lambda place: check_graph(place.open()), 16
)
MIXED = Story(mixed_storm.prepare, mixed_storm.work, mixed_storm.judge, mixed_storm.examine, 8)


def kills_wanted(usual: int) -> int:
    """The soak asks for more than usual."""
    return int(os.environ.get("OMNIGRAPH_KILLS", str(usual)))


def seed_wanted() -> int:
    return int(os.environ.get("OMNIGRAPH_SEED", "1")) or random.SystemRandom().randrange(1, 10**6)


@dataclass
class Storm:
    """Workers on one graph, and their notes.

    The next worker stands ready before one is killed, so that the kills follow closely.
    """

    story: Story
    place: Place
    folder: Path
    chance: random.Random
    notes: list[Path] = field(default_factory=list)
    spares: list[Process[int]] = field(default_factory=list)
    running: list[Process[int]] = field(default_factory=list)

    def prepare(self) -> None:
        """Launch a worker that waits at its gate."""
        self.notes.append(self.folder / f"{len(self.notes)}.jsonl")
        name = f"w{len(self.notes)}"
        seed = self.chance.randrange(10**9)
        story = self.story
        self.spares.append(
            launch(story.work, self.place, self.notes[-1], name, seed, 10_000, story.threads)
        )

    def begin(self) -> None:
        process = self.spares.pop(0)
        process.await_ready()
        process.begin()
        self.running.append(process)
        self.prepare()

    def await_first_write(self) -> None:
        """On a busy machine every worker could be dead before its first write is acknowledged."""
        for _ in range(600):
            notes = [each for note in self.notes for each in self.folder.glob(f"{note.stem}.*")]
            if any('"told"' in each.read_text() for each in notes):
                return
            time.sleep(0.1)

    def kill(self, after_s: float) -> None:
        """Kill a worker, frozen for a while or not, and start another."""
        chance = self.chance
        time.sleep(after_s)
        victim = self.running.pop(chance.randrange(len(self.running)))
        if chance.random() < 0.2:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0, 2) * TIMING.ttl_ms / 1000)
            os.kill(victim.pid, signal.SIGCONT)
            time.sleep(chance.uniform(0, 0.1))
        victim.kill()
        ended = victim.finish(300)
        if isinstance(ended, Raised):  # a graph is not opened while its bucket is away
            assert ended.kind in ("StorageFailure", "BucketUnreachable"), ended.report
        self.begin()

    def end(self) -> None:
        for process in (*self.running, *self.spares):
            process.kill()
        for process in (*self.running, *self.spares):
            process.finish(300)


def run_storm(
    story: Story,
    place: Place,
    folder: Path,
    kills: int,
    seconds_between: tuple[float, float],
    front: DyingFront | None = None,
) -> None:
    seed = seed_wanted()
    print(f"seed {seed}: OMNIGRAPH_SEED={seed} repeats this storm")  # noqa: T201
    storm = Storm(story, place, folder, random.Random(seed))
    story.prepare(place)
    try:
        storm.prepare()
        for _ in range(WORKERS):
            storm.begin()
        storm.await_first_write()
        if front is not None:
            front.torment()
        for _ in range(kills):
            storm.kill(storm.chance.uniform(*seconds_between))
    finally:
        if front is not None:
            front.calm()
        storm.end()

    problems = story.judge(place, storm.notes)
    assert problems == [], f"seed {seed}"
    assert story.examine(place) == [], f"seed {seed}"
    assert find_sidecars(place.open().objects) == ()
    noted = Counter(line[0] for line in read_notes(storm.notes))
    assert noted["told"], f"seed {seed}: nothing was acknowledged"
    sizes = find_group_sizes(place)
    assert sizes, f"seed {seed}: no writes formed a group"
    last = launch(story.work, place, folder / "last.jsonl", "last", seed, 10, 1)
    last.await_ready()
    last.begin()
    assert isinstance(last.finish(300), Returned)
    assert story.judge(place, [*storm.notes, folder / "last.jsonl"]) == [], f"seed {seed}"
    groups = f"{len(sizes)} groups of up to {max(sizes)}"
    counts = f"{noted['asked']} asked, {noted['told']} told, {noted['refused']} refused"
    print(f"{kills} kills, {counts}, {groups}")  # noqa: T201


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_is_half_visible(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "g"))
    run_storm(MUTATIONS, place, tmp_path, kills_wanted(30), (0.02, 0.25))


@pytest.mark.slow
@pytest.mark.skipif(
    "OMNIGRAPH_KILLS" not in os.environ,
    reason="make soak; in make test the simulator does the same work, step by step",
)
def test_mixed_work_is_whole_or_absent_and_the_disk_is_bounded(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "g"))
    run_storm(MIXED, place, tmp_path, kills_wanted(10), (0.2, 0.8))
    mixed_storm.tidy(place)
    files = [each for each in (tmp_path / "g").rglob("*") if each.is_file()]
    assert len(files) <= FILES_MAX, Counter(str(each.parent) for each in files).most_common(9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "story", [MUTATIONS, MIXED] if "OMNIGRAPH_FRONT" in os.environ else [MUTATIONS]
)
def test_the_same_holds_in_a_bucket(tmp_path: Path, story: Story) -> None:
    """The soak also kills and freezes the server of the bucket."""
    with serving_bucket() as options, ExitStack() as stack:
        front = None
        if "OMNIGRAPH_FRONT" in os.environ:
            server = options["aws_endpoint"]
            front = stack.enter_context(dying_front(server, seed_wanted(), lives_s=(3, 12)))
            options = {**options, "aws_endpoint": front.endpoint, "timeout": "5s"}  # noqa: PLW2901
        place = Place("s3://graphs/storm", options)
        pauses_s = (0.2, 1.0) if front is None else (0.5, 2.5)
        run_storm(story, place, tmp_path, kills_wanted(10), pauses_s, front)
        if front is not None:
            print(f"the server died {front.deaths} times and froze {front.freezes}")  # noqa: T201
