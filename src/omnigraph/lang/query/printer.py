"""Tree → text, in one canonical layout. Parsing the text gives the tree back.

This holds for every tree that the parser can make. Comments are not part of a tree and are lost.
Parentheses are not part of a tree either; they are printed where the text would otherwise be parsed
differently.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import assert_never

from omnigraph.lang.query import ast
from omnigraph.lang.syntax import ESCAPES

WIDTH_MAX = 100
"""A brace that would end beyond this column is printed on several lines."""

_ESCAPED = str.maketrans({meant: f"\\{letter}" for letter, meant in ESCAPES.items()})

_WORD_OPERATORS = frozenset({ast.Operator.CONTAINS, ast.Operator.STARTS_WITH, ast.Operator.IN})

_FUNCTIONS = frozenset(
    {
        *ast.AggregateFunction,
        *ast.TextFunction,
        *("now", "nearest", "bm25", "rrf", "date", "datetime"),
    }
)
"""Before a parenthesis these words begin a call."""

_CONTINUATIONS = frozenset({"and", "or", "is", *_WORD_OPERATORS})
"""After a condition these words continue it."""


def print_file(file: ast.File) -> str:
    """The program, an empty line between queries."""
    return "\n".join(print_query(query) for query in file.queries)


def print_query(query: ast.Query) -> str:
    """One query, ending with a line break."""
    parameters = ", ".join(f"${each.name}: {print_type(each.type)}" for each in query.parameters)
    head = f"query {query.name.text}({parameters})"
    annotations = [
        f"  @{kind}({_string(text)})"
        for kind, text in (("description", query.description), ("instruction", query.instruction))
        if text is not None
    ]
    opening = [head, *annotations, "{"] if annotations else [f"{head} {{"]
    return "\n".join([*opening, *_indented(_body(query.body)), "}", ""])


def print_type(written: ast.TypeRef) -> str:
    """`[String]?`, `Vector(3)`."""
    core = str(written.base) if written.dimension is None else f"Vector({written.dimension})"
    return f"{f'[{core}]' if written.is_list else core}{'?' if written.nullable else ''}"


def print_expression(expression: ast.Expression) -> str:
    match expression:
        case (
            ast.Literal()
            | ast.Null()
            | ast.DateLiteral()
            | ast.DateTimeLiteral()
            | ast.ListLiteral()
            | ast.Variable()
            | ast.Now()
        ):
            return _value(expression)
        case ast.PropertyRef(variable, name):
            return f"${variable.name}.{name.text}"
        case ast.Word(text):
            return text
        case ast.Aggregate(function, argument, distinct):
            modifier = "distinct " if distinct else ""
            return f"{function}({modifier}{print_expression(argument)})"
        case ast.TextMatch():
            return _text_match(expression)
        case ast.Nearest(target, query):
            return _call("nearest", target, query)
        case ast.Bm25(target, query):
            return _call("bm25", target, query)
        case ast.Rrf(first, second, k):
            return _call("rrf", first, second, k)
        case _:
            assert_never(expression)


def print_condition(condition: ast.Condition) -> str:
    match condition:
        case ast.Comparison(left, operator, right):
            text = f"{print_expression(left)} {operator} {print_expression(right)}"
            # Without parentheses this would be a traversal.
            is_traversal = (
                isinstance(left, ast.Variable)
                and operator in _WORD_OPERATORS
                and isinstance(right, ast.Variable)
            )
            return f"({text})" if is_traversal else text
        case ast.NullTest(operand, negated):
            return f"{print_expression(operand)} is {'not ' if negated else ''}null"
        case ast.TextMatch():
            return _text_match(condition)
        case ast.AnyOf(conditions):
            return " or ".join(_operand(each, within=ast.AnyOf) for each in conditions)
        case ast.AllOf(conditions):
            return " and ".join(_operand(each, within=ast.AllOf) for each in conditions)
        case _:
            assert_never(condition)


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────


def _body(body: ast.Read | ast.Mutation) -> list[str]:
    match body:
        case ast.Read():
            return _read(body)
        case ast.Mutation(statements):
            return [line for each in statements for line in _statement(each)]
        case _:
            assert_never(body)


def _read(read: ast.Read) -> list[str]:
    lines = [*_block("match", read.match), *_braces("return", map(_projection, read.returns))]
    if read.order:
        lines.extend(_braces("order", map(_ordering, read.order)))
    if read.limit is not None:
        lines.append(f"limit {_value(read.limit)}")
    if read.offset is not None:
        lines.append(f"offset {_value(read.offset)}")
    return lines


def _projection(projection: ast.Projection) -> str:
    text = print_expression(projection.expression)
    return text if projection.alias is None else f"{text} as {projection.alias.text}"


def _ordering(ordering: ast.Ordering) -> str:
    text = print_expression(ordering.expression)
    if ordering.descending is None:
        return text
    return f"{text} {'desc' if ordering.descending else 'asc'}"


def _statement(statement: ast.Statement) -> list[str]:
    match statement:
        case ast.Insert(type_name, assignments):
            return _braces(f"insert {type_name.text}", map(_entry, assignments))
        case ast.Update(type_name, assignments, where):
            *lines, last = _braces(f"update {type_name.text} set", map(_entry, assignments))
            return [*lines, f"{last} where {_predicate(where)}"]
        case ast.Delete(type_name, where):
            return [f"delete {type_name.text} where {_predicate(where)}"]
        case _:
            assert_never(statement)


def _entry(entry: ast.Assignment | ast.Match) -> str:
    return f"{entry.name.text}: {_value(entry.value)}"


def _predicate(predicate: ast.Predicate) -> str:
    return f"{predicate.name.text} {predicate.operator} {_value(predicate.value)}"


# ── clauses ──────────────────────────────────────────────────────────────────────────────────────


def _block(head: str, clauses: Sequence[ast.Clause]) -> list[str]:
    inner = [line for each in clauses for line in _clause(each)]
    return [f"{head} {{", *_indented(inner), "}"]


def _clause(clause: ast.Clause) -> list[str]:
    match clause:
        case ast.Binding(variable, type_name, matches):
            head = f"${variable.name}: {type_name.text}"
            return _braces(head, map(_entry, matches)) if matches else [head]
        case ast.Traversal():
            return [_traversal(clause)]
        case ast.Filter(condition):
            text = print_condition(condition)
            is_apart = _first_word(condition) in _CONTINUATIONS or (
                _last_word(condition) in _FUNCTIONS
            )
            return [f"({text})" if is_apart else text]
        case ast.Negation(clauses):
            return _block("not", clauses)
        case ast.OptionalMatch(clauses):
            return _block("optional", clauses)
        case ast.Existence(clauses):
            return _block("exists", clauses)
        case ast.Measure(aggregate, clauses, operator, bound):
            head = "count" if aggregate is None else print_expression(aggregate)
            *lines, last = _block(head, clauses)
            return [*lines, f"{last} {operator} {print_expression(bound)}"]
        case _:
            assert_never(clause)


def _traversal(traversal: ast.Traversal) -> str:
    edge = f"<{traversal.edge.text}>" if traversal.undirected else traversal.edge.text
    if traversal.edge_variable is not None:
        edge = f"${traversal.edge_variable.name}:{edge}"
    if traversal.hops is not None:
        high = "" if traversal.hops.high is None else str(traversal.hops.high)
        edge = f"{edge}{{{traversal.hops.low},{high}}}"
    return f"${traversal.source.name} {edge} ${traversal.target.name}"


def _operand(condition: ast.Condition, *, within: type[ast.AnyOf | ast.AllOf]) -> str:
    text = print_condition(condition)
    is_apart = isinstance(condition, ast.AnyOf) or (
        isinstance(condition, ast.AllOf) and within is ast.AllOf
    )
    return f"({text})" if is_apart else text


def _first_word(condition: ast.Condition) -> str | None:
    """The bare word that a condition begins with, if it does."""
    match condition:
        case ast.Comparison(ast.Word(text)) | ast.NullTest(ast.Word(text)):
            return text
        case ast.AnyOf(conditions) | ast.AllOf(conditions):
            return _first_word(conditions[0])
        case _:
            return None


def _last_word(condition: ast.Condition) -> str | None:
    """The bare word that a condition ends with, if it does."""
    match condition:
        case ast.Comparison(right=ast.Word(text)):
            return text
        case ast.AnyOf(conditions) | ast.AllOf(conditions):
            return _last_word(conditions[-1])
        case _:
            return None


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def _value(value: ast.Value) -> str:
    match value:
        case ast.Literal():
            return _literal(value.value)
        case ast.Null():
            return "null"
        case ast.DateLiteral(text):
            return f"date({_string(text)})"
        case ast.DateTimeLiteral(text):
            return f"datetime({_string(text)})"
        case ast.ListLiteral(items):
            return f"[{', '.join(map(_value, items))}]"
        case ast.Variable(name):
            return f"${name}"
        case ast.Now():
            return "now()"
        case _:
            assert_never(value)


def _literal(value: str | float) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int():
            return str(value)
        case _:
            # The language has no exponents, so 1e300 is written with all of its zeros.
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"


def _string(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def _text_match(text_match: ast.TextMatch) -> str:
    return _call(text_match.function, text_match.target, text_match.query, text_match.max_edits)


def _call(function: str, *arguments: ast.Expression | None) -> str:
    given = (print_expression(each) for each in arguments if each is not None)
    return f"{function}({', '.join(given)})"


# ── layout ───────────────────────────────────────────────────────────────────────────────────────


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _braces(head: str, entries: Iterable[str]) -> list[str]:
    listed = list(entries)
    line = f"{head} {{ {', '.join(listed)} }}"
    if len(line) <= WIDTH_MAX:
        return [line]
    return [f"{head} {{", *_indented(f"{each}," for each in listed[:-1]), f"  {listed[-1]}", "}"]
