"""Storage that goes away under a served write: asking again with the key tells the outcome."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from httpx import Client

import omnigraph
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from support.breaking import LINK, PROGRAM, open_living, populate
from support.serving import Running, running

BODY = {"query": PROGRAM.text, "name": LINK.query, "params": dict(LINK.params)}


@dataclass
class Outage:
    """From the n-th write on nothing can be reached, for so many calls. Leases are spared."""

    step: int
    length: int
    seen: int = 0

    def before(self, call: str, *, is_write: bool) -> None:
        if call.startswith("volatile."):
            return
        self.seen += is_write
        if self.seen >= self.step and self.length:
            self.length -= 1
            raise StorageFailure("reach", subject=call, reason="the test said so")

    def after(self, call: str, *, is_write: bool) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    populate(tmp_path / "g")
    with running(Flags(graphs=(f"g={tmp_path / 'g'}",), unauthenticated=True)) as server:
        yield server


def break_storage(server: Running, root: Path, outage: Outage) -> None:
    state = server.runtime.current
    broken = replace(state.graphs["g"], graph=LocalGraph(open_living(root, outage)))
    server.runtime.current = replace(state, graphs={"g": broken})


def test_an_outcome_nobody_knows_is_settled_by_asking_again(
    server: Running, tmp_path: Path
) -> None:
    seen = set()
    graph = omnigraph.open(tmp_path / "g")
    with Client(base_url=f"{server.url}/graphs/g", timeout=60) as client:
        for step in range(1, 9):
            outage = Outage(step, length=12)
            break_storage(server, tmp_path / "g", outage)
            before = len(graph.commits(actor=""))
            for _ in range(20):
                answer = client.post("/mutate", json=BODY, headers={"Idempotency-Key": f"k{step}"})
                seen.add(answer.status_code)
                if answer.status_code == 200:
                    break
                if answer.status_code == 503:
                    unknown = answer.json()["outcome_unknown"]
                    assert unknown["operation_id"]
                    assert unknown["commit_id"]
                    assert answer.json()["retryable"] is True
            assert answer.status_code == 200
            assert answer.json()["affected_edges"] == 1
            kept = graph.commits(actor="")
            assert len(kept) == before + 1, f"once, whatever failed at {step}"
            assert answer.json()["commit"]["graph_commit_id"] == kept[0].id
            if outage.seen < step:
                break
    assert seen >= {200, 503}, "the outage was never felt where it hurts"


def test_the_remote_client_asks_again_by_itself(server: Running, tmp_path: Path) -> None:
    with omnigraph.connect(server.url, graph="g") as remote:
        graph = omnigraph.open(tmp_path / "g")
        for step in range(1, 9):
            break_storage(server, tmp_path / "g", Outage(step, length=3))
            before = len(graph.commits(actor=""))
            try:
                remote.mutate(PROGRAM.text, name=LINK.query, params=LINK.params)
            except StorageFailure:
                assert len(graph.commits(actor="")) == before
            except OutcomeUnknown:
                continue  # it went on for longer than the client had patience
            else:
                assert len(graph.commits(actor="")) == before + 1
