"""Tree → text, in one canonical layout. Parsing the text gives the tree back.

This holds for every tree that the parser can make. Declarations and members keep their order;
comments are not part of a tree and are lost.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import assert_never

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
from omnigraph.lang.syntax import ESCAPES

_ESCAPED = str.maketrans({meant: f"\\{letter}" for letter, meant in ESCAPES.items()})


def print_schema(schema: Schema) -> str:
    """The program, one property or constraint a line, an empty line between declarations."""
    return "\n".join(_declaration(each) for each in schema.declarations)


def print_type(written: TypeRef) -> str:
    """`[String]?`, `enum(a, b)`, `Vector(3)`."""
    if written.enum is not None:
        core = f"enum({', '.join(value.text for value in written.enum)})"
    elif written.dimension is not None:
        core = f"Vector({written.dimension})"
    else:
        core = str(written.base)
    return f"{f'[{core}]' if written.is_list else core}{'?' if written.nullable else ''}"


def _declaration(declaration: Declaration) -> str:
    match declaration:
        case Interface(name, properties):
            return _block([f"interface {name.text}"], properties)
        case Node(name, annotations, implements, members):
            header = [f"node {name.text}", *map(_annotation, annotations)]
            if implements:
                header.append(f"implements {', '.join(each.text for each in implements)}")
            return _block(header, members)
        case Edge(name, sources, targets, cardinality, annotations, members):
            ends = (" | ".join(each.text for each in some) for some in (sources, targets))
            header = [f"edge {name.text}: {' -> '.join(ends)}"]
            if cardinality is not None:
                header.append(_cardinality(cardinality))
            header.extend(map(_annotation, annotations))
            return _block(header, members) if members else f"{' '.join(header)}\n"
        case _:
            assert_never(declaration)


def _block(header: Iterable[str], members: Iterable[Property | Constraint]) -> str:
    lines = "".join(f"    {line}\n" for line in _members(members))
    return f"{' '.join(header)} {{\n{lines}}}\n"


def _members(members: Iterable[Property | Constraint]) -> Iterator[str]:
    for member in members:
        match member:
            case Property(name, written, annotations):
                yield " ".join(
                    [f"{name.text}: {print_type(written)}", *map(_annotation, annotations)]
                )
            case Constraint(name, arguments):
                yield f"@{name}({', '.join(map(_argument, arguments))})"
            case _:
                assert_never(member)


def _annotation(annotation: Annotation) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = (f"{name}={_argument(value)}" for name, value in annotation.keywords)
    return f"@{annotation.name}({', '.join([_argument(annotation.value), *keywords])})"


def _cardinality(cardinality: Cardinality) -> str:
    return f"@card({cardinality.low}..{'' if cardinality.high is None else cardinality.high})"


def _argument(argument: Name | Literal | Range) -> str:
    match argument:
        case Name(text):
            return text
        case Literal(str() as value):
            return f'"{value.translate(_ESCAPED)}"'
        case Literal():
            return argument.text
        case Range(low, high):
            return f"{_bound(low)}..{_bound(high)}"
        case _:
            assert_never(argument)


def _bound(bound: float | None) -> str:
    """A bound without an exponent, which the language does not have."""
    if bound is None:
        return ""
    if isinstance(bound, int):
        return str(bound)
    text = format(Decimal(repr(bound)), "f")
    return text if "." in text else f"{text}.0"
