"""`omnigraph diff`: the differences between two states of a graph."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import GraphUri, Json, Kinds, Ops, Types
from omnigraph.cli.render import print_line
from omnigraph.cli.terminal import Ink, paint
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import JsonObject
    from omnigraph.engine.history.diff import EntityChange


_SIGNS = {"insert": "+", "update": "~", "delete": "-"}
_INKS = {"insert": Ink.ADDED, "update": Ink.CHANGED, "delete": Ink.REMOVED}


def diff(
    context: typer.Context,
    sides: Annotated[
        str,
        typer.Argument(
            metavar="A..B",
            help="Branches, commits, or BRANCH@VERSION. A...B: what B changed since they parted.",
        ),
    ],
    until: Annotated[
        str | None, typer.Argument(metavar="B", help="The second side, if the first word is A.")
    ] = None,
    uri: GraphUri = None,
    *,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print counts only.")] = False,
    as_json: Json = False,
) -> None:
    """Show the changes from A to B: counts by type, then every entity, before and after."""
    from omnigraph.sdk.reviewing import DiffRange, change_document, diff_document, parse_range

    if until is not None and ".." in sides:
        raise UsageError(f"'{sides}' names both sides; '{until}' is a third side, and no graph")
    asked = parse_range(sides) if until is None else DiffRange(sides, until)
    graph = open_client(uri, context.obj, read_only=True)
    found = graph.diff(
        asked.before,
        asked.after,
        kinds=kinds or (),
        types=types or (),
        ops=ops or (),
        since_merge_base=asked.since_merge_base,
    )
    changes = iter(()) if summary else found.changes()
    if as_json:
        _print_json(diff_document(found), (change_document(each) for each in changes))
        return
    for key, counts in found.counts.items():
        print_line(f"{key}: {counts}")
    for each in changes:
        print_change(each)


def _print_json(head: "JsonObject", changes: Iterable["JsonObject"]) -> None:
    """Print while reading: the array may not fit into memory."""
    print_line(f'{json.dumps(head, ensure_ascii=False, indent=2)[:-2]},\n  "changes": [')
    waiting = None
    for each in changes:
        if waiting is not None:
            print_line(f"    {waiting},")
        waiting = json.dumps(each, ensure_ascii=False)
    if waiting is not None:
        print_line(f"    {waiting}")
    print_line("  ]\n}")


def print_change(change: "EntityChange") -> None:
    """One entity and its changed properties."""
    ends = "" if change.ends is None else f" {change.ends[0]} → {change.ends[1]}"
    name = f"{change.kind}:{change.type_name}"
    print_line(paint(f"{_SIGNS[change.op]} {name} {change.id}{ends}", _INKS[change.op]))
    old = {} if change.before is None else change.before.properties
    new = {} if change.after is None else change.after.properties
    for prop in dict.fromkeys((*old, *new)):
        before, after = old.get(prop), new.get(prop)
        if before == after:
            continue
        if change.op == "update":
            print_line(f"    {prop}: {show_value(before)} → {show_value(after)}")
        else:
            print_line(f"    {prop}: {show_value(after if change.after is not None else before)}")


def show_value(value: object) -> str:
    """The value as JSON; only a terminal gets it cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 or not sys.stdout.isatty() else f"{text[:79]}…"
