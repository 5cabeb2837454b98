"""Functions and methods of other languages, and the expressions that are written here instead."""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.compiler.functions import NAMES
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import split
from omnigraph.compiler.repair.program import SCALARS, RefusedProgram, find_name
from omnigraph.lang.source import Span

_OTHER_NAMES: Final = {
    **dict.fromkeys(("ifnull", "nvl", "isnull"), ("coalesce({0}, {1})",)),
    **dict.fromkeys(("if", "iif"), ("case when {0} then {1} else {2} end",)),
    **dict.fromkeys(("tolower", "lcase", "lowercase", "tolowercase"), ("lower({0})",)),
    **dict.fromkeys(("toupper", "ucase", "uppercase", "touppercase"), ("upper({0})",)),
    **dict.fromkeys(
        ("size", "length", "len", "char_length", "character_length", "cardinality"),
        ("len({0})", "length({0})"),
    ),
    **dict.fromkeys(("substr", "mid"), ("substring({0}, {1}, {2})", "substring({0}, {1})")),
    **dict.fromkeys(("left",), ("substring({0}, 1, {1})",)),
    **dict.fromkeys(("startswith", "begins_with"), ("starts_with({0}, {1})",)),
    **dict.fromkeys(("includes", "include", "has"), ("contains({0}, {1})",)),
    **dict.fromkeys(("endswith", "ends_with"), ("matches({0}, {1$})",)),
    **dict.fromkeys(("ceiling",), ("ceil({0})",)),
    **dict.fromkeys(("strip", "btrim"), ("trim({0})",)),
    **dict.fromkeys(("tostring", "str", "text", "string"), ("cast({0} as String)",)),
    **dict.fromkeys(("tointeger", "toint", "int", "integer"), ("cast({0} as I64)",)),
    **dict.fromkeys(("tofloat", "float", "double"), ("cast({0} as F64)",)),
    **dict.fromkeys(("current_timestamp", "getdate", "sysdate"), ("now()",)),
    **dict.fromkeys(("today", "current_date", "curdate", "date"), ("cast(now() as Date)",)),
    **dict.fromkeys(("datetime", "timestamp"), ("now()",)),
    **dict.fromkeys(("id", "elementid", "element_id"), ("{0}.@id",)),
    **dict.fromkeys(("labels", "label", "type", "typeof", "typename"), ("{0}.@type",)),
    **dict.fromkeys(("regexp_like", "regex", "regexp_matches", "match"), ("matches({0}, {1})",)),
    **dict.fromkeys(("exists", "isnotnull"), ("{0} is not null",)),
    **dict.fromkeys(("stdev", "stddev_samp"), ("stddev({0})",)),
    **dict.fromkeys(("percentile_cont", "percentilecont"), ("percentile({0}, {1})",)),
    **dict.fromkeys(("array_agg", "group_concat", "string_agg", "list"), ("collect({0})",)),
    **dict.fromkeys(("count_distinct", "countdistinct"), ("count(distinct {0})",)),
}
"""By the name in small letters. `{1$}` is the text as the end of a pattern."""

_CALL: Final = r"(?<![\w.$@])([A-Za-z]\w*)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)"
_METHOD: Final = (
    r"((?:\$\w+|\b[a-z]\w*)\.\w+|\b[a-z]\w*\([^()]*\))\s*\.\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?"
)
_BARE: Final = r"(?<![\w.$@])(current_date|current_timestamp|sysdate)\b(?!\s*\()"


