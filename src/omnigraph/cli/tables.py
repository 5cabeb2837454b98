"""Printing the rows of a read: for people, for spreadsheets, for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from omnigraph.cli.render import print_json, print_line

if TYPE_CHECKING:
    from omnigraph.sdk.client import ReadResult

WIDTH_MIN: Final = 8
"""Nobody can read narrower columns."""


class Format(StrEnum):
    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Layout:
    """What becomes of cells that are too wide for a table: they are cut, or go on below."""

    width_max: int = 80
    is_wrapped: bool = False

    def pieces(self, value: object) -> list[str]:
        """The lines of a cell; there is at least one."""
        text = _plain(value).replace("\n", "\\n")
        width = self.width_max
        if len(text) <= width:
            return [text]
        if not self.is_wrapped:
            return [f"{text[: width - 1]}…"]
        return [text[at : at + width] for at in range(0, len(text), width)]


def print_result(result: "ReadResult", wanted: Format, layout: Layout) -> None:
    match wanted:
        case Format.JSON:
            print_json(result.document())
        case Format.JSONL:
            _print_lines(result)
        case Format.CSV:
            _print_csv(result)
        case Format.KV:
            _print_pairs(result)
        case Format.TABLE:
            _print_table(result, layout)


def _print_lines(result: "ReadResult") -> None:
    head = {
        "kind": "metadata",
        "query_name": result.query_name,
        "target": result.target.document(),
        "row_count": len(result),
    }
    for each in (head, *result.json_rows()):
        print_line(json.dumps(each, ensure_ascii=False))


def _print_csv(result: "ReadResult") -> None:
    print_line(",".join(map(_quoted, result.columns)))
    for row in result.json_rows():
        print_line(",".join(_quoted(_plain(each)) for each in row.values()))


def _quoted(field: str) -> str:
    if not any(each in field for each in ',"\r\n'):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def _headline(result: "ReadResult") -> str:
    target = result.target
    place = f"snapshot {target.snapshot}" if target.branch is None else f"branch {target.branch}"
    return f"{len(result)} rows from {place} via {result.query_name}"


def _print_pairs(result: "ReadResult") -> None:
    print_line(_headline(result))
    for number, row in enumerate(result.json_rows(), start=1):
        if number > 1:
            print_line("")
        print_line(f"row {number}")
        print_entity(row)


def print_entity(cells: Mapping[str, object]) -> None:
    """One row, a line for each of its cells."""
    for name, value in cells.items():
        print_line(f"{name}: {_plain(value)}")


def _print_table(result: "ReadResult", layout: Layout) -> None:
    print_line(_headline(result))
    if not result.columns:
        print_line("(no rows)")
        return
    head = [layout.pieces(name) for name in result.columns]
    rows = [[layout.pieces(each) for each in row.values()] for row in result.json_rows()]
    widths = [
        max(len(piece) for row in (head, *rows) for piece in row[at]) for at in range(len(head))
    ]
    _print_row(head, widths)
    print_line("-+-".join("-" * width for width in widths))
    for row in rows:
        _print_row(row, widths)


def _print_row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    for line in zip_longest(*cells, fillvalue=""):
        print_line(_line(line, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return " | ".join(padded).rstrip()


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
