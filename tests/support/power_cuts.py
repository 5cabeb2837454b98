"""The states that a power cut may leave of a recorded folder, and whether the graph survives them.

Two models say what a disk may forget of the operations before the cut.

*Weak* (what POSIX allows): a flush of a file keeps its bytes, a flush of a folder keeps its names,
and nothing else is kept. Every other operation may be missing, in any combination: names of
different folders in any order, bytes whole, torn or as zeros. A rename within a folder is atomic.

*Ordered* (ext4 with `data=ordered`, as ALICE describes it): names reach the disk in the order of
the calls, and any flush takes all earlier names with it. Bytes that were not flushed may be missing
or cut short, never zeros. A rename over another file writes the bytes of the new one first.

    python -m support.power_cuts FOLDER --count 1000 --seed 7
"""

import argparse
import gc
import hashlib
import json
import os
import pickle
import random  # noqa: TID251 - a run is repeated by its seed
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.doctor import CLEANUP, CLEANUP_AGAIN, CLEANUP_LATER, examine
from omnigraph.engine.maintain.repair import RepairRequest
from omnigraph.engine.opening import open_in
from support import power_story
from support.breaking import (
    Content,
    check_lasting,
    find_audit_faults,
    read_content,
    stores_at,
)
from support.disk_trace import (
    Bytes,
    Cut,
    Entry,
    Flush,
    Number,
    Recording,
    Say,
    Tree,
    apply_bytes,
    record,
    tree_of,
)
from support.folders import read_folder
from support.power_story import AFTER_LATE, STORY

CHECK_TIMEOUT_S: Final = 60
MEMORY: Final = Path("/dev/shm")
BOOT_S: Final = 120
LASTING_EVERY: Final = 8
"""Every so many states are also written to and opened again: that takes as long as all else."""


class Model(StrEnum):
    WEAK = "weak"
    ORDERED = "ordered"


class Torn(StrEnum):
    """What the disk has of bytes that were never flushed."""

    WHOLE = "whole"
    MISSING = "missing"
    HALF = "half"
    ZEROS = "zeros"


@dataclass(frozen=True, slots=True)
class State:
    """What one cut leaves, by its recipe: which unflushed operations reached the disk."""

    cut: int
    model: Model
    kept: frozenset[int]
    """Unflushed changes of names that reached the disk."""
    torn: Mapping[Number, Torn] = field(default_factory=dict)
    """Of files with unflushed bytes; those not named here are whole."""
    recipe: str = ""

    def __str__(self) -> str:
        return f"{self.model} cut after operation {self.cut}: {self.recipe}"


