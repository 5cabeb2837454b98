"""What the two parsers share: tokens, syntax errors, and recovery after an error.

Both grammars are LALR and reserve no word. The lexer of `.pg` recognises a keyword only where the
grammar has one. The lexer of `.gq` always recognises it, and the grammar accepts keywords where it
expects names. A language describes itself by a `Dialect` and decodes its trees through a
`TreeReading`, which collects findings instead of stopping at the first::

    reading = TreeReading(source, DIALECT)
    tree = parse_tree(grammar(), reading)        # None if some of the text cannot be read
    ... span_of(tree), reading.string(token), reading.whole_number(token), reading.report(...)
    if reading.findings:
        raise SchemaInvalid(reading.sorted_findings())

Terminals that both grammars must spell alike: `STRING`, `INT`, `FLOAT` and the two comments.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from math import isinf
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.utils import TextSlice

from omnigraph.lang.source import Diagnostic, Source, Span, sort_diagnostics

FAMILY = "parse error"

DIGITS_MAX = 1_000
"""Longer numbers are refused: no type holds them, and Python takes quadratic time for them."""

FINDINGS_MAX = 20
"""After this many syntax errors recovery ends: further ones mostly follow from the first."""

REPORTS_MAX = 200
"""The maximum number of findings about one text; a hostile text could have millions."""

GUESSES_MAX = 500
"""With more names than this, suggestions for many unknown words would take too long."""

ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(r"\$?[A-Za-z0-9_]+")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Comments and strings are skipped, closed or not, so that the search for the next declaration does
# not stop inside one and does not read the rest of the text again for each open one.
_SKIPPED = r'//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)|"(?:[^"\\]|\\(?s:.))*(?:"|\Z)'


PIECE_CHARACTERS = 8_000
"""The minimum number of characters that are parsed at a time."""


class SyntaxFault(Enum):
    """The ways in which a text can fail to be a program of either language."""

    UNEXPECTED = auto()
    """The grammar expects something else here."""
    OPEN_COMMENT = auto()
    """A block comment is never closed."""
    OPEN_STRING = auto()
    """A string is never closed."""
    ESCAPE = auto()
    """A string holds an escape the languages do not have."""
    NUMBER = auto()
    """A number is too long, or too large for a 64-bit float."""
    ENCODING = auto()
    """Half of a surrogate pair, which no file can hold."""


@dataclass(frozen=True, slots=True)
class Unexpected:
    """A place at which parsing stopped."""

    found: str
    """The word, string or character at the place; empty at the end of the text."""
    expected: tuple[str, ...]
    """The expected tokens, in readable words."""
    before: str
    """The text before the place, for hints that depend on it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the two languages."""

    codes: Mapping[SyntaxFault, str]
    words: Mapping[str, str]
    """Terminal → readable name. Terminals may share a name, which is then printed once."""
    declaration: str
    """A regular expression for the start of a declaration, at which recovery resumes."""
    hint: Callable[[Unexpected], str | None]
    groups: tuple[tuple[frozenset[str], str], ...] = ()
    """Groups of terminals with one name, such as all that begin an expression. If all members of a
    group are expected, the name of the group stands for them; `words` names the others."""


def span_of(item: Token | Tree[Token]) -> Span:
    """The place of a token or of a tree that is not empty."""
    if isinstance(item, Token):
        assert item.start_pos is not None
        return Span(item.start_pos, item.start_pos + len(item))
    return Span(item.meta.start_pos, item.meta.end_pos)


class TreeReading:
    """One pass over one source: decodes tokens and collects findings."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self.source = source
        self.dialect = dialect
        self.findings: list[Diagnostic] = []
        self.salvaged: list[Tree[Token]] = []
        """The declarations that could be parsed, if the whole text could not."""

    def sorted_findings(self) -> tuple[Diagnostic, ...]:
        return sort_diagnostics(self.findings)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        expected: tuple[str, ...] = (),
    ) -> None:
        if len(self.findings) < REPORTS_MAX:
            self.findings.append(
                Diagnostic(code, FAMILY, message, self.source, span, hint, expected=expected)
            )

    def report_fault(
        self,
        fault: SyntaxFault,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        expected: tuple[str, ...] = (),
    ) -> None:
        self.report(self.dialect.codes[fault], message, span, hint=hint, expected=expected)

    def string(self, token: Token) -> str:
        """The value of a STRING token; an unknown escape is reported and kept as written."""
        start = span_of(token).start

        def replacement(match: re.Match[str]) -> str:
            meant = ESCAPES.get(match[1])
            if meant is None:
                place = Span(start + 1 + match.start(), start + 1 + match.end())
                self.report_fault(
                    SyntaxFault.ESCAPE,
                    f"unsupported escape sequence {quoted(match[0])}",
                    place,
                    hint=r"strings know \" \\ \n \r \t; write a backslash as \\",
                )
                return match[0]
            return meant

        return _ESCAPE.sub(replacement, token[1:-1])

    def whole_number(self, token: Token) -> int:
        """The value of digits, signed or not; too many digits are reported and give 0."""
        digits = len(token.lstrip("-"))
        if digits > DIGITS_MAX:
            self.report_fault(
                SyntaxFault.NUMBER,
                f"a number of {digits:,} digits is too long; the most is {DIGITS_MAX:,}",
                span_of(token),
            )
            return 0
        return int(token)

    def decimal(self, token: Token) -> float:
        """The value of a FLOAT token; one beyond the 64-bit range is reported and gives 0."""
        value = float(token)
        if isinf(value):
            self.report_fault(
                SyntaxFault.NUMBER,
                f"the number {quoted(token)} is too large for a 64-bit float",
                span_of(token),
            )
            return 0.0
        return value


