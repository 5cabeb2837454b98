"""Golden files: the expected output of a program, kept beside it and compared on every run."""

import os
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

from omnigraph.catalog.types import ValueType
from omnigraph.lang.source import Span

UPDATE = "OMNIGRAPH_GOLDEN_UPDATE"
"""Set this variable to write what the code says now; then read the diff before keeping it."""


def check_golden(actual: str, path: Path) -> None:
    """Compare `actual` with the file, or write the file when told to."""
    text = actual.rstrip("\n") + "\n"
    if os.environ.get(UPDATE):
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), (
        f"{path.name} is missing; run the test with {UPDATE}=1 and read the result"
    )
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; {UPDATE}=1 rewrites it"


def format_tree(value: object, *, indent: int = 0) -> str:
    """A frozen value as indented text, without spans: one line per field, easy to diff."""
    pad = "  " * indent
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case ValueType():
            return str(value)
        case tuple() if not value:
            return "()"
        case tuple():
            items = (f"{pad}  {format_tree(each, indent=indent + 1)}" for each in value)
            return "(\n" + "\n".join(items) + f"\n{pad})"
        case _ if is_dataclass(value):
            shown = [f for f in fields(value) if not isinstance(getattr(value, f.name), Span)]
            if not shown:
                return type(value).__name__
            lines = (
                f"{pad}  {f.name}: {format_tree(getattr(value, f.name), indent=indent + 1)}"
                for f in shown
            )
            return f"{type(value).__name__}\n" + "\n".join(lines)
        case _:
            return repr(value)