class Disk:
    """A recording, and what of it is certain to be on the disk at each moment."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.cuts = [
            at + 1
            for at, each in enumerate(recording.operations)
            if isinstance(each, Entry | Bytes | Cut | Say)
        ]
        """After each operation that changes something or acknowledges it."""
        self.said = [at for at, each in enumerate(recording.operations) if isinstance(each, Say)]
        self._safe_from: dict[int, int] = {}
        """Of each operation that is ever flushed: the moment from which it is safe."""
        self._journalled = [0]
        """At each moment: the operations whose names ext4 has written."""
        unflushed: dict[Number, list[int]] = {}
        for at, operation in enumerate(recording.operations):
            if isinstance(operation, Flush):
                waiting = unflushed.pop(operation.inode, [])
                for each in waiting:
                    if each < operation.began:
                        self._safe_from[each] = at + 1
                    else:
                        unflushed.setdefault(operation.inode, []).append(each)
                self._journalled.append(max(self._journalled[-1], operation.began))
                continue
            self._journalled.append(self._journalled[-1])
            if not isinstance(operation, Say):
                unflushed.setdefault(_owner(operation), []).append(at)

    def acknowledged(self, cut: int) -> int:
        return sum(1 for at in self.said if at < cut)

    def is_safe(self, operation: int, cut: int, model: Model) -> bool:
        if self._safe_from.get(operation, cut + 1) <= cut:
            return True
        if model is Model.WEAK or not isinstance(self.recording.operations[operation], Entry):
            return False
        return operation < self._journalled[cut]

    def pending(self, cut: int, model: Model) -> tuple[list[int], list[Number]]:
        """Changes of names, and files, whose fate is open at a cut."""
        names, files = [], dict[Number, None]()
        for at, operation in enumerate(self.recording.operations[:cut]):
            if isinstance(operation, Flush | Say) or self.is_safe(at, cut, model):
                continue
            if isinstance(operation, Entry):
                names.append(at)
            else:
                files[operation.inode] = None
        return names, list(files)

    def tree(self, state: State) -> Tree:
        """The folder as the process that starts after the cut finds it."""
        operations = self.recording.operations
        entries: list[Entry] = []
        written: dict[Number, list[Bytes | Cut]] = {}
        for at, operation in enumerate(operations[: state.cut]):
            match operation:
                case Entry():
                    if at in state.kept or self.is_safe(at, state.cut, state.model):
                        entries.append(operation)
                case Bytes() | Cut():
                    torn = state.torn.get(operation.inode, Torn.WHOLE)
                    if self.is_safe(at, state.cut, state.model):
                        torn = Torn.WHOLE
                    written.setdefault(operation.inode, []).extend(_tear(operation, torn))
                case Flush() | Say():
                    pass
        before = self.recording.contents
        contents = {
            number: apply_bytes(before.get(number, b""), each) for number, each in written.items()
        }
        return tree_of(self.recording, entries, contents)


def _owner(operation: Bytes | Cut | Entry) -> Number:
    return operation.folder if isinstance(operation, Entry) else operation.inode


def _tear(operation: Bytes | Cut, torn: Torn) -> list[Bytes | Cut]:
    if torn is Torn.WHOLE:
        return [operation]
    if torn is Torn.MISSING or isinstance(operation, Cut):
        return []
    if torn is Torn.HALF:
        data = operation.data[: len(operation.data) // 2]
        return [Bytes(operation.inode, operation.offset, data)]
    return [Bytes(operation.inode, operation.offset, bytes(len(operation.data)))]


# ── which states are tried ───────────────────────────────────────────────────────────────────────


def choose_states(disk: Disk, count: int, seed: int) -> Iterator[State]:
    """First the worst state at each acknowledgement, then states by lot."""
    for at in disk.said:
        yield _nothing(disk, at + 1, Model.WEAK)
    dice = random.Random(seed)
    for _ in range(count):
        cut, model = dice.choice(disk.cuts), dice.choice(list(Model))
        yield _choose(disk, cut, model, dice)


def _nothing(disk: Disk, cut: int, model: Model) -> State:
    _, files = disk.pending(cut, model)
    torn = dict.fromkeys(files, Torn.MISSING)
    return State(cut, model, frozenset(), torn, "nothing that was not flushed")


def _choose(disk: Disk, cut: int, model: Model, dice: random.Random) -> State:
    names, files = disk.pending(cut, model)
    if model is Model.ORDERED:
        names = names[: dice.randint(0, len(names))]
        forced = _written_by_rename(disk.recording, names)
        files = [each for each in files if each not in forced]
        kept, said = frozenset(names), f"the first {len(names)} names"
    else:
        kept, said = _lose(names, dice)
    # A cut tears few files at once; sometimes it tears many.
    tearing = dice.choice([0, 1, 1, 2, len(files)])
    victims = dice.sample(files, min(tearing, len(files)))
    ways = [Torn.MISSING, Torn.HALF] + ([Torn.ZEROS] if model is Model.WEAK else [])
    torn = {each: dice.choice(ways) for each in victims}
    how = ", ".join(f"inode {number} {way}" for number, way in torn.items())
    return State(cut, model, kept, torn, f"{said}; {how or 'no file torn'}")


def _lose(names: Sequence[int], dice: random.Random) -> tuple[frozenset[int], str]:
    if not names:
        return frozenset(), "no name is open"
    one = dice.choice(names)
    match dice.randrange(5):
        case 0:
            return frozenset(names), "all names"
        case 1:
            return frozenset(), "no open name"
        case 2:
            return frozenset(names) - {one}, f"all names but operation {one}"
        case 3:
            return frozenset({one}), f"of the open names only operation {one}"
        case _:
            kept = [each for each in names if dice.random() < 0.5]
            return frozenset(kept), f"the names of operations {kept}"


def _written_by_rename(recording: Recording, kept: Iterable[int]) -> set[Number]:
    """Files whose bytes ext4 writes because they replaced other files."""
    found = set()
    for at in kept:
        operation = recording.operations[at]
        if isinstance(operation, Entry) and operation.replaces:
            found |= {target for _, target in operation.changes if target is not None}
    return found


# ── the check, in a process of its own ───────────────────────────────────────────────────────────


def materialise(root: Path, tree: Tree) -> None:
    """Make a folder look as it does when the machine is up again, a while after the cut."""
    then = REAL.now_ms() / 1000 - BOOT_S
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name, data in tree.items():
        path = root / name
        if data is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(data)
            os.utime(path, (then, then))


def check(root: Path, contents: Sequence[Content], acknowledged: int, *, is_lasting: bool) -> None:
    """Raises whatever the graph raises, and AssertionError for anything wrong."""
    graph = open_in(stores_at(root), Mode.READ_WRITE)
    if [each for each, _ in STORY.steps[acknowledged : acknowledged + 1]] == [AFTER_LATE]:
        # The next writer of the table publishes maintenance, and so does this.
        graph.repair(RepairRequest(is_confirmed=True))
    graph.close()
    stores = stores_at(root)
    context = WriteContext(stores, Bases(stores))
    findings = examine(context, is_deep=True)
    if any(each.remedy == CLEANUP_AGAIN for each in findings):
        power_story.clean(graph)
        findings = examine(context, is_deep=True)
    # Files that nobody shows wait for a cleanup, and break nothing.
    wrong = [each for each in findings if each.remedy not in (CLEANUP, CLEANUP_LATER)]
    assert not wrong, f"doctor: {[str(each) for each in wrong]}"
    assert find_sidecars(stores.objects) == ()
    assert list(find_audit_faults(stores, lost_branches=True)) == []
    content = read_content(root)
    allowed = contents[acknowledged : acknowledged + 2]
    assert content in allowed, _explain(content, contents, acknowledged)
    if is_lasting:
        check_lasting(root, is_cleaned=True)


def _explain(content: Content, contents: Sequence[Content], count: int) -> str:
    done = STORY.steps[count - 1][0] if count else "nothing"
    shown = [at for at, each in enumerate(contents) if each == content]
    steps = [STORY.steps[at - 1][0] if at else "nothing" for at in shown]
    what = f"what it showed after {steps[0]!r}" if steps else f"a state that never was: {content}"
    return f"{done!r} was acknowledged, and the graph shows {what}"


def in_child(work: Callable[[], object], timeout_s: int = CHECK_TIMEOUT_S) -> str | None:
    """Run a function in a fork; what went wrong, if anything did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work()
            os.write(writing, b"fine")
        except BaseException:  # noqa: BLE001 - the parent is told all of it
            os.write(writing, traceback.format_exc()[-6000:].encode())
        finally:
            os._exit(0)
    os.close(writing)
    deadline_ms = REAL.monotonic_ms() + timeout_s * 1000
    os.set_blocking(reading, False)
    said = b""
    while REAL.monotonic_ms() < deadline_ms:
        ended, status = os.waitpid(child, os.WNOHANG)
        with suppress(BlockingIOError):
            said += os.read(reading, 65536)
        if ended:
            os.close(reading)
            if said == b"fine":
                return None
            return said.decode() or f"the process ended with status {status}"
        REAL.sleep_ms(2)
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(reading)
    return f"no end after {timeout_s} s"


