"""Random well-typed reads over a catalog, with values for their parameters.

They are built as steps, not as text, so they also take shapes that the front of the compiler never
emits: filters anywhere, scans that a walk could replace, walks out of an optional block.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.types import Scalar, Struct, ValueType, are_compatible
from omnigraph.compiler import functions
from omnigraph.compiler.ir import (
    CARRIED,
    DATE,
    F64,
    I64,
    RESULT,
    STRING,
    TYPE_COLUMN,
    WILDCARD_PREFIX,
    Aggregate,
    AggregateFunction,
    AllOf,
    AnyOf,
    Bm25,
    CarriedVariable,
    Choice,
    ChoiceArm,
    Comparator,
    Compare,
    Condition,
    Constant,
    Direction,
    EachPath,
    Expand,
    ExpandAny,
    Function,
    IdOf,
    Measured,
    Member,
    Nearest,
    Not,
    Now,
    NullTest,
    ObjectOf,
    Operand,
    Optionally,
    Ordering,
    Output,
    Parameter,
    ParameterRef,
    PathOf,
    PathPart,
    PropertyOf,
    Rank,
    Read,
    Rrf,
    Scalarish,
    Scan,
    ScanAny,
    Stage,
    Step,
    StringMatch,
    StringTest,
    TextFunction,
    TextMatch,
    Truth,
    Union,
    Value,
    Way,
    Where,
    Within,
    Without,
)
from omnigraph.compiler.resolve.context import BoundVariable, share
from omnigraph.compiler.resolve.operands import identity_of
from omnigraph.compiler.resolve.paths import IDS as STRINGS, TYPES
from omnigraph.compiler.scope import is_named
from omnigraph.compiler.typecheck import TypeProblem, aggregate_type
from omnigraph.lang.source import NOWHERE
from support.graphs import IDS, SCALARS, values

PARAMETERS: dict[str, ValueType] = {
    "number": I64,
    "number_or_null": I64.optional(),
    "real": F64,
    "word": STRING,
    "word_or_null": STRING.optional(),
    "words": ValueType(Scalar.STRING, is_list=True),
    "at_most": I64,
}
ORDERED = (Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)
NUMERIC = (
    AggregateFunction.SUM,
    AggregateFunction.AVG,
    AggregateFunction.STDDEV,
    AggregateFunction.PERCENTILE,
)
NEVER_DISTINCT = (AggregateFunction.STDDEV, AggregateFunction.PERCENTILE)
HOPS = ((1, 1), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (0, 2), (0, 1), (1, None), (2, None))


def made(outcome: Operand | TypeProblem) -> Operand:
    assert not isinstance(outcome, TypeProblem), outcome
    return outcome


@st.composite
def parameter_values(draw: DrawFn) -> Mapping[str, Value]:
    """A value for each parameter that a random query may use."""
    drawn = {name: draw(values(kind)) for name, kind in PARAMETERS.items()}
    return drawn | {"at_most": draw(st.integers(0, 4))}


@st.composite
def reads(
    draw: DrawFn, catalog: Catalog, *, spellable: bool = False, searching: bool = True
) -> Read:
    """With `spellable`, most of them have a text that means the same; see `support.texts`.

    Without `searching`, none of them looks for words or vectors.
    """
    builder = _Builder(draw, catalog, spellable=spellable, searching=searching)
    parameters = tuple(Parameter(name, kind) for name, kind in PARAMETERS.items())
    # Stages are drawn as programs too; their texts are golden cases.
    is_staged = not spellable and draw(st.integers(0, 4)) == 0
    before = builder.stage(parameters) if is_staged else _Block((), _Scope())
    steps = builder.block(before.scope, depth=0)
    steps = _Block((*before.steps, *steps.steps), steps.scope)
    is_ranked = searching and draw(st.integers(0, 3)) == 0
    rank = builder.rank(steps.scope) if is_ranked else None
    outputs = builder.outputs(steps.scope, rank)
    is_aggregate = any(isinstance(each.expression, Aggregate) for each in outputs)
    order: tuple[Ordering, ...] = () if rank is None else (Ordering(rank),)
    if rank is None:
        order = builder.order(steps.scope, outputs, is_aggregate=is_aggregate)
    counts = st.sampled_from((None, None, None, 0, 2, 5, ParameterRef("at_most", I64)))
    limit = draw(st.integers(1, 4) if isinstance(rank, Nearest | Rrf) else counts)
    having = builder.having(outputs) if is_aggregate and builder.flip() else None
    unions: tuple[Union, ...] = ()
    if rank is None and draw(st.integers(0, 4)) == 0:
        part = builder.part_like(steps, outputs, having, parameters)
        unions = (Union(part, distinct=builder.flip()),)
        order = tuple(each for each in order if isinstance(each.key, int))
    return Read(
        "random",
        parameters,
        steps.steps,
        outputs,
        order,
        limit,
        draw(st.sampled_from((None, None, None, 0, 1))),
        having,
        unions,
    )


@st.composite
def patterns(draw: DrawFn, catalog: Catalog) -> Read:
    """Scans, walks, filters and blocks, and what they bind: nothing is computed or ordered."""
    builder = _Builder(draw, catalog, spellable=True, searching=False)
    block = builder.block(_Scope(), depth=draw(st.integers(0, 1)))
    nodes = tuple(Output(name, IdOf(name), STRING) for name in sorted(block.scope.nodes))
    counted = Output("rows", Aggregate(AggregateFunction.COUNT, Constant(1, I64), False, I64), I64)
    parameters = tuple(Parameter(name, kind) for name, kind in PARAMETERS.items())
    return Read("pattern", parameters, block.steps, (*nodes, counted))


@st.composite
def filtered_scans(draw: DrawFn, catalog: Catalog) -> Read:
    """One node and one or two conditions on it, one of them perhaps negated: nothing but logic."""
    builder = _Builder(draw, catalog)
    scope = _Scope()
    scan = builder.scan(scope)
    steps: list[Step] = [scan, Where(builder.condition(scope))]
    if draw(st.booleans()):
        where = Where(builder.condition(scope))
        steps.append(Without((where,)) if draw(st.booleans()) else where)
    output = Output("id", IdOf(scan.variable), STRING)
    parameters = tuple(Parameter(name, kind) for name, kind in PARAMETERS.items())
    return Read("filtered", parameters, tuple(steps), (output,))


@st.composite
def paths(draw: DrawFn, catalog: Catalog) -> Read:
    """Shortest paths, or all of them, over an edge within one type; often with a condition."""
    edge = draw(st.sampled_from([each for each in catalog.edges if each.source == each.target]))
    direction = draw(st.sampled_from(Direction))
    low, high = draw(st.sampled_from([(0, 2), (1, 1), (1, 3), (2, 4), (1, None)]))
    steps: list[Step] = [
        Scan("a", edge.source),
        Expand("a", edge.name, direction, "b", edge.source, low, high),
    ]
    weights = [each.name for each in edge.properties if each.name == "far"]
    weight = draw(st.sampled_from([None, *weights]))
    route = PathOf(
        PathPart.NODES,
        IdOf("a"),
        IdOf("b"),
        edge.name,
        direction,
        low,
        high,
        STRINGS,
        weight=weight,
    )
    is_all = draw(st.booleans())
    if is_all:
        steps.append(EachPath("p", route))
    parts = list(PathPart) if is_all or weight is not None else [PathPart.LENGTH, PathPart.NODES]
    # Where all edges of a path may be closed, it may be null.
    length, nodes, *cost = (
        PropertyOf("p", part, TYPES[part])
        if is_all
        else replace(route, part=part, type=TYPES[part].optional() if weight else TYPES[part])
        for part in parts
    )
    if draw(st.booleans()):
        comparator = draw(st.sampled_from(Comparator))
        steps.append(Where(Compare(length, comparator, Constant(draw(st.integers(0, 3)), I64))))
    if draw(st.booleans()):
        known = Constant(draw(st.sampled_from(IDS)), STRING)
        steps.append(Where(Compare(IdOf(draw(st.sampled_from("ab"))), Comparator.EQ, known)))
    parameters = tuple(Parameter(name, kind) for name, kind in PARAMETERS.items())
    if draw(st.integers(0, 3)) == 0:
        measured = draw(st.sampled_from([length, *cost]))
        kind = TYPES[PathPart.LENGTH if measured is length else PathPart.COST].optional()
        farthest = Aggregate(AggregateFunction.MAX, measured, distinct=False, type=kind)
        grouped = (Output("a", IdOf("a"), STRING), Output("far", farthest, kind))
        return Read("paths", parameters, tuple(steps), grouped)
    shown: list[Operand] = [IdOf("a"), IdOf("b"), length, nodes, *cost]
    outputs = tuple(Output(f"c{at}", each, made_type(each)) for at, each in enumerate(shown))
    order = (Ordering(length), Ordering(0), Ordering(1)) if draw(st.booleans()) else ()
    return Read("paths", parameters, tuple(steps), outputs, order, 3 if order else None)


def made_type(operand: Operand) -> ValueType:
    assert operand.type is not None
    return operand.type


@st.composite
def cycles(draw: DrawFn, catalog: Catalog) -> Read:
    """Two walks, the second of which meets a node that is bound, perhaps in an optional block."""
    start = draw(st.sampled_from([e.source for e in catalog.edges if e.source == e.target]))
    first = draw(
        st.sampled_from([each for each in _steps_from(catalog, start) if each[2] == start])
    )
    second = draw(st.sampled_from(_steps_from(catalog, start)))
    joining = draw(st.sampled_from([e for e in _steps_from(catalog, start) if e[2] == second[2]]))
    steps: list[Step] = [Scan("a", start)]
    opening = Expand("a", first[0], first[1], "b", start)
    steps.append(Optionally((opening,)) if draw(st.integers(0, 3)) == 0 else opening)
    met = draw(st.sampled_from("aab"))
    middle = "b" if met == "a" else draw(st.sampled_from("ab"))
    steps.append(Expand(middle, second[0], second[1], "c", second[2]))
    check = Expand(met, joining[0], joining[1], "c", second[2])
    if draw(st.booleans()):
        check = Expand("c", joining[0], joining[1].reversed(), met, start)
    steps.append(check)
    if draw(st.booleans()):
        known = Constant(draw(st.sampled_from(IDS)), STRING)
        steps.append(Where(Compare(IdOf(draw(st.sampled_from("bc"))), Comparator.NE, known)))
    outputs = tuple(Output(name, IdOf(name), STRING) for name in "abc")
    return Read("cycle", (), tuple(steps), outputs)


def _steps_from(catalog: Catalog, start: str) -> list[tuple[str, Direction, str]]:
    """The steps from a node of a type: edge, direction and the type at the other end."""
    ahead = [(e.name, Direction.OUT, e.target) for e in catalog.edges if e.source == start]
    back = [(e.name, Direction.IN, e.source) for e in catalog.edges if e.target == start]
    both = [(name, Direction.BOTH, far) for name, _, far in ahead if far == start]
    return ahead + back + both


@st.composite
def walks(draw: DrawFn, catalog: Catalog) -> Read:
    """One to three walks from a scan, and one variable that is known by its id, perhaps ranked.

    The best order hardly ever is the order in which they are written.
    """
    builder = _Builder(draw, catalog)
    scope = _Scope()
    steps: list[Step] = [replace(builder.scan(scope), filters=())]
    for _ in range(draw(st.integers(1, 3))):
        walk = builder.expand(scope)
        steps += [] if walk is None else [replace(walk, filters=())]
    known = draw(st.sampled_from(sorted(scope.nodes)))
    wanted = Constant(draw(st.sampled_from(IDS)), STRING)
    steps.append(Where(Compare(IdOf(known), Comparator.EQ, wanted)))
    rank = builder.rank(scope) if draw(st.booleans()) else None
    outputs = tuple(Output(name, IdOf(name), STRING) for name in sorted(scope.nodes))
    parameters = tuple(Parameter(name, kind) for name, kind in PARAMETERS.items())
    if rank is None:
        return Read("walked", parameters, tuple(steps), outputs)
    limit = draw(st.integers(1, 3))
    return Read("walked", parameters, tuple(steps), outputs, (Ordering(rank),), limit)


@dataclass(slots=True)
class _Scope:
    nodes: dict[str, NodeType] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    values: tuple[PropertyOf, ...] = ()
    """What an earlier stage handed on."""

    def copy(self) -> "_Scope":
        return _Scope(dict(self.nodes), dict(self.edges), self.values)

    def without(self, other: "_Scope") -> "_Scope":
        return _Scope(
            {name: each for name, each in self.nodes.items() if name not in other.nodes},
            {name: each for name, each in self.edges.items() if name not in other.edges},
        )

    def properties(self) -> list[PropertyOf]:
        bound: list[tuple[str, tuple[Property, ...]]] = [
            *((name, each.properties) for name, each in self.nodes.items()),
            *((name, each.properties) for name, each in self.edges.items()),
        ]
        return [
            PropertyOf(name, each.name, each.type)
            for name, properties in bound
            if not name.startswith(WILDCARD_PREFIX)
            for each in properties
        ] + [*(PropertyOf(name, TYPE_COLUMN, STRING) for name in self.several()), *self.values]

    def several(self) -> list[str]:
        """The named variables of several types."""
        bound: list[tuple[str, NodeType | EdgeType]] = [*self.nodes.items(), *self.edges.items()]
        named = [each for each in bound if not each[0].startswith(WILDCARD_PREFIX)]
        return [name for name, each in named if len(types_in(each)) > 1]

    def searchable(self) -> list[PropertyOf]:
        """Properties of variables that have one type."""
        several = [*self.several(), CARRIED]
        return [each for each in self.properties() if each.variable not in several]

    def scalars(self) -> list[PropertyOf]:
        return [each for each in self.properties() if not each.type.is_list | each.type.is_vector]

    def pairs(self) -> list[tuple[str, str]]:
        """Two variables of one type."""
        bound: list[tuple[str, NodeType | EdgeType]] = [*self.nodes.items(), *self.edges.items()]
        named = [each for each in bound if not each[0].startswith(WILDCARD_PREFIX)]
        return [
            (a, b)
            for a, one in named
            for b, other in named
            if a < b
            and isinstance(one, NodeType) == isinstance(other, NodeType)
            and types_in(one) & types_in(other)
        ]

    def identity(self, one: str, other: str, comparator: Comparator) -> Condition:
        """Of several types, the types are compared as well."""
        same = Compare(IdOf(one), comparator, IdOf(other))
        if one not in self.several() and other not in self.several():
            return same
        alike = Compare(self.type_of(one), comparator, self.type_of(other))
        return AllOf((same, alike)) if comparator is Comparator.EQ else AnyOf((same, alike))

    def type_of(self, name: str) -> Operand:
        if name in self.several():
            return PropertyOf(name, TYPE_COLUMN, STRING)
        (type_name,) = types_in(self.nodes[name] if name in self.nodes else self.edges[name])
        return Constant(type_name, STRING)

    def objects(self) -> list[ObjectOf]:
        """Every named variable as an object."""
        bound: list[tuple[str, NodeType | EdgeType]] = [*self.nodes.items(), *self.edges.items()]
        return [
            ObjectOf(name, ValueType(_struct_of(each)))
            for name, each in bound
            if not name.startswith(WILDCARD_PREFIX)
        ]

    def ids(self) -> list[Operand]:
        """What tells the named nodes apart."""
        several = self.several()
        return [
            identity_of(name, BoundVariable("node", tuple(types_in(each))))
            if name in several
            else IdOf(name)
            for name, each in self.nodes.items()
            if not name.startswith(WILDCARD_PREFIX)
        ]


@dataclass(slots=True)
class _ResultScope(_Scope):
    """The columns of groups."""

    outputs: tuple[Output, ...] = ()

    def properties(self) -> list[PropertyOf]:
        return [
            PropertyOf(RESULT, each.name, each.type)
            for each in self.outputs
            if not isinstance(each.expression, ObjectOf)
            and (not each.type.is_list or each.type.base is Scalar.STRING)
        ]


@dataclass(frozen=True, slots=True)
class _Block:
    steps: tuple[Step, ...]
    scope: _Scope
    """What is bound after it."""


class _Builder:
    def __init__(
        self,
        draw: DrawFn,
        catalog: Catalog,
        *,
        spellable: bool = False,
        searching: bool = True,
    ) -> None:
        self.draw = draw
        self.catalog = catalog
        self.spellable = spellable
        self.searching = searching
        self.count = 0

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def fresh(self) -> str:
        self.count += 1
        # Wildcards and names that do not sort in the order of binding.
        prefixes = ("x", "w", "z") if self.spellable else ("x", "w", "z", WILDCARD_PREFIX)
        prefix = self.draw(st.sampled_from(prefixes))
        return f"{prefix}{self.count}"

    # steps

    def block(self, outer: _Scope, depth: int) -> _Block:
        scope = outer.copy()
        steps: list[Step] = []
        if not scope.nodes:
            is_several = len(self.catalog.nodes) > 1 and self.draw(st.integers(0, 3)) == 0
            steps.append(self.scan_any(scope) if is_several else self.scan(scope))
        for _ in range(self.draw(st.integers(1, 5 if depth == 0 else 3))):
            before = scope.copy()
            steps.append(self.step(scope, depth))
            # What a block binds, and what a condition on it does, deserves to be asked often.
            fresh = scope.without(before)
            if isinstance(steps[-1], Optionally) and fresh.properties() and self.flip():
                steps.append(Where(self.condition(fresh)))
        return _Block(tuple(steps), scope)

    def step(self, scope: _Scope, depth: int) -> Step:
        kinds = ["expand", "expand", "expand", "where"]
        # The way a traversal goes is inferred, so that not every choice of ways has a spelling.
        kinds += [] if self.spellable or not self.catalog.edges else ["expand any"]
        # A scan in a block finds something for every row, so that a negation leaves none.
        kinds += ["scan"] if len(scope.nodes) < 4 and (depth == 0 or self.flip()) else []
        kinds += ["without", "optionally", "within", "measured", "measured"] if depth < 2 else []
        match self.draw(st.sampled_from(kinds)):
            case "scan":
                is_several = len(self.catalog.nodes) > 1 and self.flip()
                return self.scan_any(scope) if is_several else self.scan(scope)
            case "expand any":
                return self.expand_any(scope) or Where(self.condition(scope))
            case "expand":
                return self.expand(scope) or Where(self.condition(scope))
            case "without":
                return Without(self.block(scope, depth + 1).steps)
            case "within":
                return Within(self.block(scope, depth + 1).steps)
            case "measured":
                return self.measured(scope, depth)
            case "optionally":
                inner = self.block(scope, depth + 1)
                scope.nodes, scope.edges = inner.scope.nodes, inner.scope.edges
                return Optionally(inner.steps)
            case _:
                return Where(self.condition(scope))

    def measured(self, scope: _Scope, depth: int) -> Measured:
        """A block whose solutions are counted, or aggregated; often a walk and nothing else."""
        walk = self.expand(scope.copy()) if self.flip() else None
        inner = self.block(scope, depth + 1)
        steps = inner.steps if walk is None else (replace(walk, filters=()),)
        aggregate = Aggregate(AggregateFunction.COUNT, Constant(1, I64), distinct=False, type=I64)
        if walk is None and self.flip():
            aggregate = self.aggregate(inner.scope, is_measured=True)
        counts = st.sampled_from([Constant(each, I64) for each in range(4)])
        bound = (
            self.draw(counts)
            if aggregate.function is AggregateFunction.COUNT
            else self.operand_like(aggregate.type, scope)
        )
        return Measured(steps, aggregate, self.draw(st.sampled_from(Comparator)), bound)

    def scan_any(self, scope: _Scope) -> ScanAny:
        """Two types or more. What they share can be read."""
        count = st.integers(2, len(self.catalog.nodes))
        nodes = self.draw(st.permutations(self.catalog.nodes))[: self.draw(count)]
        types = sorted(nodes, key=lambda each: each.name)
        variable = self.fresh()
        node = share(types)
        assert isinstance(node, NodeType)
        filters = self.filters(_Scope(nodes={variable: node}))
        scope.nodes[variable] = node
        return ScanAny(variable, tuple(each.name for each in types), filters)

    def expand_any(self, scope: _Scope) -> ExpandAny | None:
        """Several ways, or a walk that begins or ends at a variable of several types."""
        source = self.draw(st.sampled_from(sorted(scope.nodes)))
        known = types_in(scope.nodes[source])
        hops = self.draw(st.sampled_from(HOPS))
        is_single = hops == (1, 1)
        every = [way for edge in self.catalog.edges for way in _ways(edge)]
        near = [each for each in every if each.source_type in known or not is_single]
        ways = self.draw(st.lists(st.sampled_from(near), min_size=1, max_size=3)) if near else []
        bound = sorted(scope.nodes)
        target = self.draw(st.sampled_from([self.fresh(), self.fresh(), *bound]))
        reached = {each.target_type for each in ways}
        wanted = types_in(scope.nodes[target]) if target in scope.nodes else reached
        if is_single:
            ways = [each for each in ways if each.target_type in wanted]
        # Without a type in common no hop is none, and one hop alone would be asked of the ways.
        low, high = hops if hops[0] or known & wanted else (1, 2)
        if not ways:
            return None
        types = [self.catalog.node(each) for each in sorted(wanted)]
        node = _shared([each for each in types if each is not None])
        assert isinstance(node, NodeType)
        edges = [self.catalog.edge(each) for each in sorted({each.edge for each in ways})]
        edge = _shared([each for each in edges if each is not None])
        assert isinstance(edge, EdgeType)
        own = [_Scope(nodes={target: node})]
        edge_variable = None
        if is_single and self.flip():
            ways = list({each.edge: each for each in ways}.values())
            edges = [self.catalog.edge(each) for each in sorted({each.edge for each in ways})]
            edge_variable = f"v{self.count}"
            self.count += 1
            own.append(_Scope(edges={edge_variable: edge}))
            scope.edges[edge_variable] = edge
        filters = tuple(each for one in own for each in self.filters(one))
        scope.nodes.setdefault(target, node)
        return ExpandAny(
            source,
            tuple(sorted(set(ways))),
            target,
            tuple(sorted(wanted)),
            low,
            high,
            edge_variable,
            filters,
        )

    def scan(self, scope: _Scope) -> Scan:
        node = self.draw(st.sampled_from(self.catalog.nodes))
        variable = self.fresh()
        filters = self.filters(_Scope(nodes={variable: node}))
        scope.nodes[variable] = node
        return Scan(variable, node.name, filters)

    def expand(self, scope: _Scope) -> Expand | None:
        ways = [
            (source, edge, direction)
            for source, node in scope.nodes.items()
            for edge in self.catalog.edges
            for direction in _directions(node, edge)
        ]
        if not ways:
            return None
        source, edge, direction = self.draw(st.sampled_from(ways))
        arrival = edge.source if direction is Direction.IN else edge.target
        node = self.catalog.node(arrival)
        assert node is not None
        bound = [name for name, each in scope.nodes.items() if each is node]
        target = self.draw(st.sampled_from([self.fresh(), self.fresh(), *bound]))
        hops = [each for each in HOPS if each[0] > 0 or edge.source == edge.target]
        low, high = self.draw(st.sampled_from(hops))
        edge_variable = None
        if (low, high) == (1, 1) and self.flip():
            edge_variable = f"v{self.count}"
            self.count += 1
        own = [_Scope(nodes={target: node})]
        if edge_variable is not None:
            own.append(_Scope(edges={edge_variable: edge}))
            scope.edges[edge_variable] = edge
        filters = tuple(each for one in own for each in self.filters(one))
        scope.nodes[target] = node
        return Expand(
            source, edge.name, direction, target, arrival, low, high, edge_variable, filters
        )

    def filters(self, scope: _Scope) -> tuple[Condition, ...]:
        """Usually none, sometimes one."""
        if not scope.properties() or self.draw(st.integers(0, 3)):
            return ()
        return (self.condition(scope),)

    # conditions

    def inverted(self, scope: _Scope) -> Not:
        return Not(self.compare(scope) if self.flip() else self.member(scope))

    def condition(self, scope: _Scope, depth: int = 0) -> Condition:
        kinds = ["compare", "compare", "compare", "member", "string", "null", "null", "text"]
        # Mostly choices: a query whose every condition is hard to meet answers nothing.
        kinds += ["all", "any", "any", "any", "any", "facts"] if depth < 2 else []
        kinds += ["identity", "identity"] if scope.pairs() else []
        kinds += [] if self.spellable else ["not", "computed", "computed"] if depth < 2 else ["not"]
        match self.draw(st.sampled_from(kinds)):
            case "all":
                return AllOf(self.conditions(scope, depth))
            case "any":
                return AnyOf(self.conditions(scope, depth))
            case "facts":
                return self.facts(scope)
            case "identity":
                one, other = self.draw(st.sampled_from(scope.pairs()))
                comparator = self.draw(st.sampled_from((Comparator.EQ, Comparator.NE)))
                return scope.identity(one, other, comparator)
            case "not":
                return self.inverted(scope)
            case "computed":
                return self.on_expression(scope)
            case "member":
                return self.member(scope)
            case "string":
                test = self.draw(st.sampled_from(StringTest))
                return StringMatch(self.word(scope), test, self.word(scope))
            case "null":
                return NullTest(self.operand(scope), negated=self.flip())
            case "text":
                return self.text_match(scope)
            case _:
                return self.compare(scope)

    def on_expression(self, scope: _Scope) -> Condition:
        found = self.expression(scope)
        kind = found.type
        if kind is None or kind.is_list or self.draw(st.integers(0, 4)) == 0:
            return NullTest(found, negated=self.flip())
        other = self.operand_like(kind.optional(), scope)
        return Compare(found, self.draw(st.sampled_from(Comparator)), other)

    def conditions(self, scope: _Scope, depth: int) -> tuple[Condition, ...]:
        number = self.draw(st.sampled_from((2, 3) if self.spellable else (0, 1, 2, 2, 3, 3)))
        return tuple(self.condition(scope, depth + 1) for _ in range(number))

    def facts(self, scope: _Scope) -> AllOf:
        """Several conditions on one thing: they may repeat, imply or exclude each other."""
        known = self.operand(scope)
        assert known.type is not None
        assert isinstance(known.type.base, Scalar)
        pool = known.type.enum_values or self.constants(known.type.base)
        constants = st.sampled_from(pool).map(lambda value: Constant(value, known.type))
        facts: list[Condition] = [
            Compare(known, self.draw(st.sampled_from(Comparator)), self.draw(constants))
            for _ in range(self.draw(st.integers(1, 3)))
        ]
        return AllOf((*facts, NullTest(known, negated=self.draw(st.integers(0, 5)) > 0)))

    def compare(self, scope: _Scope) -> Compare:
        left = self.operand(scope)
        assert left.type is not None
        right = self.operand_like(left.type, scope)
        if self.flip():
            left, right = right, left
        return Compare(left, self.draw(st.sampled_from(Comparator)), right)

    def member(self, scope: _Scope) -> Member:
        lists = [each for each in scope.properties() if each.type.is_list]
        if self.flip() and lists:
            return Member(self.word(scope), self.draw(st.sampled_from(lists)))
        needle = self.operand(scope)
        assert needle.type is not None
        if needle.type.is_string and self.flip():
            return Member(needle, ParameterRef("words", PARAMETERS["words"]))
        number = self.draw(st.integers(1 if self.spellable else 0, 3))
        options = [self.operand_like(needle.type, _Scope()) for _ in range(number)]
        constants = [each for each in options if isinstance(each, Constant)]
        if constants and (self.spellable or self.flip()):
            items = tuple(each.value for each in constants if not isinstance(each.value, tuple))
            return Member(needle, Constant(items, _list_of(needle.type)))
        return Member(needle, tuple(options))

    def text_match(self, scope: _Scope) -> Condition:
        texts = [
            each for each in scope.searchable() if each.type.is_string and not each.type.is_list
        ]
        if not texts or not self.searching:
            return self.compare(scope)
        function = self.draw(st.sampled_from(TextFunction))
        edits = Constant(self.draw(st.integers(0, 1)), I64)
        return TextMatch(
            function,
            self.draw(st.sampled_from(texts)),
            self.word(_Scope()),
            edits if function is TextFunction.FUZZY else None,
        )

    # operands

    def operand(self, scope: _Scope) -> Operand:
        """Most often a property."""
        scalars: list[Operand] = [*scope.scalars()]
        others: list[Operand] = [
            *([] if self.spellable else scope.ids()),
            Constant(self.draw(st.sampled_from((0, 1, 2))), I64),
            ParameterRef("number_or_null", PARAMETERS["number_or_null"]),
        ]
        wants_other = self.draw(st.integers(0, 5)) == 0
        pool = others if wants_other or not scalars else scalars
        return self.draw(st.sampled_from(pool))

    def operand_like(self, kind: ValueType, scope: _Scope) -> Operand:
        """Something that can be compared with a value of this type."""
        assert isinstance(kind.base, Scalar)
        constants = st.sampled_from(kind.enum_values or self.constants(kind.base))
        pool: list[Operand] = [Constant(self.draw(constants), kind.required()) for _ in range(2)]
        pool += [] if self.spellable else [Constant(None, None)]
        pool += [
            ParameterRef(name, each)
            for name, each in PARAMETERS.items()
            if are_compatible(each, kind)
        ]
        pool += [each for each in scope.scalars() if are_compatible(each.type, kind)]
        if kind.base is Scalar.DATETIME:
            pool.append(Now())
        if kind.is_string:
            pool.append(Constant(self.draw(st.sampled_from(IDS)), STRING))
            pool += [] if self.spellable else scope.ids()
        return self.draw(st.sampled_from(pool))

    def constants(self, base: Scalar) -> tuple[Scalarish, ...]:
        """A literal has no sign."""
        pool = SCALARS[base]
        if not self.spellable:
            return pool
        return tuple(each for each in pool if isinstance(each, str | None) or each >= 0)

    def word(self, scope: _Scope) -> Operand:
        return self.operand_like(STRING, scope)

    # expressions

    def expression(self, scope: _Scope, depth: int = 0) -> Operand:
        """Something that is computed; typed by the compiler's own rules."""
        kinds = ("number", "number", "unary", "text", "measure", "date", "truth", "choice", "cast")
        match self.draw(st.sampled_from(kinds)):
            case "number":
                function = self.draw(st.sampled_from(list(Function)[:5]))
                left, right = self.number(scope, depth), self.number(scope, depth)
                return made(functions.arithmetic(function, left, right, NOWHERE))
            case "unary":
                name = self.draw(st.sampled_from(("-", "abs", "floor", "ceil", "round")))
                number = self.number(scope, depth)
                if name == "-":
                    return made(functions.negate(number, NOWHERE))
                return self.call(name, number)
            case "text":
                return self.text(scope, depth)
            case "measure":
                return self.measure(scope, depth)
            case "date":
                return self.date(scope)
            case "truth":
                return Truth(self.without_text(scope))
            case "choice":
                return self.choice(scope)
            case _:
                operand = self.operand(scope)
                assert operand.type is not None
                names = ("I32", "I64", "U64", "F32", "F64", "String", "Date", "DateTime", "Bool")
                found = functions.cast(operand, self.draw(st.sampled_from(names)), NOWHERE)
                return operand if isinstance(found, TypeProblem) else found

    def call(self, name: str, *arguments: Operand) -> Operand:
        return made(functions.call(name, arguments, NOWHERE))

    def number(self, scope: _Scope, depth: int = 2) -> Operand:
        pool: list[Operand] = [each for each in scope.scalars() if each.type.is_number]
        pool += [Constant(self.draw(st.sampled_from((0, 1, 3, -7, 2**62))), I64)]
        pool += [Constant(self.draw(st.sampled_from((0.0, 0.5, -2.5, 1e300))), F64)]
        pool += [ParameterRef(name, PARAMETERS[name]) for name in ("number_or_null", "real")]
        if depth < 2:
            nested = self.expression(scope, depth + 1)
            pool += [nested] if nested.type is not None and nested.type.is_number else []
        return self.draw(st.sampled_from(pool))

    def text(self, scope: _Scope, depth: int = 2) -> Operand:
        name = self.draw(st.sampled_from(("lower", "upper", "trim", "concat", "substring", "word")))
        word = self.word(scope) if depth >= 2 or self.flip() else self.text(scope, depth + 1)
        if isinstance(word, IdOf):
            word = Constant("a", STRING)
        match name:
            case "concat":
                return self.call(name, word, Constant(" É ", STRING), word)
            case "substring":
                bounds = [self.whole(scope) for _ in range(self.draw(st.integers(1, 2)))]
                return self.call(name, word, *bounds)
            case "word":
                return word
            case _:
                return self.call(name, word)

    def whole(self, scope: _Scope) -> Operand:
        integers: list[Operand] = [each for each in scope.scalars() if each.type.is_integer]
        integers += [Constant(self.draw(st.integers(-2, 5)), I64) for _ in range(2)]
        return self.draw(st.sampled_from(integers))

    def measure(self, scope: _Scope, depth: int) -> Operand:
        lists = [each for each in scope.properties() if each.type.is_list]
        if lists and self.flip():
            held = self.draw(st.sampled_from(lists))
            return (
                self.call("at", held, self.whole(scope)) if self.flip() else self.call("len", held)
            )
        return self.call("length", self.text(scope, depth))

    def moment(self, scope: _Scope) -> Operand:
        bases = (Scalar.DATE, Scalar.DATETIME)
        pool: list[Operand] = [each for each in scope.scalars() if each.type.base in bases]
        pool += [Now(), Constant(self.draw(st.sampled_from((-1, 59, 19_782))), DATE)]
        return self.draw(st.sampled_from(pool))

    def date(self, scope: _Scope) -> Operand:
        moment = self.moment(scope)
        assert moment.type is not None
        match self.draw(st.sampled_from(("part", "shift", "difference"))):
            case "part":
                names = ["year", "month", "day"]
                names += [] if moment.type.base is Scalar.DATE else ["hour", "minute", "second"]
                return self.call(self.draw(st.sampled_from(names)), moment)
            case "shift":
                months = self.whole(scope) if self.flip() else None
                rest = self.whole(scope) if months is None or self.flip() else None
                return made(functions.shift(moment, months, rest, NOWHERE))
            case _:
                unit = Constant(self.draw(st.sampled_from(functions.DATE_UNITS)), STRING)
                other = self.moment(scope)
                assert other.type is not None
                same = other if other.type.base is moment.type.base else moment
                return self.call("date_diff", unit, moment, same)

    def choice(self, scope: _Scope) -> Operand:
        first = self.operand(scope)
        assert first.type is not None
        second = self.operand_like(first.type, scope)
        if isinstance(first, IdOf) or isinstance(second, IdOf):
            return first
        kind = functions.common_type((first, second), "the test")
        if isinstance(kind, TypeProblem):
            return first
        if self.flip():
            return self.call("coalesce", first, second)
        return Choice((ChoiceArm(self.without_text(scope), first),), second, kind.optional())

    def without_text(self, scope: _Scope) -> Condition:
        """A condition that can be a value."""
        found = self.condition(scope, depth=1)
        parts = found.conditions if isinstance(found, AllOf | AnyOf) else (found,)
        return self.compare(scope) if any(isinstance(p, TextMatch) for p in parts) else found

    # what is returned

    def part_like(
        self,
        block: "_Block",
        outputs: tuple[Output, ...],
        having: Condition | None,
        parameters: tuple[Parameter, ...],
    ) -> Read:
        """Another part of a union: fewer of the same rows, or rows of another pattern."""
        if self.flip():
            steps = (*block.steps, Where(self.condition(block.scope)))
            return Read("random", parameters, steps, outputs, having=having)
        other = self.block(_Scope(), depth=1)
        pool: list[PropertyOf | ObjectOf] = [*other.scope.properties(), *other.scope.objects()]
        same = {each.name: [p for p in pool if p.type == each.type] for each in outputs}
        found = tuple(
            replace(each, expression=self.draw(st.sampled_from(same[each.name])))
            if same[each.name]
            else replace(each, expression=Constant(None, each.type.optional()))
            for each in outputs
        )
        return Read("random", parameters, other.steps, found)

    def stage(self, parameters: tuple[Parameter, ...]) -> "_Block":
        """A first stage, as a step, and what it hands on: some variables and some values."""
        block = self.block(_Scope(), depth=1)
        scope = block.scope
        named = [each for each in (*scope.nodes, *scope.edges) if is_named(each)]
        kept = [each for each in named if self.draw(st.integers(0, 2))]
        carried: list[CarriedVariable] = []
        columns: list[Output] = []
        for name in kept:
            is_edge = name in scope.edges
            types = types_in(scope.edges[name] if is_edge else scope.nodes[name])
            each = CarriedVariable(name, "edge" if is_edge else "node", tuple(sorted(types)))
            carried.append(each)
            columns.append(Output(each.id_column, IdOf(name), STRING))
            if len(types) > 1:
                kind = PropertyOf(name, TYPE_COLUMN, STRING)
                columns.append(Output(each.type_column, kind, STRING))
        values = [replace(each, name=f"k{each.name}") for each in self.outputs(scope, None)]
        values = [each for each in values if not isinstance(each.expression, ObjectOf)]
        is_aggregate = any(isinstance(each.expression, Aggregate) for each in values)
        outputs = (*columns, *values) or (Output("k", Constant(1, I64), I64),)
        order = self.order(scope, outputs, is_aggregate=is_aggregate) if self.flip() else ()
        limit = self.draw(st.sampled_from((None, 2, 5))) if order else None
        having = self.having(tuple(values)) if is_aggregate and self.flip() else None
        read = Read("random", parameters, block.steps, outputs, order, limit, having=having)
        after = _Scope(
            {name: each for name, each in scope.nodes.items() if name in kept},
            {name: each for name, each in scope.edges.items() if name in kept},
            tuple(
                PropertyOf(CARRIED, each.name, each.type)
                for each in values
                if not each.type.is_vector
            ),
        )
        return _Block((Stage(read, tuple(carried)),), after)

    def having(self, outputs: tuple[Output, ...]) -> Condition:
        return self.without_text(_ResultScope(outputs=outputs))

    def outputs(self, scope: _Scope, rank: Rank | None) -> tuple[Output, ...]:
        pool: list[Operand | ObjectOf] = [*scope.properties(), *scope.objects()]
        pool += [] if self.spellable else scope.ids()
        pool = pool or [Constant(1, I64), ParameterRef("word", STRING)]
        plain = [self.draw(st.sampled_from(pool)) for _ in range(self.draw(st.integers(0, 3)))]
        if not self.spellable and scope.nodes:
            plain += [self.expression(scope) for _ in range(self.draw(st.integers(0, 2)))]
        expressions: list[Operand | ObjectOf | Aggregate | Rank] = [*dict.fromkeys(plain)]
        if rank is not None:
            expressions += [rank] if self.flip() else []
        elif self.flip():
            expressions += [self.aggregate(scope) for _ in range(self.draw(st.integers(1, 2)))]
        expressions = expressions or [pool[0]]
        return tuple(
            Output(f"c{at}", each, getattr(each, "type", None) or F64)
            for at, each in enumerate(expressions)
        )

    def aggregate(self, scope: _Scope, *, is_measured: bool = False) -> Aggregate:
        scalars: list[Operand] = [*scope.scalars()]
        if not self.spellable and scope.nodes:
            found = self.expression(scope)
            scalars += [found] if found.type is not None and not found.type.is_list else []
        numbers = [each for each in scalars if each.type is not None and each.type.is_number]
        ordered = [
            each
            for each in scalars
            if each in numbers or (each.type is not None and each.type.base in ORDERED)
        ]
        function = self.draw(st.sampled_from(AggregateFunction))
        distinct = self.flip() and not self.spellable
        fraction = None
        if function is AggregateFunction.PERCENTILE:
            fraction = Constant(self.draw(st.sampled_from((0.0, 0.25, 0.5, 0.9, 1.0))), F64)
        if function in NUMERIC and numbers:
            return Aggregate(
                function,
                self.draw(st.sampled_from(numbers)),
                distinct and function not in NEVER_DISTINCT,
                F64.optional(),
                fraction=fraction,
            )
        if function is AggregateFunction.COLLECT and ordered and not is_measured:
            argument = self.draw(st.sampled_from(ordered))
            return Aggregate(function, argument, distinct, aggregate_type(function, argument))
        if function in (AggregateFunction.MIN, AggregateFunction.MAX) and ordered:
            argument = self.draw(st.sampled_from(ordered))
            assert argument.type is not None
            return Aggregate(function, argument, distinct, argument.type.optional())
        countable: list[Operand] = [*scope.ids(), *scalars, Constant(1, I64)]
        argument_counted = self.draw(st.sampled_from(countable))
        return Aggregate(AggregateFunction.COUNT, argument_counted, distinct, I64)

    def order(
        self, scope: _Scope, outputs: tuple[Output, ...], *, is_aggregate: bool
    ) -> tuple[Ordering, ...]:
        pool: list[Operand | int] = [*range(len(outputs))]
        pool += [] if is_aggregate else scope.scalars()
        if not is_aggregate and not self.spellable and scope.nodes:
            found = self.expression(scope)
            pool += [found] if found.type is not None and not found.type.is_list else []
        return tuple(
            Ordering(self.draw(st.sampled_from(pool)), descending=self.flip())
            for _ in range(self.draw(st.integers(0, 2)))
        )

    def rank(self, scope: _Scope) -> Rank | None:
        arms: dict[str, list[Nearest | Bm25]] = {}
        for each in scope.searchable():
            if each.variable in scope.edges:
                continue
            if each.type.is_vector:
                query = Constant((0.5, 0.0), each.type.required())
                # Thrice: it is the one rank function that keeps fewer nodes than it could.
                arms.setdefault(each.variable, []).extend([Nearest(each, query)] * 3)
            elif each.type.is_string and not each.type.is_list:
                arms.setdefault(each.variable, []).append(Bm25(each, self.word(_Scope())))
        if not arms:
            return None
        options = self.draw(st.sampled_from(sorted(arms.items())))[1]
        first, second = (self.draw(st.sampled_from(options)) for _ in range(2))
        return Rrf(first, second, Constant(60, I64)) if self.flip() else first


