"""A query with every name resolved and every expression typed; frozen values, no syntax trees.

A read is a pipeline of steps over rows. A row binds variables to nodes and edges. The first step
starts from one empty row, and each step takes rows to rows:

- `Scan` binds a node variable to every node of a type (a second scan is a cross-join);
- `Expand` walks an edge from a bound variable and binds its other end; when that end is bound
  already it keeps the rows for which the walk arrives there; from a variable that an optional
  block left unbound it leads nowhere;
- `ScanAny` and `ExpandAny` are both for a variable of several types: such a variable is told apart
  by type and id, since ids are unique within a type only;
- `EachPath` yields a row once for every shortest path between two of its variables, and binds the
  path (`all shortest { }`);
- `Stage` binds what an earlier stage of the read handed on (`with { }`); it is the first step;
- `Where` keeps rows for which its condition is true (null is not true);
- `Without` drops rows for which its steps, started from that one row, yield anything (`not { }`);
- `Within` keeps rows for which its steps yield something (`exists { }`);
- `Measured` keeps rows for which an aggregate over what its steps yield compares as wanted
  (`count { } > 2`); over nothing, a count is 0 and every other aggregate null;
- `Optionally` joins each row with what its steps yield for it, or, when they yield nothing, keeps
  it once with the inner variables unbound (`optional { }`): every property of an unbound variable
  is null, its id is null, and it counts as null.

`resolve` emits steps in the order of the language's execution model: scans and expands, then
filters, then optionals, then the other blocks. One kind of filter is not free to come that early: a
`Where` that reads a variable of an `Optionally` follows it, and so sees the rows it left unbound.
Passes may reorder whatever keeps the bag of rows.

Names are unique where they can meet: a block never binds a variable that the blocks around it bind
too, above or below it. Inline matches are filters of the step that binds their variable; those
that a block asks of a variable from outside are a `Where` of the block. An `Expand` over an edge
between two types has exactly one hop.

Values of constants and parameters are canonical Python: `str`, `int`, `float`, `bool`, `None`,
a tuple for lists and vectors; a Date is an `int` of days and a DateTime an `int` of milliseconds
since the epoch, as they are stored.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.catalog.names import ID, ID_PROPERTY, SYSTEM_ID
from omnigraph.catalog.types import Scalar, Struct, ValueType
from omnigraph.ids import TypeKind
from omnigraph.lang.source import NOWHERE, Span

Scalarish = str | int | float | bool | None
Value = Scalarish | tuple[Scalarish, ...]

STRING = ValueType(Scalar.STRING)
BOOL = ValueType(Scalar.BOOL)
I64 = ValueType(Scalar.I64)
F64 = ValueType(Scalar.F64)
DATE = ValueType(Scalar.DATE)
DATETIME = ValueType(Scalar.DATETIME)
UNSURE = BOOL.optional()
"""A Bool that may be unknown."""

WILDCARD_PREFIX = "~"
"""Each `$_` becomes a variable of its own with a name like `~1`, which no query can write and which
sorts after every name that one can."""

RESULT = "~result"
"""In `having`, the columns of the result are the properties of this variable."""

CARRIED = "~carried"
"""Behind `with`, the values that it hands on are the properties of this variable."""

NOW_PARAMETER = "__nanograph_now"
"""A caller may fix the instant of an execution under this name; no query may declare it."""

# ── expressions ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known now. The type of a bare `null` is None: it goes with every nullable type."""

    value: Value
    type: ValueType | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ParameterRef:
    name: str
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """A property of the node or edge bound to `variable`."""

    variable: str
    name: str
    """The column."""
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def spelling(self) -> str:
        """As programs spell it: `@id` is the system's, and `id` a property."""
        return spell_column(self.name)


@dataclass(frozen=True, slots=True)
class IdOf:
    """`$x` by itself: the id of the node bound to it."""

    variable: str
    type: ValueType = STRING
    span: Span = field(default=NOWHERE, compare=False)


class PathPart(StrEnum):
    LENGTH = "length"
    """How many edges it has."""
    NODES = "nodes"
    """The ids of its nodes, the two ends among them."""
    COST = "cost"
    """The sum of the weights of its edges."""