@dataclass
class Report:
    """What a run found."""

    seed: int
    operations: int
    flushes: int
    states: int = 0
    findings: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Campaign:
    """One recording, cut in many ways.

    No table is opened in this process: its forks must be as fresh as new processes.
    """

    root: Path
    scratch: Path
    disk: Disk
    contents: Sequence[Content]
    seen: set[bytes] = field(default_factory=set)

    def run(self, count: int, seed: int, findings_max: int) -> Report:
        begin_ms = REAL.monotonic_ms()
        operations = self.disk.recording.operations
        flushes = sum(isinstance(each, Flush) for each in operations)
        report = Report(seed, len(operations), flushes)
        gc.freeze()
        for number, state in enumerate(choose_states(self.disk, count, seed)):
            if not self._rebuild(state):
                continue
            report.states += 1
            failure = self._check(state, is_lasting=number % LASTING_EVERY == 0)
            if failure is not None:
                report.findings.append({"state": str(state), "why": failure})
                self._keep(number)
            if len(report.findings) == findings_max:
                break
        report.seconds = (REAL.monotonic_ms() - begin_ms) / 1000
        return report

    def _rebuild(self, state: State) -> bool:
        """False if the same state was checked before."""
        tree = self.disk.tree(state)
        digest = _digest(tree, self.disk.acknowledged(state.cut))
        if digest in self.seen:
            return False
        self.seen.add(digest)
        materialise(self.root, tree)
        return True

    def _check(self, state: State, *, is_lasting: bool) -> str | None:
        count = self.disk.acknowledged(state.cut)
        return in_child(lambda: check(self.root, self.contents, count, is_lasting=is_lasting))

    def _keep(self, number: int) -> None:
        """For whoever looks into a finding."""
        if os.environ.get("OMNIGRAPH_POWER_KEEP"):
            shutil.copytree(self.root, self.scratch / f"finding-{number}", dirs_exist_ok=True)


