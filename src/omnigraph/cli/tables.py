"""Printing the rows of a read: as a table, as pairs, as CSV, as JSON.

A table aligns by the width that a terminal gives each character. Only a terminal gets cells cut: in
a pipe or a file, the table holds every cell whole.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from omnigraph.cli.render import print_json, print_line
from omnigraph.cli.terminal import Ink, paint
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.query.result import Result

WIDTH_MIN: Final = 8
"""Narrower columns are not readable."""


class RowFormat(StrEnum):
    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A cell wider than `width_max` is cut at a terminal; `is_wrapped` gives it more lines."""

    width_max: int = 80
    is_wrapped: bool = False


def print_result(result: "Result", row_format: RowFormat, layout: TableLayout) -> None:
    match row_format:
        case RowFormat.JSON:
            print_json(result.document())
        case RowFormat.JSONL:
            _print_lines(result)
        case RowFormat.CSV:
            _print_csv(result)
        case RowFormat.KV:
            _print_pairs(result)
        case RowFormat.TABLE:
            _print_table(result, layout)


def _print_lines(result: "Result") -> None:
    """One row a line and nothing else, so that every line has the same keys."""
    for each in result.json_rows():
        print_line(json.dumps(each, ensure_ascii=False))


def _print_csv(result: "Result") -> None:
    print_line(",".join(map(_quoted, result.columns)))
    for row in result.json_rows():
        print_line(",".join(map(_csv_field, row.values())))


def _csv_field(value: object) -> str:
    """Null is nothing, and an empty text is `""`: readers that tell them apart do so by this."""
    return "" if value is None else _quoted(_plain(value)) or '""'


def _quoted(field: str) -> str:
    if not any(each in field for each in ',"\r\n'):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'


def _headline(result: "Result") -> str:
    target = result.target
    place = f"snapshot {target.snapshot}" if target.branch is None else f"branch {target.branch}"
    return f"{counted(len(result), 'row')} from {place} via {result.query_name}"


def _print_pairs(result: "Result") -> None:
    print_line(_headline(result))
    for number, row in enumerate(result.json_rows(), start=1):
        if number > 1:
            print_line("")
        print_line(f"row {number}")
        print_entity(row)


def print_entity(cells: Mapping[str, object]) -> None:
    """One row, one line for each cell."""
    for name, value in cells.items():
        print_line(f"{name}: {_plain(value)}")


def _print_table(result: "Result", layout: TableLayout) -> None:
    print_line(_headline(result))
    if not result.columns:
        print_line("(no rows)")
        return
    from rich.cells import cell_len, set_cell_size

    split = _find_splitter(layout)
    rows = [[split(name) for name in result.columns]]
    rows += [[split(_plain(each)) for each in row.values()] for row in result.json_rows()]
    columns = zip(*rows, strict=True)
    widths = [max(cell_len(line) for cell in column for line in cell) for column in columns]
    for number, row in enumerate(rows):
        for lines in zip_longest(*row, fillvalue=""):
            line = " | ".join(map(set_cell_size, lines, widths)).rstrip()
            print_line(line if number else paint(line, Ink.HEADER))
        if number == 0:
            print_line("-+-".join("-" * width for width in widths))


def _find_splitter(layout: TableLayout) -> Callable[[str], list[str]]:
    """A function that splits the text of a cell into its lines, at least one."""
    from rich.cells import cell_len, chop_cells, set_cell_size

    width, is_cut = layout.width_max, not layout.is_wrapped and sys.stdout.isatty()

    def split(text: str) -> list[str]:
        line = text.replace("\n", "\\n")
        if cell_len(line) <= width:
            return [line]
        if is_cut:
            return [set_cell_size(line, width - 1).rstrip() + "…"]
        return chop_cells(line, width) if layout.is_wrapped else [line]

    return split


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
