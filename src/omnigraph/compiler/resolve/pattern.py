"""The clauses of `match`, and of the blocks inside it, as steps in the order they run.

Clauses are read from top to bottom: a filter or block may use what is bound above it. They run in
another order. Bindings and traversals make the rows; then come the filters, the optional blocks,
and the blocks that keep rows or drop them. Of that order only one thing can be seen, so it is a
rule: a filter that reads a variable of an optional block runs after the block, on rows where the
variable may be unbound.
"""

from typing import assert_never

from omnigraph.compiler.ir import (
    CARRIED,
    I64,
    NEVER,
    STRING,
    Aggregate,
    AggregateFunction,
    Comparator,
    Condition,
    Constant,
    Direction,
    Expand,
    ExpandAny,
    IdOf,
    Measured,
    NullTest,
    Optionally,
    Scan,
    ScanAny,
    Step,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.resolve.conditions import resolve_match
from omnigraph.compiler.resolve.context import BlockScope, BoundVariable, Context
from omnigraph.compiler.resolve.expressions import resolve_condition, resolve_operand
from omnigraph.compiler.resolve.mentions import mentioned_names
from omnigraph.compiler.resolve.outputs import resolve_aggregate
from omnigraph.compiler.resolve.paths import bind_path
from omnigraph.compiler.resolve.variables import (
    close_optional,
    close_test,
    declare,
    is_usable_node,
)
from omnigraph.compiler.resolve.walks import Walk, resolve_walk
from omnigraph.compiler.rules import QueryRule
from omnigraph.compiler.scope import mentioned_in
from omnigraph.compiler.spelling import rank_candidates, suggest
from omnigraph.compiler.typecheck import TypeProblem, find_measure_problem
from omnigraph.lang.query import ast

COUNT_SOLUTIONS = Aggregate(AggregateFunction.COUNT, Constant(1, I64), distinct=False, type=I64)
"""`count { … }`."""


def resolve_pattern(
    clauses: tuple[ast.Clause, ...], scope: BlockScope, context: Context
) -> tuple[Step, ...]:
    """The steps of one block; binds its variables in the scope."""
    block = _Block(scope, context)
    for clause in clauses:
        block.add(clause)
    return block.steps()


class _Block:
    """What the clauses read so far come to, sorted by when it runs."""

    def __init__(self, scope: BlockScope, context: Context) -> None:
        self._scope = scope
        self._context = context
        self._scanned: dict[str, BoundVariable] = {}
        """What is bound by a clause of its own, in that order: candidates for a scan."""
        self._matches: dict[str, list[Condition]] = {}
        self._walks: list[Walk] = []
        self._filters: list[Step] = []
        self._paths: list[Step] = []
        """Those that make rows, and the filters that need them."""
        self._optionals: list[Step] = []
        """Optional blocks, and the filters that need them."""
        self._tests: list[Step] = []

    def add(self, clause: ast.Clause) -> None:
        match clause:
            case ast.Binding():
                self._add_binding(clause)
            case ast.Traversal():
                walk = resolve_walk(clause, self._scope, self._context)
                self._walks.append(walk)
                if clause.path is not None:
                    each = bind_path(walk, clause.path, self._scope, self._context)
                    self._paths += [] if each is None else [each]
            case ast.Filter():
                self._add_filter(clause)
            case ast.Negation():
                self._add_negation(clause)
            case ast.OptionalMatch():
                self._add_optional(clause)
            case ast.Existence():
                self._tests.append(Within(self._resolve_test(clause, "`exists` block")[0]))
            case ast.Measure():
                self._add_measure(clause)
            case _:
                assert_never(clause)

    def steps(self) -> tuple[Step, ...]:
        rows = self._arrange()
        return (*rows, *self._filters, *self._paths, *self._optionals, *self._tests)

    # ── clauses ──────────────────────────────────────────────────────────────────────────────────

    def _add_binding(self, clause: ast.Binding) -> None:
        bound = self._resolve_types(clause.type_names)
        name = clause.variable.name
        if name == ast.WILDCARD:
            name = self._context.fresh_variable()
            self._scanned[name] = bound
        else:
            self._bind(clause.variable, bound)
        conditions = self._resolve_matches(name, bound, clause.matches)
        outer = self._scope.find_outer(name)
        if outer is None:
            self._matches.setdefault(name, []).extend(conditions)
            return
        # Bound around this block: there is nothing to scan, only something to ask of it.
        if outer.optional:
            conditions.insert(0, NullTest(IdOf(name, STRING.optional()), negated=True))
        self._filters.extend(Where(each) for each in conditions)

    def _resolve_types(self, names: tuple[ast.Name, ...]) -> BoundVariable:
        """Each name is a node type, or an interface and so all that implement it."""
        found = [self._resolve_type(each) for each in names]
        is_wrong = not all(found)
        types = {each for some in found for each in some}
        return BoundVariable("node", () if is_wrong else tuple(sorted(types)))

    def _resolve_type(self, name: ast.Name) -> tuple[str, ...]:
        catalog = self._context.catalog
        if catalog.node(name.text) is not None:
            return (name.text,)
        types = tuple(each.name for each in catalog.implementers(name.text))
        if types:
            return types
        message = f"there is no node type '{name.text}'"
        known = [each.name for each in catalog.nodes]
        known += [each.name for each in catalog.interfaces]
        hint = suggest(name.text, known)
        if any(each.name == name.text for each in catalog.interfaces):
            hint = "it is an interface, and no node type implements it"
        elif catalog.edge(name.text) is not None:
            hint = "it is an edge type; walk it, as in `$a edge $b`"
        problem = TypeProblem(
            QueryRule.T1,
            message,
            hint,
            expected=("a node type",),
            candidates=rank_candidates(name.text, known),
        )
        self._context.report(problem, name.span)
        return ()

    def _bind(self, variable: ast.Variable, bound: BoundVariable) -> None:
        if not is_usable_node(variable, self._scope, self._context):
            return
        existing = self._scope.find(variable.name)
        if existing is None:
            declare(variable.name, bound, variable.span, self._scope, self._context)
        elif existing.types and bound.types and existing.types != bound.types:
            self._refuse_rebinding(variable, existing, bound)
        if variable.name in self._scope.variables:
            self._scanned.setdefault(variable.name, bound)

    def _refuse_rebinding(
        self, variable: ast.Variable, existing: BoundVariable, bound: BoundVariable
    ) -> None:
        message = f"`${variable.name}` is bound to {existing.type_name}, not to {bound.type_name}"
        hint = None
        if any(variable.name in (walk.source, walk.target) for walk in self._walks):
            hint = "the traversal above read it that way; write the binding above the traversal"
        elif existing.is_several and set(bound.types) < set(existing.types):
            test = " or ".join(f'${variable.name}.@type = "{each}"' for each in bound.types)
            hint = f"write `{test}` to keep only those"
        self._context.report(TypeProblem(QueryRule.U3, message, hint), variable.span)

    def _resolve_matches(
        self, name: str, bound: BoundVariable, matches: tuple[ast.Match, ...]
    ) -> list[Condition]:
        resolved = [resolve_match(name, bound, each, self._context) for each in matches]
        return [each for each in resolved if each is not None]

    def _add_filter(self, clause: ast.Filter) -> None:
        condition = resolve_condition(clause.condition, self._scope, self._context)
        if condition is None:
            return
        names = set(mentioned_names(clause, parameters=self._context.parameters))
        paths = [self._scope.paths[name] for name in names if name in self._scope.paths]
        names |= {end for each in paths for end in (each.source, each.target)}
        local = (self._scope.variables.get(name) for name in names)
        needs_optional = any(bound is not None and bound.optional for bound in local)
        of_all = any(each.is_all for each in paths)
        needed = self._optionals if needs_optional else self._paths if of_all else self._filters
        needed.append(Where(condition))

    def _add_negation(self, clause: ast.Negation) -> None:
        self._tests.append(Without(self._resolve_test(clause, "negation")[0]))

    def _add_measure(self, clause: ast.Measure) -> None:
        steps, inner = self._resolve_test(clause, "block that is measured")
        aggregate: Aggregate | None = COUNT_SOLUTIONS
        if clause.aggregate is not None:
            aggregate = resolve_aggregate(clause.aggregate, inner, self._context)
        bound = resolve_operand(clause.bound, self._scope, self._context)
        if aggregate is None or bound is None:
            return
        problem = find_measure_problem(aggregate, bound)
        if problem is not None:
            self._context.report(problem, clause.bound.span)
            return
        comparator = Comparator(clause.operator.value)
        self._tests.append(Measured(steps, aggregate, comparator, bound))

    def _resolve_test(
        self, clause: ast.Negation | ast.Existence | ast.Measure, name: str
    ) -> tuple[tuple[Step, ...], BlockScope]:
        """The steps of a block that keeps rows or drops them, and the scope it leaves."""
        inner = BlockScope(outer=self._scope)
        message = (
            f"the {name} mentions no variable from outside, so it means the same for every row"
        )
        steps = self._resolve_block(clause, inner, TypeProblem(QueryRule.T9, message))
        close_test(inner, self._scope)
        return steps, inner

    def _add_optional(self, clause: ast.OptionalMatch) -> None:
        inner = BlockScope(outer=self._scope)
        message = "the optional block mentions no variable from outside, so it joins nothing"
        steps = self._resolve_block(clause, inner, TypeProblem(QueryRule.U16, message))
        close_optional(inner, clause.span, self._scope, self._context)
        self._optionals.append(Optionally(steps))

    def _resolve_block(
        self, clause: ast.Block, inner: BlockScope, detached: TypeProblem
    ) -> tuple[Step, ...]:
        faults = self._context.fault_count
        steps = resolve_pattern(clause.clauses, inner, self._context)
        parameters = self._context.parameters
        is_attached = any(
            self._scope.find(name) is not None or self._scope.find_path(name) is not None
            for each in clause.clauses
            for name in mentioned_names(each, parameters=parameters)
        )
        is_attached |= CARRIED in mentioned_in(steps)
        if not is_attached and self._context.fault_count == faults:
            self._context.report(detached, clause.span)
        return steps

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _arrange(self) -> list[Step]:
        """Scans and expands: walk whatever has an end in reach, else scan the next binding."""
        steps: list[Step] = []
        reached: set[str] = set()
        walks = list(self._walks)
        bindings = iter(self._scanned.items())
        while True:
            walk = next((each for each in walks if self._reaches(each, reached)), None)
            if walk is not None:
                walks.remove(walk)
                steps.extend(self._expand(walk, reached))
                continue
            binding = next((each for each in bindings if each[0] not in reached), None)
            if binding is not None:
                name, bound = binding
                reached.add(name)
                if bound.types:
                    steps.append(self._scan(name, bound.types))
                continue
            if not walks:
                return steps
            self._refuse_unbound(walks[0])
            reached.add(walks[0].source)

    def _scan(self, name: str, types: tuple[str, ...]) -> Scan | ScanAny:
        matches = self._take_matches(name)
        return Scan(name, types[0], matches) if len(types) == 1 else ScanAny(name, types, matches)

    def _is_reached(self, name: str, reached: set[str]) -> bool:
        return name in reached or self._scope.find_outer(name) is not None

    def _reaches(self, walk: Walk, reached: set[str]) -> bool:
        return self._is_reached(walk.source, reached) or self._is_reached(walk.target, reached)

    def _take_matches(self, name: str) -> tuple[Condition, ...]:
        return tuple(self._matches.pop(name, ()))

    def _expand(self, walk: Walk, reached: set[str]) -> list[Step]:
        source, target, direction = walk.source, walk.target, walk.direction
        if not self._is_reached(source, reached):
            source, target, direction = target, source, direction.reversed()
        is_new = not self._is_reached(target, reached)
        reached.add(target)
        edge = walk.edge
        low, high = walk.hops
        matches = self._take_matches(target) if is_new else ()
        if walk.ways:
            return [self._expand_any(walk, source, target, matches)]
        if edge is None:
            return []
        steps: list[Step] = []
        if edge.source != edge.target:
            # Such an edge leads out of the type it starts from, so a second hop finds nothing.
            if low > 1:
                steps.append(Where(NEVER))
            low, high = 1, 1
        step = Expand(
            source,
            edge.name,
            direction,
            target,
            edge.source if direction is Direction.IN else edge.target,
            low,
            high,
            walk.edge_variable,
            matches,
            span=walk.clause.span,
        )
        return [step, *steps]

    def _expand_any(
        self, walk: Walk, source: str, target: str, matches: tuple[Condition, ...]
    ) -> ExpandAny:
        is_forward = source == walk.source
        ways = walk.ways if is_forward else tuple(each.reversed() for each in walk.ways)
        bound = self._scope.find(target)
        reached = {each.target_type for each in ways}
        low, high = walk.hops
        return ExpandAny(
            source,
            tuple(sorted(ways)),
            target,
            tuple(sorted(reached)) if bound is None else bound.types,
            low,
            high,
            walk.edge_variable,
            matches,
            span=walk.clause.span,
        )

    def _refuse_unbound(self, walk: Walk) -> None:
        if walk.edge is None:
            return  # reported already
        ends = (walk.clause.source, walk.clause.target)
        types = (walk.edge.source, walk.edge.target)
        named = (
            f"${end.name}: {type_name}"
            for end, type_name in zip(ends, types, strict=True)
            if end.name != ast.WILDCARD
        )
        message = "nothing in this part of the pattern is bound to a type"
        hint = f"add a binding such as `{next(named, f'$a: {walk.edge.source}')}`"
        self._context.report(TypeProblem(QueryRule.U6, message, hint), walk.clause.span)
