"""Sections of a read in the order and spelling of other languages, heads and braces."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.habits import Habit
from omnigraph.compiler.repair.program import RefusedProgram
from omnigraph.lang.source import Diagnostic, Span

_NEXT: Final = r"\b(?i:where|return|order|sort|limit|offset|skip|group|having)\b"
_REST: Final = rf"(?=\s*(?:{_NEXT}|[{{}}]|\Z))"

_SECTIONS: Final = (
    # Conditions beside `match` instead of inside.
    Habit(r"\b(?i:where|filter)\s*\{([^{}]*)\}", r"\1"),
    Habit(r"\b(?i:where|filter)\s+", ""),
    Habit(r"\s*\}\s*(?i:match)\s*\{", " "),
    # Sections without braces.
    Habit(
        r"\b(?i:match)\s+(?!\{)(.{1,600}?)\s*(?=\b(?i:where|return)\b)", r"match { \1 } ", re.DOTALL
    ),
    Habit(rf"\b(?i:return)\s+(?!\{{)([^{{}}]*?){_REST}", r"return { \1 }"),
    Habit(rf"\b(?i:having)\s+(?!\{{)([^{{}}]*?){_REST}", r"having { \1 }"),
    Habit(r"\b(?i:aggregate|group|summarize|project)\s*(?=\{)", "with "),
    Habit(r"\b(?i:find|from|select|get|pattern)\s*(?=\{\s*\$)", "match "),
    Habit(r"\border\s*\{([^{},]*)\}\s*(?i:(asc|desc)(?:ending)?)\b", r"order { \1 \2 }"),
    Habit(r"\b(?i:(?:order|sort)\s*_?by)\s*(?=\{)", "order "),
    Habit(rf"\b(?i:(?:order|sort)\s*_?by|order|sort)\s+(?!\{{)([^{{}}]*?){_REST}", r"order { \1 }"),
    Habit(r"\border\s*\{\s*(?i:by)\b\s*", "order { "),
    Habit(r"\b(?i:limit|top|take|first)\s*[:=]?\s*[({\[]?\s*(\d+|\$\w+)\s*[)}\]]?", r"limit \1"),
    Habit(r"\b(?i:offset|skip)\s*[:=]?\s*[({\[]?\s*(\d+|\$\w+)\s*[)}\]]?", r"offset \1"),
    Habit(r"\b(limit|offset)\s+\"(\d+)\"", r"\1 \2"),
    # A brace that was forgotten before a section.
    Habit(r"\b(return|having|order)\s*(?=\{)", r"} \1 "),
)


def propose_sections(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    yield from _conditions(program, span)
    for habit in _SECTIONS:
        yield from habit.propose(program, span)
    yield from _groups(program, span)
    yield from _orders(program)
    yield from _heads(program, fault, span)
    yield from _braces(program, fault, span)


_CONDITIONS: Final = rf"\b(?i:where|filter)\s*(?:\{{([^{{}}]*)\}}|(?!\{{)([^{{}}]*?){_REST})"


def _conditions(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """Conditions beside `match` go inside, also from below `return`."""
    opening = next(program.finditer(r"\bmatch\s*\{"), None)
    closing = None if opening is None else _find_closing(program.masked, opening.end())
    for match in program.near(_CONDITIONS, span):
        if closing is not None and match.start() >= closing:
            inside = program.group(match, 1 if match[1] is not None else 2)
            yield (TextEdit(closing - 1, closing - 1, f" {inside} "), TextEdit(*match.span(), ""))


def _groups(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`group by` goes if everything that it names is returned: that is the group then."""
    returned = next(program.finditer(r"\breturn\s*\{([^{}]*)\}"), None)
    for match in program.near(rf"\b(?i:group)\s+(?i:by)\s+\{{?([^{{}}]*?)\}}?{_REST}", span):
        keys = [each.strip() for each in program.group(match, 1).split(",")]
        if returned is not None and all(key in program.group(returned, 1) for key in keys):
            yield (TextEdit(*match.span(), ""),)


_SECTION: Final = r"\b(match|return|having|order)\s*\{|\b(limit|offset)\s+(?:\d+|\$\w+)"
_RANKS: Final = ("match", "return", "having", "order", "limit", "offset")


def _orders(program: RefusedProgram) -> Iterator[Proposal]:
    """The sections of the read that holds the fault, in the order of the language."""
    sections: list[tuple[str, int, int]] = []
    at = program.start
    for match in program.finditer(_SECTION):
        if match.start() < at:
            continue
        end = match.end() if match[1] is None else _find_closing(program.masked, match.end())
        if end is None:
            return
        sections.append((match[1] or match[2], match.start(), end))
        at = end
    ranks = [_RANKS.index(word) for word, _, _ in sections]
    is_apart = any(program.masked[left[2] : right[1]].strip() for left, right in pairwise(sections))
    if is_apart or ranks == sorted(ranks) or len(set(ranks)) < len(ranks):
        return
    ordered = sorted(sections, key=lambda each: _RANKS.index(each[0]))
    text = " ".join(program.text[start:end] for _, start, end in ordered)
    yield (TextEdit(sections[0][1], sections[-1][2], text),)


def _find_closing(masked: str, at: int) -> int | None:
    """The position after the brace that closes the block whose inside begins here."""
    depth = 1
    for match in re.compile("[{}]").finditer(masked, at):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return None


def _heads(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """A body without a head."""
    if "'query'" in fault.expected:
        body = program.text[span.start :].rstrip().rstrip(";").rstrip()
        if body and not body.startswith("}"):
            word = re.match(r"\w*", body)
            assert word is not None
            small = word[0].lower()
            text = f"query q() {{ {small}{body[word.end() :]} }}"
            yield (TextEdit(span.start, len(program.text), text),)


def _braces(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    missing = program.masked.count("{") - program.masked.count("}")
    if missing > 0:
        end = len(program.text.rstrip())
        yield (TextEdit(end, end, " }" * missing),)
    if missing < 0 and program.slice(span) == "}" and "'query'" in fault.expected:
        yield (TextEdit(span.start, span.end, ""),)
    quote = program.text[span.start : span.start + 1]
    if fault.code == "P8" and quote == '"':
        line_end = program.text.find("\n", span.start)
        line_end = len(program.text) if line_end < 0 else line_end
        closing = re.compile(r"[\s})]*\Z").search(program.text, span.start, line_end)
        assert closing is not None
        yield (TextEdit(closing.start(), closing.start(), '"'),)
    if fault.code == "P2":
        escaped = program.slice(span)
        yield (TextEdit(span.start, span.end, "'" if escaped == "\\'" else f"\\{escaped}"),)
