"""Expands as joins: one hop over edges or neighbours, and bounded searches breadth-first.

An edge whose end is missing counts as absent, so the far end of a step always meets its table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame, functions as f

from omnigraph.catalog.model import NodeType
from omnigraph.compiler import plan
from omnigraph.compiler.ir import TYPE_COLUMN, Condition, Direction
from omnigraph.compiler.plan import WalkMode
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.operators.execution import Execution, columns_of
from omnigraph.engine.query.operators.pushdown import push
from omnigraph.errors import UsageError
from omnigraph.pipeline.queries.conditions import all_hold
from omnigraph.pipeline.queries.rows import (
    Names,
    Property,
    SparkRows,
    of_type,
    union,
    with_type,
)
from omnigraph.pipeline.queries.scans import Scans

_APART: Final = "/"
"""Between a type and an id; no type has it in its name."""


@dataclass(frozen=True, slots=True)
class WalkSteps:
    """Ways from a node to a node: where each starts and ends, and the columns of its edge."""

    data: DataFrame
    near: str
    far: str
    edge: dict[Property, str]


@dataclass(frozen=True, slots=True)
class Walker:
    """Lowers the expands of one execution."""

    scans: Scans
    names: Names
    execution: Execution

    def expand(self, operator: plan.Expand, rows: SparkRows) -> SparkRows:
        match operator.mode:
            case WalkMode.NOTHING:
                steps = self._steps(operator)
                steps = WalkSteps(steps.data.where(f.lit(False)), steps.near, steps.far, steps.edge)
            case WalkMode.EDGES:
                steps = self._steps(operator)
            case WalkMode.NEIGHBOURS:
                steps = self._distinct(self._steps(operator))
            case WalkMode.SEARCH:
                steps = self._search(operator, rows)
        return self._joined(operator, steps, rows)

    def expand_any(self, operator: plan.ExpandAny, rows: SparkRows) -> SparkRows:
        """Each way between two types as an expand, and all of them together."""
        if operator.mode is WalkMode.SEARCH:
            found = self._search_any(operator, rows)
            return found.where(all_hold(operator.filters, found, self.execution))
        is_typed = len(operator.target_types) > 1 and not operator.closes
        parts: list[SparkRows] = []
        for (near, far), walks in _alike(operator):
            given = of_type(rows, operator.source, near)
            if operator.closes:
                given = of_type(given, operator.target, far)
            if operator.mode is WalkMode.EDGES:
                after = [self._joined(each, self._steps(each), given) for each in walks]
            else:
                after = [self._joined(walks[0], self._distinct_of(walks), given)]
            for each, walk in zip(after, walks, strict=False):
                part = with_type(each, operator.target, far, self.names) if is_typed else each
                if operator.edge_variable is not None and len(operator.edges) > 1:
                    part = with_type(part, operator.edge_variable, walk.edge, self.names)
                parts.append(part)
        found = union(parts, self.names)
        return found.where(all_hold(operator.filters, found, self.execution))

    def _distinct_of(self, walks: Sequence[plan.Expand]) -> WalkSteps:
        """The steps of several walks between the same types, each pair of nodes once."""
        first, *others = (self._steps(each) for each in walks)
        data = first.data.select(first.near, first.far)
        for each in others:
            same = (f.col(each.near).alias(first.near), f.col(each.far).alias(first.far))
            data = data.unionByName(each.data.select(*same))
        return self._distinct(WalkSteps(data, first.near, first.far, {}))

    def _joined(self, operator: plan.Expand, steps: WalkSteps, rows: SparkRows) -> SparkRows:
        on = rows.column(operator.source) == f.col(steps.near)
        if operator.closes:
            on &= rows.column(operator.target) == f.col(steps.far)
            walked = rows.data.join(self._hinted(steps.data, operator), on)
            names = {**rows.names, **steps.edge}
        else:
            walked = rows.data.join(self._hinted(steps.data, operator), on)
            names = {**rows.names, **steps.edge, (operator.target, ID): steps.far}
        after = self._with_target(operator, SparkRows(walked, names))
        return after.where(all_hold(operator.filters, after, self.execution))

    def _hinted(self, steps: DataFrame, operator: plan.Expand) -> DataFrame:
        is_small = operator.mode is not WalkMode.SEARCH and self.scans.is_small(
            self.scans.edge(operator.edge)
        )
        return f.broadcast(steps) if is_small else steps

    # steps

    def _steps(self, operator: plan.Expand) -> WalkSteps:
        """The edges, walked in their direction; a loop is one step."""
        edge = self.scans.edge(operator.edge)
        variable = operator.edge_variable
        wanted: list[str] = []
        if variable is not None:
            read = columns_of(variable, operator.filters)
            wanted = list(dict.fromkeys((ID, *operator.edge_columns, *read)))
        near, far, *rest = self.names.many(2 + len(wanted))
        ends = {"src": near, "dst": far}
        read_names = [(at, name) for at, name in zip(wanted, rest, strict=True) if at not in ends]
        data = self.scans.read(
            edge,
            ("src", "dst", *(at for at, _ in read_names)),
            (near, far, *(name for _, name in read_names)),
        )
        for at, name in zip(wanted, rest, strict=True):
            if at in ends:  # the ends of the edge, whichever way it is walked
                data = data.withColumn(name, f.col(ends[at]))
        own = {(variable or "", name): column for name, column in zip(wanted, rest, strict=True)}
        if operator.direction is Direction.IN:
            near, far = far, near
        elif operator.direction is Direction.BOTH:
            back = data.select(f.col(far).alias(near), f.col(near).alias(far), *rest)
            data = data.unionByName(back.where(f.col(near) != f.col(far)))
        return WalkSteps(data, near, far, own)

    def _distinct(self, steps: WalkSteps) -> WalkSteps:
        pairs = steps.data.select(steps.near, steps.far).distinct()
        return WalkSteps(pairs, steps.near, steps.far, {})

    def _existing(self, steps: WalkSteps, type_: NodeType) -> DataFrame:
        """The steps that end at a node which is there."""
        end = self.names.fresh()
        nodes = self._node_table(type_, (ID,), (end,))
        return steps.data.join(nodes, f.col(steps.far) == f.col(end), "left_semi")

    def _node_table(
        self,
        type_: NodeType,
        columns: tuple[str, ...],
        names: tuple[str, ...],
        where: str | None = None,
    ) -> DataFrame:
        data = self.scans.read(type_, columns, names, where)
        return f.broadcast(data) if self.scans.is_small(type_) else data

    def _with_target(self, operator: plan.Expand, rows: SparkRows) -> SparkRows:
        """Read what the plan names of the target, and what its filters read."""
        type_ = self.scans.node(operator.target_type)
        variable = operator.target
        read = columns_of(variable, operator.filters)
        wanted = [
            name
            for name in dict.fromkeys((*(() if operator.closes else operator.columns), *read))
            if not rows.has(variable, name)
        ]
        if not wanted and (operator.closes or operator.mode is WalkMode.SEARCH):
            return rows  # the target was found in its table
        end, *columns = self.names.many(1 + len(wanted))
        own = tuple(each for each in operator.filters if not self._is_on_edge(operator, each))
        where = push(own, self.execution.parameters).where
        nodes = self._node_table(type_, (ID, *wanted), (end, *columns), where)
        met = rows.column(variable) == f.col(end)
        if not wanted:
            return SparkRows(rows.data.join(nodes, met, "left_semi"), rows.names)
        more = {(variable, name): column for name, column in zip(wanted, columns, strict=True)}
        return SparkRows(rows.data.join(nodes, met).drop(end), {**rows.names, **more})

    def _is_on_edge(self, operator: plan.Expand, condition: Condition) -> bool:
        return operator.edge_variable is not None and bool(
            columns_of(operator.edge_variable, (condition,))
        )

    # searches

    def _search(self, operator: plan.Expand, rows: SparkRows) -> WalkSteps:
        """Nodes by their distance from each start.

        Each hop keeps the smallest distance of every node that was reached, and reads the hop
        before it once. Spark plans a tree, so a second use would double the work at every hop.
        """
        steps = self._distinct(self._steps(operator))
        pairs = self._existing(steps, self.scans.node(operator.target_type))
        existing = WalkSteps(pairs, steps.near, steps.far, {})
        return self._reached(operator, existing, rows, rows.column(operator.source))

    def _search_any(self, operator: plan.ExpandAny, rows: SparkRows) -> SparkRows:
        """The same over the edges of all ways; a node is known by its type and id together."""
        pairs: DataFrame | None = None
        near, far = self.names.many(2)
        for way, alone in zip(operator.ways, operator.walks, strict=True):
            steps = self._distinct(self._steps(alone))
            known = self._existing(steps, self.scans.node(way.target_type)).select(
                _node_key(f.lit(way.source_type), f.col(steps.near)).alias(near),
                _node_key(f.lit(way.target_type), f.col(steps.far)).alias(far),
            )
            pairs = known if pairs is None else pairs.unionByName(known)
        assert pairs is not None, "a walk has at least one way"
        source = self._key_of(rows, operator.source, operator.source_types)
        walks = WalkSteps(pairs.distinct(), near, far, {})
        found = self._reached(operator, walks, rows, source)
        on = source == f.col(found.near)
        if operator.closes:
            on &= self._key_of(rows, operator.target, operator.target_types) == f.col(found.far)
            return SparkRows(rows.data.join(found.data, on), rows.names)
        type_name, end = self.names.many(2)
        walked = rows.data.join(found.data, on)
        walked = walked.withColumn(type_name, f.substring_index(f.col(found.far), _APART, 1))
        after = walked.withColumn(
            end, f.substr(f.col(found.far), f.length(f.col(type_name)) + 1 + len(_APART))
        )
        parts: list[SparkRows] = []
        for each in operator.target_types:
            mine = after.where(f.col(type_name) == each)
            names = {**rows.names, (operator.target, ID): end}
            if len(operator.target_types) > 1:
                names[operator.target, TYPE_COLUMN] = type_name
            alone = replace(operator.walks[0], target_type=each)
            parts.append(self._with_target(alone, SparkRows(mine, names)))
        return union(parts, self.names)

    def _key_of(self, rows: SparkRows, variable: str, types: tuple[str, ...]) -> Column:
        is_typed = rows.has(variable, TYPE_COLUMN)
        of = rows.column(variable, TYPE_COLUMN) if is_typed else f.lit(types[0])
        return _node_key(of, rows.column(variable))

    def _reached(
        self,
        operator: plan.Expand | plan.ExpandAny,
        steps: WalkSteps,
        rows: SparkRows,
        source: Column,
    ) -> WalkSteps:
        pairs = steps.data
        start, node, hops = self.names.many(3)
        reached = rows.data.where(source.isNotNull()).select(source.alias(start)).distinct()
        reached = reached.select(start, f.col(start).alias(node), f.lit(0).alias(hops))
        if operator.hops_high is None:
            edge = operator.edge if isinstance(operator, plan.Expand) else "|".join(operator.edges)
            raise UsageError(
                "on Spark a traversal needs an upper bound: every hop is a join of the plan;"
                f" write {edge}{{{operator.hops_low},5}}"
            )
        for hop in range(1, operator.hops_high + 1):
            reached = self._hop(reached, (start, node, hops), steps, hop)
        loops = self._loops(pairs, steps)
        is_loop = self.names.fresh()
        marked = reached.join(
            loops.withColumn(is_loop, f.lit(True)), f.col(node) == f.col(loops.columns[0]), "left"
        )
        within = f.col(hops).between(operator.hops_low, operator.hops_high)
        # A loop at the start is one hop.
        around = f.col(is_loop).isNotNull() & (f.col(hops) == 0) & f.lit(operator.hops_low == 1)
        near, far = self.names.many(2)
        found = marked.where(within | around)
        return WalkSteps(
            found.select(f.col(start).alias(near), f.col(node).alias(far)), near, far, {}
        )

    def _hop(
        self, reached: DataFrame, columns: tuple[str, str, str], steps: WalkSteps, hop: int
    ) -> DataFrame:
        start, node, hops = columns
        on = (f.col(node) == f.col(steps.near)) & (f.col(hops) == hop - 1)
        here = f.struct(f.col(node).alias("node"), f.col(hops).alias("hops"))
        there = f.struct(f.col(steps.far).alias("node"), (f.col(hops) + 1).alias("hops"))
        both = f.explode(f.array(here, there)).alias("reached")
        walked = reached.join(steps.data, on, "left").select(start, both)
        named = walked.select(
            start, f.col("reached.node").alias(node), f.col("reached.hops").alias(hops)
        )
        kept = named.where(f.col(node).isNotNull())
        return kept.groupBy(start, node).agg(f.min(hops).alias(hops))

    def _loops(self, pairs: DataFrame, steps: WalkSteps) -> DataFrame:
        near = self.names.fresh()
        return pairs.where(f.col(steps.near) == f.col(steps.far)).select(
            f.col(steps.near).alias(near)
        )


def _node_key(type_name: Column, node: Column) -> Column:
    """Null for no node."""
    return f.concat(type_name, f.lit(_APART), node)


def _alike(operator: plan.ExpandAny) -> list[tuple[tuple[str, str], list[plan.Expand]]]:
    """The walks of an operator by the types at their two ends."""
    found: dict[tuple[str, str], list[plan.Expand]] = {}
    for way, each in zip(operator.ways, operator.walks, strict=True):
        found.setdefault((way.source_type, way.target_type), []).append(each)
    return list(found.items())
