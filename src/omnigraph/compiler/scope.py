"""What expressions read, and what steps bind.

Everything that rewrites or lowers a read asks these questions; none of the answers needs the
catalog.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.compiler.ir import (
    CARRIED,
    WILDCARD_PREFIX,
    Aggregate,
    AllOf,
    AnyOf,
    Bm25,
    Choice,
    Compare,
    Computed,
    Condition,
    Constant,
    EachPath,
    Expand,
    ExpandAny,
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
    ParameterRef,
    PathOf,
    PropertyOf,
    Rank,
    Read,
    Rrf,
    Scan,
    ScanAny,
    Stage,
    Step,
    StringMatch,
    TextMatch,
    Truth,
    Where,
    Within,
    Without,
)


def is_named(variable: str) -> bool:
    """Not the variable of a wildcard."""
    return not variable.startswith(WILDCARD_PREFIX)


def leaves_of(operand: Operand) -> Iterator[Operand]:
    """The constants, parameters and properties that an operand is computed from."""
    match operand:
        case Computed(arguments=arguments):
            for each in arguments:
                yield from leaves_of(each)
        case Choice(branches, otherwise):
            for branch in branches:
                yield from operands_of(branch.condition)
                yield from leaves_of(branch.value)
            yield from leaves_of(otherwise)
        case Truth(condition):
            yield from operands_of(condition)
        case PathOf(_, source, target):
            yield source
            yield target
        case Constant() | ParameterRef() | PropertyOf() | IdOf() | Now():
            yield operand
        case _:
            assert_never(operand)


def operands_of(condition: Condition) -> Iterator[Operand]:
    """Every leaf of every operand, from left to right."""
    match condition:
        case Compare(left, _, right):
            yield from leaves_of(left)
            yield from leaves_of(right)
        case Member(needle, haystack):
            yield from leaves_of(needle)
            for each in haystack if isinstance(haystack, tuple) else (haystack,):
                yield from leaves_of(each)
        case StringMatch(subject, _, pattern):
            yield from leaves_of(subject)
            yield from leaves_of(pattern)
        case NullTest(operand):
            yield from leaves_of(operand)
        case TextMatch(_, target, query, max_edits):
            yield target
            yield query
            if max_edits is not None:
                yield max_edits
        case Not(test):
            yield from operands_of(test)
        case AllOf(conditions) | AnyOf(conditions):
            for part in conditions:
                yield from operands_of(part)
        case _:
            assert_never(condition)


def operands_in(expression: Operand | ObjectOf | Aggregate | Rank) -> Iterator[Operand]:
    """Every leaf of an expression."""
    match expression:
        case ObjectOf(variable):
            yield IdOf(variable)
            for name, of in expression.fields:
                if name != "id":
                    yield PropertyOf(variable, name, of)
        case Aggregate(_, argument):
            yield from leaves_of(argument)
        case Nearest(target, query) | Bm25(target, query):
            yield target
            yield query
        case Rrf(first, second, k):
            yield from operands_in(first)
            yield from operands_in(second)
            yield k
        case _:
            yield from leaves_of(expression)


def variables_in(operands: Iterable[Operand]) -> frozenset[str]:
    return frozenset(each.variable for each in operands if isinstance(each, PropertyOf | IdOf))


def variables_of(condition: Condition) -> frozenset[str]:
    """The variables a condition reads; none when it can be decided once for the execution."""
    return variables_in(operands_of(condition))


def conjuncts_of(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that must all be true for this one to be."""
    if isinstance(condition, AllOf):
        return tuple(part for each in condition.conditions for part in conjuncts_of(each))
    return (condition,)


def atoms_of(condition: Condition) -> tuple[Condition, ...]:
    """The single tests that a condition is made of."""
    if isinstance(condition, AllOf | AnyOf):
        return tuple(atom for each in condition.conditions for atom in atoms_of(each))
    return (condition,)


