"""Our side of `fleet.py`: threads of one process on an open graph, on a disk or in a bucket.

Each run is a process of its own: it may get a slower disk, and it shares no cache with another run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from fleet_work import PEOPLE, Carry, Kind, Mix, Outcome, Write, person, run_threads

if TYPE_CHECKING:
    from omnigraph import LocalGraph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
PROGRAMS = {
    Kind.INSERT: "query w($a: String) { insert Person { name: $a, age: 1 } }",
    Kind.UPDATE: "query w($a: String) { update Person set { age: 2 } where name = $a }",
    Kind.EDGE: "query w($a: String, $b: String) { insert Knows { from: $a, to: $b } }",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ours: so many writers, with or without groups, somewhere."""

    writers: int
    mix: Mix
    seconds: float
    uri: str
    is_grouped: bool = True
    durability: str = "durable"
    storage_options: dict[str, str] = field(default_factory=dict)


def run_embedded(run: Run, environment: Mapping[str, str]) -> Outcome:
    """In a process of its own."""
    told = subprocess.run(
        [sys.executable, __file__, json.dumps(asdict(run))],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return Outcome(**json.loads(told.stdout))


def _embedded_main(run: Run) -> Outcome:
    flushes = count_flushes()
    import omnigraph  # noqa: PLC0415 - after the flushes are counted
    from omnigraph.errors import ConflictError  # noqa: PLC0415

    fill(run).close()
    graph = omnigraph.open(
        run.uri,
        storage_options=run.storage_options,
        durability=omnigraph.Durability(run.durability),
        group=run.is_grouped,
    )

    def connect(_writer: int) -> Carry:
        def carry(write: Write) -> int:
            for attempt in range(1000):
                try:
                    graph.mutate(PROGRAMS[write.kind], params=parameters(write))
                except ConflictError:
                    continue
                return attempt
            raise TimeoutError(write)

        return carry

    before, commits = flushes[0], len(graph.commits())
    latencies, elapsed, retries = run_threads(run.writers, run.mix, run.seconds, connect)
    made = graph.commits()[:-commits]
    places = [each.extension.group for each in made]
    groups = {place.id for place in places if place is not None}
    alone = sum(place is None for place in places)
    counts = {
        "flushes": (flushes[0] - before) / len(made),
        "group size": len(made) / (len(groups) + alone),
    }
    return Outcome(latencies, elapsed, retries, counts)


def count_flushes() -> list[int]:
    """Count every flush that this process asks for."""
    counted, flush = [0], os.fsync

    def counting(file: int) -> None:
        counted[0] += 1
        flush(file)

    os.fsync = counting  # type: ignore[assignment]
    return counted


def parameters(write: Write) -> dict[str, str]:
    return {"a": write.name, "b": write.other} if write.kind is Kind.EDGE else {"a": write.name}


def fill(run: Run) -> "LocalGraph":
    """A new graph with the people that all systems begin with."""
    import omnigraph  # noqa: PLC0415 - some processes count flushes first

    graph = omnigraph.init(run.uri, SCHEMA, storage_options=run.storage_options)
    graph.insert("Person", [{"name": person(at), "age": at} for at in range(PEOPLE)])
    return graph


if __name__ == "__main__" and sys.argv[1:]:  # `make bench` runs every file here without words
    told = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(asdict(_embedded_main(Run(**{**told, "mix": Mix(told["mix"])})))))
