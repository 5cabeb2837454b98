"""Printing: results on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Mapping, Sequence

from omnigraph.cli.globals import ErrorFormat, Globals
from omnigraph.cli.hints import find_hint
from omnigraph.errors import Clash, MergeConflicts, OmnigraphError


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


def print_error(error: OmnigraphError, error_format: ErrorFormat) -> None:
    match error_format:
        case ErrorFormat.TEXT:
            print_note(f"error: {error}")
            if (hint := find_hint(error)) is not None:
                print_note(f"  hint: {hint}")
        case ErrorFormat.JSON:
            body: dict[str, object] = {"error": str(error), "code": error.code.value}
            if isinstance(error, MergeConflicts):
                body["merge_conflicts"] = [_clash(each) for each in error.conflicts]
            print_note(json.dumps(body, ensure_ascii=False))


def _clash(clash: Clash) -> dict[str, object]:
    """What a program needs to know of a conflict, in words the server uses too."""
    return {
        "table_key": clash.table,
        "row_id": clash.row_id,
        "property": clash.property_name,
        "kind": str(clash.kind),
        "message": clash.message,
    }
