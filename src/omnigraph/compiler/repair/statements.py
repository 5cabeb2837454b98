"""Mutations in the words of SQL and Cypher."""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.habits import Habit
from omnigraph.compiler.repair.program import RefusedProgram
from omnigraph.lang.source import Span

_STATEMENTS: Final = (
    Habit(r"\b(?i:create|add|upsert|merge|new)\b(?=\s*[A-Z(\"$])", "insert"),
    Habit(r"\b(?i:insert)\s+(?i:into|node|edge|a|new)\b\s*", "insert "),
    Habit(r"\b(?i:insert)\s+\(?\s*\$?\w*\s*:\s*(\w+)\s*(\{[^{}]*\})\s*\)?", r"insert \1 \2"),
    Habit(r"\b(?i:insert)\s+(\w+)\s*\(([^()]*)\)(?!\s*(?i:values))", r"insert \1 { \2 }"),
    Habit(
        r"\b(?i:insert)\s+(\w+)\s+from\s*:?\s*(\S+)\s+to\s*:?\s*([^\s{}]+)",
        r"insert \1 { from: \2, to: \3 }",
    ),
    Habit(
        r"\b(?i:update)\s+(\w+)\s+(?i:where)\s+([^{}]*?)\s+(?i:set)\s*(\{[^{}]*\})",
        r"update \1 set \3 where \2",
    ),
    Habit(r"\b(?i:update)\s+(\w+)\s*(?=\{)", r"update \1 set "),
    Habit(r"\b(?i:delete)\s+(?i:from|node|edge)\b\s*", "delete "),
    Habit(r"\b(?i:delete)\s+(\w+)\s*\{\s*(\w+)\s*:\s*([^{},]*?)\s*\}", r"delete \1 where \2 = \3"),
    Habit(r"\b(?i:where)\s*\{([^{}]*)\}", r"where \1"),
    Habit(r"\b(?i:where)\s*\(([^()]*)\)", r"where \1"),
    Habit(r"\b(?i:where)\s+\$?\w+\.(\w+)", r"where \1"),
    Habit(r"\b(?i:where)\s+(\w+)\s*:\s*", r"where \1 = "),
)
_SET: Final = r"\b(?i:set)\s+(?!\{)([^{}]*?)(?=\s*\b(?i:where)\b|\s*\})"
_VALUES: Final = (
    r"\b(?i:insert)\s+(?:(?i:into)\s+)?(\w+)\s*\(([^()]*)\)\s*(?i:values)\s*\(([^()]*)\)"
)


def propose_statements(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    yield from _values(program, span)
    yield from _assignments(program, span)
    for habit in _STATEMENTS:
        yield from habit.propose(program, span)


def _values(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`insert into Person (email, name) values ("a", "b")`."""
    for match in program.near(_VALUES, span):
        names = [each.strip() for each in program.group(match, 2).split(",")]
        cells = re.findall(r"\"[^\"]*\"|'[^']*'|[^,\s]+", program.group(match, 3))
        if len(names) == len(cells):
            given = ", ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))
            yield (TextEdit(*match.span(), f"insert {match[1]} {{ {given} }}"),)


def _assignments(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`set name = "Ada", age = 3` without braces."""
    for match in program.near(_SET, span):
        start, end = match.span(1)
        places = re.compile(r"(?:\$?\w+\.)?(\w+)\s*(?:=|:)\s*(?=\S)")
        inner, at = "", start
        for each in places.finditer(program.masked, start, end):
            inner += f"{program.text[at : each.start()]}{each[1]}: "
            at = each.end()
        yield (TextEdit(*match.span(), f"set {{ {inner}{program.text[at:end]} }}"),)