def begin(root: Path, scratch: Path) -> Campaign:
    """Record the story, and what the graph shows after each of its steps."""
    failure = in_child(lambda: power_story.prepare(root))
    assert failure is None, failure
    disk = Disk(record(root, scratch / "trace", "support.power_story", str(root)))
    end = len(disk.recording.operations)
    files = {name: data for name, data in disk.tree(_all(disk, end)).items() if data is not None}
    assert files == read_folder(root), "the recording is not what happened"
    contents = [_read(root, scratch, disk, cut) for cut in (0, *(at + 1 for at in disk.said))]
    return Campaign(root, scratch, disk, contents)


def _all(disk: Disk, cut: int) -> State:
    """As if everything had reached the disk."""
    names, _ = disk.pending(cut, Model.WEAK)
    return State(cut, Model.WEAK, frozenset(names))


def _read(root: Path, scratch: Path, disk: Disk, cut: int) -> Content:
    materialise(root, disk.tree(_all(disk, cut)))
    told = scratch / "content"
    failure = in_child(lambda: told.write_bytes(pickle.dumps(read_content(root))))
    assert failure is None, failure
    content: Content = pickle.loads(told.read_bytes())
    return content


def _digest(tree: Tree, acknowledged: int) -> bytes:
    digest = hashlib.sha256(str(acknowledged).encode())
    for name, data in sorted(tree.items()):
        digest.update(name.encode())
        digest.update(hashlib.sha256(data).digest() if data is not None else b"folder")
    return digest.digest()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=int, default=10)
    given = parser.parse_args(arguments)
    # The states are as many files as thousands of graphs have; memory forgets them faster.
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        campaign = begin(Path(place, "graph"), given.scratch)
        report = campaign.run(given.count, given.seed, given.findings)
    json.dump(asdict(report), sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
