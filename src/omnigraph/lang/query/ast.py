"""The tree of a `.gq` file: what was written, in the order it was written.

Values are frozen; two trees are equal if they have the same content, at whatever place. Names are
not resolved: `$x` is a `Variable` for a parameter and for a bound node, and a bare word is a `Word`
for an alias and for `null`.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.lang.source import NOWHERE, Span

WILDCARD = "_"
"""`$_`: any node; every occurrence is a variable of its own."""


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier and its place."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


# ── expressions ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number or boolean; `null` is a `Word` until it is resolved."""

    value: str | int | float | bool
    span: Span = field(default=NOWHERE, compare=False)

    def __eq__(self, other: object) -> bool:  # 1 == True in Python, never here
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Null:
    """`null`, where the grammar allows no other meaning."""

    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """`date("…")`; the text is checked later."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DateTimeLiteral:
    """`datetime("…")`; the text is checked later."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: "tuple[LiteralValue, ...]"
    span: Span = field(default=NOWHERE, compare=False)


LiteralValue = Literal | Null | DateLiteral | DateTimeLiteral | ListLiteral


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """`$variable.name`."""

    variable: Variable
    name: Name
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A bare identifier: an alias of an earlier projection, or `null`."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Now:
    span: Span = field(default=NOWHERE, compare=False)