@dataclass(frozen=True, slots=True)
class PathOf:
    """A part of a shortest path from one node to another along edges of one type.

    With a weight it is the path whose weights have the smallest sum, and of those one with the
    fewest edges; an edge without a weight is closed. Of several such paths it is the one whose ids
    come first, compared from the end backwards.
    """

    part: PathPart
    source: IdOf
    target: IdOf
    edge: str
    direction: "Direction"
    """From the source."""
    hops_low: int
    hops_high: int | None
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)
    weight: str | None = None
    """The property of the edges that is added up; None if each counts one."""


@dataclass(frozen=True, slots=True)
class Now:
    """The one instant of this execution."""

    type: ValueType = DATETIME
    span: Span = field(default=NOWHERE, compare=False)


class Function(StrEnum):
    """What computes a value from values. `compiler.scalars` says what each one does."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"
    NEGATE = "negate"
    ABS = "abs"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    LOWER = "lower"
    UPPER = "upper"
    TRIM = "trim"
    LENGTH = "length"
    CONCAT = "concat"
    SUBSTRING = "substring"
    MATCHES = "matches"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    ADD_MONTHS = "add_months"
    ADD_DAYS = "add_days"
    ADD_MILLISECONDS = "add_milliseconds"
    DATE_DIFF = "date_diff"
    COALESCE = "coalesce"
    CAST = "cast"
    LEN = "len"
    AT = "at"


@dataclass(frozen=True, slots=True)
class Computed:
    """A function of other operands. A computation without a value, as by zero, is null."""

    function: Function
    arguments: "tuple[Operand, ...]"
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ChoiceArm:
    """A branch of a `Choice`."""

    condition: "Condition"
    value: "Operand"


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[ChoiceArm, ...]
    otherwise: "Operand"
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition as a Bool: null where it is unknown."""

    condition: "Condition"
    type: ValueType = UNSURE
    span: Span = field(default=NOWHERE, compare=False)


Operand = Constant | ParameterRef | PropertyOf | IdOf | PathOf | Now | Computed | Choice | Truth
"""What can be evaluated for one row."""


TYPE_COLUMN = "@type"
"""The name of the type of what a variable of several types is bound to; read like a property."""

OBJECT_COLUMNS = {SYSTEM_ID: ID, "@src": "src", "@dst": "dst", ID: ID_PROPERTY}
"""Columns by their names in programs and objects, where the two differ."""

_SPELLINGS = {column: name for name, column in OBJECT_COLUMNS.items()}


def spell_column(column: str) -> str:
    """A column as programs spell it: `id` is `@id`, and a property `id` is `id`."""
    return _SPELLINGS.get(column, column)


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """`$x` as a column: the node or edge bound to it, as an object; null if it is unbound."""

    variable: str
    type: ValueType
    """A struct: `@id`, of several types `@type`, of an edge `@src` and `@dst`, and the properties
    that an object shows."""
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def fields(self) -> "tuple[tuple[str, ValueType], ...]":
        """The columns of the table, and their types, in the order of the object."""
        assert isinstance(self.type.base, Struct)
        return tuple((OBJECT_COLUMNS.get(name, name), of) for name, of in self.type.base.fields)

    @property
    def is_typed(self) -> bool:
        """Does the object say its type, because it may be of several?"""
        return any(name == TYPE_COLUMN for name, _ in self.fields)


