"""Text → tree. `parse` returns what was written, or raises with every reason why it is not `.gq`.

The grammar determines the structure of a text; this module makes values of it and checks what a
grammar cannot express: repeated names, numbers out of range, and too deep nesting.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import ClassVar, TypeGuard

from lark import Lark, Token, Tree

from omnigraph.errors import QueryInvalid
from omnigraph.lang.grammars import Grammar
from omnigraph.lang.query import ast
from omnigraph.lang.query.mistakes import DIALECT
from omnigraph.lang.query.rules import SyntaxRule
from omnigraph.lang.source import Source, Span
from omnigraph.lang.syntax import (
    TreeReading,
    Unreadable,
    parse_pieces,
    parse_tree,
    quoted,
    span_of,
)

NESTING_MAX = 100
"""Trees are walked by recursion, here and in the compiler; Python's stack is finite."""

CLAUSES_MAX = 500
"""Of one query, with its blocks. The time to choose an order grows with the square."""

TOKENS_MAX = 50_000
"""Of one text. So many are parsed in less than a second, and parsing cannot be cancelled."""

_TOKEN = re.compile(r'//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)|"(?:[^"\\]|\\(?s:.))*(?:"|\Z)|\w+|[^\s\w]')

# Not the contextual lexer: with it, the states that the parser generator merged would decide if a
# word is a keyword or a name. Every word has one terminal, and the rules say where it is a name.
GRAMMAR = Grammar("omnigraph.lang.query", start="file", lexer="basic")

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1

Item = Token | Tree[Token]


def parse(source: Source) -> ast.File:
    """The tree of a `.gq` text. Raises `QueryInvalid` with every reason, not just the first."""
    reading = TreeReading(source, DIALECT)
    _check_size(source, reading)
    try:
        queries = tuple(_Reader(reading).queries(parse_pieces(grammar(), reading)))
    except Unreadable:
        # Parsed again as a whole, to find every error. The readable declarations are checked too.
        reading = TreeReading(source, DIALECT)
        tree = parse_tree(grammar(), reading)
        trees = reading.salvaged if tree is None else _trees(tree.children)
        queries = tuple(_Reader(reading).queries(trees))
    if reading.findings:
        raise QueryInvalid(reading.sorted_findings())
    return ast.File(queries)


def _check_size(source: Source, reading: TreeReading) -> None:
    """Raises QueryInvalid for a text that is too long, before it is parsed."""
    if len(source.text) <= TOKENS_MAX:
        return
    last = next(islice(_TOKEN.finditer(source.text), TOKENS_MAX, None), None)
    if last is not None:
        message = f"the text has more than {TOKENS_MAX:,} words and signs"
        hint = "pass values as parameters, many rows as a load, or cut the text in parts"
        reading.report(SyntaxRule.SIZE, message, Span(last.start(), last.start() + 1), hint=hint)
        raise QueryInvalid(reading.sorted_findings())


def grammar() -> Lark:
    """The grammar with its parser. The first call is slow, and calls meanwhile wait for it."""
    from omnigraph.lang.query.loaded import PARSER  # noqa: PLC0415 - it is slow

    return PARSER


