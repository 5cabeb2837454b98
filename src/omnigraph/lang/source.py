"""Program texts, places in them, and diagnostics.

A `Span` counts characters, as Python does. Byte offsets, which the wire uses, are computed from the
text on demand.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters `start` up to, not including, `end`."""

    start: int
    end: int

    def cover(self, other: "Span") -> "Span":
        return Span(min(self.start, other.start), max(self.end, other.end))


NOWHERE = Span(0, 0)
"""The span of a tree that was built, not parsed."""

EXCERPT_MAX = 160
"""A diagnostic shows at most this many characters of the line it is about."""


@dataclass(frozen=True)
class Source:
    """A named text: a file, or a string with a name of convenience such as `<query>`."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(at + 1 for at, character in enumerate(self.text) if character == "\n")
        return starts

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds the character at `offset`."""
        return bisect_right(self._line_starts, offset)

    def column_at(self, offset: int) -> int:
        """The 1-based column, in characters."""
        return offset - self._line_starts[self.line_at(offset) - 1] + 1

    def locate(self, span: Span) -> dict[str, int]:
        """A span for programs: offsets in characters, and the line and column of its start."""
        return {
            "start": span.start,
            "end": span.end,
            "line": self.line_at(span.start),
            "column": self.column_at(span.start),
        }

    def line_text(self, line: int) -> str:
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return (self.text[start:] if end < 0 else self.text[start:end]).rstrip("\r")


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault of a program: its rule, its place, and a hint."""

    code: str
    """The rule, such as `T5` or `C3`; every code has a golden case in the tests."""
    family: str
    """The prefix of the message: `parse error`, `catalog error` or `type error`."""
    message: str
    source: Source = field(repr=False, compare=False)
    span: Span | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR
    expected: tuple[str, ...] = ()
    """What could stand there, in readable words: `','`, `a type`, `Date`."""
    candidates: tuple[str, ...] = ()
    """The names or values that could be meant, the closest first."""

    @property
    def line(self) -> int | None:
        return None if self.span is None else self.source.line_at(self.span.start)

    @property
    def column(self) -> int | None:
        return None if self.span is None else self.source.column_at(self.span.start)

    def to_json(self) -> dict[str, object]:
        """The facts of the fault, for programs. Every surface sends this document."""
        return {
            "code": self.code,
            "family": self.family,
            "severity": self.severity.value,
            "message": self.message,
            "line": self.line,
            "column": self.column,
            "span": None if self.span is None else self.source.locate(self.span),
            "expected": list(self.expected),
            "candidates": list(self.candidates),
            "hint": self.hint,
            "rendered": self.render(),
        }

    def render(self) -> str:
        """The message with its place, the line, carets below the span, and the hint."""
        head = f"{self.family}: {self.message} [{self.code}]"
        if self.span is None:
            lines = [f"{self.source.name}: {head}"]
        else:
            lines = [
                f"{self.source.name}:{self.line}:{self.column}: {head}",
                *self._excerpt(self.span),
            ]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def _excerpt(self, span: Span) -> list[str]:
        line = self.source.line_at(span.start)
        before = self.source.column_at(span.start) - 1
        text = self.source.line_text(line)
        if len(text) > EXCERPT_MAX:
            # A line of a megabyte must not be repeated with each of its errors.
            cut = max(0, before - EXCERPT_MAX // 2)
            text, before = text[cut : cut + EXCERPT_MAX], before - cut
        width = max(1, min(span.end - span.start, len(text) - before))
        # Tabs stay tabs in the caret line, so that the carets stand under the span.
        indent = "".join("\t" if character == "\t" else " " for character in text[:before])
        number = str(line)
        return [f"  {number} | {_visible(text)}", f"  {' ' * len(number)} | {indent}{'^' * width}"]


def _visible(text: str) -> str:
    """`text` with a mark for each character that a terminal cannot print or encode."""
    return "".join(each if each.isprintable() or each == "\t" else "\ufffd" for each in text)


def sort_diagnostics(diagnostics: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    """In the order of their places; diagnostics without a place are last."""
    return tuple(
        sorted(
            diagnostics,
            key=lambda d: (d.span is None, d.span or NOWHERE, d.code, d.message),
        )
    )
