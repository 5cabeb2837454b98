r"""What other languages write where the parser stopped, and what is written here instead.

A habit is a pattern and its replacement; it applies where a match touches the syntax error. The
replacement names groups as `\1`. Their text is that of the program, strings included.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.compiler.functions import NAMES
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import split
from omnigraph.compiler.repair.program import SCALARS, RefusedProgram, find_name, fresh_name
from omnigraph.lang.source import Diagnostic, Span

KEYWORDS: Final = frozenset(
    {
        *("query", "match", "return", "order", "limit", "offset", "optional", "as", "asc", "desc"),
        *("and", "or", "not", "null", "is", "in", "contains", "starts_with", "true", "false"),
        *("count", "sum", "avg", "min", "max", "distinct", "now", "date", "datetime", "nearest"),
        *("search", "match_text", "fuzzy", "bm25", "rrf", "insert", "update", "delete", "set"),
        *("where", "having", "collect", "stddev", "percentile", "union", "all"),
        *("with", "case", "when", "then", "else", "end", "exists", "shortest"),
    }
)


_WORDS: Final = KEYWORDS.union(NAMES)


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


_VALUE: Final = r"(?:[\"']~*[\"']|-?\$?\w+(?:\.\w+)?(?:\([^()]*\))?)"
"""One value, without operators."""

_TYPE: Final = r"\s*:\s*[A-Z]\w*(?:\s*\{[^{}]*\})?"
"""The type of a binding, and its matches."""

HABITS: Final = (
    # Characters that a word processor or a Markdown answer puts in.
    Habit('[\u201c\u201d]([^\u201c\u201d"\n]*)[\u201c\u201d]', r'"\1"'),
    Habit('[\u2018\u2019]([^\u2018\u2019"\n]*)[\u2018\u2019]', r'"\1"'),
    Habit("\u00a0+", " "),
    # Operators.
    Habit(r"!==|<>|=/=|\b(?i:not)\s*=", "!="),
    Habit(r"={2,3}", "="),
    Habit(r"&&", "and"),
    Habit(r"\|\|", "or"),
    Habit(r"=<", "<="),
    Habit(r"=>", ">="),
    Habit(r"\b(?i:is\s+not|!=)\s+(?i:null|none|nil|undefined)\b", "is not null"),
    Habit(r"\b(?i:is)\s+(?i:null|none|nil)\b", "is null"),
    Habit(r"\b(?i:starts\s*_?with|begins\s*_?with|startsWith)\b", "starts_with"),
    Habit(
        rf"({_VALUE})\s+(?i:not\s+(in|contains|starts_with))\s*(\[[^\[\]]*\]|\([^()]*\)|{_VALUE})",
        r"not (\1 \2 \3)",
    ),
    Habit(r"\b(?i:in)\s*\(([^()]*)\)", r"in [\1]"),
    Habit(
        rf"({_VALUE})\s+(?i:(?:is\s+)?between)\s+({_VALUE})\s+(?i:and)\s+({_VALUE})",
        r"(\1 >= \2 and \1 <= \3)",
    ),
    Habit(r"\b(?i:not\s+exists)\s*\(\s*(\$?\w+\.\w+)\s*\)", r"\1 is null"),
    Habit(r"\b(?i:exists)\s*\(\s*(\$?\w+\.\w+)\s*\)", r"\1 is not null"),
    Habit(
        r"\b(?i:any)\s*\(\s*\$?(\w+)\s+(?i:in)\s+(\$?\w+\.\w+)\s+(?i:where)\s+\$?\1\s*=\s*([^()]+?)\s*\)",
        r"\3 in \2",
    ),
    # Values that depend on a condition, and spans of time.
    Habit(
        r"(?<=[{,])([^{},?]{1,120})\?([^{},:?]{1,120}):([^{},:?]{1,120}?)(?=\s(?:as\b|\})|[,}]|\Z)",
        r" case when \1 then \2 else \3 end",
    ),
    Habit(r"(\bcase\b(?:(?!\bend\b)[^{},])*?)\s*(?=[,}]|\bas\b)", r"\1 end "),
    Habit(r"\b(?i:interval)\s*(?:'\s*(\d+)\s*(\w+?)s?\s*'|(\d+)\s*(\w+?)s?\b)", r"\2\4s(\1\3)"),
    Habit(r"\b(?i:duration)\s*\(\s*\{\s*()()(\w+?)s?\s*:\s*(\d+)\s*\}\s*\)", r"\3s(\4)"),
    Habit(r"\bTrue\b", "true"),
    Habit(r"\bFalse\b", "false"),
    Habit(r"\b(?:None|nil|undefined)\b", "null"),
    Habit(r"(\$\w+\.\w+)\[(\d)\]", r"at(\1, \2 + 1)"),
    Habit(r"\b(?i:and|or)\s*(?=\})", ""),
    Habit(r"((?:=|:)\s*)[A-Z]\w*\.(\w+)\b", r'\1"\2"'),
    Habit(rf"({_VALUE})\s*\?\?\s*({_VALUE})", r"coalesce(\1, \2)"),
    Habit(r"\bnow\b(?!\s*\()", "now()"),
    Habit(r"\b(count|exists)\s*\(\s*(\$\w+\s+<?[a-z]\w*>?\s+\$\w+)\s*\)", r"\1 { \2 }"),
    Habit(r"\bis\s+not\s+(?=[\"'\d$])", "!= "),
    Habit(r"\bis\s+(?=[\"'\d$])", "= "),
    Habit(r"\b(?i:if|require)\s+(?=\$)", ""),
    # Separators and comments.
    Habit(r";", ""),
    Habit(r"(?:--|#)([^\n]*)", r"//\1"),
    # Aggregates.
    Habit(r"\b(?i:count)\s*\(\s*(?i:distinct)\s*\(([^()]*)\)\s*\)", r"count(distinct \1)"),
    # Numbers.
    Habit(r"(?<![\w.])(\d+)_(\d+)_?(\d*)\b", r"\1\2\3"),
    Habit(r"(?<![\w.])\.(\d+)", r"0.\1"),
    # Hops.
    Habit(r"(\$\w+)\s*<-?\s*([A-Za-z_]\w*)\s+(\$\w+)", r"\3 \2 \1"),
    Habit(r"(\$\w+\s+[A-Za-z_]\w*)\s*-?>\s*(?=\$\w+)", r"\1 "),
    Habit(r"(\$\w+\s+<?[a-z_]\w*>?)\s*[+*](?=\s*\$\w+)", r"\1{1,}"),
    Habit(r"\*\s*(\d+)\s*\.\.\s*(\d+)", r"{\1,\2}"),
    Habit(r"\{\s*(\d+)\s*(?:\.\.|-|:)\s*(\d+)\s*\}", r"{\1,\2}"),
    Habit(r"\{\s*(\d+)\s*\}", r"{\1,\1}"),
    Habit(r"\*\s*(\d+)", r"{\1,\1}"),
    Habit(r"\{\s*(\d+)\s*(?:\.\.|\+)\s*\}", r"{\1,}"),
    # Heads and their parameters.
    Habit(r"(\bquery\s+\w+\s*\([^()]*\))\s*(?:->|=>|:|=)\s*(?=\{)", r"\1 "),
    Habit(r"(?<![\w$])(?i:mutation|function|def|fn|read|procedure)\s+(?=\w+\s*\()", "query "),
    Habit(r"\bquery\s+(\w+)\s*(?=[{@])", r"query \1() "),
    Habit(r"\b(?:query|mutation)\s*(?=\{)", "query q() "),
    Habit(r"(?:List|Array|list|array)\s*[<\[(]\s*(\w+)\s*[>\])]", r"[\1]"),
    Habit(r"\b([A-Z]\w*)\[\]", r"[\1]"),
    Habit(r"\b(?:Optional|Nullable)\s*[<\[]\s*(\w+)\s*[>\]]", r"\1?"),
    Habit(r"(?<![\$\w])([a-z_]\w*)(?=\s*:\s*(?:[A-Z\[]|string\b|int\b|float\b|bool))", r"$\1"),
    Habit(r"(\$\w+)\s+(?=[A-Z]\w*\s*[,)?])", r"\1: "),
    Habit(r"\(\s*\$(\w+)\s*:\s*([A-Z]\w*)\s*=\s*[^,()]+\)", r"($\1: \2?)"),
    Habit(r"([A-Z]\w*\]?)!", r"\1"),
    Habit(r"(\$\w+\s*:\s*\[?[A-Z]\w*\]?)\??\s*=\s*(?:\"~*\"|[\w.-]+)(?=\s*[,)])", r"\1?"),
    Habit(r"(\$\w+\s*:\s*\[?[A-Z]\w*\]?)\??\s*=\s*(?:\"~*\"|[\w.-]+)(?=\s*[,)])", r"\1"),
    # Bindings.
    Habit(r"(\$\w+\s*:\s*[A-Z]\w*)\s*\(([^()]*:[^()]*)\)", r"\1 { \2 }"),
    Habit(
        rf"(\$\w+)({_TYPE})\s+((?:\$\w+\s*:)?<?[a-z_]\w*>?(?:\{{[\d,\s]*\}})?)\s+(\$\w+)({_TYPE})",
        r"\1\2  \4\5  \1 \3 \4",
    ),
    Habit(
        rf"(\$\w+\s+((?:\$\w+\s*:)?<?[a-z_]\w*>?(?:\{{[\d,\s]*\}})?)\s+(\$\w+))({_TYPE})",
        r"\3\4  \1",
    ),
    Habit(
        rf"(\$\w+)({_TYPE})\s+((?:\$\w+\s*:)?<?[a-z_]\w*>?(?:\{{[\d,\s]*\}})?\s+\$\w+)",
        r"\1\2  \1 \3",
    ),
    Habit(
        r"(?:(\$\w+)\s*=\s*)\b(?:path|shortest\w*)\s*[({]?\s*(\$\w+\s+<?\w+>?\{[\d,\s]*\}\s+\$\w+)\s*[)}]?",
        r"shortest { \2 } as \1",
    ),
    Habit(
        r"\b(?:path|shortest\w*)\s*\(?\s*(\$\w+\s+<?\w+>?\{[\d,\s]*\}\s+\$\w+)\s*\)?\s+as\s+(\$\w+)",
        r"shortest { \1 } as \2",
    ),
    Habit(r"(\$\w+)\s+(?:is\s+an?|is|isa|an?|in|of\s+type)\s+([A-Z]\w*)\b", r"\1: \2"),
    Habit(r"(?<![:\w]\s)(?<![:\w])([A-Z]\w*)\s+(?:as\s+)?(\$\w+)\b(?!\s*:)", r"\2: \1"),
    Habit(r"(\$\w+)\.\*", r"\1"),
    # Variables without their sign.
    Habit(r"(?<![\$\w.])([a-z_]\w*)\.(?=[A-Za-z_])", r"$\1."),
    Habit(r"(?<![\$\w])([a-z]\w*)(\s+[a-z]\w*\s+)([a-z]\w*)(?![\w.(])", r"$\1\2$\3"),
    Habit(r"(\$\w+\s+[a-z]\w*\s+)([a-z_]\w*)", r"\1$\2"),
    Habit(r"@(?=[a-z_]\w*\s*[:.,)])", "$"),
    Habit(r"(?<![\w$]):(?=[a-z_]\w*)", "$"),
    # Braces.
    Habit(r"\b(?i:not\s+exists|exists\s+not)\s*(?=\{)", "not "),
    Habit(r"\b(?i:not\s+exists|not)\s*\(([^()]*)\)", r"not { \1 }"),
    Habit(r"\b(?i:not)\s+(\$?\w+\.\w+[^{}\n]*?)(?=\s*(?:[{}\n]|\b(?:and|or)\b))", r"not (\1)"),
    Habit(r"\b(?i:not\s+exists|not)\s+(\$\w+[^{}\n]*)", r"not { \1 }"),
    Habit(r"!\s*\(([^()]*)\)", r"not { \1 }"),
    Habit(r"\b(?i:optional\s+match)\s*(?=\{)", "optional "),
    Habit(r"\b(?i:optional(?:\s+match)?)\s+([^{}\n]+)", r"optional { \1 }"),
    # Clauses that other languages join.
    Habit(r"\b(?i:and)(\s+\$\w+\s+)", r"\1"),
    Habit(r"\b(?i:and)\b\s*", ""),
    Habit(r",", ""),
    # Projections and aliases.
    Habit(r"\b(?i:return)\s*\{\s*\{([^{}]*)\}\s*\}", r"return { \1 }"),
    Habit(r"\b(?i:return)\s*\[([^\[\]{}]*)\]", r"return { \1 }"),
    # Keys of an order.
    Habit(r"(\$?\w+(?:\.\w+)?)\s*:\s*(?i:(asc|desc)(?:ending)?)\b", r"\1 \2"),
    Habit(r"\b(asc|desc)\s+(\$?\w+(?:\.\w+)?)", r"\2 \1"),
    Habit(rf"({_VALUE})\s+(?i:desc(?:ending)?)\s+(?i:nulls\s+last)\b", r"\1 desc"),
    Habit(
        rf"({_VALUE})\s+(?i:desc(?:ending)?)\s+(?i:nulls\s+first)\b", r"\1 is null desc, \1 desc"
    ),
    Habit(rf"({_VALUE})(?:\s+(?i:asc(?:ending)?))?\s+(?i:nulls\s+first)\b", r"\1"),
    Habit(rf"({_VALUE})(?:\s+(?i:asc(?:ending)?))?\s+(?i:nulls\s+last)\b", r"\1 is null, \1"),
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
    yield from _distinct_rows(program, span)
    yield from _compared_matches(program, span)
    yield from _walked_properties(program, span)
    yield from _shapes(program, span)
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
        if word.lower() in _WORDS and word.lower() != word:
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
    """`like "%word%"` is `contains`, `like "word%"` is `starts_with`; `ilike` of small letters."""
    for match in program.near(r"(\$?\w+\.\w+|\w+)\s+\b(?i:(i?like))\s+[\"'](.*?)[\"']", span):
        pattern = program.group(match, 3)
        inner = pattern.strip("%")
        if not re.search(r"[%_]", inner):
            test = "starts_with" if pattern.endswith("%") else "="
            test = "contains" if pattern.startswith("%") else test
            if match[2].lower() == "ilike":
                text = f'lower({match[1]}) {test} "{inner.lower()}"'
                yield (TextEdit(*match.span(), text),)
            else:
                yield (TextEdit(match.start(2), match.end(), f'{test} "{inner}"'),)


def _counted_stars(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    for match in program.near(r"\b(?i:count)\s*\(\s*\*?\s*\)", span):
        if program.variables:
            yield (TextEdit(*match.span(), f"count(${program.variables[0]})"),)


def _distinct_rows(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`return distinct { … }` asks for groups, so the number of their rows makes it groups."""
    pattern = r"\breturn\s*(?:(?i:distinct)\s*\{|\{\s*(?i:distinct)\b)([^{}]*)\}"
    for match in program.near(pattern, span):
        inner = program.group(match, 1).strip()
        is_grouped = re.search(r"\b(?:count|sum|avg|min|max|collect)\s*\(", inner) is not None
        if is_grouped or program.variables:
            rows = "" if is_grouped else f", count(${program.variables[0]}) as rows"
            yield (TextEdit(*match.span(), f"return {{ {inner}{rows} }}"),)


