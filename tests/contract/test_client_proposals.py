"""Proposals of an embedded graph and of a served one: the same calls, the same answers."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.merge.classify import Outcome
from omnigraph.engine.proposals.proposal import ProposalState
from omnigraph.errors import (
    BranchNotFound,
    HeadMoved,
    KeyReused,
    MergeConflicts,
    ProposalBlocked,
    ProposalNotFound,
    ProposalNotOpen,
    UsageError,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.embedded.merging import conflict_file
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = "node Person { name: String @key  age: I32? }"
READ = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } order { n } }"


@pytest.fixture(params=["embedded", "served"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    embedded.insert("Person", [{"name": "ann", "age": 1}])
    embedded.branches.create("work")
    embedded.insert("Person", [{"name": "bob", "age": 2}], branch="work")
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        yield remote


def ages(graph: GraphClient) -> dict[str, int]:
    return {row["n"]: row["a"] for row in graph.query(READ).rows()}  # type: ignore[misc]


def open_one(graph: GraphClient) -> str:
    return graph.proposals.open("work", title="Add Bob", text="He is here.").proposal.id


def test_a_proposal_is_opened_discussed_approved_and_merged(graph: GraphClient) -> None:
    opened = graph.proposals.open("work", title=" Add Bob ", text="He is here.")
    proposal = opened.proposal
    assert (proposal.title, proposal.text, proposal.state) == ("Add Bob", "He is here.", "open")
    assert (proposal.source, proposal.target) == ("work", "main")
    assert opened.source_head == graph.commits("work", limit=1)[0].id
    assert opened.target_head == graph.commits(limit=1)[0].id
    assert ages(graph) == {"ann": 1}
    graph.proposals.comment(proposal.id, "Which Bob?")
    seen = graph.proposals.approve(proposal.id, if_source=opened.source_head)
    assert seen.counted == {None}
    assert [each.text for each in seen.proposal.comments] == ["Which Bob?"]
    assert graph.proposals.check(proposal.id).is_mergeable
    assert graph.proposals.show(proposal.id, conflicts=True).conflict_count == 0
    told = graph.proposals.merge(proposal.id, dry_run=True)
    assert (told.commit, ages(graph)) == (None, {"ann": 1})
    done = graph.proposals.merge(
        proposal.id, if_source=seen.source_head, if_target=seen.target_head, idempotency_key="k"
    )
    assert done.commit is not None
    assert (done.outcome, done.commit.message) == (Outcome.FAST_FORWARD, "Add Bob")
    assert ages(graph) == {"ann": 1, "bob": 2}
    merged = graph.proposals.show(proposal.id).proposal
    assert (merged.state, merged.merged_commit) == (ProposalState.MERGED, done.commit.id)
    assert graph.proposals.merge(proposal.id, idempotency_key="k").commit == done.commit
    for again in (graph.proposals.merge, graph.proposals.approve, graph.proposals.close):
        with pytest.raises(ProposalNotOpen, match="is merged"):
            again(proposal.id)


def test_proposals_are_listed_by_state_author_and_branch(graph: GraphClient) -> None:
    first = open_one(graph)
    graph.branches.create("other")
    second = graph.proposals.open("other", "work", title="Two").proposal.id
    assert [each.id for each in graph.proposals.list()] == [second, first]
    assert [each.id for each in graph.proposals.list(branch="main")] == [first]
    assert [each.id for each in graph.proposals.list(branch="work")] == [second, first]
    graph.proposals.close(first)
    assert [each.id for each in graph.proposals.list(state="closed")] == [first]
    assert [each.id for each in graph.proposals.list(state="open")] == [second]
    assert graph.proposals.list(author="eve") == ()
    assert graph.proposals.close(first).proposal.state is ProposalState.CLOSED
    with pytest.raises(ProposalNotOpen, match="is closed"):
        graph.proposals.merge(first)


def test_a_repeated_request_does_nothing_twice(graph: GraphClient) -> None:
    first = graph.proposals.open("work", title="One", idempotency_key="k")
    assert graph.proposals.open("work", title="One", idempotency_key="k") == first
    with pytest.raises(KeyReused):
        graph.proposals.open("work", title="Another", idempotency_key="k")
    for _ in range(2):
        shown = graph.proposals.comment(first.proposal.id, "why", idempotency_key="c")
    assert len(shown.proposal.comments) == 1


def test_approvals_and_merges_are_bound_to_the_heads_that_were_seen(graph: GraphClient) -> None:
    proposal = open_one(graph)
    seen = graph.proposals.approve(proposal)
    graph.insert("Person", [{"name": "eve", "age": 3}], branch="work")
    moved = graph.proposals.show(proposal)
    assert (moved.counted, moved.source_head != seen.source_head) == (frozenset(), True)
    assert not moved.is_current(moved.proposal.approvals[0])
    with pytest.raises(HeadMoved, match="'work'"):
        graph.proposals.approve(proposal, if_source=seen.source_head)
    with pytest.raises(HeadMoved, match="'work'"):
        graph.proposals.merge(proposal, if_source=seen.source_head)
    graph.insert("Person", [{"name": "kim", "age": 4}])
    with pytest.raises(HeadMoved, match="'main'"):
        graph.proposals.merge(proposal, if_source=moved.source_head, if_target=seen.target_head)
    assert set(ages(graph)) == {"ann", "kim"}
    graph.optimize()
    graph.optimize("work")
    now = graph.proposals.show(proposal)
    assert now.source_head == moved.source_head, "upkeep moves no head"
    graph.proposals.merge(proposal, if_source=now.source_head, if_target=now.target_head)
    assert set(ages(graph)) == {"ann", "bob", "eve", "kim"}


def test_conflicts_are_counted_reported_and_resolved(graph: GraphClient) -> None:
    graph.upsert("Person", [{"name": "ann", "age": 10}], branch="work")
    graph.upsert("Person", [{"name": "ann", "age": 20}])
    proposal = open_one(graph)
    assert graph.proposals.show(proposal, conflicts=True).conflict_count == 1
    for refused in (graph.proposals.merge, graph.proposals.check):
        with pytest.raises(MergeConflicts):
            refused(proposal)
    told = graph.proposals.merge(proposal, dry_run=True)
    filled = conflict_file(told, "row").replace('"resolution": null', '"resolution": "theirs"')
    graph.proposals.merge(proposal, resolutions=filled, delete_branch=True)
    assert ages(graph) == {"ann": 10, "bob": 2}
    shown = graph.proposals.show(proposal, conflicts=True)
    assert (shown.source_head, shown.proposal.state) == (None, ProposalState.MERGED)


def test_wrong_requests_are_refused(graph: GraphClient) -> None:
    proposal = open_one(graph)
    for title in ("", "two\nlines", "x" * 201):
        with pytest.raises(UsageError, match="title"):
            graph.proposals.open("work", title=title)
    with pytest.raises(UsageError, match="itself"):
        graph.proposals.open("work", "work", title="x")
    with pytest.raises(UsageError, match="comment"):
        graph.proposals.comment(proposal, " ")
    with pytest.raises(BranchNotFound):
        graph.proposals.open("nowhere", title="x")
    for missing in ("x", "01M7P6W39QXP06XX81Z849VM7Z", "no id"):
        with pytest.raises(ProposalNotFound):
            graph.proposals.show(missing)
    graph.branches.create("idle")
    idle = graph.proposals.open("idle", title="Nothing").proposal.id
    with pytest.raises(ProposalBlocked, match="has no change"):
        graph.proposals.merge(idle)
    assert ages(graph) == {"ann": 1}


def test_an_asynchronous_client_has_the_same_methods(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.branches.create("work")
    graph.insert("Person", [{"name": "bob"}], branch="work")

    async def review(url: str) -> None:
        async with await omnigraph.aopen(url, graph="g") as remote:
            opened = await remote.proposals.open("work", title="Add Bob")
            proposal = opened.proposal.id
            await remote.proposals.comment(proposal, "ok")
            await remote.proposals.approve(proposal)
            await remote.proposals.check(proposal)
            await remote.proposals.merge(proposal)
            (listed,) = await remote.proposals.list(state="merged")
            shown = (await remote.proposals.show(proposal)).proposal
            assert listed == replace(shown, approvals=(), comments=())

    with running(Flags(graphs=(f"g={graph.uri}",), unauthenticated=True)) as server:
        asyncio.run(review(server.url))
    assert graph.proposals.list()[0].state is ProposalState.MERGED
