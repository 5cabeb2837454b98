"""Edits of a text, and what several of them, one after another, make of it."""

from dataclasses import dataclass

from omnigraph.lang.source import Source, Span


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters `start` up to, not including, `end`."""

    start: int
    end: int
    replacement: str


Proposal = tuple[TextEdit, ...]
"""Edits of one text that belong together: apart from each other, in the order of their places."""


def replace(span: Span, text: str) -> Proposal:
    return (TextEdit(span.start, span.end, text),)


@dataclass(frozen=True, slots=True)
class PlacedEdit:
    """An edit of the text that the caller sent, with its line and column."""

    start: int
    end: int
    line: int
    column: int
    replacement: str

    def to_json(self) -> dict[str, object]:
        return {
            "start": self.start,
            "end": self.end,
            "line": self.line,
            "column": self.column,
            "replacement": self.replacement,
        }


@dataclass(frozen=True, slots=True)
class Repair:
    """The edits that make a program valid, and the program they make."""

    edits: tuple[PlacedEdit, ...]
    """In the order of their places; all of them count in the text that was refused."""
    program: str

    def to_json(self) -> dict[str, object]:
        return {"edits": [each.to_json() for each in self.edits], "program": self.program}


@dataclass(frozen=True, slots=True)
class _Kept:
    """Characters of the first text that are still there."""

    start: int
    end: int


_Piece = _Kept | str


class EditedText:
    """A text after some edits, which still knows what it was made of."""

    def __init__(self, original: str, pieces: tuple[_Piece, ...] | None = None) -> None:
        self.original = original
        self._pieces = (_Kept(0, len(original)),) if pieces is None else pieces
        self.text = "".join(map(self._spell, self._pieces))

    def apply(self, proposal: Proposal) -> "EditedText":
        """The text after these edits; the last place first, so that the others stay valid."""
        pieces = self._pieces
        for edit in sorted(proposal, key=lambda each: -each.start):
            head, tail = self._cut(pieces, edit.start)[0], self._cut(pieces, edit.end)[1]
            pieces = (*head, edit.replacement, *tail)
        return EditedText(self.original, pieces)

    def repair(self, name: str) -> Repair:
        """What all edits together are, as edits of the first text."""
        source = Source(name, self.original)
        edits: list[PlacedEdit] = []
        at, written = 0, ""
        for piece in (*self._pieces, _Kept(len(self.original), len(self.original))):
            if isinstance(piece, str):
                written += piece
                continue
            if written or piece.start > at:
                place = source.locate(Span(at, piece.start))
                edits.append(PlacedEdit(**place, replacement=written))
            at, written = piece.end, ""
        return Repair(tuple(_join_adjacent(edits)), self.text)

    def _spell(self, piece: _Piece) -> str:
        return piece if isinstance(piece, str) else self.original[piece.start : piece.end]

    def _cut(
        self, pieces: tuple[_Piece, ...], at: int
    ) -> tuple[tuple[_Piece, ...], tuple[_Piece, ...]]:
        """The pieces before and after a position of the edited text."""
        for index, piece in enumerate(pieces):
            length = len(piece) if isinstance(piece, str) else piece.end - piece.start
            if at <= length:
                left, right = _split(piece, at)
                return (*pieces[:index], left), (right, *pieces[index + 1 :])
            at -= length
        return pieces, ()


def _split(piece: _Piece, at: int) -> tuple[_Piece, _Piece]:
    if isinstance(piece, str):
        return piece[:at], piece[at:]
    return _Kept(piece.start, piece.start + at), _Kept(piece.start + at, piece.end)


def _join_adjacent(edits: list[PlacedEdit]) -> list[PlacedEdit]:
    """Edits at one place as one. An empty piece of the original may stand between two."""
    joined: list[PlacedEdit] = []
    for edit in edits:
        if joined and joined[-1].end == edit.start:
            last = joined.pop()
            both = last.replacement + edit.replacement
            joined.append(PlacedEdit(last.start, edit.end, last.line, last.column, both))
        else:
            joined.append(edit)
    return joined
