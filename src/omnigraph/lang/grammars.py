"""Loading the grammar of a package, with its parser tables if they were built before.

Building the tables takes a quarter of a second in every command. `scripts/tables` writes them
beside the grammar, under a name with a hash of the grammar text and of the version of Lark. Tables
of another text or another Lark are not found; the tables are then built in memory.
"""

import gc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import BinaryIO, Literal, cast

import lark
from lark import Lark


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Tables are thousands of objects that all stay. Looking for garbage among them, and among all
    that the process holds, takes longer than making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class Grammar:
    """The `grammar.lark` of a package."""

    package: str
    start: str
    lexer: Literal["contextual", "basic"] = "contextual"

    @property
    def tables(self) -> str:
        """The name of the file with its tables."""
        made_of = (lark.__version__, self.start, self.lexer, self._text())
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
        return f"grammar-{digest}.tables"

    def load(self) -> Lark:
        """A parser, from the tables if they exist. Loading is slow: cache the result."""
        tables = resources.files(self.package).joinpath(self.tables)
        if not tables.is_file():
            return self.build()
        with tables.open("rb") as file, collecting_nothing():
            return Lark.load(cast("BinaryIO", file))

    def build(self) -> Lark:
        """A parser from the text, with everything that Lark derives from it."""
        return Lark(
            self._text(),
            start=self.start,
            parser="lalr",
            lexer=self.lexer,
            propagate_positions=True,
        )

    def _text(self) -> str:
        return resources.files(self.package).joinpath("grammar.lark").read_text(encoding="utf-8")