class Unreadable(Exception):
    """A piece of a text breaks the grammar, or the text cannot be cut into pieces."""


def parse_pieces(grammar: Lark, reading: TreeReading) -> Iterator[Tree[Token]]:
    """The declarations of a correct text, a few at a time. Raises Unreadable.

    A long text would make one large tree of small objects, and Python's garbage collector takes
    more time the larger the tree is. Parsed in pieces, the text never makes a large tree.
    """
    text = reading.source.text
    if _find_lone_surrogate(text) is not None:
        raise Unreadable
    cuts = [*_find_cuts(text, reading.dialect.declaration), len(text)]
    start = 0
    for end in cuts:
        try:
            tree = grammar.parse(TextSlice(text, start, end))
        except UnexpectedInput:
            raise Unreadable from None
        yield from (each for each in tree.children if isinstance(each, Tree))
        start = end


def _find_cuts(text: str, declaration: str) -> Iterator[int]:
    """The starts of declarations outside braces, strings and comments, at a minimum distance."""
    landmark = re.compile(f"{_SKIPPED}|(?P<brace>[{{}}])|(?P<declaration>{declaration})")
    depth = last = 0
    for found in landmark.finditer(text):
        if found["brace"] is not None:
            depth += 1 if found["brace"] == "{" else -1
        is_cut = found["declaration"] is not None and depth == 0
        if is_cut and found.start() - last >= PIECE_CHARACTERS:
            last = found.start()
            yield last


def parse_tree(grammar: Lark, reading: TreeReading) -> Tree[Token] | None:
    """The tree of the whole text; or None, with a report of every declaration that is wrong.

    After an error parsing resumes at the next declaration, only to find further errors.
    """
    text = reading.source.text
    lone = _find_lone_surrogate(text)
    if lone is not None:
        reading.report_fault(
            SyntaxFault.ENCODING,
            f"{quoted(text[lone])} is half of a surrogate pair, not a character",
            Span(lone, lone + 1),
        )
        return None
    resume = re.compile(f"{_SKIPPED}|(?P<declaration>{reading.dialect.declaration})")
    start: int | None = 0
    while start is not None and len(reading.findings) < FINDINGS_MAX:
        try:
            tree = grammar.parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as failure:
            stopped = _report_unexpected(failure, reading)
            reading.salvaged.extend(_find_complete(failure))
            start = None if stopped is None else _find_next(resume, text, start, stopped)
        else:
            if not reading.findings:
                return tree
            reading.salvaged.extend(each for each in tree.children if isinstance(each, Tree))
            return None
    return None


