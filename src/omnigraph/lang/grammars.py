"""Grammars as packages keep them: a text, and the tables a parser needs, if somebody made them.

Making the tables takes a quarter of a second, which every command would spend. `scripts/tables`
leaves them beside the text, under a name that tells what they were made of: those of another text
or another Lark are not found, and then they are made on the spot.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import BinaryIO, Literal, cast

import lark
from lark import Lark


@dataclass(frozen=True, slots=True)
class Grammar:
    """The `grammar.lark` of a package."""

    package: str
    start: str
    lexer: Literal["contextual", "basic"] = "contextual"

    @property
    def tables(self) -> str:
        """The name of the file that holds its tables."""
        made_of = (lark.__version__, self.start, self.lexer, self._text())
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
        return f"grammar-{digest}.tables"

    def load(self) -> Lark:
        """From its tables if they are there. Either way it takes time: cache the result."""
        tables = resources.files(self.package).joinpath(self.tables)
        if not tables.is_file():
            return self.build()
        with tables.open("rb") as file:
            return Lark.load(cast("BinaryIO", file))

    def build(self) -> Lark:
        """From its text, with all that Lark knows about it."""
        return Lark(
            self._text(),
            start=self.start,
            parser="lalr",
            lexer=self.lexer,
            propagate_positions=True,
        )

    def _text(self) -> str:
        return resources.files(self.package).joinpath("grammar.lark").read_text(encoding="utf-8")
