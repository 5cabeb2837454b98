"""Tree → text, in one canonical layout. Parsing the text gives the tree back.

This holds for every tree that the parser can make. Comments are not part of a tree and are lost.
Parentheses are not part of a tree either; they are printed where the text would otherwise be parsed
differently.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import assert_never

from omnigraph.lang.query import ast
from omnigraph.lang.syntax import ESCAPES

WIDTH_MAX = 100
"""A brace that would end beyond this column is printed on several lines."""

_ESCAPED = str.maketrans({meant: f"\\{letter}" for letter, meant in ESCAPES.items()})

_WORD_OPERATORS = frozenset({ast.Operator.CONTAINS, ast.Operator.STARTS_WITH, ast.Operator.IN})

_CONTINUATION = re.compile(r"-|(?:and|or|is|contains|starts_with|in)\b")
"""What begins like this continues the condition before it."""

_OPENERS = frozenset({"case", "not", "distinct"})
"""Words that begin a longer expression, unless they stand by themselves."""

# How tightly expressions bind; one that binds less tightly than its place needs parentheses.
_ANY, _ALL, _TEST, _SUM, _PRODUCT, _SIGN, _ATOM = range(7)


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
        case ast.Aggregate(function, argument, distinct, fraction):
            modifier = "distinct " if distinct else ""
            rest = "" if fraction is None else f", {print_expression(fraction)}"
            return f"{function}({modifier}{print_expression(argument)}{rest})"
        case ast.TextMatch(function, target, query, max_edits):
            return _call(function, target, query, max_edits)
        case ast.Nearest(target, query):
            return _call("nearest", target, query)
        case ast.Bm25(target, query):
            return _call("bm25", target, query)
        case ast.Rrf(first, second, k):
            return _call("rrf", first, second, k)
        case ast.Call(function, arguments):
            return _call(function.text, *arguments)
        case ast.Cast(function, operand, type_name):
            return f"{function.text}({print_expression(operand)} as {type_name.text})"
        case ast.CaseWhen():
            return _case(expression)
        case ast.Arithmetic() | ast.Negative():
            return _arithmetic(expression)
        case ast.Comparison() | ast.NullTest() | ast.Inversion() | ast.AnyOf() | ast.AllOf():
            return _condition(expression)
        case _:
            assert_never(expression)


def _arithmetic(expression: ast.Arithmetic | ast.Negative) -> str:
    match expression:
        case ast.Arithmetic(left, operator, right):
            binding = _binding(expression)
            return f"{_within(left, binding)} {operator} {_within(right, binding + 1)}"
        case ast.Negative(operand):
            text = _within(operand, _SIGN)
            # With its sign, a number would be another literal.
            return f"-({text})" if text[0].isdigit() or text[0] == "-" else f"-{text}"
        case _:
            assert_never(expression)


def _case(case: ast.CaseWhen) -> str:
    parts = ["case"]
    match case.subject:
        case None:
            pass
        case ast.Variable() | ast.PropertyRef() | ast.Call() as subject:
            parts.append(print_expression(subject))
        case subject:
            parts.append(f"({print_expression(subject)})")
    for branch in case.branches:
        condition, value = print_expression(branch.condition), print_expression(branch.value)
        parts.append(f"when {condition} then {value}")
    if case.otherwise is not None:
        parts.append(f"else {print_expression(case.otherwise)}")
    return " ".join((*parts, "end"))


def _condition(
    condition: ast.Comparison | ast.NullTest | ast.Inversion | ast.AnyOf | ast.AllOf,
) -> str:
    match condition:
        case ast.Comparison(left, operator, right):
            text = f"{_within(left, _SUM)} {operator} {_within(right, _SUM)}"
            return f"({text})" if _is_traversal(condition) else text
        case ast.NullTest(operand, negated):
            return f"{_within(operand, _SUM)} is {'not ' if negated else ''}null"
        case ast.Inversion(ast.Call() as inner):
            return f"not {print_expression(inner)}"
        case ast.Inversion(inner):
            return f"not ({print_expression(inner)})"
        case ast.AnyOf(conditions):
            return " or ".join(_within(each, _ALL) for each in conditions)
        case ast.AllOf(conditions):
            return " and ".join(_within(each, _TEST) for each in conditions)
        case _:
            assert_never(condition)


def _is_traversal(comparison: ast.Comparison) -> bool:
    """Without parentheses it would be a traversal."""
    both = isinstance(comparison.left, ast.Variable) and isinstance(comparison.right, ast.Variable)
    return both and comparison.operator in _WORD_OPERATORS


def _within(expression: ast.Expression, binding: int) -> str:
    """A part of a larger expression, whose place binds so tightly."""
    text = print_expression(expression)
    is_opener = isinstance(expression, ast.Word) and text in _OPENERS
    return f"({text})" if is_opener or _binding(expression) < binding else text


def _binding(expression: ast.Expression) -> int:
    match expression:
        case ast.AnyOf():
            return _ANY
        case ast.AllOf():
            return _ALL
        case ast.Comparison() | ast.NullTest() | ast.Inversion():
            return _TEST
        case ast.Arithmetic(operator=ast.ArithmeticOperator.ADD | ast.ArithmeticOperator.SUBTRACT):
            return _SUM
        case ast.Arithmetic():
            return _PRODUCT
        case ast.Negative():
            return _SIGN
        case _:
            return _ATOM


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
    lines = _part(read)
    for each in read.unions:
        lines.append("union all" if each.is_all else "union")
        lines.extend(_part(each.part))
    return [*lines, *_window(read)]


def _part(read: ast.Read) -> list[str]:
    lines: list[str] = []
    for each in read.stages:
        lines += [*_sections(each, "with"), *_window(each)]
    return [*lines, *_sections(read, "return")]


def _sections(read: ast.Read, word: str) -> list[str]:
    lines = _block("match", read.match) if read.match else []
    lines.extend(_braces(word, map(_projection, read.returns)))
    if read.having is not None:
        lines.extend(_braces("having", (print_expression(read.having),)))
    return lines


def _window(read: ast.Read) -> list[str]:
    lines = _braces("order", map(_ordering, read.order)) if read.order else []
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
    value = entry.value
    if isinstance(value, ast.TypedEnd):
        return f"{entry.name.text}: {{ {value.type_name.text}: {_value(value.value)} }}"
    return f"{entry.name.text}: {_value(value)}"


def _predicate(predicate: ast.Predicate) -> str:
    return f"{predicate.name.text} {predicate.operator} {_value(predicate.value)}"


# ── clauses ──────────────────────────────────────────────────────────────────────────────────────


def _block(head: str, clauses: Sequence[ast.Clause]) -> list[str]:
    inner = [line for each in clauses for line in _clause(each)]
    return [f"{head} {{", *_indented(inner), "}"]


def _clause(clause: ast.Clause) -> list[str]:
    match clause:
        case ast.Binding(variable, matches=matches):
            types = " | ".join(each.text for each in clause.type_names)
            head = f"${variable.name}: {types}"
            return _braces(head, map(_entry, matches)) if matches else [head]
        case ast.Traversal():
            return [_traversal(clause)]
        case ast.Filter(condition):
            text = print_expression(condition)
            is_clear = _opens(condition) and not _ends_in_word(condition)
            is_apart = not is_clear or _CONTINUATION.match(text)
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
            text = _within(bound, _SUM)
            limit = f"({text})" if _ends_in_word(bound) else text
            return [*lines, f"{last} {operator} {limit}"]
        case _:
            assert_never(clause)


def _traversal(traversal: ast.Traversal) -> str:
    edge = "|".join(each.text for each in traversal.edges)
    edge = f"<{edge}>" if traversal.undirected else edge
    if traversal.edge_variable is not None:
        edge = f"${traversal.edge_variable.name}:{edge}"
    if traversal.hops is not None:
        high = "" if traversal.hops.high is None else str(traversal.hops.high)
        edge = f"{edge}{{{traversal.hops.low},{high}}}"
    text = f"${traversal.source.name} {edge} ${traversal.target.name}"
    return text if traversal.path is None else _path(traversal.path, text)


def _path(path: ast.PathBinding, walk: str) -> str:
    every = "all " if path.is_all else ""
    by = "" if path.weight is None else f" by {path.weight.text}"
    return f"{every}shortest {{ {walk} }}{by} as ${path.variable.name}"


def _opens(condition: ast.Expression) -> bool:
    """Can a clause begin with it, or go on with it after `and` and `or`?"""
    match condition:
        case ast.Comparison(ast.Variable(), operator, right) if operator in _WORD_OPERATORS:
            return isinstance(right, ast.Variable) or _binding(right) == _ATOM
        case ast.Comparison(left=first) | ast.NullTest(first):
            return not _has_sign(first)
        case ast.Inversion() | ast.TextMatch() | ast.Call():
            return True
        case ast.AnyOf(conditions) | ast.AllOf(conditions):
            return all(map(_opens, conditions))
        case _:
            return False


def _has_sign(expression: ast.Expression) -> bool:
    """Does it begin with a sign that is no part of a number? In a clause, that would subtract."""
    match expression:
        case ast.Negative():
            return True
        case ast.Arithmetic(left=first):
            return _has_sign(first)
        case _:
            return False


def _ends_in_word(condition: ast.Expression) -> bool:
    """Before a parenthesis a word begins a call."""
    match condition:
        case ast.Word():
            return True
        case ast.Comparison(right=last) | ast.Arithmetic(right=last) | ast.Negative(last):
            return _ends_in_word(last)
        case ast.AnyOf(conditions) | ast.AllOf(conditions):
            return _ends_in_word(conditions[-1])
        case _:
            return False


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
