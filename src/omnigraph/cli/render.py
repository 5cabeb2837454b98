"""Printing: results on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Mapping

from omnigraph.cli.globals import ErrorFormat, Globals
from omnigraph.errors import OmnigraphError


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def print_json(document: Mapping[str, object]) -> None:
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
        case ErrorFormat.JSON:
            body = {"error": str(error), "code": error.code.value}
            print_note(json.dumps(body, ensure_ascii=False))