class AggregateFunction(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"
    """The values in ascending order; over none, an empty list."""
    STDDEV = "stddev"
    """Of a sample: null for fewer than two values."""
    PERCENTILE = "percentile"
    """Between two values it is interpolated, as SQL's `percentile_cont`."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Over the rows of a group. `type` is the type of the result."""

    function: AggregateFunction
    argument: Operand
    distinct: bool
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)
    fraction: Operand | None = None
    """Of a percentile: from 0 to 1, the same for every row."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """L2 distance of a vector property to `query`: a vector, or a String to be embedded."""

    target: PropertyOf
    query: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bm25:
    """Full-text score of a String property for `query`."""

    target: PropertyOf
    query: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Operand
    span: Span = field(default=NOWHERE, compare=False)


Rank = Nearest | Bm25 | Rrf

# ── conditions ───────────────────────────────────────────────────────────────────────────────────


class Comparator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """By value, losslessly across number types; unknown when either side is null."""

    left: Operand
    comparator: Comparator
    right: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """`needle` equals an element of `haystack`: `contains`, `in`, a match on a list property."""

    needle: Operand
    haystack: "Operand | tuple[Operand, ...]"
    span: Span = field(default=NOWHERE, compare=False)


class StringTest(StrEnum):
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


@dataclass(frozen=True, slots=True)
class StringMatch:
    """An exact, case-sensitive substring or prefix; unknown when either side is null."""

    subject: Operand
    test: StringTest
    pattern: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """Never unknown."""

    operand: Operand
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


class TextFunction(StrEnum):
    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A full-text clause on a String property; `max_edits` only for fuzzy."""

    function: TextFunction
    target: PropertyOf
    query: Operand
    max_edits: Operand | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when all are; the empty one is true."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one is; the empty one is false."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """True when the test is false. It is one test: `not` moves inwards through `and` and `or`."""

    test: Compare | Member | StringMatch


Condition = Compare | Member | StringMatch | NullTest | TextMatch | Not | AllOf | AnyOf

ALWAYS = AllOf(())
NEVER = AnyOf(())

# ── steps ────────────────────────────────────────────────────────────────────────────────────────


class Direction(StrEnum):
    """Which way an edge is walked from the variable the walk starts at."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    def reversed(self) -> "Direction":
        match self:
            case Direction.OUT:
                return Direction.IN
            case Direction.IN:
                return Direction.OUT
            case Direction.BOTH:
                return Direction.BOTH


@dataclass(frozen=True, slots=True)
class Scan:
    """Bind `variable` to every node of `type_name` for which all `filters` are true."""

    variable: str
    type_name: str
    filters: tuple[Condition, ...] = ()
    """Conditions on this variable alone (and constants, parameters, now)."""
    columns: tuple[str, ...] | None = None
    """The properties later steps read, sorted; None until pruned."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Expand:
    """Walk `edge` from `source`, which is bound, to `target`.

    Without `edge_variable`: one row per input row and distinct target at distance `hops_low` to
    `hops_high`, by breadth-first search. The distance of two nodes is the length of a shortest
    path; of a node and itself it is 0, and by a self-loop also 1. So a walk relates the same pairs
    from either end. With an edge variable: one row per edge, one hop.
    """

    source: str
    edge: str
    direction: Direction
    target: str
    target_type: str
    hops_low: int = 1
    """From 0 only over an edge within one type."""
    hops_high: int | None = 1
    """None: as far as the settings allow."""
    edge_variable: str | None = None
    filters: tuple[Condition, ...] = ()
    """Conditions on the target or the edge variable alone."""
    columns: tuple[str, ...] | None = None
    """The properties of the target that later steps read; None until pruned."""
    edge_columns: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ScanAny:
    """Bind `variable` to every node of several types for which all `filters` are true."""

    variable: str
    types: tuple[str, ...]
    """At least two, sorted."""
    filters: tuple[Condition, ...] = ()
    columns: tuple[str, ...] | None = None
    """The properties, or `@type`, that later steps read, sorted; None until pruned."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One edge type of an `ExpandAny`, as it is walked."""

    source_type: str
    edge: str
    direction: Direction
    target_type: str

    def reversed(self) -> "Way":
        return Way(self.target_type, self.edge, self.direction.reversed(), self.source_type)


@dataclass(frozen=True, slots=True)
class ExpandAny:
    """Walk one of several ways from `source`, which is bound, to `target`.

    It is an `Expand` over the edges of all ways together: without `edge_variable` one row per input
    row and distinct target, however many ways lead there, and the hops of one walk may go different
    ways. A node of another type than the ways start from leads nowhere.
    """

    source: str
    ways: tuple[Way, ...]
    """Sorted and distinct. One hop goes only where the target may be; more may pass other types."""
    target: str
    target_types: tuple[str, ...]
    """What the target may be, sorted; a walk that ends elsewhere is none."""
    hops_low: int = 1
    """After no hop, a node whose type is none of the target's is not there."""
    hops_high: int | None = 1
    edge_variable: str | None = None
    filters: tuple[Condition, ...] = ()
    columns: tuple[str, ...] | None = None
    edge_columns: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def edges(self) -> tuple[str, ...]:
        """The edge types, sorted."""
        return tuple(sorted({each.edge for each in self.ways}))

    @property
    def source_types(self) -> tuple[str, ...]:
        return tuple(sorted({each.source_type for each in self.ways}))


