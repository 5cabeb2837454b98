"""Passes D and I: each declaration by itself, and what a node inherits from its interfaces."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from omnigraph.catalog.model import (
    Cardinality,
    Check,
    Constraint,
    IndexConstraint,
    Key,
    Range,
    Unique,
)
from omnigraph.catalog.names import ID_PROPERTY
from omnigraph.catalog.passes.draft import (
    DraftConstraint,
    DraftInterface,
    DraftProperty,
    DraftType,
    Findings,
    SchemaDraft,
)
from omnigraph.catalog.rules import SchemaRule
from omnigraph.catalog.types import VECTOR_DIMENSION_MAX, Scalar, ValueType, Vector
from omnigraph.lang.schema import ast
from omnigraph.lang.source import Span
from omnigraph.lang.syntax import close_match

CARDINALITY_MAX: Final = 2**32 - 1

ROW_COLUMNS: Final = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
"""Names of Lance's own columns, which hold facts about a row."""

EDGE_COLUMNS: Final = frozenset({"src", "dst", "from", "to"})
"""`src` and `dst` are columns; mutations and loads call them `from` and `to`."""

COLUMN_LISTS: Final[Mapping[str, type[Key | Unique | IndexConstraint]]] = {
    "key": Key,
    "unique": Unique,
    "index": IndexConstraint,
}


def declare(schema: ast.Schema, findings: Findings) -> SchemaDraft:
    interfaces: list[DraftInterface] = []
    nodes: list[ast.Node] = []
    edges: list[ast.Edge] = []
    for declaration in schema.declarations:
        match declaration:
            case ast.Interface(name, properties):
                declared = _properties(name, properties, frozenset(), findings)
                interfaces.append(DraftInterface(name, declared))
            case ast.Node():
                nodes.append(declaration)
            case ast.Edge():
                edges.append(declaration)
    by_name = {each.name.text: each for each in reversed(interfaces)}
    return SchemaDraft(
        tuple(interfaces),
        tuple(_node(each, by_name, findings) for each in nodes),
        tuple(_edge(each, findings) for each in edges),
    )


def _node(
    node: ast.Node, interfaces: Mapping[str, DraftInterface], findings: Findings
) -> DraftType:
    own = _properties(node.name, _own(node.members), frozenset(), findings)
    return DraftType(
        "node",
        node.name,
        node,
        (*own, *_inherited(node, own, interfaces, findings)),
        _constraints(node.name, node.members, findings),
        Cardinality(),
    )


def _edge(edge: ast.Edge, findings: Findings) -> DraftType:
    return DraftType(
        "edge",
        edge.name,
        edge,
        _properties(edge.name, _own(edge.members), EDGE_COLUMNS, findings),
        _constraints(edge.name, edge.members, findings),
        _cardinality(edge, findings),
    )


def _own(members: Iterable[ast.Property | ast.Constraint]) -> list[ast.Property]:
    return [each for each in members if isinstance(each, ast.Property)]


def _properties(
    owner: ast.Name,
    written: Iterable[ast.Property],
    taken: frozenset[str],
    findings: Findings,
) -> tuple[DraftProperty, ...]:
    """The properties of one declaration; of two with the same name, the first."""
    declared: dict[str, DraftProperty] = {}
    for each in written:
        name = each.name.text
        place = f"{owner.text}.{name}"
        value_type = _value_type(each.type, place, findings)
        if name in taken:
            findings.add(
                SchemaRule.D8,
                f"property {place} has a name that is taken",
                each.name.span,
                hint=f"every edge has its own: {', '.join(sorted(taken))}",
            )
        elif name in ROW_COLUMNS or name == ID_PROPERTY:
            findings.add(
                SchemaRule.D9,
                f"property {place} has a name that the storage keeps for itself",
                each.name.span,
            )
        elif name in declared:
            findings.add(SchemaRule.R2, f"property {place} is declared twice", each.name.span)
        else:
            declared[name] = DraftProperty(each, value_type, owner.text)
    return tuple(declared.values())


def _value_type(written: ast.TypeRef, place: str, findings: Findings) -> ValueType:
    if written.enum is not None:
        values = _enum_values(written.enum, place, findings)
        return ValueType(Scalar.STRING, written.nullable, written.is_list, values)
    if written.dimension is not None:
        if not 1 <= written.dimension <= VECTOR_DIMENSION_MAX:
            findings.add(
                SchemaRule.D1,
                f"the dimension of {place} must be between 1 and {VECTOR_DIMENSION_MAX}",
                written.span,
            )
        return ValueType(Vector(written.dimension), written.nullable, written.is_list)
    assert written.base is not None, "a type is a vector, an enum or a base type"
    base = Scalar(written.base)
    if base is Scalar.BLOB and written.is_list:
        findings.add(SchemaRule.D2, f"{place} cannot be a list of Blob", written.span)
    return ValueType(base, written.nullable, written.is_list)


