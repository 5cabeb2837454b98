"""What the writers of `fleet.py` do, the same for every system: single writes, one after the other.

A writer inserts persons, or mixes: of ten writes six insert a person, two change one, two draw an
edge. One change or edge in twenty goes to one of a few hot persons, which all writers share.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from random import Random
from threading import Barrier, Thread
from typing import Final

PEOPLE: Final = 1000
HOT: Final = 5
WARM_UPS: Final = 3
"""Writes of each writer before the clock starts: the first ones open files and fill caches."""


class Kind(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    EDGE = "edge"


class Mix(StrEnum):
    INSERTS = "inserts"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Write:
    kind: Kind
    name: str
    """The person: a new one, or one of the first `PEOPLE`."""
    other: str = ""
    """Where an edge ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one system showed."""

    latencies_s: Sequence[float]
    elapsed_s: float
    retries: int = 0
    """Writes that were asked for again, because another writer was first."""
    counts: dict[str, float] = field(default_factory=dict)
    """Flushes, requests and group sizes, where they can be counted."""

    @property
    def writes_per_s(self) -> float:
        return len(self.latencies_s) / self.elapsed_s


Carry = Callable[[Write], int]
"""Carry one write out; returns how often it had to be asked for again."""


def person(at: int) -> str:
    return f"p{at:04}"


def writes_of(writer: int, mix: Mix) -> Iterator[Write]:
    """Endless, and the same in every run."""
    random = Random(writer)
    for number in count():
        new = Write(Kind.INSERT, f"w{writer:03}-{number}")
        draw = 0.0 if mix is Mix.INSERTS else random.random()
        if draw < 0.6:
            yield new
        elif draw < 0.8:
            yield Write(Kind.UPDATE, _existing(random))
        else:
            yield Write(Kind.EDGE, _existing(random), _existing(random))


def _existing(random: Random) -> str:
    is_hot = random.random() < 0.05
    return person(random.randrange(HOT if is_hot else PEOPLE))


def run_threads(
    writers: int, mix: Mix, seconds: float, connect: Callable[[int], Carry]
) -> tuple[list[float], float, int]:
    """Each writer in a thread, for so many seconds: latencies, the time they took, retries."""
    gate = Barrier(writers)
    results: list[tuple[list[float], int]] = []
    failures: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            carry, writes = connect(writer), writes_of(writer, mix)
            for _ in range(WARM_UPS):
                carry(next(writes))
            gate.wait()
            results.append(_write_until(time.perf_counter() + seconds, carry, writes))
        except BaseException as failure:  # noqa: BLE001 - reported by the main thread
            failures.append(failure)
            gate.abort()

    threads = [Thread(target=work, args=(each,)) for each in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    latencies = [each for taken, _ in results for each in taken]
    # Every writer stops at its deadline or with the write under way: the longest one counts.
    elapsed = max(sum(taken) for taken, _ in results)
    return latencies, elapsed, sum(retries for _, retries in results)


def _write_until(
    deadline_s: float, carry: Carry, writes: Iterator[Write]
) -> tuple[list[float], int]:
    latencies, retries = [], 0
    while (start := time.perf_counter()) < deadline_s:
        retries += carry(next(writes))
        latencies.append(time.perf_counter() - start)
    return latencies, retries