def propose_functions(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    for match in program.near(_CALL, span):
        given = [_signed(program, each) for each in split(program.group(match, 2))]
        yield from _spell(match, match[1], given)
        if len(given) == 2 and match[1] in ("date_diff", "datediff"):
            days = [re.sub(r"\Anow\(\)\Z", "cast(now() as Date)", each) for each in given]
            for one, other in dict.fromkeys((tuple(given), tuple(days))):
                yield (TextEdit(*match.span(), f'date_diff("day", {one}, {other})'),)
        meant = find_name(match[1], NAMES)
        if meant is not None and meant != match[1]:
            yield (TextEdit(*match.span(1), meant),)
    for match in program.near(_METHOD, span):
        inside = program.group(match, 3) if match[3] else ""
        given = [match[1], *(split(inside) if inside.strip() else [])]
        name = match[2].lower()
        yield from _spell(match, name, given)
        if name in ("contains", "matches", "lower", "upper", "trim", "year", "month", "day"):
            yield (TextEdit(*match.span(), f"{name}({', '.join(given)})"),)
    for match in program.near(_BARE, span, re.IGNORECASE):
        yield from _spell(match, match[1], [])
    for match in program.near(r"\bround\s*\(\s*([^(),]+?)\s*,\s*(\d)\s*\)", span):
        scale = 10 ** int(match[2])
        yield (TextEdit(*match.span(), f"round({match[1]} * {scale}) / {scale}"),)
    yield from propose_days(program, span)
    yield from _casts(program, span)
    yield from _joined_texts(program, span)


def propose_days(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`now()` beside a Date is the day of today."""
    for match in program.near(r"(?<!cast\()\bnow\(\)", span):
        yield (TextEdit(*match.span(), "cast(now() as Date)"),)


def _spell(match: re.Match[str], name: str, given: list[str]) -> Iterator[Proposal]:
    arguments = [each for each in given if each]
    for template in _OTHER_NAMES.get(name.lower(), ()):
        needed = re.findall(r"\{(\d)\$?\}", template)
        if sorted({int(each) for each in needed}) != list(range(len(arguments))):
            continue
        text = template
        for at, argument in enumerate(arguments):
            text = text.replace(f"{{{at}}}", argument)
            text = text.replace(f"{{{at}$}}", _ending(argument) or "")
        if "matches" not in template or _ending(arguments[1]) is not None:
            yield (TextEdit(*match.span(), text),)


def _signed(program: RefusedProgram, argument: str) -> str:
    return f"${argument}" if argument in program.types else argument


def _ending(argument: str) -> str | None:
    """The pattern that finds a quoted text at the end; None if it is no quoted text."""
    if len(argument) < 2 or argument[0] not in "\"'" or argument[-1] != argument[0]:
        return None
    escaped = re.sub(r"([.^$*+?()\[\]{}|])", r"\\\\\1", argument[1:-1])
    return f'"{escaped}$"'


def propose_endings(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$x.p ends with "a"`, `matches "a"`, and `=~ "a.*"`, which speaks of the whole text."""
    tests = r"\b(?i:ends\s*_?with|matches|rlike|regexp)\b|=~"
    pattern = rf"(\$?\w+\.\w+)\s*({tests})\s*(\"[^\"]*\"|'[^']*')"
    for match in program.near(pattern, span):
        text = program.group(match, 3)
        inner = f"^(?:{text[1:-1]})$" if match[2] == "=~" else text[1:-1]
        found = _ending(text) if match[2].lower().startswith("ends") else f'"{inner}"'
        yield (TextEdit(*match.span(), f"matches({match[1]}, {found})"),)


def _casts(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$x.n::text`, and `cast($x.n as varchar(9))`."""
    for match in program.near(r"(\$?\w+\.\w+)\s*::\s*(\w+)", span):
        scalar = SCALARS.get(match[2].lower())
        if scalar is not None:
            yield (TextEdit(*match.span(), f"cast({match[1]} as {scalar.value})"),)
    for match in program.near(r"\b(?i:cast)\s*\(([^()]*)\b(?i:as)\s+(\w+)(?:\(\d+\))?\s*\)", span):
        scalar = SCALARS.get(match[2].lower())
        if scalar is not None:
            inner = program.group(match, 1).strip()
            yield (TextEdit(*match.span(), f"cast({inner} as {scalar.value})"),)


_OPERAND: Final = r"(?:\"~*\"|'[^'\n]*'|\$?\w+(?:\.@?\w+)?(?:\([^()]*\))?)"


def _joined_texts(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`a + " " + b` and `a || b` of texts are `concat(a, " ", b)`."""
    for sign in (r"\+", r"\|\|"):
        for match in program.near(rf"{_OPERAND}(?:\s*{sign}\s*{_OPERAND})+", span):
            parts = split(program.group(match), sign)
            yield (TextEdit(*match.span(), f"concat({', '.join(parts)})"),)
