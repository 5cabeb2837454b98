"""The first sequence of proposals after which nothing is wrong.

A depth-first search. A proposal is followed if it makes progress: the first syntax error comes
later in the text than before, or, once the text parses, fewer rules are broken. Braces and spaces
do not count, and a proposal that puts sections in braces need not make progress by itself. The
translation of a whole program is another text, so the two are not compared.
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.repair.arrows import propose_arrows
from omnigraph.compiler.repair.cypher import propose_cypher
from omnigraph.compiler.repair.edits import EditedText, Proposal, Repair
from omnigraph.compiler.repair.functions import propose_endings, propose_functions
from omnigraph.compiler.repair.graphql import propose_graphql
from omnigraph.compiler.repair.gremlin import propose_gremlin
from omnigraph.compiler.repair.habits import propose_habits
from omnigraph.compiler.repair.meaning import propose_meaning
from omnigraph.compiler.repair.program import RefusedProgram, mask
from omnigraph.compiler.repair.sections import propose_sections
from omnigraph.compiler.repair.sql import propose_sql
from omnigraph.compiler.repair.statements import propose_statements
from omnigraph.lang.source import Diagnostic, Source, Span

CHECKS_MAX: Final = 240
"""How many texts are compiled for one repair."""

STEPS_MAX: Final = 24
"""How many proposals, one after another, make a repair."""

TEXT_MAX: Final = 4_000
"""Longer programs are not repaired: every check reads the whole text."""

CHARACTERS_MAX: Final = 60_000
"""How many characters are compiled for one repair, over all checks."""

_LONG_WORD: Final = re.compile(r"\w{129}")
"""Programs with such a word are not repaired: patterns begin at each of its characters, and read it
to its end."""

_UNKNOWN: Final = frozenset({"T1", "T2", "T4", "T6", "U4", "U8", "E1"})
"""A name that means nothing weighs twice: what is wrong with its value shows once it is known."""

Check = Callable[[Source], tuple[Diagnostic, ...]]
"""Every fault of a text, as the compiler reports it."""


def find_repair(
    source: Source, faults: tuple[Diagnostic, ...], catalog: Catalog, check: Check
) -> Repair | None:
    """The edits that make a program valid, if they can be found."""
    if len(source.text) > TEXT_MAX or not faults or _LONG_WORD.search(mask(source.text)):
        return None
    checks = min(CHECKS_MAX, CHARACTERS_MAX // max(1, len(source.text)))
    search = _Search(source.name, catalog, check, checks)
    found = search.run(EditedText(source.text), faults, STEPS_MAX)
    return None if found is None else found.repair(source.name)


class _Kind(Enum):
    """What a proposal is about."""

    WHOLE = "a whole program"
    FRAME = "sections and braces"
    EDIT = "anything else"


class _Search:
    def __init__(self, name: str, catalog: Catalog, check: Check, checks_max: int) -> None:
        self._name = name
        self._catalog = catalog
        self._check = check
        self._checks_left = checks_max
        self._seen: set[str] = set()

    def run(
        self, edited: EditedText, faults: tuple[Diagnostic, ...], steps_left: int
    ) -> EditedText | None:
        if not faults:
            return edited
        if steps_left == 0:
            return None
        before = _measure(edited.text, faults)
        for proposal, kind in _propose(edited.text, faults, self._catalog):
            changed = edited.apply(proposal)
            if changed.text in self._seen:
                continue
            if self._checks_left == 0:
                return None
            self._seen.add(changed.text)
            self._checks_left -= 1
            left = self._check(Source(self._name, changed.text))
            after = _measure(changed.text, left)
            if kind is _Kind.WHOLE or after < before or (kind is _Kind.FRAME and after == before):
                found = self.run(changed, left, steps_left - 1)
                if found is not None:
                    return found
        return None


def _measure(text: str, faults: tuple[Diagnostic, ...]) -> tuple[int, int]:
    """How much is wrong: how much of the text is not parsed yet, then how many rules are broken."""
    if not faults:
        return 0, 0
    first = faults[0]
    if not first.code.startswith("P"):
        return 0, sum(2 if each.code in _UNKNOWN else 1 for each in faults)
    at = len(text) if first.span is None else first.span.start
    return 1 + sum(not each.isspace() and each not in "{}" for each in text[at:]), len(faults)


def _propose(
    text: str, faults: tuple[Diagnostic, ...], catalog: Catalog
) -> Iterator[tuple[Proposal, _Kind]]:
    for fault in faults[:1] if faults[0].code.startswith("P") else faults:
        if (span := fault.span) is None:
            continue
        program = RefusedProgram(text, catalog, span.start)
        if fault.code.startswith("P"):
            yield from ((each, _Kind.WHOLE) for each in _propose_whole(program))
            yield from ((each, _Kind.FRAME) for each in propose_sections(program, fault, span))
            yield from ((each, _Kind.EDIT) for each in _propose_syntax(program, fault, span))
        else:
            yield from ((each, _Kind.EDIT) for each in propose_meaning(program, fault, span))


def _propose_whole(program: RefusedProgram) -> Iterator[Proposal]:
    yield from propose_cypher(program)
    yield from propose_sql(program)
    yield from propose_graphql(program)
    yield from propose_gremlin(program)


def _propose_syntax(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    yield from propose_arrows(program, span)
    yield from propose_statements(program, span)
    yield from propose_endings(program, span)
    yield from propose_functions(program, span)
    yield from propose_habits(program, fault, span)