class AggregateFunction(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"
    STDDEV = "stddev"
    PERCENTILE = "percentile"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count($x)`, `sum($x.n)`; `count(distinct $x.p)`, `percentile($x.n, 0.9)` are extensions."""

    function: AggregateFunction
    argument: "Expression"
    distinct: bool = False
    fraction: "Expression | None" = None
    """The second value; that only `percentile` takes one is checked later."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Nearest:
    """`nearest($x.v, query)`."""

    target: PropertyRef
    query: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


class TextFunction(StrEnum):
    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search(f, q)`, `match_text(f, q)` or `fuzzy(f, q, max_edits)`."""

    function: TextFunction
    target: "Expression"
    query: "Expression"
    max_edits: "Expression | None" = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bm25:
    target: "Expression"
    query: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rrf:
    first: Nearest | Bm25
    second: Nearest | Bm25
    k: "Expression | None" = None
    span: Span = field(default=NOWHERE, compare=False)


class ArithmeticOperator(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`."""

    left: "Expression"
    operator: ArithmeticOperator
    right: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-operand`, of anything but a number: `-2` is a literal."""

    operand: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`lower($x.p)`. The names of functions are no words of the grammar."""

    function: Name
    arguments: "tuple[Expression, ...]"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`cast(operand as Type)`; whether the function is called `cast` is checked later."""

    function: Name
    operand: "Expression"
    type_name: Name
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CaseArm:
    """`when condition then value`."""

    condition: "Expression"
    value: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """`case when … then … else … end`; with a subject, each branch compares it with a value."""

    subject: "Expression | None"
    branches: tuple[CaseArm, ...]
    otherwise: "Expression | None"
    span: Span = field(default=NOWHERE, compare=False)


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


class Operator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`. A text clause `search(f, q)` is the `TextMatch` itself, not a comparison."""

    left: "Expression"
    operator: Operator
    right: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`operand is null`, or `is not null` when negated."""

    operand: "Expression"
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Inversion:
    """`not (condition)`; `not { … }` is a `Negation`."""

    condition: "Expression"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`a or b or …`; at least two."""

    conditions: "tuple[Expression, ...]"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """`a and b and …`; at least two."""

    conditions: "tuple[Expression, ...]"
    span: Span = field(default=NOWHERE, compare=False)


Expression = (
    LiteralValue
    | Variable
    | PropertyRef
    | Word
    | Now
    | Aggregate
    | Nearest
    | TextMatch
    | Bm25
    | Rrf
    | Arithmetic
    | Negative
    | Call
    | Cast
    | CaseWhen
    | Comparison
    | NullTest
    | Inversion
    | AnyOf
    | AllOf
)

Condition = Expression
"""Where a truth value is meant: a condition is a value, and a Bool is a condition."""

# ── clauses of `match` ───────────────────────────────────────────────────────────────────────────

Value = LiteralValue | Variable | Now
"""The values of an inline match or an assignment."""


@dataclass(frozen=True, slots=True)
class Match:
    """`property: value` inside a binding."""

    name: Name
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """`$variable: Type { property: value, … }`; `Type | Type` and an interface are extensions."""

    variable: Variable
    type_name: Name
    matches: tuple[Match, ...]
    span: Span = field(default=NOWHERE, compare=False)
    other_types: tuple[Name, ...] = ()

    @property
    def type_names(self) -> tuple[Name, ...]:
        return (self.type_name, *self.other_types)


@dataclass(frozen=True, slots=True)
class Hops:
    """`{low,high}`; an absent `high` parses and is rejected by rule T15."""

    low: int
    high: int | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PathBinding:
    """`shortest { … } as $path`; `all shortest { … } by weight as $path`."""

    variable: Variable
    is_all: bool = False
    """Each shortest path, and not one of them."""
    weight: Name | None = None
    """The property of the edges that is added up."""


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$source edge{…} $target`, `$source $w:edge $target`, `$source <edge> $target`.

    `edge | edge` for several edge types is an extension, and so is
    `shortest { $source edge{…} $target } as $path`.
    """

    source: Variable
    edge_variable: Variable | None
    edge: Name
    undirected: bool
    hops: Hops | None
    target: Variable
    span: Span = field(default=NOWHERE, compare=False)
    other_edges: tuple[Name, ...] = ()
    path: PathBinding | None = None

    @property
    def edges(self) -> tuple[Name, ...]:
        return (self.edge, *self.other_edges)


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Condition
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { … }`."""

    clauses: "tuple[Clause, ...]"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class OptionalMatch:
    """`optional { … }`: a left join (extension)."""

    clauses: "tuple[Clause, ...]"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Existence:
    """`exists { … }`: the block has a solution (extension)."""

    clauses: "tuple[Clause, ...]"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Measure:
    """`count { … } > 2`, `sum($x.p) { … } > 100`: an aggregate over a block (extension)."""

    aggregate: Aggregate | None
    """None counts the solutions of the block."""
    clauses: "tuple[Clause, ...]"
    operator: Operator
    bound: Expression
    span: Span = field(default=NOWHERE, compare=False)


Block = Negation | OptionalMatch | Existence | Measure
"""A clause with clauses of its own."""

Clause = Binding | Traversal | Filter | Block

# ── queries ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TypeRef:
    """The type of a parameter, as written. Exactly one of `base`, `dimension` is set."""

    base: str | None
    dimension: int | None
    is_list: bool
    nullable: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: TypeRef
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Projection:
    expression: Expression
    alias: Name | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    """`descending` is None when neither `asc` nor `desc` was written."""

    expression: Expression
    descending: bool | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    having: Expression | None
    """What is asked of each group (extension)."""
    order: tuple[Ordering, ...]
    limit: Literal | Variable | None
    offset: Literal | Variable | None
    span: Span = field(default=NOWHERE, compare=False)
    unions: "tuple[Union, ...]" = ()
    stages: "tuple[Read, ...]" = ()
    """What stands before: each matches, and hands on to the next what its `with` names (extension).

    It has no unions and no stages of its own. `match` is empty only behind another stage.
    """


@dataclass(frozen=True, slots=True)
class Union:
    """`union match … return …`: the rows of another part, each row once (extension)."""

    is_all: bool
    """`union all` keeps every row."""
    part: Read
    """It has neither order, limit, offset nor unions: those belong to the whole."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TypedEnd:
    """`{ Person: "ada" }`: an end of an edge, with its type (extension)."""

    type_name: Name
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    name: Name
    value: Value | TypedEnd
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`property op value`: the one comparison of a mutation's `where`."""

    name: Name
    operator: Operator
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Insert:
    type_name: Name
    assignments: tuple[Assignment, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    type_name: Name
    assignments: tuple[Assignment, ...]
    where: Predicate
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    type_name: Name
    where: Predicate
    span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    statements: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    name: Name
    parameters: tuple[Parameter, ...]
    description: str | None
    instruction: str | None
    body: Read | Mutation
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class File:
    queries: tuple[Query, ...]
