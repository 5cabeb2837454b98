"""Passes and lowering keep the answer, whatever the query and whatever the graph."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import HealthCheck, assume, given, note, reject, settings, strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import Direction, Read, Value
from omnigraph.compiler.lower import lower
from omnigraph.compiler.passes import PASSES, optimise
from omnigraph.compiler.passes.fold_constants import fold_constants
from omnigraph.compiler.passes.order_expands import order_expands
from omnigraph.compiler.passes.push_filters import push_filters
from omnigraph.compiler.plan import ReadPlan
from omnigraph.compiler.resolve import resolve_query
from omnigraph.compiler.scope import selected_by_rank
from omnigraph.compiler.sizes import Sizes
from omnigraph.compiler.statistics import Departure, Statistics
from omnigraph.errors import QueryInvalid
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source
from support.graphs import INSTANT_MS, ONE_TYPE, TWO_TYPES, catalogs, dense_graph, graphs
from support.interpreter import Graph, run
from support.plan_interpreter import run_plan
from support.queries import filtered_scans, parameter_values, paths, reads, walks
from support.steps import format_read
from support.texts import as_text

PATIENT = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)

Table = list[tuple[Value, ...]]


@dataclass(frozen=True)
class Case:
    """A query, and a graph to ask it of."""

    catalog: Catalog
    query: Read
    graph: Graph
    values: dict[str, Value]

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


@st.composite
def cases(draw: DrawFn) -> Case:
    catalog = draw(catalogs())
    query = draw(reads(catalog))
    case = Case(catalog, query, draw(graphs(catalog)), dict(draw(parameter_values())))
    # Two queries in three find nothing. That teaches little, so most of them are passed over.
    assume(case.answer(query) or draw(st.integers(0, 5)) == 0)
    note(format_read(query))
    return case


def large_sizes(catalog: Catalog) -> Sizes:
    """Tables so large, with hubs so large, and so different, that any order may pay."""
    nodes = [each.table_key for each in catalog.nodes]
    keys = nodes + [each.table_key for each in catalog.edges]
    bits = tuple((key, 10 + 7 * at % 20) for at, key in enumerate(keys))
    ways = sorted(Departure(each.name, way) for each in catalog.edges for way in Direction)
    pairs = enumerate(combinations_with_replacement(ways, 2))
    pulls = {pair: 2.0 ** (7 * at % 20 - 5) for at, pair in pairs}
    return Sizes(bits, Statistics(pulls=pulls))


def check_rewrites(case: Case) -> None:
    for rewrite in (*PASSES, optimise):
        rewritten = rewrite(case.query, case.catalog)
        note(f"{rewrite.__name__} ⇒\n{format_read(rewritten)}")
        case.check(case.answer(rewritten))
    rewritten = order_expands(case.query, case.catalog, large_sizes(case.catalog))
    note(f"by sizes ⇒\n{format_read(rewritten)}")
    case.check(case.answer(rewritten))


def check_plans(case: Case) -> None:
    sized = optimise(case.query, case.catalog, sizes=large_sizes(case.catalog))
    for query in (case.query, optimise(case.query, case.catalog), sized):
        plan = lower(query, case.catalog)
        assert isinstance(plan, ReadPlan)
        note(explain(plan))
        case.check(run_plan(plan, case.graph, case.values, INSTANT_MS))


@settings(PATIENT, max_examples=100)
@given(cases())
def test_every_pass_and_all_together_keep_the_answer(case: Case) -> None:
    check_rewrites(case)


@settings(PATIENT, max_examples=100)
@given(cases())
def test_a_plan_answers_as_its_query(case: Case) -> None:
    check_plans(case)


@settings(PATIENT, max_examples=400)
@given(filtered_scans(ONE_TYPE), parameter_values())
def test_folding_keeps_what_a_condition_lets_through(
    query: Read, values: Mapping[str, Value]
) -> None:
    note(format_read(query))
    folded = fold_constants(query, ONE_TYPE)
    for seed in range(8):
        case = Case(ONE_TYPE, query, dense_graph(ONE_TYPE, seed), dict(values))
        case.check(case.answer(folded))


@settings(PATIENT, max_examples=300)
@given(walks(TWO_TYPES), parameter_values())
def test_walks_find_the_same_from_either_end(query: Read, values: Mapping[str, Value]) -> None:
    pushed = push_filters(query, TWO_TYPES)
    for sizes in (None, large_sizes(TWO_TYPES)):
        ordered = order_expands(pushed, TWO_TYPES, sizes)
        note(f"{format_read(query)}\n⇒\n{format_read(ordered)}")
        for seed in range(0, 8, 1 if sizes is None else 4):
            case = Case(TWO_TYPES, query, dense_graph(TWO_TYPES, seed), dict(values))
            case.check(case.answer(ordered))


@settings(PATIENT, max_examples=60)
@given(paths(TWO_TYPES), st.integers(0, 7))
def test_shortest_paths_are_found_whatever_is_done_first(query: Read, seed: int) -> None:
    case = Case(TWO_TYPES, query, dense_graph(TWO_TYPES, seed), {})
    check_rewrites(case)
    check_plans(case)


@settings(PATIENT, max_examples=150)
@given(st.data())
def test_a_second_run_of_a_pass_changes_nothing(data: st.DataObject) -> None:
    catalog = data.draw(catalogs())
    query = data.draw(reads(catalog))
    for rewrite in PASSES:
        once = rewrite(query, catalog)
        twice = rewrite(once, catalog)
        assert format_read(twice) == format_read(once), rewrite.__name__
        assert twice == once


@settings(PATIENT, max_examples=150)
@given(st.data())
def test_the_text_of_a_query_means_what_the_query_means(data: st.DataObject) -> None:
    catalog = data.draw(catalogs())
    query = data.draw(reads(catalog, spellable=True))
    source = Source("random.gq", as_text(query))
    note(source.text)
    try:
        resolved = resolve_query(parse(source).queries[0], catalog, source)
    except QueryInvalid:
        reject()
    assert isinstance(resolved, Read)
    # What is scanned and what is reached is for the front to choose, and a ranking depends on it.
    assume(selected_by_rank(resolved) == selected_by_rank(query))
    case = Case(catalog, query, data.draw(graphs(catalog)), dict(data.draw(parameter_values())))
    case.check(case.answer(resolved))


@pytest.mark.slow
@settings(PATIENT, max_examples=int(os.environ.get("OMNIGRAPH_QUERY_EXAMPLES", "250")))
@given(cases())
def test_passes_and_plans_keep_the_answer_of_very_many_queries(case: Case) -> None:
    check_rewrites(case)
    check_plans(case)
