"""Passes and lowering keep the answer, whatever the query and whatever the graph."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import Read, Value
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import PASSES, Pass, optimise
from omnigraph.compiler.plan import ReadPlan
from omnigraph.testing.golden import format_tree
from omnigraph.testing.graphs import INSTANT_MS, catalogs, graphs
from omnigraph.testing.interpreter import Graph, run
from omnigraph.testing.plan_interpreter import run_plan
from omnigraph.testing.queries import parameter_values, reads

THOROUGH = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Table = list[tuple[Value, ...]]


class Case:
    """A query and a graph to ask it of."""

    def __init__(self, data: st.DataObject) -> None:
        self.catalog: Catalog = data.draw(catalogs())
        self.query: Read = data.draw(reads(self.catalog))
        self.graph: Graph = data.draw(graphs(self.catalog))
        self.values = data.draw(parameter_values())

    def answer(self, query: Read) -> Table:
        return run(query, self.graph, self.values, INSTANT_MS)

    def check(self, answer: Table) -> None:
        """Is this an answer to the query, as far as the query determines it?"""
        expected = self.answer(self.query)
        if self.query.order:
            assert answer == expected
        elif self.query.limit is None and self.query.offset is None:
            assert Counter(answer) == Counter(expected)
        else:
            everything = self.answer(replace(self.query, limit=None, offset=None))
            assert len(answer) == len(expected)
            assert not Counter(answer) - Counter(everything)


@pytest.mark.parametrize("rewrite", [*PASSES, optimise], ids=lambda each: each.__name__)
@THOROUGH
@given(st.data())
def test_a_pass_keeps_the_answer(rewrite: Pass, data: st.DataObject) -> None:
    case = Case(data)
    rewritten = rewrite(case.query, case.catalog)
    note(format_tree(rewritten))
    case.check(case.answer(rewritten))


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda each: each.__name__)
@THOROUGH
@given(st.data())
def test_a_second_run_of_a_pass_changes_nothing(rewrite: Pass, data: st.DataObject) -> None:
    catalog = data.draw(catalogs())
    once = rewrite(data.draw(reads(catalog)), catalog)
    assert rewrite(once, catalog) == once


@pytest.mark.parametrize("prepare", [lambda query, _: query, optimise], ids=["plain", "optimised"])
@THOROUGH
@given(st.data())
def test_a_plan_answers_as_its_query(prepare: Pass, data: st.DataObject) -> None:
    case = Case(data)
    plan = lower(prepare(case.query, case.catalog), case.catalog)
    assert isinstance(plan, ReadPlan)
    note(explain(plan))
    case.check(run_plan(plan, case.graph, case.values, INSTANT_MS))
