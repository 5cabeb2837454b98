"""Text → tree. `parse` returns what was written, or raises with every place that is not `.pg`.

The grammar accepts slightly more than the language. This module reports the rest with a clear
message: misplaced annotations and constraints, and wrong content of parentheses and lists.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from lark import Lark, Token, Tree

from omnigraph.errors import SchemaInvalid
from omnigraph.lang.grammars import Grammar
from omnigraph.lang.schema.ast import (
    Annotation,
    Cardinality,
    Constraint,
    Declaration,
    Edge,
    Interface,
    Literal,
    Name,
    Node,
    Property,
    Range,
    Schema,
    TypeRef,
)
from omnigraph.lang.source import Source, Span
from omnigraph.lang.syntax import (
    Dialect,
    SyntaxFault,
    TreeReading,
    Unexpected,
    close_match,
    parse_tree,
    quoted,
    span_of,
)

BASE_TYPES = (
    "String",
    "Blob",
    "Bool",
    "I32",
    "I64",
    "U32",
    "U64",
    "F32",
    "F64",
    "DateTime",
    "Date",
)

CONSTRAINTS = ("key", "unique", "index", "range", "check")
"""With parentheses these are constraints of the type; without, annotations of a property."""

_TYPE_CODE = "S4"
_PLACE_CODE = "S5"
_ARGUMENT_CODE = "S6"

GRAMMAR = Grammar("omnigraph.lang.schema", start="schema")

_KEYWORDS = frozenset({"interface", "node", "edge", "implements"})


def parse(source: Source) -> Schema:
    """The tree of a `.pg` text. Raises `SchemaInvalid` with every place that breaks the grammar."""
    reading = TreeReading(source, _DIALECT)
    tree = parse_tree(_grammar(), reading)
    declarations = () if tree is None else tuple(_Reader(reading).declarations(tree))
    if reading.findings:
        raise SchemaInvalid(reading.sorted_findings())
    return Schema(declarations)


@cache
def _grammar() -> Lark:
    return GRAMMAR.load()


def _hint(unexpected: Unexpected) -> str | None:
    found, expected = unexpected.found, unexpected.expected
    if "a type name" in expected and found[:1].islower():
        return f"the name of a type begins with an upper-case letter: {_capital(found)}"
    if "a property name" in expected and found[:1].isupper():
        return "the name of a property begins with a lower-case letter or '_'"
    if "a property name" in expected and found in {",", ";"}:
        return "properties follow each other without a separator"
    if "'{'" in expected and "','" in expected and found == "@":
        return "annotations of a node stand before 'implements'"
    keywords = {phrase.strip("'") for phrase in expected} & _KEYWORDS
    return close_match(found.lower(), keywords)


def _capital(name: str) -> str:
    return f"{name[0].upper()}{name[1:]}"


_DIALECT = Dialect(
    codes={
        SyntaxFault.UNEXPECTED: "S1",
        SyntaxFault.OPEN_COMMENT: "S2",
        SyntaxFault.OPEN_STRING: "S3",
        SyntaxFault.NUMBER: "S7",
        SyntaxFault.ENCODING: "S8",
        SyntaxFault.ESCAPE: "D4",
    },
    words={
        "TYPE_NAME": "a type name",
        "EDGE_NAME": "a type name",
        "PROPERTY_NAME": "a property name",
        "MARK_NAME": "the name of an annotation",
        "TYPE_WORD": "a property type",
        "VECTOR": "a property type",
        "ENUM": "a property type",
        "ENUM_VALUE": "a value of the enum",
        "NAME": "a name",
        "END_NAME": "a name",
        "STRING": "a string",
        "BOOL": "true or false",
        "INT": "a number",
        "FLOAT": "a number",
        "NEGATIVE_INT": "a number",
        "NEGATIVE_FLOAT": "a number",
        "INTERFACE": "'interface'",
        "NODE": "'node'",
        "EDGE": "'edge'",
        "IMPLEMENTS": "'implements'",
        "NULLABLE": "'?'",
        "AT": "'@'",
        "COLON": "':'",
        "ARROW": "'->'",
        "DOTS": "'..'",
        "EQUAL": "'='",
        "COMMA": "','",
        "VBAR": "'|'",
        "LPAR": "'('",
        "RPAR": "')'",
        "LSQB": "a property type",
        "RSQB": "']'",
        "LBRACE": "'{'",
        "RBRACE": "'}'",
        "$END": "the end of the text",
    },
    declaration=r"\b(?:(?:node|interface)[ \t\r\n]+[A-Z]|edge[ \t\r\n]+[A-Za-z_])",
    hint=_hint,
)


class _Reader:
    """Turns the trees of the grammar into ours, rule by rule."""

    def __init__(self, reading: TreeReading) -> None:
        self._reading = reading

    def declarations(self, schema: Tree[Token]) -> Iterator[Declaration]:
        for tree in _subtrees(schema):
            match tree.data:
                case "interface":
                    yield self._interface(tree)
                case "node":
                    yield self._node(tree)
                case _:
                    yield self._edge(tree)

    def _interface(self, tree: Tree[Token]) -> Interface:
        _, name = _tokens(tree)
        properties: list[Property] = []
        for member in self._members(tree):
            if isinstance(member, Property):
                properties.append(member)
            else:
                self._reading.report(
                    _PLACE_CODE,
                    f"@{member.name}(…) stands in interface {name}, which holds properties only",
                    member.span,
                    hint="declare it in the nodes that implement the interface",
                )
        return Interface(_name(name), tuple(properties), span_of(tree))

    def _node(self, tree: Tree[Token]) -> Node:
        _, name = _tokens(tree)
        implements = next((each for each in _subtrees(tree) if each.data == "implements"), None)
        return Node(
            _name(name),
            self._header_annotations(_marks(tree), owner=f"node {name}"),
            () if implements is None else tuple(map(_name, _tokens(implements)[1:])),
            self._members(tree),
            span_of(tree),
        )

    def _edge(self, tree: Tree[Token]) -> Edge:
        _, name = _tokens(tree)
        sources, targets = (each for each in _subtrees(tree) if each.data == "ends")
        marks = _marks(tree)
        cardinality = None
        if marks and _mark_name(marks[0]) == "card":
            cardinality = self._cardinality(marks[0])
            marks = marks[1:]
        for mark in marks:
            if _mark_name(mark) == "card":
                self._reading.report(
                    _PLACE_CODE,
                    f"@card of edge {name} must come right after the target type, and once",
                    span_of(mark),
                )
        others = [mark for mark in marks if _mark_name(mark) != "card"]
        keys = [mark for mark in others if _is_key(mark)]
        annotations = self._header_annotations(
            [mark for mark in others if not _is_key(mark)], owner=f"edge {name}"
        )
        # A key in the header is the first constraint of the body, in another place.
        key = (each for each in map(self._mark, keys) if isinstance(each, Constraint))
        return Edge(
            self._edge_name(name, _tokens(sources), _tokens(targets)),
            tuple(map(_name, _tokens(sources))),
            tuple(map(_name, _tokens(targets))),
            cardinality,
            annotations,
            (*key, *self._members(tree)),
            span_of(tree),
        )

    def _edge_name(self, name: Token, *ends: Sequence[Token]) -> Name:
        """As it is declared: capitalised, which the reference asks of every edge that it knows."""
        if name[0].isupper():
            return _name(name)
        if any(len(each) > 1 for each in ends) and name[0] != "_":
            return replace(_name(name), text=_capital(name))
        self._reading.report_fault(
            SyntaxFault.UNEXPECTED,
            f"expected a type name, found {quoted(name)}",
            span_of(name),
            hint=f"write `edge {_capital(name)}`; traversals and records may still say `{name}`",
            expected=("a type name",),
        )
        return _name(name)

    def _cardinality(self, mark: Tree[Token]) -> Cardinality | None:
        match _arguments(mark):
            case [Tree(data="closed_range", children=[Token("INT") as low, Token("INT") as high])]:
                bounds = self._reading.whole_number(low), self._reading.whole_number(high)
                return Cardinality(*bounds, span_of(mark))
            case [Tree(data="range_from", children=[Token("INT") as low])]:
                return Cardinality(self._reading.whole_number(low), None, span_of(mark))
            case _:
                self._reading.report(
                    _ARGUMENT_CODE,
                    "@card takes a smallest and, if there is one, a largest number of edges",
                    span_of(mark),
                    hint="for example @card(0..1) or @card(1..)",
                )
                return None

    def _header_annotations(
        self, marks: list[Tree[Token]], *, owner: str
    ) -> tuple[Annotation, ...]:
        annotations: list[Annotation] = []
        for mark in marks:
            read = self._mark(mark)
            if isinstance(read, Annotation):
                annotations.append(read)
            else:
                self._reading.report(
                    _PLACE_CODE,
                    f"@{read.name}(…) stands in the header of {owner}",
                    read.span,
                    hint="constraints stand between the braces",
                )
        return tuple(annotations)

    def _members(self, declaration: Tree[Token]) -> tuple[Property | Constraint, ...]:
        """The body, with each annotation at the property that it directly follows."""
        body = next((each for each in _subtrees(declaration) if each.data == "body"), None)
        members: list[Property | Constraint] = []
        annotations: dict[int, list[Annotation]] = {}
        for tree in [] if body is None else _subtrees(body):
            if tree.data == "property":
                annotations[len(members)] = []
                members.append(self._property(tree))
                continue
            read = self._mark(tree)
            if isinstance(read, Constraint):
                members.append(read)
            elif len(members) - 1 in annotations:
                annotations[len(members) - 1].append(read)
            else:
                self._reading.report(
                    _PLACE_CODE,
                    f"@{read.name} does not follow a property",
                    read.span,
                    hint="an annotation stands directly after its property, before constraints",
                )
        return tuple(
            _annotated(member, annotations[at]) if isinstance(member, Property) else member
            for at, member in enumerate(members)
        )

    def _property(self, tree: Tree[Token]) -> Property:
        (name,) = _tokens(tree)
        (type_tree,) = _subtrees(tree)
        return Property(_name(name), self._type(type_tree), (), span_of(tree))

    def _type(self, tree: Tree[Token]) -> TypeRef:
        (core,) = _subtrees(tree)
        nullable = bool(_tokens(tree))
        span = span_of(tree)
        if core.data != "list":
            return self._core(core, is_list=False, nullable=nullable, span=span)
        (item,) = _subtrees(core)
        if _tokens(core):
            self._reading.report(
                _TYPE_CODE,
                "the items of a list are never null",
                span,
                hint="write the '?' behind the list if the list itself may be null",
            )
        if item.data != "base":
            self._reading.report(_TYPE_CODE, f"a list cannot hold {item.data} items", span_of(item))
        return self._core(item, is_list=True, nullable=nullable, span=span)

    def _core(self, core: Tree[Token], *, is_list: bool, nullable: bool, span: Span) -> TypeRef:
        word, *rest = _tokens(core)
        match core.data:
            case "vector":
                dimension = self._reading.whole_number(rest[0])
                return TypeRef(None, dimension, None, is_list, nullable, span)
            case "enum":
                return TypeRef(None, None, tuple(map(_name, rest)), is_list, nullable, span)
            case _:
                if word not in BASE_TYPES:
                    self._report_unknown_type(word)
                return TypeRef(str(word), None, None, is_list, nullable, span)

    def _report_unknown_type(self, word: Token) -> None:
        spellings = {known.lower(): known for known in (*BASE_TYPES, "Vector", "enum")}
        meant = spellings.get(word.lower())
        hint = close_match(word, frozenset(spellings.values()))
        listing = f"the types are {', '.join(BASE_TYPES)}, Vector(n), enum(…) and lists like [I32]"
        self._reading.report(
            _TYPE_CODE,
            f"{quoted(word)} is not a property type",
            span_of(word),
            hint=f"did you mean '{meant}'?" if meant else hint or listing,
        )

    def _mark(self, mark: Tree[Token]) -> Annotation | Constraint:
        arguments = _arguments(mark)
        name = _mark_name(mark)
        if name in CONSTRAINTS and arguments:
            read = (self._constraint_argument(name, each) for each in arguments)
            return Constraint(name, tuple(a for a in read if a is not None), span_of(mark))
        if not arguments:
            return Annotation(name, None, (), span_of(mark))
        value = self._annotation_value(name, arguments[0])
        keywords = (self._keyword(name, each) for each in arguments[1:])
        return Annotation(
            name, value, tuple(each for each in keywords if each is not None), span_of(mark)
        )

    def _constraint_argument(
        self, name: str, argument: Token | Tree[Token]
    ) -> Name | Literal | Range | None:
        match argument:
            case Token(type="END_NAME"):
                return Name(str(argument).removeprefix("@"), span_of(argument))
            case Token():  # `true` too: a property may be called so, and no constraint takes a Bool
                return _name(argument)
            case Tree(data="literal", children=[Token() as token]):
                return self._literal(token)
            case Tree(data="keyword"):
                self._report_argument(argument, f"@{name} takes no keywords")
                return None
            case _:
                return self._range(argument)

    def _annotation_value(self, name: str, argument: Token | Tree[Token]) -> Literal | Name | None:
        match argument:
            case Token(value="true" | "false"):
                return Literal(value=argument == "true", text=str(argument), span=span_of(argument))
            case Token(type="END_NAME"):
                self._report_argument(argument, f"@{name} takes a name or a literal, not an end")
            case Token():
                return _name(argument)
            case Tree(data="literal", children=[Token() as token]):
                return self._literal(token)
            case Tree(data="keyword"):
                self._report_argument(argument, f"@{name} needs a value before its keywords")
            case _:
                self._report_argument(argument, f"@{name} takes a name or a literal, not a range")
        return None

    def _keyword(self, name: str, argument: Token | Tree[Token]) -> tuple[str, Literal] | None:
        match argument:
            case Tree(
                data="keyword",
                children=[Token() as word, Tree(children=[Token() as value])],
            ):
                return str(word), self._literal(value)
            case _:
                self._report_argument(argument, f"@{name} takes one value; then only keywords")
                return None

    def _report_argument(self, argument: Token | Tree[Token], message: str) -> None:
        self._reading.report(_ARGUMENT_CODE, message, span_of(argument))

    def _literal(self, token: Token) -> Literal:
        span = span_of(token)
        match token.type:
            case "STRING":
                text = self._reading.string(token)
                return Literal(text, text, span)
            case "INT":
                return Literal(self._reading.whole_number(token), str(token), span)
            case "FLOAT":
                return Literal(self._reading.decimal(token), str(token), span)
            case _:
                return Literal(value=str(token) == "true", text=str(token), span=span)

    def _range(self, tree: Tree[Token]) -> Range:
        bounds = [self._number(token) for token in _tokens(tree)]
        low = None if tree.data == "range_to" else bounds[0]
        high = None if tree.data == "range_from" else bounds[-1]
        return Range(low, high, span_of(tree))

    def _number(self, token: Token) -> int | float:
        is_whole = token.type in {"INT", "NEGATIVE_INT"}
        return self._reading.whole_number(token) if is_whole else self._reading.decimal(token)


def _annotated(property_: Property, annotations: list[Annotation]) -> Property:
    span = property_.span.cover(annotations[-1].span) if annotations else property_.span
    return replace(property_, annotations=tuple(annotations), span=span)


def _tokens(tree: Tree[Token]) -> list[Token]:
    return [each for each in tree.children if isinstance(each, Token)]


def _subtrees(tree: Tree[Token]) -> list[Tree[Token]]:
    return [each for each in tree.children if isinstance(each, Tree)]


def _marks(tree: Tree[Token]) -> list[Tree[Token]]:
    return [each for each in _subtrees(tree) if each.data == "mark"]


def _mark_name(mark: Tree[Token]) -> str:
    return str(_tokens(mark)[0])


def _is_key(mark: Tree[Token]) -> bool:
    return _mark_name(mark) == "key" and bool(_arguments(mark))


def _arguments(mark: Tree[Token]) -> list[Token | Tree[Token]]:
    """The content of the parentheses; empty if there are none."""
    return next((each.children for each in _subtrees(mark)), [])


def _name(token: Token) -> Name:
    return Name(str(token), span_of(token))