def _compared_matches(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$p: Person { age > 30, status: "gone" }`: what is no equality goes behind the braces."""
    for match in program.near(r"(\$\w+)(\s*:\s*[A-Z]\w*)\s*\{([^{}]*)\}", span):
        parts = split(program.group(match, 3))
        kept = [each for each in parts if re.match(r"\w+\s*(?::|={1,2}(?!=))", each)]
        moved = [each for each in parts if each and each not in kept]
        if moved and all(re.match(r"[a-z]\w*\s*\S", each) for each in moved):
            inside = f" {{ {', '.join(kept)} }}" if kept else ""
            conditions = "  ".join(f"{match[1]}.{each}" for each in moved)
            yield (TextEdit(*match.span(), f"{match[1]}{match[2]}{inside}  {conditions}"),)


def _walked_properties(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$p.worksAt.name` is the name of what `$p worksAt` leads to."""
    for match in program.near(r"\$(\w+)\.(\w+)\.(\w+)", span):
        word = program.edge_word(match[2])
        binding = next(
            program.finditer(rf"\${match[1]}\s*:\s*[A-Z]\w*(?:\s*\{{[^{{}}]*\}})?"), None
        )
        if word is not None and binding is not None and binding.end() <= match.start():
            name = fresh_name(program, match[2][0].lower())
            walk = f"  ${match[1]} {word} ${name} "
            yield (
                TextEdit(binding.end(), binding.end(), walk),
                TextEdit(*match.span(), f"${name}.{match[3]}"),
            )


def _shapes(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$p { name, .age }` in `return`: each property by itself."""
    for match in program.near(r"\$?(\w+)\s*\{([\w\s,.]+)\}", span):
        names = re.findall(r"\w+", match[2])
        if match[1] not in KEYWORDS and names:
            columns = ", ".join(f"${match[1]}.{name}" for name in names)
            yield (TextEdit(*match.span(), columns),)


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
