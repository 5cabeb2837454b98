"""`omnigraph diff`: the differences between two states of a graph."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import named_once
from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import GraphUri, Json, Kinds, Ops, Types, UriOption
from omnigraph.cli.render import print_line

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import JsonObject
    from omnigraph.engine.history.diff import EntityChange


_SIGNS = {"insert": "+", "update": "~", "delete": "-"}


def diff(
    context: typer.Context,
    sides: Annotated[
        str, typer.Argument(metavar="A..B", help="Branches, commits, or BRANCH@VERSION.")
    ],
    uri: GraphUri = None,
    *,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print counts only.")] = False,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Show the changes from A to B: counts by type, then every entity, before and after."""
    from omnigraph.sdk.reviewing import change_document, diff_document, split_range

    before, after = split_range(sides)
    graph = open_client(named_once(uri, uri_option), context.obj, read_only=True)
    found = graph.diff(before, after, kinds=kinds or (), types=types or (), ops=ops or ())
    changes = iter(()) if summary else found.changes()
    if as_json:
        _print_json(diff_document(found), (change_document(each) for each in changes))
        return
    for key, counts in found.counts.items():
        print_line(f"{key}: +{counts.inserted} ~{counts.updated} -{counts.deleted}")
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
    print_line(f"{_SIGNS[change.op]} {name} {change.id}{ends}")
    old = {} if change.before is None else change.before.properties
    new = {} if change.after is None else change.after.properties
    for prop in dict.fromkeys((*old, *new)):
        before, after = old.get(prop), new.get(prop)
        if before == after:
            continue
        if change.op == "update":
            print_line(f"    {prop}: {_show(before)} → {_show(after)}")
        else:
            print_line(f"    {prop}: {_show(after if change.after is not None else before)}")


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
