r"""What other languages write where the parser stopped, and what is written here instead.

A habit is a pattern and its replacement; it applies where a match touches the syntax error. The
replacement names groups as `\1`. Their text is that of the program, strings included.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.program import SCALARS, RefusedProgram, find_name
from omnigraph.lang.source import Diagnostic, Span

KEYWORDS: Final = frozenset(
    {
        *("query", "match", "return", "order", "limit", "offset", "optional", "as", "asc", "desc"),
        *("and", "or", "not", "null", "is", "in", "contains", "starts_with", "true", "false"),
        *("count", "sum", "avg", "min", "max", "distinct", "now", "date", "datetime", "nearest"),
        *("search", "match_text", "fuzzy", "bm25", "rrf", "insert", "update", "delete", "set"),
        *("where", "having", "collect", "stddev", "percentile", "union", "all"),
    }
)

_TAIL: Final = r"(?=\s*(?:\b(?i:having|order|limit|offset|skip|return)\b|[{}]|\Z))"


@dataclass(frozen=True, slots=True)
class Habit:
    pattern: str
    replacement: str
    flags: int = 0

    def propose(self, program: RefusedProgram, span: Span) -> Iterator[Proposal]:
        for match in program.near(self.pattern, span, self.flags):
            yield (TextEdit(match.start(), match.end(), fill(program, match, self.replacement)),)


def fill(program: RefusedProgram, match: re.Match[str], template: str) -> str:
    return re.sub(r"\\(\d)", lambda each: program.group(match, int(each[1])), template)


HABITS: Final = (
    # Characters that a word processor or a Markdown answer puts in.
    Habit('[\u201c\u201d]([^\u201c\u201d"\n]*)[\u201c\u201d]', r'"\1"'),
    Habit('[\u2018\u2019]([^\u2018\u2019"\n]*)[\u2018\u2019]', r'"\1"'),
    Habit("\u00a0+", " "),
    # Operators.
    Habit(r"!==|<>|=/=|\b(?i:not)\s*=", "!="),
    Habit(r"={2,3}", "="),
    Habit(r"=~", "contains"),
    Habit(r"&&", "and"),
    Habit(r"\|\|", "or"),
    Habit(r"=<", "<="),
    Habit(r"=>", ">="),
    Habit(r"\b(?i:is\s+not|!=)\s+(?i:null|none|nil|undefined)\b", "is not null"),
    Habit(r"\b(?i:is)\s+(?i:null|none|nil)\b", "is null"),
    Habit(r"\b(?i:starts\s*_?with|begins\s*_?with|startsWith)\b", "starts_with"),
    Habit(r"\b(?i:in)\s*\(([^()]*)\)", r"in [\1]"),
    Habit(r"\bTrue\b", "true"),
    Habit(r"\bFalse\b", "false"),
    Habit(r"\b(?:None|nil|undefined)\b", "null"),
    # Separators and comments.
    Habit(r";", ""),
    Habit(r"(?:--|#)([^\n]*)", r"//\1"),
    # Aggregates.
    Habit(r"\b(?i:count)\s*\(\s*(?i:distinct)\s*\(([^()]*)\)\s*\)", r"count(distinct \1)"),
    # Numbers.
    Habit(r"(?<![\w.])(\d+)_(\d+)_?(\d*)\b", r"\1\2\3"),
    Habit(r"(?<![\w.])\.(\d+)", r"0.\1"),
    # Hops.
    Habit(r"\*\s*(\d+)\s*\.\.\s*(\d+)", r"{\1,\2}"),
    Habit(r"\{\s*(\d+)\s*(?:\.\.|-|:)\s*(\d+)\s*\}", r"{\1,\2}"),
    Habit(r"\{\s*(\d+)\s*\}", r"{\1,\1}"),
    Habit(r"\*\s*(\d+)", r"{\1,\1}"),
    # Heads and their parameters.
    Habit(r"\bquery\s+(\w+)\s*(?=[{@])", r"query \1() "),
    Habit(r"\bquery\s*(?=\{)", "query q() "),
    Habit(r"(?:List|Array|list|array)\s*[<\[(]\s*(\w+)\s*[>\])]", r"[\1]"),
    Habit(r"\b([A-Z]\w*)\[\]", r"[\1]"),
    Habit(r"\b(?:Optional|Nullable)\s*[<\[]\s*(\w+)\s*[>\]]", r"\1?"),
    Habit(r"(?<![\$\w])([a-z_]\w*)(?=\s*:\s*(?:[A-Z\[]|string\b|int\b|float\b|bool))", r"$\1"),
    Habit(r"(\$\w+)\s+(?=[A-Z]\w*\s*[,)?])", r"\1: "),
    Habit(r"\(\s*\$(\w+)\s*:\s*([A-Z]\w*)\s*=\s*[^,()]+\)", r"($\1: \2?)"),
    # Variables without their sign.
    Habit(r"(?<![\$\w.])([a-z_]\w*)\.(?=[A-Za-z_])", r"$\1."),
    Habit(r"(?<![\$\w])([a-z]\w*)(\s+[a-z]\w*\s+)([a-z]\w*)(?![\w.(])", r"$\1\2$\3"),
    Habit(r"(\$\w+\s+[a-z]\w*\s+)([a-z_]\w*)", r"\1$\2"),
    Habit(r"@(?=[a-z_]\w*\s*[:.,)])", "$"),
    Habit(r"(?<![\w$]):(?=[a-z_]\w*)", "$"),
    # Braces.
    Habit(r"\b(?i:not\s+exists|exists\s+not)\s*(?=\{)", "not "),
    Habit(r"\b(?i:not\s+exists|not)\s*\(([^()]*)\)", r"not { \1 }"),
    Habit(r"\b(?i:not\s+exists|not)\s+(\$\w+[^{}\n]*)", r"not { \1 }"),
    Habit(r"!\s*\(([^()]*)\)", r"not { \1 }"),
    Habit(r"\b(?i:optional\s+match)\s*(?=\{)", "optional "),
    Habit(r"\b(?i:optional(?:\s+match)?)\s+([^{}\n]+)", r"optional { \1 }"),
    # Clauses that other languages join.
    Habit(r"\b(?i:and)(\s+\$\w+\s+)", r"\1"),
    Habit(r"\b(?i:and)\b\s*", ""),
    Habit(r",", ""),
    # Projections and aliases.
    Habit(r"\b([A-Za-z_]\w*)\s*:\s*((?:\w+\s*\([^()]*\))|\$\w+(?:\.\w+)?)", r"\2 as \1"),
    Habit(r"\b(?i:ascending)\b", "asc"),
    Habit(r"\b(?i:descending)\b", "desc"),
)
"""In the order in which they are tried."""

_LATE: Final = (
    Habit(
        r"((?:=|!=|:|\bcontains|\bstarts_with)\s*)([A-Za-z][\w@.+'’-]*(?:[ ][\w@.+'’-]+)*)"
        r"(?=\s*(?:[,})\n]|\Z|\band\b|\bor\b))",
        r'\1"\2"',
    ),
    Habit(r"((?:=|!=)\s*)([A-Za-z][\w@.+-]*)", r'\1"\2"'),
)
"""Text without quotes: tried last, because almost every mistake could be text."""


def propose_habits(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    yield from _fences(program)
    yield from _words(program, fault, span)
    yield from _quotes(program, span)
    yield from _likes(program, span)
    for habit in HABITS:
        yield from habit.propose(program, span)
    yield from _counted_stars(program, span)
    yield from _missing_commas(program, fault, span)
    yield from _names(program, fault, span)
    for habit in _LATE:
        yield from habit.propose(program, span)


def _fences(program: RefusedProgram) -> Iterator[Proposal]:
    """A program inside of a Markdown code fence."""
    fence = re.match(r"\A[^`]*```[a-zA-Z]*[ \t]*\n(.*?)(?:\n```.*)?\Z", program.text, re.DOTALL)
    if fence is not None:
        yield (
            TextEdit(0, fence.start(1), ""),
            TextEdit(fence.end(1), len(program.text), ""),
        )


def _words(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """A keyword in capitals, or a type by its name in another language."""
    for match in program.near(r"[A-Za-z_]\w*", span):
        word = match[0]
        if word.lower() in KEYWORDS and word.lower() != word:
            yield (TextEdit(*match.span(), word.lower()),)
        if "a type" in fault.expected and match.start() >= span.start:
            yield from _types(program, word, Span(*match.span()))


def _types(program: RefusedProgram, word: str, span: Span) -> Iterator[Proposal]:
    catalog = program.catalog
    nodes = [each.name for each in catalog.nodes]
    is_head = program.head is None or span.start < program.head.end()
    scalar = SCALARS.get(word.lower())
    if scalar is not None and is_head:
        yield (TextEdit(span.start, span.end, scalar.value),)
    meant = find_name(word, [*nodes, *(each.name for each in catalog.edges)])
    if meant is not None:
        yield (TextEdit(span.start, span.end, meant),)


def _quotes(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """'text' or `name` instead of "text"."""
    for match in program.near(r"'([^'\n]*)'|`(\w+)`", span):
        if match[2] is not None:
            yield (TextEdit(*match.span(), match[2]),)
            continue
        inner = program.group(match, 1).replace("\\", "\\\\").replace('"', '\\"')
        yield (TextEdit(*match.span(), f'"{inner}"'),)


def _likes(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`like "%word%"` is `contains`, `like "word%"` is `starts_with`."""
    for match in program.near(r"\b(?i:i?like)\s+[\"'](.*?)[\"']", span):
        pattern = program.group(match, 1)
        inner = pattern.strip("%")
        if not re.search(r"[%_]", inner):
            if pattern.startswith("%"):
                yield (TextEdit(*match.span(), f'contains "{inner}"'),)
            elif pattern.endswith("%"):
                yield (TextEdit(*match.span(), f'starts_with "{inner}"'),)
            else:
                yield (TextEdit(*match.span(), f'= "{inner}"'),)


