"""Conditions as columns. A row passes where the column is true; null is not true."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, functions as f
from pyspark.sql.types import BooleanType

from omnigraph.compiler import ir, plan
from omnigraph.compiler.access import is_fixed
from omnigraph.compiler.ir import Comparator, TextFunction
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.engine.search.analysis import terms_of
from omnigraph.engine.search.postings import build_postings
from omnigraph.engine.search.ranking import EDITS_DEFAULT
from omnigraph.pipeline.queries.columns import Shown
from omnigraph.pipeline.queries.computed import computed_column, is_computed
from omnigraph.pipeline.queries.rows import SparkRows
from omnigraph.pipeline.queries.terms import compare, fixed_term, stored_term, term_of


def all_hold(
    conditions: Sequence[ir.Condition], rows: SparkRows, execution: Execution
) -> Column | None:
    """None if there is no condition."""
    columns = [condition_column(each, rows, execution) for each in conditions]
    return reduce(and_, columns) if columns else None


def condition_column(condition: ir.Condition, rows: SparkRows, execution: Execution) -> Column:
    if _needs_evaluator(condition):
        truth = ir.Truth(condition)
        if is_fixed(truth):
            return f.lit(execution.value_of(truth) is True)
        return computed_column(truth, truth.type, rows, execution)
    match condition:
        case ir.Compare(left, comparator, right):
            both = term_of(left, rows, execution), term_of(right, rows, execution)
            return compare(both[0], comparator, both[1])
        case ir.Member(needle, haystack):
            return _member(needle, haystack, rows, execution)
        case ir.StringMatch(subject, test, pattern):
            text, part = term_of(subject, rows, execution), term_of(pattern, rows, execution)
            if text is None or part is None:
                return f.lit(False)
            function = f.contains if test is ir.StringTest.CONTAINS else f.startswith
            return function(text.column, part.column)
        case ir.NullTest(operand, negated):
            term = term_of(operand, rows, execution)
            if term is None:
                return f.lit(not negated)
            return term.column.isNotNull() if negated else term.column.isNull()
        case ir.TextMatch():
            return _text_match(condition, rows, execution)
        case ir.Not():
            raise AssertionError("the evaluator of the engine decides it")
        case ir.AllOf(conditions):
            parts = [condition_column(each, rows, execution) for each in conditions]
            return reduce(and_, parts, f.lit(True))
        case ir.AnyOf(conditions):
            parts = [condition_column(each, rows, execution) for each in conditions]
            return reduce(or_, parts, f.lit(False))
        case _:
            assert_never(condition)


def _needs_evaluator(condition: ir.Condition) -> bool:
    """Is it a single test that computes something, or is negated?"""
    match condition:
        case ir.Not():
            return True
        case ir.Compare(left, _, right) | ir.StringMatch(left, _, right):
            return is_computed(left) or is_computed(right)
        case ir.Member(needle, haystack):
            options = haystack if isinstance(haystack, tuple) else (haystack,)
            return is_computed(needle) or any(map(is_computed, options))
        case ir.NullTest(operand):
            return is_computed(operand)
        case ir.TextMatch() | ir.AllOf() | ir.AnyOf():
            return False
        case _:
            assert_never(condition)


def _member(
    needle: ir.Operand,
    haystack: ir.Operand | tuple[ir.Operand, ...],
    rows: SparkRows,
    execution: Execution,
) -> Column:
    wanted = term_of(needle, rows, execution)
    if isinstance(haystack, tuple):
        among = [term_of(each, rows, execution) for each in haystack]
    elif is_fixed(haystack):
        values: Any = execution.value_of(haystack)
        among = [fixed_term(each) for each in values or ()]
    else:
        assert isinstance(haystack, ir.PropertyOf)
        item = haystack.type.item
        return f.exists(
            rows.column(haystack.variable, haystack.name),
            lambda each: compare(stored_term(each, item), Comparator.EQ, wanted),
        )
    return reduce(or_, [compare(wanted, Comparator.EQ, each) for each in among], f.lit(False))


def keep_groups(operator: plan.FilterColumns, table: Shown, execution: Execution) -> Shown:
    """The groups for which all conditions are true."""
    columns = zip(plan.columns_of(operator), table.names, strict=True)
    rows = SparkRows(table.data, {(ir.RESULT, each.name): name for each, name in columns})
    kept = rows.where(all_hold(operator.conditions, rows, execution))
    return Shown(kept.data, table.names)


# ── full text ────────────────────────────────────────────────────────────────────────────────────


def _text_match(condition: ir.TextMatch, rows: SparkRows, execution: Execution) -> Column:
    """Each task analyses the texts of its rows, as a search without an index does."""
    query = execution.value_of(condition.query)
    terms = terms_of(query) if isinstance(query, str) else []
    edits: object = None
    if condition.function is TextFunction.FUZZY:
        edits = EDITS_DEFAULT
        if condition.max_edits is not None:
            edits = execution.value_of(condition.max_edits)
        if not isinstance(edits, int):
            return f.lit(False)
    if not terms:
        return f.lit(False)
    assert edits is None or isinstance(edits, int)
    target = condition.target
    # The stubs do not know arrow_udf yet.
    arrow_udf: Any = f.__dict__["arrow_udf"]
    matcher = arrow_udf(text_matcher(tuple(terms), edits), BooleanType())
    found: Column = matcher(rows.column(target.variable, target.name))
    return found


def text_matcher(
    terms: Sequence[str], edits_max: int | None
) -> "Callable[[pa.Array[Any]], pa.Array[Any]]":
    """Does a text contain one of the terms, or a term within so many edits of one?"""

    def matches(texts: "pa.Array[Any]") -> "pa.Array[Any]":
        there = np.flatnonzero(np.asarray(texts.is_valid()))
        postings = build_postings(pa.array(there), texts.drop_null())
        near = terms if edits_max is None else postings.alike(terms, edits_max)
        mask = np.zeros(len(texts), np.bool_)
        mask[np.asarray(postings.holding(near))] = True
        return pa.array(mask)

    matches.__annotations__ = {"texts": pa.Array, "return": pa.Array}  # Spark reads them
    return matches
