"""A merge on Spark is the merge in this process: same rows, same counts, same conflicts."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, event, given, settings, strategies as st
from pyspark.sql import SparkSession

from omnigraph.engine.graph import Graph
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.rulings import Detect, RowRuling, Rulings, Side
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.merge.workers import MergeJob, Workers
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import ConstraintViolation, MergeConflicts, SparkUnusable
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.pipeline.branch_merge import Cut, open_workers
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import STAGING
from omnigraph.testing.invariants import check_graph
from support.loading import SETTINGS
from support.mutations import read_tables
from support.writing import stores_at

EXAMPLES: Final = int(os.environ.get("OMNIGRAPH_MERGE_EXAMPLES", "3"))

SCHEMA: Final = """
node Ant { name: String @key  size: I64?  mail: String? @unique  vector: Vector(2)?  scan: Blob? }
edge Eats: Ant -> Ant @card(0..2) { since: I64? }
"""
ANT: Final = TableKey("node:Ant")
WORK: Final = BranchName("work")
TWIN: Final = BranchName("twin")
"""A branch that is what main is."""

NAMES: Final = ("ann", "bob", "carl", "dora", "emil")


@dataclass
class Always:
    """Sends for workers however little there is to do, and counts what they are asked for."""

    rows_max: int = 0
    asked: list[str] = field(default_factory=list)

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        self.asked.append(job.operation_id)
        return open_workers(job, SETTINGS, Cut(shares=2, rows_per_task=2))


@dataclass(frozen=True)
class Act:
    """Something that is done to a branch."""

    what: str
    name: str
    number: int
    other: str

    def do(self, graph: Graph, branch: BranchName) -> None:
        order = WriteRequest(branch)
        match self.what:
            case "put":
                row: dict[str, Any] = {"name": self.name, "size": self.number}
                row |= {"vector": [self.number, 0.5], "mail": f"m{self.number}"}
                row |= {"scan": f"base64:{'QUJD' * (self.number + 1)}"}
                graph.write_rows("Ant", [row], existing=Existing.REPLACE, request=order)
            case "grow":
                graph.write_rows(
                    "Ant",
                    [{"name": self.name, "size": self.number}],
                    existing=Existing.REPLACE,
                    request=order,
                )
            case "link":
                edge = {"id": f"e{self.number}", "from": self.name, "to": self.other}
                graph.write_rows("Eats", [edge], existing=Existing.REPLACE, request=order)
            case _:
                graph.remove_rows("Ant", [self.name], request=order)


ACTS: Final = st.lists(
    st.builds(
        Act,
        st.sampled_from(["put", "grow", "link", "drop"]),
        st.sampled_from(NAMES),
        st.integers(0, 3),
        st.sampled_from(NAMES),
    ),
    min_size=2,
    max_size=6,
)


def new_graph(folder: Path) -> Graph:
    chosen = Settings(durability=Durability.RELAXED, maintenance=False)
    return create(str(folder / "g"), SCHEMA, settings=chosen)


def act(graph: Graph, branch: BranchName, acts: list[Act]) -> None:
    for each in acts:
        try:
            each.do(graph, branch)
        except ConstraintViolation:
            event("an act was refused")


def outcome(
    graph: Graph, order: MergeRequest, bulk: Always | None
) -> list[object] | tuple[object, ...]:
    """What a merge comes to, but for the commits it makes."""
    try:
        result = graph.merge(order, bulk)
    except MergeConflicts as refused:
        return list(refused.conflicts)
    return result.outcome, result.counts, result.base_commits


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    before=ACTS,
    ours=ACTS,
    theirs=ACTS,
    detect=st.sampled_from(Detect),
    side=st.sampled_from(Side),
    data=st.data(),
)
def test_merges_on_spark_and_in_this_process_come_to_the_same(
    spark: SparkSession,  # noqa: ARG001 - starts Spark
    tmp_path_factory: pytest.TempPathFactory,
    before: list[Act],
    ours: list[Act],
    theirs: list[Act],
    detect: Detect,
    side: Side,
    data: st.DataObject,
) -> None:
    graph = new_graph(tmp_path_factory.mktemp("merges"))
    stores = stores_at(Path(graph.uri))
    act(graph, MAIN, [Act("put", "ann", 0, "ann"), *before])
    graph.create_branch(WORK)
    act(graph, WORK, [Act("grow", "ann", 7, "ann"), *theirs])
    clash = [Act("grow", "ann", 8, "ann")] if data.draw(st.booleans()) else []
    act(graph, MAIN, [*clash, *ours])
    ruled = data.draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(Side), max_size=2))
    rows = {ANT: {name: RowRuling(whole=choice) for name, choice in ruled.items()}}
    graph.create_branch(TWIN)
    bulk = Always()
    # First as it comes; if the two do not go together, as somebody decided.
    for rulings in (Rulings(detect), Rulings(detect, {"": side}, rows if ruled else {})):
        here = outcome(graph, MergeRequest(WORK, TWIN, rulings=rulings), None)
        there = outcome(graph, MergeRequest(WORK, rulings=rulings), bulk)
        assert here == there
        assert read_tables(graph, stores, MAIN) == read_tables(graph, stores, TWIN)
        event("conflicts" if isinstance(here, list) else f"{here[0]}")
        if not isinstance(here, list):
            break
    assert bulk.asked
    assert check_graph(stores) == []
    assert list((Path(graph.uri) / STAGING).iterdir()) == []


@pytest.fixture
def grown(spark: SparkSession, tmp_path: Path) -> Graph:  # noqa: ARG001 - starts Spark
    """Main and a branch that changed everything a merge can change, without a conflict."""
    graph = new_graph(tmp_path)
    for each in [Act("put", name, at, name) for at, name in enumerate(NAMES[:4])]:
        each.do(graph, MAIN)
    graph.create_branch(WORK)
    act(graph, WORK, [Act("grow", "ann", 9, ""), Act("drop", "carl", 0, "")])
    act(graph, WORK, [Act("grow", "emil", 5, ""), Act("link", "ann", 1, "emil")])
    return graph


def sizes(graph: Graph, branch: BranchName = MAIN) -> dict[str, object]:
    shown = read_tables(graph, stores_at(Path(graph.uri)), branch)["Ant"]
    return {name: row["size"] for name, row in shown.items()}


def test_a_branch_that_owns_none_of_its_tables_is_merged_into_by_workers(grown: Graph) -> None:
    side = BranchName("side")
    grown.create_branch(side)
    merged = grown.merge(MergeRequest(WORK, side), Always())
    assert merged.counts[ANT].inserted == 1
    assert sizes(grown, side) == {"ann": 9, "bob": 1, "dora": 3, "emil": 5}
    assert len(sizes(grown)) == 4
    assert check_graph(stores_at(Path(grown.uri))) == []


def test_rows_that_workers_replaced_are_found_by_the_next_merge(grown: Graph) -> None:
    def again(number: int) -> MergeResult:
        act(grown, WORK, [Act("grow", "ann", number, ""), Act("grow", "bob", number, "")])
        return grown.merge(MergeRequest(WORK), Always())

    grown.merge(MergeRequest(WORK), Always())
    assert again(20).counts[ANT].updated == 2
    act(grown, MAIN, [Act("grow", "dora", 4, "")])
    assert again(21).counts[ANT].updated == 2
    assert sizes(grown) == {"ann": 21, "bob": 21, "dora": 4, "emil": 5}


@pytest.mark.parametrize("side", Side)
def test_what_workers_decided_is_amended_where_it_breaks_a_rule(grown: Graph, side: Side) -> None:
    act(grown, MAIN, [Act("link", "bob", 2, "carl"), Act("put", "fay", 6, "")])
    act(grown, WORK, [Act("put", "gus", 6, "")])
    with pytest.raises(MergeConflicts) as caught:
        grown.merge(MergeRequest(WORK), Always())
    kinds = sorted(str(each.kind) for each in caught.value.conflicts)
    assert kinds == ["orphan_edge", "unique_violation"]
    bulk = Always()
    grown.merge(MergeRequest(WORK, rulings=Rulings(strategies={"": side})), bulk)
    assert bulk.asked
    kept = {"carl": 2, "fay": 6} if side is Side.OURS else {"gus": 6}
    assert sizes(grown) == {"ann": 9, "bob": 1, "dora": 3, "emil": 5, **kept}
    assert check_graph(stores_at(Path(grown.uri))) == []


def test_few_changes_of_a_table_send_for_nobody(grown: Graph) -> None:
    bulk = Always(rows_max=10)
    grown.merge(MergeRequest(WORK), bulk)
    assert bulk.asked == []


def test_a_dry_run_sends_for_nobody_and_leaves_no_file(grown: Graph) -> None:
    bulk = Always()
    told = grown.merge(MergeRequest(WORK, dry_run=True), bulk)
    assert told.counts[ANT].updated == 1
    assert bulk.asked == []


def test_a_merge_without_spark_is_done_without_it(grown: Graph) -> None:
    class Nowhere(Always):
        def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
            raise SparkUnusable(f"nobody is here for {job.operation_id}")

    assert grown.merge(MergeRequest(WORK), Nowhere()).counts[ANT].inserted == 1
    assert list((Path(grown.uri) / STAGING).iterdir()) == []
