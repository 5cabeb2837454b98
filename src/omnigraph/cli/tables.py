"""Printing the rows of a read: for people, for spreadsheets, for programs."""

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.cli.render import print_json, print_line

if TYPE_CHECKING:
    from omnigraph.sdk.client import ReadResult

WIDTH_MAX: Final = 80
"""Wider cells are cut."""


class Format(StrEnum):
    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


def print_result(result: "ReadResult", wanted: Format) -> None:
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
            _print_table(result)


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_plain(each) for each in row.values()] for row in result.json_rows())
    sys.stdout.write(text.getvalue())


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


def _print_table(result: "ReadResult") -> None:
    print_line(_headline(result))
    cells = [[_cell(each) for each in row.values()] for row in result.json_rows()]
    widths = [
        max(len(name), *(len(row[at]) for row in cells)) if cells else len(name)
        for at, name in enumerate(result.columns)
    ]
    print_line(_line(result.columns, widths))
    print_line("-+-".join("-" * width for width in widths))
    for row in cells:
        print_line(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return " | ".join(padded).rstrip()


def _cell(value: object) -> str:
    text = _plain(value).replace("\n", "\\n")
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
