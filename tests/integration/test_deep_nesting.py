"""What is nested too deeply is refused where it comes in, with a name and without a traceback."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.effects import REAL
from omnigraph.errors import (
    LeaseCorrupt,
    ObjectCorrupt,
    SchemaFilesInvalid,
    SidecarCorrupt,
)
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.jobs.queue import JobQueue
from omnigraph.server.jobs.record import JobRequest
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import (
    SCHEMA_STATE,
    branch_ref_file,
    job_key,
    sidecar_key,
    staging_record_key,
)
from omnigraph.storage.stores import open_stores

DEEP = b"[" * 3_000 + b"]" * 3_000
"""Too deep for the parser's stack."""
SLY = b'{"schema_version":3,"a":' + b"[" * 400 + b"]" * 400 + b"}"
"""Not too deep for the parser, and too deep for whoever shows it."""
ID = "01JZ8Q4T9K6V3M2N7R5W1X0ABD"
REASON = "nested more than 100 levels deep"

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    schema = "node Person { name: String @key  tags: [String]? }"
    return omnigraph.init(tmp_path / "g", schema, durability=Durability.RELAXED)


def put(graph: LocalGraph, key: str, data: bytes) -> None:
    open_stores(graph.uri, REAL, durability=Durability.RELAXED).objects.put_over(key, data)


def insert(graph: LocalGraph) -> None:
    graph.insert("Person", [{"name": "ada"}])


@pytest.mark.parametrize("data", [DEEP, SLY], ids=["deep", "sly"])
def test_a_sidecar_is_named_by_everybody_who_meets_it(
    graph: LocalGraph, capsys: Streams, data: bytes
) -> None:
    put(graph, sidecar_key(ID), data)
    with pytest.raises(SidecarCorrupt, match=REASON):
        insert(graph)
    for command in (["recovery", "list"], ["recovery", "show", ID]):
        assert run([*command, graph.uri]) == 0
        assert REASON in capsys.readouterr().out
    assert run(["doctor", graph.uri]) in (0, 1)
    shown = capsys.readouterr()
    assert ID in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


@pytest.mark.parametrize("data", [DEEP, SLY], ids=["deep", "sly"])
@pytest.mark.parametrize("flag", ["--params", "--params-file"])
def test_parameters_of_a_command_are(
    graph: LocalGraph, tmp_path: Path, capsys: Streams, flag: str, data: bytes
) -> None:
    given = data.decode()
    if flag == "--params-file":
        (tmp_path / "params.json").write_bytes(data)
        given = str(tmp_path / "params.json")
    query = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    assert run(["query", "-e", query, flag, given, "--store", graph.uri]) == 2
    error = capsys.readouterr().err
    assert "parameters" in error
    assert REASON in error


def test_small_files_beside_the_tables_are(graph: LocalGraph) -> None:
    insert(graph)
    (lease,) = (Path(graph.uri) / "__leases").glob("*.json")
    kept = lease.read_bytes()
    lease.write_bytes(DEEP)
    with pytest.raises(LeaseCorrupt, match=REASON):
        omnigraph.open(graph.uri).insert("Person", [{"name": "bo"}])
    lease.write_bytes(kept)
    put(graph, staging_record_key(ID), DEEP)  # as good as one that is not whole yet
    omnigraph.open(graph.uri).insert("Person", [{"name": "cy"}])
    put(graph, SCHEMA_STATE, DEEP)
    with pytest.raises(SchemaFilesInvalid, match=REASON):
        omnigraph.open(graph.uri)


def test_the_ref_of_a_branch_is(graph: LocalGraph) -> None:
    graph.branches.create("side")
    put(graph, f"__manifest/{branch_ref_file('side')}", DEEP)
    with pytest.raises(ObjectCorrupt, match=REASON):
        omnigraph.open(graph.uri).snapshot("side")


def test_a_job_is_and_the_others_are_listed(graph: LocalGraph) -> None:
    jobs = JobQueue(REAL)
    try:
        good = jobs.submit(
            graph, JobRequest("load", "main", "ada", "k"), lambda _: {}, lambda: None
        )
        put(graph, job_key(ID), DEEP)
        with pytest.raises(ObjectCorrupt, match=REASON):
            jobs.find(graph, ID)
        assert [each.id for each in jobs.list(graph)] == [good.id]
    finally:
        jobs.close()