def quoted(text: str, *, length_max: int = 40) -> str:
    """`text` in quotes for a message: shortened, and with unprintable characters spelled out."""
    if len(text) == 1 and not text.isprintable():
        return f"U+{ord(text):04X}"
    shown = text if len(text) <= length_max else f"{text[: length_max - 1]}…"
    return f"'{''.join(each if each.isprintable() else _escaped(each) for each in shown)}'"


def close_match(word: str, known: AbstractSet[str]) -> str | None:
    """A hint that names the known word closest to `word`."""
    if len(known) > GUESSES_MAX:
        return None
    matches = get_close_matches(word[:60], sorted(known), n=1, cutoff=0.7)
    return f"did you mean '{matches[0]}'?" if matches else None


def listed(phrases: tuple[str, ...]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(phrases) <= 1:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} or {phrases[-1]}"


def _find_lone_surrogate(text: str) -> int | None:
    try:
        text.encode()
    except UnicodeEncodeError as failure:
        return failure.start
    return None


def _find_next(resume: re.Pattern[str], text: str, start: int, stopped: int) -> int | None:
    """The start of the next declaration after the error, or of the one that contains the error.

    The keyword of the latter may have been parsed as a name before the error.
    """
    for match in resume.finditer(text, start):
        if match["declaration"] is not None and match.start() > start and match.end() > stopped:
            return match.start()
    return None


def _find_complete(failure: UnexpectedInput) -> list[Tree[Token]]:
    """The declarations before the error: they are at the bottom of the parser's stack."""
    bottom = failure.interactive_parser.parser_state.value_stack[:1]
    # Lark collects the repetitions of a star under a name that begins with two underscores.
    return [
        child
        for collected in bottom
        if isinstance(collected, Tree) and collected.data.startswith("__")
        for child in collected.children
        if isinstance(child, Tree)
    ]


def _report_unexpected(failure: UnexpectedInput, reading: TreeReading) -> int | None:
    """Report a syntax error; return its offset, or None if parsing cannot resume."""
    text = reading.source.text
    if isinstance(failure, UnexpectedToken) and failure.token.type == "$END":
        # Lark gives the end of the text the place of the last token; the error is after it.
        at = failure.token.end_pos or 0
        _report_found("", at, failure, reading)
        return None
    at = cast("int", failure.pos_in_stream)
    if text.startswith("/*", at):
        reading.report_fault(
            SyntaxFault.OPEN_COMMENT,
            "this comment is never closed",
            Span(at, at + 2),
            hint="end it with '*/'; comments do not nest",
        )
        return None
    string = _STRING.match(text, at)
    if string is None and text.startswith('"', at):
        reading.report_fault(
            SyntaxFault.OPEN_STRING,
            "this string is never closed",
            Span(at, at + 1),
            hint="end it with '\"'; inside a string write a quote as \\\"",
        )
        return None
    word = string or _WORD.match(text, at)
    _report_found(text[at] if word is None else word[0], at, failure, reading)
    return at


def _report_found(found: str, at: int, failure: UnexpectedInput, reading: TreeReading) -> None:
    expected = _expected_words(failure, reading.dialect)
    unexpected = Unexpected(found, expected, reading.source.text[:at])
    seen = quoted(found) if found else "the end of the text"
    reading.report_fault(
        SyntaxFault.UNEXPECTED,
        f"expected {listed(unexpected.expected)}, found {seen}",
        Span(at, at + len(found)),
        hint=reading.dialect.hint(unexpected),
        expected=expected,
    )


def _expected_words(failure: UnexpectedInput, dialect: Dialect) -> tuple[str, ...]:
    """The names of the expected tokens, in the order of the dialect."""
    accepted: AbstractSet[str] = failure.interactive_parser.accepts()  # type: ignore[no-untyped-call]  # lark's own
    phrases: dict[str, None] = {}
    for members, phrase in dialect.groups:
        if members <= accepted:
            accepted -= members
            phrases[phrase] = None
    phrases.update((phrase, None) for name, phrase in dialect.words.items() if name in accepted)
    return tuple(phrases)


def _escaped(character: str) -> str:
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character, f"\\u{ord(character):04x}")