def _counted_stars(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    for match in program.near(r"\b(?i:count)\s*\(\s*\*?\s*\)", span):
        if program.variables:
            yield (TextEdit(*match.span(), f"count(${program.variables[0]})"),)


def _missing_commas(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    if "','" in fault.expected:
        at = len(program.text[: span.start].rstrip())
        yield (TextEdit(at, at, ","),)
    if "':'" in fault.expected:
        # `{ name = "Ada" }`, and keys in quotes as JSON writes them.
        for match in program.near(r"\s*={1,2}\s*", span):
            yield (TextEdit(*match.span(), ": "),)
    key = re.compile(r'"(\w+)"(?=\s*:)').match(program.text, span.start)
    if key is not None:
        yield (TextEdit(*key.span(), key[1]),)


def _names(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """Capital letters where a name begins: of variables, properties, edges, aliases, queries."""
    for match in program.near(r"\$([A-Z])\w*", span):
        small = f"${match[0][1].lower()}{match[0][2:]}"
        name = re.escape(match[0])
        yield tuple(TextEdit(*each.span(), small) for each in program.finditer(rf"{name}\b"))
    for match in program.near(r"(?<![\$\w])[A-Z]\w*", span):
        word = match[0]
        if (edge := program.edge_word(word)) is not None and "a type" not in fault.expected:
            yield (TextEdit(*match.span(), edge),)
        yield (TextEdit(*match.span(), f"{word[0].lower()}{word[1:]}"),)
    for match in program.near(r"\bquery\s+(\w+(?:-\w+)+)", span):
        yield (TextEdit(*match.span(1), match[1].replace("-", "_")),)
    for match in program.near(r"\bas\s+\"[^\"]*\"", span):
        alias = re.sub(r"\W+", "_", program.group(match)[2:].strip(' "')).strip("_").lower()
        if alias[:1].isalpha():
            yield (TextEdit(*match.span(), f"as {alias}"),)