def _enum_values(written: Sequence[ast.Name], place: str, findings: Findings) -> tuple[str, ...]:
    seen: set[str] = set()
    for each in written:
        if each.text in seen:
            findings.add(
                SchemaRule.D3, f"'{each.text}' stands twice in the enum {place}", each.span
            )
        seen.add(each.text)
    return tuple(sorted(seen))


def _cardinality(edge: ast.Edge, findings: Findings) -> Cardinality:
    written = edge.cardinality
    if written is None:
        return Cardinality()
    for bound in (written.low, written.high or 0):
        if bound > CARDINALITY_MAX:
            findings.add(
                SchemaRule.D5,
                f"@card of edge {edge.name.text}: a bound is larger than {CARDINALITY_MAX}",
                written.span,
            )
            return Cardinality()
    if written.high is not None and written.low > written.high:
        findings.add(
            SchemaRule.D6,
            f"@card of edge {edge.name.text}: {written.low} is larger than {written.high}",
            written.span,
        )
    return Cardinality(written.low, written.high)


def _constraints(
    owner: ast.Name, members: Iterable[ast.Property | ast.Constraint], findings: Findings
) -> tuple[DraftConstraint, ...]:
    declared: list[DraftConstraint] = []
    for written in members:
        if not isinstance(written, ast.Constraint):
            continue
        shaped = _shape(written)
        if shaped is None:
            findings.add(
                SchemaRule.D7,
                f"@{written.name} of {owner.text} has the wrong arguments",
                written.span,
                hint=_SHAPES[written.name],
            )
        else:
            declared.append(shaped)
    return tuple(declared)


_SHAPES: Final = {
    "key": "it takes property names: @key(code)",
    "unique": "it takes property names: @unique(code, region)",
    "index": "it takes property names: @index(code)",
    "range": "it takes a property name and a range: @range(age, 0..150)",
    "check": 'it takes a property name and a pattern in quotes: @check(code, "^[A-Z]+$")',
}


def _shape(written: ast.Constraint) -> DraftConstraint | None:
    """The constraint, if its arguments are correct. Further arguments are ignored."""
    value: Constraint
    match written.name, written.arguments:
        case "key" | "unique" | "index", arguments:
            names = tuple(each for each in arguments if isinstance(each, ast.Name))
            if len(names) < len(arguments):
                return None
            return column_list(written.name, names, written.span)
        case "range", (ast.Name() as name, ast.Range(low, high), *_):
            value = Range(name.text, low, high)
        case "check", (ast.Name() as name, ast.Literal(str() as pattern), *_):
            value = Check(name.text, pattern)
        case _:
            return None
    return DraftConstraint(value, (name,), written.span)


def column_list(name: str, columns: tuple[ast.Name, ...], span: Span) -> DraftConstraint:
    """`@key`, `@unique` or `@index` over columns, whose order has no meaning."""
    texts = tuple(sorted(each.text for each in columns))
    return DraftConstraint(COLUMN_LISTS[name](texts), columns, span)


def _inherited(
    node: ast.Node,
    own: Sequence[DraftProperty],
    interfaces: Mapping[str, DraftInterface],
    findings: Findings,
) -> tuple[DraftProperty, ...]:
    """The properties that a node inherits, in the order of its interfaces."""
    redeclared = {each.name: each for each in own}
    inherited: dict[str, DraftProperty] = {}
    for listed in dict.fromkeys(node.implements):
        interface = interfaces.get(listed.text)
        if interface is None:
            findings.add(
                SchemaRule.I1,
                f"node {node.name.text} implements {listed.text}, which is not an interface",
                listed.span,
                hint=close_match(listed.text, interfaces.keys()),
            )
            continue
        for given in interface.properties:
            if given.name in redeclared:
                _check_type(redeclared[given.name], given, None, findings)
            elif given.name in inherited:
                _check_agreement(node, inherited[given.name], given, listed, findings)
            else:
                inherited[given.name] = given
    return tuple(inherited.values())


def _check_agreement(
    node: ast.Node,
    first: DraftProperty,
    second: DraftProperty,
    listed: ast.Name,
    findings: Findings,
) -> None:
    """If two interfaces declare one property, the declarations must be equal."""
    if not _check_type(first, second, listed.span, findings):
        return
    if _said(first) != _said(second):
        findings.add(
            SchemaRule.I3,
            f"node {node.name.text} gets {first.place} and {second.place} with different "
            "annotations",
            listed.span,
            hint=f"declare '{first.name}' in node {node.name.text} to say which ones hold",
        )


def _said(property_: DraftProperty) -> set[tuple[str, str | None, frozenset[tuple[str, str]]]]:
    """The annotations of a property that the catalog stores."""
    return {
        (
            each.name,
            None if each.value is None else each.value.text,
            frozenset((name, value.text) for name, value in each.keywords),
        )
        for each in property_.written.annotations
    }


def _check_type(
    property_: DraftProperty, given: DraftProperty, span: Span | None, findings: Findings
) -> bool:
    if property_.type == given.type:
        return True
    findings.add(
        SchemaRule.I2,
        f"{property_.place} is {property_.type}, but {given.place} is {given.type}",
        span or property_.written.type.span,
    )
    return False