class _Reader:
    """Turns Lark's tree into ours, rule by rule, and reports what is wrong to `reading`."""

    def __init__(self, reading: TreeReading) -> None:
        self._reading = reading

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def queries(self, trees: Iterable[Tree[Token]]) -> Iterator[ast.Query]:
        seen: dict[str, int] = {}
        for tree in trees:
            deep = _find_nested_too_deeply(tree)
            if deep is not None:
                message = f"this is nested too deeply; the limit is {NESTING_MAX} levels"
                start = span_of(deep).start
                self._reading.report(SyntaxRule.NESTING, message, Span(start, start + 1))
                continue
            query = self._query(tree)
            self._check_clauses(query)
            line = self._reading.source.line_at(query.name.span.start)
            if query.name.text in seen:
                message = (
                    f"query {quoted(query.name.text)} is already defined "
                    f"in line {seen[query.name.text]}"
                )
                hint = "give each query of a file its own name"
                self._reading.report(SyntaxRule.QUERY_REPEATED, message, query.name.span, hint=hint)
            seen.setdefault(query.name.text, line)
            yield query

    def _check_clauses(self, query: ast.Query) -> None:
        remaining: list[ast.Clause] = []
        if isinstance(query.body, ast.Read):
            parts = (query.body, *(each.part for each in query.body.unions))
            stages = (stage for part in parts for stage in (*part.stages, part))
            remaining += (clause for stage in stages for clause in stage.match)
        count = 0
        while remaining:
            clause = remaining.pop()
            count += 1
            if isinstance(clause, ast.Block):
                remaining += clause.clauses
        if count > CLAUSES_MAX:
            message = f"query {quoted(query.name.text)} has {count:,} clauses; the most is "
            hint = "cut the query in parts, or compare with a list: `in [...]`"
            self._reading.report(
                SyntaxRule.SIZE, f"{message}{CLAUSES_MAX:,}", query.name.span, hint=hint
            )

    def _query(self, tree: Tree[Token]) -> ast.Query:
        parts = tree.children
        parameters: tuple[ast.Parameter, ...] = ()
        annotations: dict[str, str] = {}
        for part in _trees(parts[1:-1]):
            if part.data == "parameters":
                parameters = self._parameters(part)
            else:
                self._annotate(part, annotations)
        body = _tree(parts[-1])
        return ast.Query(
            name=_name(parts[0]),
            parameters=parameters,
            description=annotations.get("@description"),
            instruction=annotations.get("@instruction"),
            body=self._read(body) if body.data == "read" else self._mutation(body),
            span=span_of(tree),
        )

    def _parameters(self, tree: Tree[Token]) -> tuple[ast.Parameter, ...]:
        parameters = tuple(self._parameter(child) for child in _trees(tree.children))
        seen: set[str] = set()
        for each in parameters:
            if each.name in seen:
                message = f"parameter {quoted('$' + each.name)} is declared twice"
                self._reading.report(SyntaxRule.PARAMETER_REPEATED, message, each.span)
            seen.add(each.name)
        return parameters

    def _parameter(self, tree: Tree[Token]) -> ast.Parameter:
        variable, declared = _token(tree.children[0]), _tree(tree.children[1])
        tokens = [_token(each) for each in declared.children]
        is_vector, is_list = declared.data == "vector_type", declared.data == "list_type"
        type_ref = ast.TypeRef(
            base=None if is_vector else str(tokens[1] if is_list else tokens[0]),
            dimension=self._whole_number(tokens[2]) if is_vector else None,
            is_list=is_list,
            nullable=tokens[-1] == "?",
            span=span_of(declared),
        )
        return ast.Parameter(str(variable[1:]), type_ref, span_of(tree))

    def _annotate(self, tree: Tree[Token], annotations: dict[str, str]) -> None:
        kind, text = _token(tree.children[0]), self._string(tree.children[1])
        if kind in annotations:
            message = f"a query has at most one {kind}"
            self._reading.report(SyntaxRule.ANNOTATION, message, span_of(tree))
        elif not text.strip():
            message = f"{kind} is empty"
            hint = "say something, or leave the annotation out"
            self._reading.report(SyntaxRule.ANNOTATION, message, span_of(tree), hint=hint)
        annotations.setdefault(str(kind), text)

    # ── reads ────────────────────────────────────────────────────────────────────────────────────

    def _read(self, tree: Tree[Token]) -> ast.Read:
        stages: list[ast.Read] = []
        unions: list[ast.Union] = []
        parts: dict[str, Tree[Token]] = {}
        for part in tree.children:
            if isinstance(part, Token):
                continue  # `all` of a union
            if part.data == "carry":
                stages.append(self._stage(parts.pop("match", None), part))
            elif part.data == "union":
                unions.append(self._union(part))
            else:
                parts[str(part.data)] = part
        returned = _trees(parts["returns"].children)
        read = self._sections(parts, tuple(map(self._projection, returned)), span_of(tree))
        return replace(read, unions=tuple(unions), stages=tuple(stages))

    def _stage(self, match: Tree[Token] | None, tree: Tree[Token]) -> ast.Read:
        carried = [each for each in _trees(tree.children) if each.data == "projection"]
        parts = {str(each.data): each for each in _trees(tree.children)}
        if match is not None:
            parts["match"] = match
        return self._sections(parts, tuple(map(self._projection, carried)), span_of(tree))

    def _sections(
        self, parts: Mapping[str, Tree[Token]], returns: tuple[ast.Projection, ...], span: Span
    ) -> ast.Read:
        match, having, order = parts.get("match"), parts.get("having"), parts.get("order")
        return ast.Read(
            match=() if match is None else self._clauses(match.children),
            returns=returns,
            having=None if having is None else self._expression(having.children[0]),
            order=() if order is None else tuple(map(self._ordering, _trees(order.children))),
            limit=self._count(parts.get("limit")),
            offset=self._count(parts.get("offset")),
            span=span,
        )

    def _union(self, tree: Tree[Token]) -> ast.Union:
        is_all = isinstance(tree.children[0], Token)
        return ast.Union(is_all, self._read(tree), span_of(tree))

    def _count(self, tree: Tree[Token] | None) -> ast.Literal | ast.Variable | None:
        if tree is None:
            return None
        token = _token(tree.children[0])
        if token.type == "VARIABLE":
            return _variable(token)
        return ast.Literal(self._whole_number(token), span_of(token))

    def _projection(self, tree: Tree[Token]) -> ast.Projection:
        alias = _name(tree.children[1]) if len(tree.children) > 1 else None
        return ast.Projection(self._expression(tree.children[0]), alias, span_of(tree))

    def _ordering(self, tree: Tree[Token]) -> ast.Ordering:
        expression, *way = tree.children
        descending = way[0] == "desc" if way else None
        if way and isinstance(expression, Tree) and expression.data == "nearest":
            message = f"expected ',' or '}}', found {quoted(_token(way[0]))}"
            hint = "'nearest' puts the closest first and takes neither 'asc' nor 'desc'"
            self._reading.report(SyntaxRule.UNEXPECTED, message, span_of(way[0]), hint=hint)
        return ast.Ordering(self._expression(expression), descending, span_of(tree))

    def _clauses(self, items: Iterable[Item]) -> tuple[ast.Clause, ...]:
        return tuple(self._clause(each) for each in _trees(items))

    def _clause(self, tree: Tree[Token]) -> ast.Clause:
        match str(tree.data):
            case "binding":
                return self._binding(tree)
            case "filter":
                return ast.Filter(self._expression(tree.children[0]), span_of(tree))
            case "negation":
                return ast.Negation(self._clauses(tree.children), span_of(tree))
            case "optional":
                return ast.OptionalMatch(self._clauses(tree.children), span_of(tree))
            case "existence":
                return ast.Existence(self._clauses(tree.children), span_of(tree))
            case "measure":
                return self._measure(tree)
            case "shortest":
                return self._shortest(tree)
            case kind:
                return self._traversal(tree, undirected=kind == "undirected_traversal")

    def _shortest(self, tree: Tree[Token]) -> ast.Traversal:
        *every, clause, path = (each for each in tree.children if not _is_weight(each))
        weight = next((_tree(each) for each in tree.children if _is_weight(each)), None)
        walk = _tree(clause)
        traversal = self._traversal(walk, undirected=walk.data == "undirected_traversal")
        name = None if weight is None else _name(weight.children[0])
        bound = ast.PathBinding(_variable(path), bool(every), name)
        return replace(traversal, path=bound, span=span_of(tree))

    def _binding(self, tree: Tree[Token]) -> ast.Binding:
        variable, *rest = tree.children
        type_name, *others = (_name(each) for each in rest if isinstance(each, Token))
        return ast.Binding(
            variable=_variable(variable),
            type_name=type_name,
            matches=tuple(
                ast.Match(_name(each.children[0]), self._value(each.children[1]), span_of(each))
                for each in rest
                if isinstance(each, Tree)
            ),
            span=span_of(tree),
            other_types=tuple(others),
        )

    def _traversal(self, tree: Tree[Token], *, undirected: bool) -> ast.Traversal:
        source, *middle, target = tree.children
        hops = self._hops(middle.pop()) if isinstance(middle[-1], Tree) else None
        bound = [middle.pop(0)] if _token(middle[0]).type == "VARIABLE" else []
        edge, *others = map(_name, middle)
        return ast.Traversal(
            source=_variable(source),
            edge_variable=_variable(bound[0]) if bound else None,
            edge=edge,
            undirected=undirected,
            hops=hops,
            target=_variable(target),
            span=span_of(tree),
            other_edges=tuple(others),
        )

    def _measure(self, tree: Tree[Token]) -> ast.Measure:
        measured, *clauses, operator, bound = tree.children
        (what,) = _tree(measured).children
        return ast.Measure(
            aggregate=None if isinstance(what, Token) else self._aggregate(what),
            clauses=self._clauses(clauses),
            operator=ast.Operator(str(operator)),
            bound=self._expression(bound),
            span=span_of(tree),
        )

    def _hops(self, item: Item) -> ast.Hops:
        low, *high = (self._whole_number(_token(each)) for each in _tree(item).children)
        return ast.Hops(low, high[0] if high else None, span_of(item))

    # ── conditions ───────────────────────────────────────────────────────────────────────────────

    def _comparison(self, tree: Tree[Token]) -> ast.Comparison:
        left, operator, right = tree.children
        return ast.Comparison(
            left=self._expression(left),
            operator=ast.Operator(str(operator)),
            right=self._expression(right),
            span=span_of(tree),
        )

    def _null_test(self, tree: Tree[Token]) -> ast.NullTest:
        operand = self._expression(tree.children[0])
        return ast.NullTest(operand, len(tree.children) == 4, span_of(tree))

    def _inversion(self, tree: Tree[Token]) -> ast.Inversion:
        return ast.Inversion(self._expression(tree.children[1]), span_of(tree))

    def _any_of(self, tree: Tree[Token]) -> ast.AnyOf:
        return ast.AnyOf(self._expressions(tree.children), span_of(tree))

    def _all_of(self, tree: Tree[Token]) -> ast.AllOf:
        return ast.AllOf(self._expressions(tree.children), span_of(tree))

    # ── expressions ──────────────────────────────────────────────────────────────────────────────

    def _expression(self, item: Item) -> ast.Expression:
        if isinstance(item, Token):
            return self._variable_or_literal(item)
        build = self._CALLS.get(str(item.data))
        return self._literal(item) if build is None else build(self, item)

    def _expressions(self, items: Iterable[Item]) -> tuple[ast.Expression, ...]:
        return tuple(map(self._expression, items))

    def _value(self, item: Item) -> ast.Value:
        if isinstance(item, Token):
            return self._variable_or_literal(item)
        match str(item.data):
            case "now":
                return ast.Now(span_of(item))
            case "null":
                return ast.Null(span_of(item))
            case _:
                return self._literal(item)

    def _variable_or_literal(self, token: Token) -> ast.Variable | ast.LiteralValue:
        return _variable(token) if token.type == "VARIABLE" else self._literal(token)

    def _literal(self, item: Item) -> ast.LiteralValue:
        span = span_of(item)
        if isinstance(item, Token):
            match item.type:
                case "STRING":
                    return ast.Literal(self._string(item), span)
                case "INT" | "NEGATIVE_INT":
                    return ast.Literal(self._whole_number(item), span)
                case _:
                    return ast.Literal(self._reading.decimal(item), span)
        match str(item.data):
            case "boolean":
                return ast.Literal(item.children[0] == "true", span)
            case "date":
                return ast.DateLiteral(self._string(item.children[0]), span)
            case "datetime":
                return ast.DateTimeLiteral(self._string(item.children[0]), span)
            case _:
                return ast.ListLiteral(tuple(map(self._literal, item.children)), span)

    def _property(self, tree: Tree[Token]) -> ast.PropertyRef:
        variable, name = tree.children
        return ast.PropertyRef(_variable(variable), _name(name), span_of(tree))

    def _word(self, tree: Tree[Token]) -> ast.Word:
        return ast.Word(str(tree.children[0]), span_of(tree))

    def _now(self, tree: Tree[Token]) -> ast.Now:
        return ast.Now(span_of(tree))

    def _arithmetic(self, tree: Tree[Token]) -> ast.Arithmetic:
        left, *operator, right = tree.children
        span = span_of(tree)
        value = self._expression(right)
        if operator:
            sign = ast.ArithmeticOperator(str(operator[0]))
        elif isinstance(value, ast.Literal) and _is_negated(value.value):
            # `$x.n -1` is read as it looks; the sign belongs to the number for the lexer only.
            sign = ast.ArithmeticOperator.SUBTRACT
            value = ast.Literal(-value.value, value.span)
        else:
            sign = ast.ArithmeticOperator.ADD
        return ast.Arithmetic(self._expression(left), sign, value, span)

    def _negative(self, tree: Tree[Token]) -> ast.Negative:
        return ast.Negative(self._expression(tree.children[1]), span_of(tree))

    def _call(self, tree: Tree[Token]) -> ast.Call:
        function, *arguments = tree.children
        return ast.Call(_name(function), self._expressions(arguments), span_of(tree))

    def _cast(self, tree: Tree[Token]) -> ast.Cast:
        function, operand, type_name = tree.children
        return ast.Cast(_name(function), self._expression(operand), _name(type_name), span_of(tree))

    def _case(self, tree: Tree[Token]) -> ast.CaseWhen:
        parts: dict[str, list[Item]] = {"branch": [], "otherwise": [], "subject": []}
        for child in tree.children:
            kind = str(child.data) if isinstance(child, Tree) else "subject"
            parts[kind if kind in parts else "subject"].append(child)
        subject, otherwise = parts["subject"], parts["otherwise"]
        return ast.CaseWhen(
            subject=self._expression(subject[0]) if subject else None,
            branches=tuple(self._branch(_tree(each)) for each in parts["branch"]),
            otherwise=self._expression(_tree(otherwise[0]).children[0]) if otherwise else None,
            span=span_of(tree),
        )

    def _branch(self, tree: Tree[Token]) -> ast.CaseArm:
        condition, value = tree.children
        return ast.CaseArm(self._expression(condition), self._expression(value), span_of(tree))

    def _aggregate(self, tree: Tree[Token]) -> ast.Aggregate:
        # name ( [distinct] argument [, fraction] )
        inside = tree.children[2:-1]
        distinct = isinstance(inside[0], Token) and inside[0].type == "DISTINCT"
        argument, *fraction = inside[1 if distinct else 0 :: 2]
        return ast.Aggregate(
            function=ast.AggregateFunction(str(tree.children[0])),
            argument=self._expression(argument),
            distinct=distinct,
            fraction=self._expression(fraction[0]) if fraction else None,
            span=span_of(tree),
        )

    def _text_match(self, tree: Tree[Token]) -> ast.TextMatch:
        # name ( target , query [, max_edits] )
        arguments = tree.children[2::2]
        return ast.TextMatch(
            function=ast.TextFunction(str(tree.children[0])),
            target=self._expression(arguments[0]),
            query=self._expression(arguments[1]),
            max_edits=self._expression(arguments[2]) if len(arguments) > 2 else None,
            span=span_of(tree),
        )

    def _nearest(self, tree: Tree[Token]) -> ast.Nearest:
        target, query = tree.children
        return ast.Nearest(self._property(_tree(target)), self._expression(query), span_of(tree))

    def _bm25(self, tree: Tree[Token]) -> ast.Bm25:
        target, query = tree.children
        return ast.Bm25(self._expression(target), self._expression(query), span_of(tree))

    def _rrf(self, tree: Tree[Token]) -> ast.Rrf:
        first, second, *k = tree.children
        return ast.Rrf(
            first=self._ranking(_tree(first)),
            second=self._ranking(_tree(second)),
            k=self._expression(k[0]) if k else None,
            span=span_of(tree),
        )

    def _ranking(self, tree: Tree[Token]) -> ast.Nearest | ast.Bm25:
        return self._nearest(tree) if tree.data == "nearest" else self._bm25(tree)

    _CALLS: ClassVar[dict[str, Callable[["_Reader", Tree[Token]], ast.Expression]]] = {
        "property": _property,
        "word": _word,
        "now": _now,
        "aggregate": _aggregate,
        "text_match": _text_match,
        "nearest": _nearest,
        "bm25": _bm25,
        "rrf": _rrf,
        "arithmetic": _arithmetic,
        "negative": _negative,
        "call": _call,
        "cast": _cast,
        "case": _case,
        "comparison": _comparison,
        "null_test": _null_test,
        "inversion": _inversion,
        "any_of": _any_of,
        "all_of": _all_of,
    }

    # ── mutations ────────────────────────────────────────────────────────────────────────────────

    def _mutation(self, tree: Tree[Token]) -> ast.Mutation:
        return ast.Mutation(tuple(map(self._statement, _trees(tree.children))), span_of(tree))

    def _statement(self, tree: Tree[Token]) -> ast.Statement:
        type_name, rest = _name(tree.children[0]), list(_trees(tree.children[1:]))
        span = span_of(tree)
        match str(tree.data):
            case "insert":
                return ast.Insert(type_name, self._assignments(rest), span)
            case "update":
                where = self._predicate(rest[-1])
                return ast.Update(type_name, self._assignments(rest[:-1]), where, span)
            case _:
                return ast.Delete(type_name, self._predicate(rest[0]), span)

    def _assignments(self, trees: Iterable[Tree[Token]]) -> tuple[ast.Assignment, ...]:
        return tuple(
            ast.Assignment(_name(each.children[0]), self._assigned(each.children[1]), span_of(each))
            for each in trees
        )

    def _assigned(self, item: Item) -> ast.Value | ast.TypedEnd:
        if isinstance(item, Tree) and item.data == "typed_end":
            type_name, value = item.children
            return ast.TypedEnd(_name(type_name), self._value(value), span_of(item))
        return self._value(item)

    def _predicate(self, tree: Tree[Token]) -> ast.Predicate:
        name, operator, value = tree.children
        return ast.Predicate(
            name=_name(name),
            operator=ast.Operator(str(operator)),
            value=self._value(value),
            span=span_of(tree),
        )

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────

    def _string(self, item: Item) -> str:
        return self._reading.string(_token(item))

    def _whole_number(self, token: Token) -> int:
        number = self._reading.whole_number(token)
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            message = f"the number {quoted(token)} does not fit a 64-bit integer"
            self._reading.report(SyntaxRule.NUMBER, message, span_of(token))
        return number


def _is_negated(value: str | float) -> TypeGuard[float]:
    """A number with a sign whose opposite is a literal too."""
    return isinstance(value, int | float) and value != INTEGER_MIN and str(value).startswith("-")


def _variable(item: Item) -> ast.Variable:
    token = _token(item)
    return ast.Variable(str(token[1:]), span_of(token))


def _name(item: Item) -> ast.Name:
    return ast.Name(str(_token(item)), span_of(item))


def _token(item: Item) -> Token:
    assert isinstance(item, Token)
    return item


def _tree(item: Item) -> Tree[Token]:
    assert isinstance(item, Tree)
    return item


def _is_weight(item: Item) -> bool:
    return isinstance(item, Tree) and item.data == "weight"


def _trees(items: Iterable[Item]) -> Iterator[Tree[Token]]:
    return map(_tree, items)


def _find_nested_too_deeply(query: Tree[Token]) -> Tree[Token] | None:
    level = [query]
    for _ in range(NESTING_MAX):
        level = [child for tree in level for child in tree.children if isinstance(child, Tree)]
        if not level:
            return None
    return level[0]
