"""Whole queries in Gremlin: `g.V().hasLabel("Person").out("knows").values("name")`.

A chain of steps walks from node to node, so each step that moves names a new variable.
"""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import split
from omnigraph.compiler.repair.program import RefusedProgram, find_name

_STEP: Final = re.compile(r"\s*\.\s*(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_TEST: Final = re.compile(
    r"(?:P\.)?(eq|neq|gt|gte|lt|lte|within|startingWith|containing)\((.*)\)\Z", re.DOTALL
)
QUOTES: Final = "\"'"
_OPERATORS: Final = {
    "eq": "=",
    "neq": "!=",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "startingWith": "starts_with",
    "containing": "contains",
}


def propose_gremlin(program: RefusedProgram) -> Iterator[Proposal]:
    text = program.text.strip().rstrip(";")
    if not re.match(r"g\s*\.\s*V\s*\(", text):
        return
    translated = _Steps(program).translate(text[1:])
    if translated is not None:
        yield (TextEdit(0, len(program.text), f"query q() {{ {translated} }}"),)


class _Steps:
    def __init__(self, program: RefusedProgram) -> None:
        self._program = program
        self._count = 0
        self._clauses: list[str] = []
        self._columns: list[str] = []
        self._sections: list[str] = []
        self._order: list[str] = []

    def translate(self, text: str) -> str | None:
        at = 0
        while (step := _STEP.match(text, at)) is not None:
            arguments = [each for each in split(step[2]) if each]
            if not self._step(step[1], arguments):
                return None
            at = step.end()
        if text[at:].strip():
            return None
        columns = self._columns or [self._here]
        return " ".join(
            (
                f"match {{ {'  '.join(self._clauses)} }}",
                f"return {{ {', '.join(columns)} }}",
                *([f"order {{ {', '.join(self._order)} }}"] if self._order else []),
                *self._sections,
            )
        )

    @property
    def _here(self) -> str:
        return f"$x{self._count or ''}"

    def _step(self, name: str, given: list[str]) -> bool:
        """Add what a step means; False if it is not known here."""
        match name:
            case "V":
                self._clauses.extend([f"{self._here}.@id = {given[0]}"] if given else [])
            case "hasLabel" if len(given) == 1:
                types = [each.name for each in self._program.catalog.nodes]
                meant = find_name(given[0].strip(QUOTES), types)
                self._clauses.insert(
                    0 if not self._count else len(self._clauses), f"{self._here}: {meant}"
                )
                return meant is not None
            case "has" if len(given) in (2, 3):
                if len(given) == 3:
                    return self._step("hasLabel", given[:1]) and self._step("has", given[1:])
                self._clauses.append(self._condition(*given))
            case "out" | "in" | "both" if len(given) == 1:
                return self._walk(name, given[0])
            case "values" if given:
                self._columns = [f"{self._here}.{each.strip(QUOTES)}" for each in given]
            case "count" if not given:
                self._columns = [f"count({self._here})"]
            case "order" if not given:
                pass
            case "by" if given:
                word = " desc" if given[1:] and "desc" in given[1].lower() else ""
                self._order.append(f"{self._here}.{given[0].strip(QUOTES)}{word}")
            case "limit" if len(given) == 1:
                self._sections.append(f"limit {given[0]}")
            case "dedup" if self._columns and not given:
                self._columns.append("count($x) as rows")
            case "toList" | "next" | "valueMap" | "elementMap" | "iterate":
                pass
            case _:
                return False
        return True

    def _condition(self, name: str, value: str) -> str:
        column = f"{self._here}.{name.strip(QUOTES)}"
        test = _TEST.match(value)
        if test is None:
            return f"{column} = {value}"
        if test[1] == "within":
            return f"{column} in [{test[2]}]"
        return f"{column} {_OPERATORS[test[1]]} {test[2]}"

    def _walk(self, name: str, label: str) -> bool:
        edge = self._program.edge_word(label.strip(QUOTES))
        before = self._here
        self._count += 1
        ends = (self._here, before) if name == "in" else (before, self._here)
        word = f"<{edge}>" if name == "both" else edge
        self._clauses.append(f"{ends[0]} {word} {ends[1]}")
        return edge is not None
