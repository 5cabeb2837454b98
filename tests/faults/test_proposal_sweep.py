"""Die at every write of the merge of a proposal: its checks, its commit, its file.

Whatever dies wherever: the target shows all of the merge or nothing of it, the proposal is merged
exactly if a commit of the target carries its id, and merging again completes it.
"""

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.gate import MergeRule
from omnigraph.engine.proposals.proposal import ProposalState
from omnigraph.errors import ProposalNotOpen
from omnigraph.ids import BranchName
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.testing.faults import Crash, CrashAt, When
from support.breaking import open_mortal

STRIDE = int(os.environ.get("OMNIGRAPH_SWEEP_STRIDE", "3"))
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
CHECK = Source("c", "query old() { match { $p: Person  $p.age > 100 } return { $p.name } }")
READ = "query q() { match { $p: Person } return { $p.name as n } order { n } }"


def set_stage(root: Path) -> str:
    graph = omnigraph.init(root, SCHEMA)
    graph.insert("Person", [{"name": "ann", "age": 1}, {"name": "tom", "age": 2}])
    work = graph.branch("work", create=True)
    work.upsert("Person", [{"name": "ann", "age": 10}, {"name": "bob", "age": 3}])
    work.insert("Knows", [{"from": "ann", "to": "bob"}])
    graph.insert("Person", [{"name": "eve", "age": 4}])
    proposal = graph.proposals.open("work", title="Add Bob", actor="agent").proposal.id
    graph.proposals.approve(proposal, actor="dana")
    graph.close()
    return proposal


def open_protected(root: Path, watch: CrashAt | None = None) -> LocalGraph:
    graph = open_mortal(root, watch)
    rule = MergeRule(1, checks={"old": CHECK})

    def find_rule(branch: BranchName) -> MergeRule | None:
        return rule if branch == "main" else None

    graph._find_rule = find_rule
    return LocalGraph(graph)


def names(graph: LocalGraph) -> list[object]:
    return [row["n"] for row in graph.query(READ).rows()]


@pytest.mark.slow
@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_proposal_is_merged_exactly_if_its_commit_is_there(tmp_path: Path, when: When) -> None:
    root, outcomes = tmp_path / "g", []
    proposal = set_stage(root)
    shutil.copytree(root, tmp_path / "kept")  # a branch records its place, so it is copied back
    for step in count(1, STRIDE):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", root)
        fault = CrashAt(step, when)
        with suppress(Crash):
            open_protected(root, fault).proposals.merge(proposal, actor="dana")
        if not fault.dead:
            break
        heal(open_mortal(root).context)
        graph = open_protected(root)
        carried = [each for each in graph.commits() if each.extension.proposal == proposal]
        is_merged = graph.proposals.show(proposal).proposal.state is ProposalState.MERGED
        assert (len(carried), names(graph)) == (
            (1, ["ann", "bob", "eve", "tom"]) if is_merged else (0, ["ann", "eve", "tom"])
        )
        outcomes.append(is_merged)
        if is_merged:
            assert graph.proposals.show(proposal).proposal.merged_commit == carried[0].id
            with pytest.raises(ProposalNotOpen):
                graph.proposals.merge(proposal, actor="dana")
        else:
            graph.proposals.merge(proposal, actor="dana")
            assert names(graph) == ["ann", "bob", "eve", "tom"]
        (listed,) = graph.proposals.list(state="merged")
        assert listed.id == proposal
    assert set(outcomes) == {True, False}


def test_what_a_dead_check_left_is_debris(tmp_path: Path) -> None:
    proposal = set_stage(tmp_path / "g")
    for step in count(1):
        fault = CrashAt(step, When.AFTER)
        with suppress(Crash):
            open_protected(tmp_path / "g", fault).proposals.check(proposal, actor="dana")
        left = list((tmp_path / "g").rglob("_versions/d*.manifest"))
        if left:
            break
        assert fault.dead, "no crash left a detached version"
    graph = open_mortal(tmp_path / "g")
    tables = [graph.snapshot().pin(key).path for key in graph.snapshot().pins]
    debris = {each.key for path in tables for each in graph.tables.find_debris(path)}
    assert {str(each.relative_to(tmp_path / "g")) for each in left} <= debris
    again = open_protected(tmp_path / "g").proposals.check(proposal, actor="dana")
    assert [each.passed for each in again.proposal.checks] == [True]
    assert len(list((tmp_path / "g").rglob("_versions/d*.manifest"))) == len(left)
