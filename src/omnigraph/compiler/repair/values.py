"""Literals and comparisons of a refused program, in the type that the property asks for."""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.catalog.types import Scalar
from omnigraph.compiler.repair.edits import Proposal, TextEdit, replace
from omnigraph.compiler.repair.functions import propose_days
from omnigraph.compiler.repair.parameters import retype, spell_type
from omnigraph.compiler.repair.program import RefusedProgram, find_name
from omnigraph.lang.source import Diagnostic, Span

_COMPARED: Final = re.compile(
    r"(?P<left>\$\w+\.\w+|\w+)\s*(?P<operator>=|!=|<=|>=|<|>|contains\b|starts_with\b|in\b)\s*"
    r"(?P<right>date(?:time)?\(\"[^\"]*\"\)|\"[^\"]*\"|\[[^\]]*\]|-?[\d.]+|\$\w+(?:\.\w+)?|\w+)"
)
_LITERAL: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|-?\d+(?:\.\d+)?|\b(?:true|false)\b")


def propose_value(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T3, U13, T7 in mutations: a literal that its property cannot hold."""
    for literal in _LITERAL.finditer(program.text, span.start, span.end):
        text = literal[0].strip('"')
        if fault.candidates:
            meant = find_name(text, fault.candidates)
            if meant is not None:
                yield (TextEdit(*literal.span(), f'"{meant}"'),)
        for wanted in fault.expected:
            yield from _convert(literal, wanted)
    listed = re.compile(r"\[\s*([^\[\],]+?)\s*\]").search(program.text, span.start, span.end)
    if listed is not None:
        yield (TextEdit(*listed.span(), listed[1]),)
    if any(each.startswith("[") for each in fault.expected):
        text = program.slice(span)
        if not text.startswith("["):
            yield replace(span, f"[{text}]")


def _convert(literal: re.Match[str], wanted: str) -> Iterator[Proposal]:
    """A literal in the spelling of another type."""
    text, base = literal[0].strip('"'), wanted.rstrip("?")
    spelled = None
    if base == Scalar.DATE:
        spelled = None if (day := _date(text)) is None else f'date("{day}")'
    elif base == Scalar.DATETIME:
        spelled = None if (moment := _moment(text)) is None else f'datetime("{moment}")'
    elif base == Scalar.BOOL:
        spelled = text.lower() if text.lower() in ("true", "false") else None
    elif base == Scalar.STRING:
        spelled = f'"{text}"'
    elif base.startswith(("I", "U", "F")) and base[1:].isdigit():
        spelled = _number(text, base)
    if spelled is not None and spelled != literal[0]:
        yield (TextEdit(*literal.span(), spelled),)


def _number(text: str, base: str) -> str | None:
    plain = text.replace(",", "").replace("_", "").strip()
    if re.fullmatch(r"-?\d+", plain) or (
        base.startswith("F") and re.fullmatch(r"-?\d+\.\d+", plain)
    ):
        return plain
    return plain.partition(".")[0] if re.fullmatch(r"-?\d+\.0+", plain) else None


def _date(text: str) -> str | None:
    found = re.fullmatch(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:T.*)?", text.strip())
    return None if found is None else f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"


def _moment(text: str) -> str | None:
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?\s*(Z|[+-]\d\d:\d\d)?",
        text.strip(),
    )
    if found is None:
        return None
    return f"{found[1]}T{found[2] or '00:00'}{found[3] or ':00'}{found[4] or 'Z'}"


def propose_comparison(
    program: RefusedProgram, fault: Diagnostic, span: Span
) -> Iterator[Proposal]:
    """T7: a comparison of a property with a value of another type."""
    yield from propose_days(program, span)
    assigned = re.fullmatch(r"\$(\w+)", program.slice(span))
    if assigned is not None:
        for expected in fault.expected:
            yield from retype(program, assigned[1], expected.rstrip("?"))
    for match in _COMPARED.finditer(program.text, span.start, span.end):
        wanted = _compared_type(program, match["left"]) or next(iter(fault.expected), None)
        right = match["right"]
        if wanted is None:
            continue
        literal = _LITERAL.match(program.text, match.start("right"))
        if right.startswith("["):
            if match["operator"] == "=":
                yield (TextEdit(*match.span("operator"), "in"),)
            if "," not in right:
                yield (TextEdit(*match.span("right"), right[1:-1].strip()),)
        elif right.startswith("$") and "." not in right:
            yield from retype(program, right[1:], wanted.rstrip("?"))
        elif literal is not None:
            yield from _convert(literal, wanted)
        if wanted.startswith("[") and match["operator"] == "=":
            yield (TextEdit(*match.span("operator"), "contains"),)


def _compared_type(program: RefusedProgram, left: str) -> str | None:
    if not left.startswith("$") or "." not in left:
        return None
    variable, name = left[1:].split(".")
    owner = program.types.get(variable)
    found = None if owner is None else owner.named(name)
    return None if found is None else spell_type(found.type)


def propose_null(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U11: `= null` is `is null`."""
    for match in program.near(r"\s*(=|!=)\s*null\b", span):
        yield (TextEdit(*match.span(), " is null" if match[1] == "=" else " is not null"),)
    pattern = r"(\$\w+)(\s*:\s*[A-Z]\w*)\s*\{\s*(\w+)\s*:\s*null\s*\}"
    for match in program.near(pattern, span):
        text = f"{match[1]}{match[2]}  {match[1]}.{match[3]} is null"
        yield (TextEdit(*match.span(), text),)