@dataclass(frozen=True, slots=True)
class CarriedVariable:
    """A node or an edge that a stage hands on: its id, and of several types also its type."""

    variable: str
    kind: TypeKind
    types: tuple[str, ...]
    """Sorted."""
    columns: tuple[str, ...] | None = None
    """The properties later steps read, sorted; None until pruned."""

    @property
    def id_column(self) -> str:
        """The column of the stage that has its id, null if it is unbound."""
        return self.variable

    @property
    def type_column(self) -> str:
        """The column of the stage that has the name of its type, if there are several."""
        return f"{self.variable}.{TYPE_COLUMN}"


@dataclass(frozen=True, slots=True)
class Stage:
    """Begin with the rows of `read`: bind its variables again, and its values to `CARRIED`."""

    read: "Read"
    variables: tuple[CarriedVariable, ...]


@dataclass(frozen=True, slots=True)
class EachPath:
    """Each row once for every path that `path` could be, bound to `variable`.

    The parts of a path are its properties. A row without a path is dropped.
    """

    variable: str
    path: PathOf
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Where:
    condition: Condition


@dataclass(frozen=True, slots=True)
class Without:
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Optionally:
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Within:
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Measured:
    steps: "tuple[Step, ...]"
    aggregate: Aggregate
    """Reads variables of the block and of the blocks around it; a constant counts solutions."""
    comparator: Comparator
    bound: Operand
    """Reads variables around the block only."""


Test = Without | Within | Measured
"""A block that keeps a row or drops it, by what its steps yield for that row."""

Binder = Scan | ScanAny | Expand | ExpandAny
"""A step that makes rows; it has conditions of its own."""

Step = Stage | Binder | EachPath | Where | Test | Optionally

# ── queries ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: ValueType
    is_count: bool = False
    """It is a `limit` or an `offset`: a negative value is refused when it is bound."""
    is_pattern: bool = False
    """It is a pattern of `matches`, which is compiled when it is bound."""
    is_fraction: bool = False
    """It is the fraction of a `percentile`: a value beyond 0 and 1 is refused when it is bound."""

    @property
    def is_plain_text(self) -> bool:
        """Does any text that can be encoded fit?"""
        return self.type.base is Scalar.STRING and not (self.type.is_list or self.is_pattern)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str
    expression: Operand | ObjectOf | Aggregate | Rank
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Nulls are smallest. An `int` is the position of an output."""

    key: Operand | Rank | int
    descending: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    name: str
    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    order: tuple[Ordering, ...] = ()
    limit: int | ParameterRef | None = None
    offset: int | ParameterRef | None = None
    having: Condition | None = None
    """What is asked of each group; it reads the columns of `RESULT`."""
    unions: "tuple[Union, ...]" = ()
    """What the rows of this part are joined with. The order is then by columns, and the order, the
    limit and the offset are those of the whole."""

    @property
    def is_aggregate(self) -> bool:
        return any(isinstance(each.expression, Aggregate) for each in self.outputs)

    @property
    def parts(self) -> "tuple[Read, ...]":
        """The first part, then those of the unions; each behind the stages that it goes on from."""
        before = self.stage
        stages = () if before is None else before.read.parts
        return (*stages, self, *(part for each in self.unions for part in each.read.parts))

    @property
    def stage(self) -> Stage | None:
        """What it goes on from."""
        first = self.steps[0] if self.steps else None
        return first if isinstance(first, Stage) else None


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of another part, behind those of the parts before it."""

    read: Read
    """Its columns have the names and types of the first part's."""
    distinct: bool
    """Each row once, those of the parts before it included."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column gets a value. `from` and `to` of an edge are the columns `src` and `dst`."""

    column: str
    type: ValueType
    value: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Insert:
    kind: TypeKind
    type_name: str
    assignments: tuple[Assignment, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    column: str
    type: ValueType
    comparator: Comparator
    value: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Predicate
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    kind: TypeKind
    type_name: str
    where: Predicate
    span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]


Query = Read | Mutation