def conditions_in(steps: Iterable[Step]) -> Iterator[Condition]:
    """Every single test of these steps, inside their blocks too."""
    for step in steps:
        match step:
            case Scan() | ScanAny() | Expand() | ExpandAny():
                for each in step.filters:
                    yield from atoms_of(each)
            case Where(condition):
                yield from atoms_of(condition)
            case Without(inner) | Within(inner) | Measured(inner) | Optionally(inner):
                yield from conditions_in(inner)
            case EachPath() | Stage():
                pass  # a stage is a part of its own
            case _:
                assert_never(step)


def step_operands(step: Step) -> Iterator[Operand]:
    """What a step evaluates, inside its blocks too."""
    match step:
        case Scan() | ScanAny() | Expand() | ExpandAny():
            for each in step.filters:
                yield from operands_of(each)
        case Where(condition):
            yield from operands_of(condition)
        case Without(steps) | Within(steps) | Optionally(steps):
            for inner in steps:
                yield from step_operands(inner)
        case Measured(steps, aggregate, _, bound):
            for inner in steps:
                yield from step_operands(inner)
            yield from operands_in(aggregate)
            yield from leaves_of(bound)
        case EachPath(path=path):
            yield from leaves_of(path)
        case Stage():
            pass
        case _:
            assert_never(step)


def bound_by(steps: Iterable[Step]) -> tuple[str, ...]:
    """The variables that rows have after these steps, in the order in which they got them."""
    bound: dict[str, None] = {}
    for step in steps:
        match step:
            case Scan(variable) | ScanAny(variable) | EachPath(variable):
                bound[variable] = None
            case Stage(variables=carried):
                bound |= dict.fromkeys((*(each.variable for each in carried), CARRIED))
            case (
                Expand(target=target, edge_variable=edge_variable)
                | ExpandAny(target=target, edge_variable=edge_variable)
            ):
                bound[target] = None
                if edge_variable is not None:
                    bound[edge_variable] = None
            case Optionally(inner):
                bound.update(dict.fromkeys(bound_by(inner)))
            case Where() | Without() | Within() | Measured():
                pass
            case _:
                assert_never(step)
    return tuple(bound)


def mentioned_in(steps: Iterable[Step]) -> frozenset[str]:
    """Every variable that these steps read, walk from, or bind."""
    names: set[str] = set()
    for step in steps:
        names |= variables_in(step_operands(step))
        match step:
            case Scan(variable) | ScanAny(variable) | EachPath(variable):
                names.add(variable)
            case (
                Expand(source=source, target=target, edge_variable=edge_variable)
                | ExpandAny(source=source, target=target, edge_variable=edge_variable)
            ):
                names |= {source, target} | ({edge_variable} if edge_variable else set())
            case Without(inner) | Within(inner) | Measured(inner) | Optionally(inner):
                names |= mentioned_in(inner)
            case Stage():
                names |= set(bound_by([step]))
            case Where():
                pass
            case _:
                assert_never(step)
    return frozenset(names)


def ranking_of(query: Read) -> Rank | None:
    """The rank function that orders this query. Only the first key can be one."""
    if not query.order:
        return None
    key = query.order[0].key
    expression = query.outputs[key].expression if isinstance(key, int) else key
    return expression if isinstance(expression, Nearest | Bm25 | Rrf) else None


def ranked_variable(rank: Rank) -> str:
    """Both arms of a fusion rank the same variable."""
    match rank:
        case Nearest(target) | Bm25(target):
            return target.variable
        case Rrf(first):
            return first.target.variable
        case _:
            assert_never(rank)


def selected_by_rank(query: Read) -> str | None:
    """The variable whose best nodes are picked before anything is joined to them.

    A rank function of a scanned variable selects: only that variable's own conditions narrow the
    candidates, and rows that fail for another reason are not replaced by the next best. A rank
    function of a variable that is reached by walking orders the finished rows instead. Passes
    must therefore neither scan a ranked variable that was reached, nor reach one that was scanned.
    """
    rank = ranking_of(query)
    if rank is None:
        return None
    variable = ranked_variable(rank)
    scanned = any(isinstance(each, Scan) and each.variable == variable for each in query.steps)
    return variable if scanned else None
