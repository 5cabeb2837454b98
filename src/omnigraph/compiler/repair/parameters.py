"""Declarations of parameters, by the use that the program makes of them."""

import re
from collections.abc import Iterator

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.types import Scalar, Struct, ValueType, Vector
from omnigraph.compiler.repair.edits import Proposal, TextEdit, replace
from omnigraph.compiler.repair.program import SCALARS, RefusedProgram, find_name, fresh_name
from omnigraph.lang.source import Diagnostic, Span


def propose_parameter(program: RefusedProgram, name: str) -> Iterator[Proposal]:
    """Declare a parameter, with the type that its use asks for."""
    value_type = _type_of_use(program, name)
    if value_type is not None:
        yield from _declare_as(program, name, value_type)


def _declare_as(program: RefusedProgram, name: str, value_type: str) -> Iterator[Proposal]:
    if program.head is not None:
        at = program.head.end(1)
        glue = ", " if program.head[1].strip() else ""
        yield (TextEdit(at, at, f"{glue}${name}: {value_type}"),)


def _type_of_use(program: RefusedProgram, name: str) -> str | None:
    escaped = re.escape(name)
    for match in program.finditer(rf"\$(\w+)\.(\w+)\s*(?:[=!<>]+|\w+)\s*\${escaped}\b"):
        owner = program.types.get(match[1])
        if owner is not None and (found := owner.named(match[2])) is not None:
            in_list = re.search(r"\bin\s*\$", match[0]) is not None
            return f"[{spell_type(found.type)}]" if in_list else spell_type(found.type)
    for match in program.finditer(rf"\b(\w+)\s*(?::|=|!=|[<>]=?)\s*\${escaped}\b"):
        if (value_type := _type_of_column(program, match)) is not None:
            return value_type
    if any(program.finditer(rf"\b(?:limit|offset)\s*\${escaped}\b")):
        return Scalar.I64.value
    for match in program.finditer(rf"\bnearest\s*\(\s*\$(\w+)\.(\w+)\s*,\s*\${escaped}\b"):
        owner = program.types.get(match[1])
        if owner is not None and (found := owner.named(match[2])) is not None:
            return spell_type(found.type)
    pattern = rf"\b(?:search|match_text|fuzzy|bm25)\s*\([^()]*,\s*\${escaped}\b"
    return Scalar.STRING.value if any(program.finditer(pattern)) else None


def _type_of_column(program: RefusedProgram, match: re.Match[str]) -> str | None:
    """`name: $x` and `where name = $x`: of the type whose statement or binding holds it."""
    pattern = r"(?:\b(?:insert|update|delete)\s+|\$\w+\s*:\s*)([A-Z]\w*)"
    heads = [each for each in program.finditer(pattern) if each.start() < match.start()]
    owner = (
        program.catalog.node(heads[-1][1]) or program.catalog.edge(heads[-1][1]) if heads else None
    )
    if owner is None:
        return None
    if match[1] in ("from", "to") and not isinstance(owner, NodeType):
        return Scalar.STRING.value
    found = owner.named(match[1])
    return None if found is None else spell_type(found.type)


def spell_type(value_type: ValueType) -> str:
    """The type as a parameter declares it: without `?`, an enum as its String."""
    base = value_type.base
    assert not isinstance(base, Struct), "no parameter is an object"
    name = f"Vector({base.dimension})" if isinstance(base, Vector) else base.value
    return f"[{name}]" if value_type.is_list else name


def propose_parameter_type(
    program: RefusedProgram, fault: Diagnostic, span: Span
) -> Iterator[Proposal]:
    """U2: a type by its name in another language."""
    word = program.slice(span)
    base = re.search(r"\w+", word)
    if base is None:
        return
    scalar = SCALARS.get(base[0].lower())
    meant = scalar.value if scalar is not None else find_name(base[0], fault.candidates)
    if meant is not None:
        yield replace(span, word.replace(base[0], meant, 1))
    else:
        yield from _retype_by_use(program, span)


def _retype_by_use(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """An enum or node type as the type of a parameter: take what its use asks for."""
    declared = re.compile(r"\$(\w+)\s*:\s*\Z").search(program.text, 0, span.start)
    if declared is not None and (meant := _type_of_use(program, declared[1])) is not None:
        yield replace(span, meant)


def propose_missing_property(
    program: RefusedProgram, fault: Diagnostic, span: Span
) -> Iterator[Proposal]:
    """T12: a required property, as a new parameter."""
    named = re.search(r"property '(\w+)'", fault.message)
    opening = re.compile(r"[^{}]*\{").match(program.masked, span.end)
    owner = program.catalog.node(program.slice(span)) or program.catalog.edge(program.slice(span))
    if named is None or opening is None or owner is None or program.head is None:
        return
    found = owner.named(named[1])
    value_type = Scalar.STRING.value if found is None else spell_type(found.type)
    name = fresh_name(program, named[1])
    glue = ", " if program.head[1].strip() else ""
    at = program.head.end(1)
    yield (
        TextEdit(at, at, f"{glue}${name}: {value_type}"),
        TextEdit(opening.end(), opening.end(), f" {named[1]}: ${name},"),
    )


def retype(program: RefusedProgram, name: str, wanted: str) -> Iterator[Proposal]:
    """Declare a parameter with the type of the property that it is compared with."""
    if program.head is None:
        return
    declared = re.compile(rf"\${re.escape(name)}\s*:\s*([^,()]+(?:\(\d+\))?)")
    found = declared.search(program.masked, program.head.start(1), program.head.end(1))
    if found is not None:
        yield (TextEdit(*found.span(1), wanted),)
