"""The state that the operators of one execution share."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.compiler import ir, plan
from omnigraph.compiler.ir import Operand, Value
from omnigraph.compiler.scope import operands_of
from omnigraph.engine.query.columns.frame import Bound, Frame
from omnigraph.engine.query.columns.rows import ID, UNBOUND, FetchedRows, ResidentRows
from omnigraph.engine.query.columns.typed_rows import TypedRows
from omnigraph.engine.query.columns.values import Columns
from omnigraph.engine.query.columns.view import TableView, View
from omnigraph.engine.query.operators.conditions import PredicateEvaluator, fixed_value
from omnigraph.engine.search.provider import SearchProvider
from omnigraph.engine.search.ranking import EVERY_ROW, Candidates, Ranking, SearchedTable
from omnigraph.engine.settings import DEFAULTS
from omnigraph.engine.tables.arrays import Array, Mask, texts_of
from omnigraph.engine.tables.memory import Memory
from omnigraph.engine.tables.metered import SEARCH

Frames = Iterator[Frame]

LATE_ROWS_MAX: Final = 2_000
"""Up to so many rows, a second look-up for the columns that only the result shows is cheap."""

LATE_FACTOR: Final = 20
"""That look-up pays if so many times more rows are fetched than shown."""


class Execution:
    def __init__(
        self,
        view: View,
        parameters: Mapping[str, Value],
        memory: Memory,
        search: SearchProvider,
        hops_max: int = DEFAULTS.query_hops_max,
    ) -> None:
        self.view = view
        self.parameters = parameters
        self.memory = memory
        self.search = search
        self.hops_max = hops_max
        self.predicates = PredicateEvaluator(parameters, self._match_text, self._find_paths)
        self.paths: dict[ir.PathOf, object] = {}
        """The searches for shortest paths; each is shared by all parts that are read."""
        self.rankings: dict[str, Ranking] = {}
        self.best: dict[str, int] = {}
        """For a ranked variable, how many of the best rows the result can show."""
        self._tables: dict[str, TableView] = {}
        self._fetched_rows: dict[tuple[int, str], FetchedRows] = {}
        self._typed_rows: dict[tuple[int, str], TypedRows] = {}
        self._late: dict[str, tuple[str, ...]] = {}
        self._late_above = 0
        self._matched: dict[ir.TextMatch, Array] = {}

    def apart(self) -> "Execution":
        """For another part of the same read: its variables are others, of whatever name."""
        return Execution(self.view, self.parameters, self.memory, self.search, self.hops_max)

    # variables

    def bind(self, variable: str, table: TableView) -> TableView:
        """Record the table whose rows a variable is bound to."""
        self._tables[variable] = table
        return table

    def table_of(self, variable: str) -> TableView:
        return self._tables[variable]

    def fetched_rows(
        self, operator: plan.Operator, variable: str, table: TableView, columns: Sequence[str]
    ) -> FetchedRows:
        """The rows that an operator fetched for a variable; one object for all its runs.

        If it fetches many rows at once, they lack the late columns of the variable.
        """
        key = (id(operator), table.pin.key)
        if key not in self._fetched_rows:
            late = self._late.get(variable, ())
            early = [name for name in columns if name not in late]
            read = partial(self._read_by_ids, table)
            self._fetched_rows[key] = FetchedRows(read, early, late, self._late_above)
        return self._fetched_rows[key]

    def look_up(
        self,
        operator: plan.Operator,
        variable: str,
        table: TableView,
        columns: Sequence[str],
        ids: Sequence[str],
    ) -> ResidentRows | FetchedRows:
        """The rows of a table, those with these ids among them, with these columns."""
        if self.view.prefers_resident(table, columns, asked=len(ids)):
            table.resident.load_to_find(columns)
            return table.resident
        rows = self.fetched_rows(operator, variable, table, columns)
        before = rows.nbytes
        rows.fetch(ids)
        self.memory.hold("look up", rows.nbytes - before)
        return rows

    def typed_rows(
        self, operator: plan.Operator, variable: str, types: tuple[str, ...]
    ) -> TypedRows:
        """The rows of a variable of several types; one object for all runs of its operator."""
        key = (id(operator), variable)
        if key not in self._typed_rows:
            self._typed_rows[key] = TypedRows(types)
        return self._typed_rows[key]

    def _read_by_ids(
        self, table: TableView, ids: Collection[str], columns: Sequence[str]
    ) -> pa.Table:
        """By the index; or out of whole columns, once so many were looked up that it pays."""
        if self.view.prefers_resident(table, columns, asked=len(ids)):
            return table.pick_by_ids(ids, columns)
        self.view.charge_lookup(table, asked=len(ids))
        return table.read_by_ids(ids, columns)

    # columns that are fetched for the limited rows only

    def fetch_late(self, late: Sequence[ir.PropertyOf], rows_max: int | None) -> None:
        """Leave these properties out where many rows are fetched, if few rows show them."""
        if rows_max is None or rows_max > LATE_ROWS_MAX:
            return
        self._late_above = LATE_FACTOR * max(rows_max, LATE_FACTOR)
        for each in late:
            self._late[each.variable] = (*self._late.get(each.variable, ()), each.name)

    def with_late(self, frame: Frame) -> Frame:
        """The frame, with rows that have the late columns too."""
        for variable, names in self._late.items():
            frame = frame.bind({variable: self._bind_late(frame.bound[variable], variable, names)})
        return frame

    def _bind_late(self, bound: Bound, variable: str, names: Sequence[str]) -> Bound:
        rows = bound.rows
        if not isinstance(rows, FetchedRows | ResidentRows) or rows.has(names):
            return bound
        table = self.table_of(variable)
        if isinstance(rows, ResidentRows):
            if self.view.prefers_resident(table, names, asked=len(bound.at)):
                return bound
            columns: Sequence[str] = names
        else:
            columns = (*rows.columns, *names)
        late = FetchedRows(partial(self._read_by_ids, table), columns)
        ids = rows.take(ID, bound.at)
        late.fetch(texts_of(ids.drop_null()))
        self.memory.hold("project", late.nbytes)
        return Bound(late, late.find(ids))

    # values

    def value_of(self, operand: Operand) -> object:
        return fixed_value(operand, self.parameters)

    def count_of(self, count: plan.Count | None) -> int | None:
        if not isinstance(count, ir.ParameterRef):
            return count
        value = self.parameters[count.name]
        assert value is None or isinstance(value, int)
        return value

    def hops_high(self, operator: plan.Expand | plan.ExpandAny) -> int:
        return self.hops_max if operator.hops_high is None else operator.hops_high

    # conditions

    def keep(
        self,
        conditions: tuple[ir.Condition, ...],
        frame: Frame,
        kept: Collection[str] | None = None,
    ) -> Frame:
        """The rows for which all conditions are true, with these variables."""
        mask = self.predicates.all_hold(conditions, frame)
        left = frame.without_unread(kept)
        return left if mask is None else left.keep(mask)

    def searched(self, variable: str) -> SearchedTable:
        table = self.table_of(variable)
        return SearchedTable(table.tables, table.handle, table.type, self.memory)

    def match(self, condition: ir.TextMatch, candidates: Candidates) -> Array:
        """The ids of the candidates for which a text clause is true."""
        searched = self.searched(condition.target.variable)
        with self.memory.meanwhile():
            found = self.search.match(searched, condition, self.value_of, candidates)
        self.memory.hold(SEARCH, found.nbytes)
        return found

    def rank(self, variable: str, by: ir.Rank, candidates: Candidates, keep: int | None) -> Ranking:
        """The best candidates, recorded as the ranking of the variable."""
        with self.memory.meanwhile():
            found = self.search.rank(self.searched(variable), by, self.value_of, candidates, keep)
        self.memory.hold(SEARCH, found.nbytes)
        self.rankings[variable] = found
        return found

    def _find_paths(self, path: ir.PathOf, columns: Columns) -> Array:
        from omnigraph.engine.query.operators.paths import find_paths  # noqa: PLC0415 - it walks, as we do

        return find_paths(path, columns, self)

    def _match_text(self, condition: ir.TextMatch, columns: Columns) -> Mask:
        variable = condition.target.variable
        assert isinstance(columns, Frame | RowRange)
        bound = columns.bound[variable]
        if bound.rows is UNBOUND:  # no row of the block binds it
            return np.zeros(columns.count, np.bool_)
        if condition not in self._matched:
            self._matched[condition] = self.match(condition, EVERY_ROW)
        found = bound.rows.find(self._matched[condition])
        among = np.zeros(len(bound.rows) + 1, np.bool_)
        among[found] = True
        among[-1] = False  # unbound
        return among[bound.at]


@dataclass(slots=True)
class RowRange:
    """A range of rows of a whole table; its columns are slices, not copies."""

    variable: str
    table: TableView
    start: int
    stop: int
    _bound: dict[str, Bound] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def bound(self) -> Mapping[str, Bound]:
        if not self._bound:
            at = np.arange(self.start, self.stop, dtype=np.int32)
            self._bound[self.variable] = Bound(self.table.resident, at)
        return self._bound

    def column(self, variable: str, name: str) -> Array:
        assert variable == self.variable, variable
        return self.table.resident.column(name).slice(self.start, self.count)


def schema_of(operator: plan.Project | plan.Aggregate, execution: Execution) -> pa.Schema:
    """The columns that an operator yields."""
    known: pa.Schema | None = execution.view.remembered("schema", operator)
    if known is None:
        known = pa.schema([(each.name, arrow_type(each.type)) for each in operator.columns])
        execution.view.remember("schema", operator, known)
    return known


def columns_of(variable: str, conditions: Sequence[ir.Condition]) -> tuple[str, ...]:
    """The properties of a variable that conditions read."""
    operands = [each for condition in conditions for each in operands_of(condition)]
    names = [
        each.name
        for each in operands
        if isinstance(each, ir.PropertyOf) and each.variable == variable
    ]
    return tuple(dict.fromkeys(names))
