"""A bucket that throttles, fails, drips and drops connections: typed errors, nothing lost, and
everything goes on when the cause is gone.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

import omnigraph
from omnigraph.effects import REAL
from omnigraph.errors import OmnigraphError, OutcomeUnknown, ReplyLost
from omnigraph.sdk.embedded.graph import LocalGraph
from support.sick_bucket import SickBucket, Trouble, by_lot, healthy

SCHEMA = "node Person { name: String @key }  edge Knows: Person -> Person"
PAIR = 'query w($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "root" } }'
NAMES = "query q() { match { $p: Person } return { $p.name } }"

RETRIES = 1
SEED = int(os.environ.get("OMNIGRAPH_SEED", "1"))
ROUNDS = int(os.environ.get("OMNIGRAPH_SICK_ROUNDS", "1"))
OUTAGES = [Trouble.THROTTLED, Trouble.FAILED, Trouble.DROPPED]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/sick", method="PUT")).close()
    yield address
    server.stop()


@pytest.fixture
def bucket(server: str) -> Iterator[SickBucket]:
    with SickBucket(server) as bucket:
        yield bucket


def options_of(bucket: SickBucket) -> dict[str, str]:
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "endpoint": bucket.endpoint,
        "region": "us-east-1",
        "allow_http": "true",
        "max_retries": str(RETRIES),
        "retry_timeout": "2",
        "timeout": "5s",
    }


@pytest.fixture
def root(bucket: SickBucket) -> str:
    root = f"s3://sick/{REAL.new_id()}"
    graph = omnigraph.init(root, SCHEMA, storage_options=options_of(bucket))
    graph.insert("Person", [{"name": "root"}])
    return root


def open_graph(bucket: SickBucket, root: str) -> LocalGraph:
    return omnigraph.open(root, storage_options=options_of(bucket))


def names_in(graph: LocalGraph, branch: str = "main") -> set[str]:
    return {str(row["p.name"]) for row in graph.query(NAMES, branch=branch).rows()}


def insert(graph: LocalGraph, name: str, scratch: Path) -> None:  # noqa: ARG001 - one of three
    graph.mutate(PAIR, {"n": name})


def load(graph: LocalGraph, name: str, scratch: Path) -> None:
    file = scratch / f"{name}.jsonl"
    file.write_text(json.dumps({"type": "Person", "data": {"name": name}}))
    graph.load([file], mode="append", engine="local")


def merge(graph: LocalGraph, name: str, scratch: Path) -> None:  # noqa: ARG001 - one of three
    graph.branches.create(f"b-{name}")
    graph.mutate(PAIR, {"n": name}, branch=f"b-{name}")
    graph.merge(f"b-{name}")


WORKS: dict[str, Callable[[LocalGraph, str, Path], None]] = {
    "insert": insert,
    "load": load,
    "merge": merge,
}


@pytest.mark.slow
def test_work_goes_on_beside_troubles_and_loses_nothing(
    bucket: SickBucket, root: str, tmp_path: Path
) -> None:
    done: set[str] = set()
    failed: set[str] = set()
    graph = open_graph(bucket, root)
    bucket.diagnose = by_lot(SEED, 0.1)
    for number in range(ROUNDS):
        for kind, work in WORKS.items():
            name = f"{kind}-{number}"
            try:
                work(graph, name, tmp_path)
                done.add(name)
            except (OutcomeUnknown, ReplyLost):
                pass
            except OmnigraphError:
                failed.add(name)
    bucket.diagnose = healthy
    found = names_in(open_graph(bucket, root))
    assert done <= found, f"acknowledged and lost, seed {SEED}"
    assert not failed & found, f"called failed and there, seed {SEED}"
    assert bucket.troubles
    for kind, work in WORKS.items():
        work(graph, f"{kind}-after", tmp_path)
    assert names_in(graph) >= done | {f"{each}-after" for each in WORKS}
    linked = "query q() { match { $p: Person $p knows $r } return { $p.name } }"
    ends = [row["p.name"] for row in graph.query(linked).rows()]
    assert len(ends) == len(set(ends))
    assert {each for each in names_in(graph) if not each.startswith(("load", "root"))} == set(ends)
    # Files of a write that could not even undo itself wait for a cleanup.
    assert [each for each in graph.doctor(deep=True) if "cleanup" not in each.remedy] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", OUTAGES if "OMNIGRAPH_SICK_ROUNDS" in os.environ else OUTAGES[:1]
)
def test_an_outage_is_a_typed_error_after_a_bounded_number_of_attempts(
    bucket: SickBucket, root: str, tmp_path: Path, trouble: Trouble
) -> None:
    graph = open_graph(bucket, root)
    before = names_in(graph)
    for kind, work in WORKS.items():
        bucket.asked.clear()
        bucket.diagnose = lambda _verb, _path: trouble
        with pytest.raises(OmnigraphError):
            work(graph, kind, tmp_path)
        # An operation asks a few times, and each request is repeated a bounded number of times.
        most = max(bucket.asked.values())
        assert most <= 10 * (RETRIES + 1), bucket.asked.most_common(3)
        bucket.diagnose = healthy
        assert names_in(open_graph(bucket, root)) == before
    for kind, work in WORKS.items():
        work(graph, f"{kind}-again", tmp_path)
    assert names_in(graph) == before | {f"{each}-again" for each in WORKS}


@pytest.mark.slow
def test_a_recovery_waits_for_the_bucket(bucket: SickBucket, root: str) -> None:
    """The publish fails, and so does its undoing: a sidecar stays until the bucket is well."""
    graph = open_graph(bucket, root)
    moved: list[str] = []

    def cut(verb: str, path: str) -> Trouble | None:
        # After the first commit of a node table nothing is written any more.
        if verb == "PUT" and "/nodes/" in path and "/_versions/" in path:
            moved.append(path)
            return None
        return Trouble.FAILED if moved and verb in ("PUT", "POST", "DELETE") else None

    bucket.diagnose = cut
    with pytest.raises(OmnigraphError):
        graph.mutate(PAIR, {"n": "half"})
    assert moved
    bucket.diagnose = healthy
    graph.insert("Person", [{"name": "next"}])
    fresh = open_graph(bucket, root)
    names = names_in(fresh)
    assert {"root", "next"} <= names
    linked = fresh.query("query q() { match { $p: Person $p knows $r } return { $p.name } }").rows()
    assert ("half" in names) == bool(list(linked))
    assert list(fresh.pending_writes()) == []
    assert fresh.doctor(deep=True) == []
