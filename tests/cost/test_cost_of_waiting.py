"""How often an operation waits for a bucket, one request after the other (D30).

Every request of the process, also those that Lance makes by itself, passes a proxy that delays and
records it (`support/slow_bucket.py`). A request that runs beside another one costs no time, so what
counts is the longest chain. Nothing is polled meanwhile: every request belongs to an operation.
"""

import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from moto.server import ThreadedMotoServer

from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.merge.classify import Outcome
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Settings
from omnigraph.sdk.embedded.graph import LocalGraph
from support.slow_bucket import Request, SlowBucket, Waits, find_longest_chain

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
BOTH = """query both($n: String, $m: String) {
  insert Person { name: $n }
  insert Knows { from: $n, to: $m }
}"""
ONE = 'query one() { match { $p: Person { name: "ann" } } return { $p.age } }'
QUIET = Timing(ttl_ms=600_000, kept_ms=600_000, surrender_poll_ms=600_000, heartbeat_ms=600_000)
DELAY_S = 0.05
TRIES = 5
"""A busy machine starts requests late, so that they do not overlap; it never makes them overlap. So
the shortest chain of several equal operations is the one that counts."""


@dataclass
class Cloud:
    """A graph in a bucket, warm: it has written each table and made a branch."""

    bucket: SlowBucket
    graph: LocalGraph
    settings: Settings

    def wait_for(self, operation: Callable[[], object]) -> Waits:
        """What the operation waits for. What the one before left to be done has ended."""
        self.graph.engine._context.afterwards.close()
        self.bucket.delay_s = DELAY_S
        with self.bucket.counting() as requests:
            operation()
        self.bucket.delay_s = 0
        return Waits(tuple(requests))

    def shortest(self, operation: Callable[[int], object], *, within: int) -> Waits:
        """The shortest waits of equal operations, numbered from 0; the first that fit end it."""
        tries = []
        for number in range(TRIES):
            tries.append(self.wait_for(partial(operation, number)))
            if tries[-1].serial <= within:
                break
        return min(tries, key=lambda waits: waits.serial)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    made = urllib.request.Request(f"http://{host}:{port}/graphs", method="PUT")
    urllib.request.urlopen(made).close()
    with SlowBucket(f"http://{host}:{port}", delay_s=0) as bucket:
        options = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_endpoint": bucket.endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        settings = Settings(storage_options=options, timing=QUIET, maintenance=False)
        graph = LocalGraph(create(f"s3://graphs/{REAL.new_id()}", SCHEMA, settings=settings))
        graph.insert("Person", [{"name": "ann", "age": 1}])
        graph.mutate(BOTH, params={"n": "bob", "m": "ann"})
        graph.branches.create("warm")
        graph.insert("Person", [{"name": "carl"}])
        yield Cloud(bucket, graph, settings)
        graph.close()
    server.stop()


def test_an_insert_waits_eight_times(cloud: Cloud) -> None:
    def insert(number: int) -> None:
        cloud.graph.insert("Person", [{"name": f"dora{number}"}])

    waits = cloud.shortest(insert, within=8)
    assert waits.serial <= 8, f"\n{waits}"
    assert len(waits.requests) <= 16, f"\n{waits}"


def test_a_node_and_an_edge_wait_no_longer_than_a_node(cloud: Cloud) -> None:
    def write(number: int) -> None:
        cloud.graph.mutate(BOTH, params={"n": f"fred{number}", "m": "ann"})

    cloud.graph.mutate(BOTH, params={"n": "warm", "m": "ann"})
    waits = cloud.shortest(write, within=9)
    assert waits.serial <= 9, f"\n{waits}"


def test_a_read_waits_a_few_times_and_a_repeated_one_once(cloud: Cloud) -> None:
    graphs = [
        LocalGraph(open_graph(cloud.graph.uri, mode=Mode.READ_ONLY, settings=cloud.settings))
        for _ in range(TRIES)
    ]
    first = cloud.shortest(lambda number: list(graphs[number].query(ONE)), within=6)
    assert first.serial <= 6, f"\n{first}"
    again = cloud.wait_for(lambda: list(graphs[0].query(ONE)))
    assert len(again.requests) == 1, f"\n{again}"


def test_branches_wait_as_often_however_many_there_are(cloud: Cloud) -> None:
    cloud.graph.branches.create("first")
    few = cloud.shortest(lambda number: cloud.graph.branches.create(f"few{number}"), within=6)
    assert few.serial <= 6, f"\n{few}"
    for number in range(TRIES):
        if f"few{number}" not in cloud.graph.branches.list():
            cloud.graph.branches.create(f"few{number}")
    many = cloud.shortest(lambda number: cloud.graph.branches.create(f"many{number}"), within=6)
    assert many.serial <= 6, f"\n{many}"
    assert len(many.requests) == len(few.requests), f"\n{many}"

    def write(number: int) -> None:
        cloud.graph.insert("Person", [{"name": f"new{number}"}], branch=f"few{number}")

    written = cloud.shortest(write, within=12)
    assert written.serial <= 12, f"\n{written}"


@pytest.mark.parametrize(("row", "waits"), [("new", 12), ("changed", 14)])
def test_a_merge_of_one_row_waits_at_most_fourteen_times(
    cloud: Cloud, row: str, waits: int
) -> None:
    """The target has moved too; the branch was made and written by this process."""
    cloud.graph.insert("Person", [{"name": f"{row} {number}"} for number in range(TRIES)])
    for number in range(TRIES):
        branch = f"{row}{number}"
        cloud.graph.branches.create(branch)
        name = f"there{number}" if row == "new" else f"{row} {number}"
        cloud.graph.upsert("Person", [{"name": name, "age": 7}], branch=branch)

    def merge(number: int) -> None:
        merged = cloud.graph.merge(f"{row}{number}")
        assert merged.outcome is Outcome.MERGED
        assert merged.commit is not None

    cloud.graph.insert("Person", [{"name": f"beside {row}"}])
    merged = cloud.shortest(merge, within=waits)
    assert merged.serial <= waits, f"\n{merged}"


def test_a_merge_of_a_node_and_an_edge_reads_no_file_again_and_again(cloud: Cloud) -> None:
    for number in range(TRIES):
        branch = f"both{number}"
        cloud.graph.branches.create(branch)
        params = {"n": f"both {number}", "m": "ann"}
        cloud.graph.mutate(BOTH, params=params, branch=branch)

    def merge(number: int) -> None:
        merged = cloud.graph.merge(f"both{number}")
        assert merged.outcome is Outcome.MERGED
        assert merged.commit is not None

    cloud.graph.mutate(BOTH, params={"n": "beside both", "m": "ann"})
    merged = cloud.shortest(merge, within=13)
    assert merged.serial <= 13, f"\n{merged}"
    reads = Counter(str(each) for each in merged.requests if "/data/" in each.path)
    assert max(reads.values()) <= 2, f"once for the ids, once for the rows\n{merged}"


def test_the_longest_chain_is_what_does_not_overlap() -> None:
    def request(began: float, ended: float) -> Request:
        return Request("GET", f"/{began}", began, ended)

    parallel = [request(0.0, 1.0), request(0.1, 1.1), request(0.2, 0.9)]
    assert len(find_longest_chain(parallel)) == 1
    serial = [request(2.0, 3.0), request(1.2, 2.0), request(3.0, 4.0)]
    assert len(find_longest_chain([*serial, *parallel])) == 4
    assert str(Waits(tuple(serial))) == "1. GET /1.2\n2. GET /2.0\n3. GET /3.0"
    assert DEFAULT_TIMING.kept_ms == 1_000, "what D30 says"
