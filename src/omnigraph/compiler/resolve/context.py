"""What is known while one query is resolved: its catalog, its parameters, its scopes, its faults.

A name that cannot be resolved is reported once. What depends on it becomes None, or a variable of
unknown type, and is skipped without a second report: one slip gives one diagnostic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.compiler.ir import WILDCARD_PREFIX, Direction, Operand, Parameter
from omnigraph.compiler.typecheck import TypeProblem
from omnigraph.ids import TypeKind
from omnigraph.lang.query import ast
from omnigraph.lang.source import Diagnostic, Source, Span, sort_diagnostics


class Context:
    """One query under resolution. Collects every fault; nothing here raises."""

    def __init__(self, catalog: Catalog, source: Source) -> None:
        self.catalog = catalog
        self.source = source
        self.parameters: Mapping[str, Parameter] = {}
        self.pattern: tuple[ast.Clause, ...] = ()
        """The clauses of the read: a variable that is missing may be bound further down."""
        self.mistyped: set[str] = set()
        """Parameters with a wrong type: expressions that use them are not checked."""
        self.counts: set[str] = set()
        """The parameters that are used as `limit` or `offset`."""
        self.patterns: set[str] = set()
        """The parameters that are used as the pattern of `matches`."""
        self.fractions: set[str] = set()
        """The parameters that are used as the fraction of `percentile`."""
        self.carried: Mapping[str, Operand | None] = {}
        """What `with` handed on to this stage, by name; None if it is wrong and was reported."""
        self.aliases: Mapping[str, Operand | None] = {}
        """What bare words stand for: what is carried, and in `order` the aliases of `return`."""
        self._diagnostics: list[Diagnostic] = []
        self._wildcards = count(1)

    def report(self, problem: TypeProblem, span: Span) -> None:
        self._diagnostics.append(
            Diagnostic(
                code=problem.rule.value,
                family="type error",
                message=problem.message,
                source=self.source,
                span=span,
                hint=problem.hint,
                expected=problem.expected,
                candidates=problem.candidates,
            )
        )

    @property
    def fault_count(self) -> int:
        return len(self._diagnostics)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return sort_diagnostics(self._diagnostics)

    def fresh_variable(self) -> str:
        """A variable for one `$_`."""
        return f"{WILDCARD_PREFIX}{next(self._wildcards)}"

    def type_of(self, bound: "BoundVariable") -> NodeType | EdgeType | None:
        """The type of a variable; of several types, what they share."""
        types = self.types_of(bound)
        if len(types) < 2:
            return next(iter(types), None)
        return share(types)

    def types_of(self, bound: "BoundVariable") -> tuple[NodeType | EdgeType, ...]:
        find = self.catalog.edge if bound.kind == "edge" else self.catalog.node
        return tuple(found for each in bound.types if (found := find(each)) is not None)


def share(types: Sequence[NodeType | EdgeType]) -> NodeType | EdgeType:
    """A type with what all these have: properties of one name and type, null where one may be."""
    first = types[0]
    shared: list[Property] = []
    for own in first.properties:
        found = [each.find(own.name) for each in types]
        held = [each.type for each in found if each is not None]
        if len(held) == len(types) and len({each.required() for each in held}) == 1:
            is_null = any(each.nullable for each in held)
            shared.append(Property(own.name, own.type.optional() if is_null else own.type))
    name = " | ".join(each.name for each in types)
    if isinstance(first, EdgeType):
        return EdgeType(name, "", "", tuple(shared))
    return NodeType(name, tuple(shared))


@dataclass(frozen=True, slots=True)
class BoundVariable:
    """A variable: what it stands for, and whether an `optional` may leave it unbound."""

    kind: TypeKind
    types: tuple[str, ...]
    """Sorted; empty when the type was wrong and has been reported."""
    optional: bool = False

    @property
    def type_name(self) -> str | None:
        """As messages name it: `Comment | Post`."""
        return " | ".join(self.types) or None

    @property
    def is_several(self) -> bool:
        return len(self.types) > 1


@dataclass(frozen=True, slots=True)
class ShortestWalk:
    """What a shortest path follows, from the variable on the left to the one on the right."""

    name: str
    source: str
    target: str
    edge: str | None
    """None when the traversal was wrong and has been reported."""
    direction: Direction
    hops: tuple[int, int | None]
    is_all: bool = False
    """Each row has one path of all that there are, and is there once for each."""
    weight: Property | None = None
    """The property of the edges that is added up."""


@dataclass
class BlockScope:
    """The variables of one block, within those of the blocks around it."""

    outer: "BlockScope | None" = None
    variables: dict[str, BoundVariable] = field(default_factory=dict)
    """Those this block binds, those its optional blocks handed out included."""
    paths: dict[str, "ShortestWalk"] = field(default_factory=dict)
    """The shortest paths of this block by name; they are no nodes and no edges."""
    sealed: set[str] = field(default_factory=set)
    """Variables of `not` blocks below: local to them, so they must not be bound here later."""
    is_stage: bool = False
    """It holds what an earlier stage handed on, and is no block."""

    def find(self, name: str) -> BoundVariable | None:
        scope: BlockScope | None = self
        while scope is not None:
            found = scope.variables.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def find_path(self, name: str) -> "ShortestWalk | None":
        found = self.paths.get(name)
        if found is None and self.outer is not None:
            return self.outer.find_path(name)
        return found

    def find_outer(self, name: str) -> BoundVariable | None:
        return None if self.outer is None else self.outer.find(name)

    def names(self) -> Iterator[str]:
        yield from self.variables
        if self.outer is not None:
            yield from self.outer.names()