def types_in(each: NodeType | EdgeType) -> set[str]:
    """The names of the types that a variable may have."""
    return set(each.name.split(" | "))


def _shared(types: list[NodeType] | list[EdgeType]) -> NodeType | EdgeType:
    return types[0] if len(types) == 1 else share(types)


def _ways(edge: EdgeType) -> list[Way]:
    out = Way(edge.source, edge.name, Direction.OUT, edge.target)
    both = replace(out, direction=Direction.BOTH)
    return [out, out.reversed(), both] if edge.source == edge.target else [out, out.reversed()]


def _directions(node: NodeType, edge: EdgeType) -> list[Direction]:
    ways = [Direction.OUT] if edge.source == node.name else []
    ways += [Direction.IN] if edge.target == node.name else []
    return [*ways, Direction.BOTH] if len(ways) == 2 else ways


def _struct_of(each: NodeType | EdgeType) -> Struct:
    ends = ("@src", "@dst") if isinstance(each, EdgeType) else ()
    shown = [(p.name, p.type) for p in each.properties if not p.type.is_vector | p.type.is_blob]
    names = ("@id", TYPE_COLUMN, *ends) if len(types_in(each)) > 1 else ("@id", *ends)
    return Struct(tuple([(name, STRING) for name in names] + shown))


def _list_of(kind: ValueType) -> ValueType:
    return ValueType(kind.base, is_list=True, enum_values=kind.enum_values)
