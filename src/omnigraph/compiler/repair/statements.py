"""Mutations in the words of SQL and Cypher."""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.habits import Habit
from omnigraph.compiler.repair.program import RefusedProgram
from omnigraph.lang.source import Span

_END: Final = r"(?:\"~*\"|'[^'\n]*'|\$\w+)"
_ONE_NODE: Final = (
    r"\bmatch\s*\{\s*\$(\w+)\s*:\s*([A-Z]\w*)\s*\{\s*(\w+)\s*:\s*([^{},]+?)\s*\}\s*\}\s*"
)
_STATEMENTS: Final = (
    Habit(
        r"\b(?i:insert|create)\s+\(?\s*(\$?\w+)\s*\)?\s*-\s*\[\s*:\s*(\w+)\s*\]\s*->\s*\(?\s*(\$?\w+)\s*\)?",
        r"insert \2 { from: \1, to: \3 }",
    ),
    Habit(
        rf"\b(?i:insert)\s+(?:edge\s+)?(\w+)\s*\(\s*({_END})\s*(?:,|->|to)\s*({_END})\s*\)\s*\{{([^{{}}]*)\}}",
        r"insert \1 { from: \2, to: \3, \4 }",
    ),
    Habit(
        rf"\b(?i:insert)\s+(?:edge\s+)?(\w+)\s*\(\s*({_END})\s*(?:,|->|to)\s*({_END})\s*\)(?!\s*(?:\{{|(?i:values)))",
        r"insert \1 { from: \2, to: \3 }",
    ),
    Habit(r"(?<=\})\s*,\s*(?=[A-Z]\w*\s*\{)", " insert "),
    Habit(r"\b(?i:on\s+(?:conflict|duplicate\s+key))\b[^{}]*", ""),
    Habit(r"\b(?i:update)\s+\$?\w+\s*:\s*([A-Z]\w*)", r"update \1"),
    Habit(
        rf"{_ONE_NODE}(?i:(?:detach\s+)?delete)\s*\{{?\s*\$\1\s*\}}?", r"delete \2 where \3 = \4"
    ),
    Habit(r"\b(?:data|properties|props)\s*:\s*\{([^{}]*)\}", r"\1"),
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
    yield from _matched_sets(program, span)
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
        yield (TextEdit(*match.span(), f"set {{ {_assigned(program, *match.span(1))} }}"),)


def _matched_sets(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`match { $p: Person { email: "a" } } set { $p.age = 3 }`."""
    start = rf"{_ONE_NODE}(?:(?i:update)\s+\$?\w+\s+)?(?i:set)\s*"
    for values in (r"\{([^{}]*)\}", r"([^{}]*)"):
        for match in program.near(f"{start}{values}", span):
            condition = f"{match[3]} = {program.group(match, 4)}"
            inside = _assigned(program, *match.span(5))
            yield (TextEdit(*match.span(), f"{spell_update(match[2], inside, condition)} "),)


def spell_update(type_name: str, values: str, condition: str) -> str:
    assigned = f"{type_name} set {{ {values} }}"
    return f"update {assigned} where {condition}"


def _assigned(program: RefusedProgram, start: int, end: int) -> str:
    """`$p.age = 3` as `age: 3`."""
    places = re.compile(r"(?:\$?\w+\.)?(\w+)\s*(?:=|:)\s*(?=\S)")
    inner, at = "", start
    for each in places.finditer(program.masked, start, end):
        inner += f"{program.text[at : each.start()]}{each[1]}: "
        at = each.end()
    return f"{inner}{program.text[at:end]}"
