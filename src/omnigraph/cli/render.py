"""Printing: results on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from omnigraph.cli.globals import ErrorFormat, Globals
from omnigraph.cli.hints import find_hint
from omnigraph.errors import Clash, MergeConflicts, OmnigraphError

CLASHES_SHOWN_MAX: Final = 20
VALUE_SHOWN_MAX: Final = 200
"""How much of a conflict a terminal shows; a file or JSON has all of it."""


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def print_json(document: Mapping[str, object] | Sequence[object]) -> None:
    print_line(json.dumps(document, ensure_ascii=False, indent=2))


def print_note(text: str) -> None:
    """Something a person should see and a script should not read."""
    sys.stderr.write(f"{text}\n")


def print_target(verb: str, uri: str, settings: Globals) -> None:
    """Say where a write goes, before it goes there."""
    if not settings.quiet:
        place = "direct, remote" if "://" in uri else "direct, local"
        served = uri.startswith(("http://", "https://"))
        print_note(f"omnigraph {verb} → {uri} ({'served' if served else place})")


def print_error(error: OmnigraphError, error_format: ErrorFormat, *, as_json: bool = False) -> None:
    """On stderr, for whoever reads it; with `as_json` on stdout too, in place of a result."""
    if as_json or error_format is ErrorFormat.JSON:
        document = _error_document(error)
        if as_json:
            print_json(document)
        if error_format is ErrorFormat.JSON:
            print_note(json.dumps(document, ensure_ascii=False))
            return
    print_note(f"error: {error}")
    if isinstance(error, MergeConflicts):
        for line in clash_lines(error.conflicts):
            print_note(line)
    if (hint := find_hint(error)) is not None:
        print_note(f"  hint: {hint}")


def _error_document(error: OmnigraphError) -> Mapping[str, object]:
    # What travels over HTTP is told here too; most commands never fail, and need none of it.
    from omnigraph.wire.causes import cause_document
    from omnigraph.wire.details import find_details

    document = {
        "error": str(error),
        **cause_document(error),
        **find_details(error),
        "retryable": error.retryable,
    }
    hint = find_hint(error)
    return document if hint is None else document | {"hint": hint}


def clash_lines(clashes: Sequence[Clash]) -> Iterator[str]:
    """The first conflicts, with what each side has."""
    for clash in clashes[:CLASHES_SHOWN_MAX]:
        yield f"  {clash.kind}: {clash.message}"
        sides = {"base": clash.base, "ours": clash.ours, "theirs": clash.theirs}
        if any(value is not None for value in sides.values()):
            yield from (f"    {name}: {_clipped(value)}" for name, value in sides.items())
    if len(clashes) > CLASHES_SHOWN_MAX:
        yield f"  and {len(clashes) - CLASHES_SHOWN_MAX} more; --json lists them all"


def _clipped(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"
