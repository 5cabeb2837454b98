"""Printing: results on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from omnigraph.cli.exits import Exit
from omnigraph.cli.globals import ErrorFormat, Globals
from omnigraph.cli.hints import find_hint
from omnigraph.cli.terminal import Ink, paint
from omnigraph.errors import Clash, MergeConflicts, OmnigraphError, QueryInvalid

CLASHES_SHOWN_MAX: Final = 20
VALUE_SHOWN_MAX: Final = 200
"""How much of a value in a conflict is printed; a file or JSON holds all of it."""


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def print_json(document: Mapping[str, object] | Sequence[object]) -> None:
    print_line(json.dumps(document, ensure_ascii=False, indent=2))


def print_note(text: str) -> None:
    """Print a message for the user on stderr."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def writing_to_stdout() -> Iterator[None]:
    """Flush at the end. If the reader of a pipe has gone, exit without an error message."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The buffer still holds bytes; the interpreter would try to write them again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(Exit.FAILED) from None


def print_bytes(chunks: Iterable[bytes]) -> None:
    with writing_to_stdout():
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)


def print_target(verb: str, uri: str, settings: Globals) -> None:
    """Print the target of a write before it starts."""
    if not settings.quiet:
        place = "direct, remote" if "://" in uri else "direct, local"
        is_served = uri.startswith(("http://", "https://"))
        print_note(f"omnigraph {verb} → {uri} ({'served' if is_served else place})")


def print_error(error: OmnigraphError, error_format: ErrorFormat, *, as_json: bool = False) -> None:
    """On stderr; with `as_json` also on stdout, in place of the result."""
    if as_json or error_format is ErrorFormat.JSON:
        document = _error_document(error)
        if as_json:
            print_json(document)
        if error_format is ErrorFormat.JSON:
            print_note(json.dumps(document, ensure_ascii=False))
            return
    print_note(f"{paint('error:', Ink.ERROR, sys.stderr)} {error}")
    if isinstance(error, QueryInvalid) and error.repair is not None:
        print_note(f"  {paint('repaired:', Ink.HINT, sys.stderr)}")
        for line in error.repair.program.splitlines():
            print_note(f"    {line}")
    if isinstance(error, MergeConflicts):
        for line in clash_lines(error.conflicts):
            print_note(line)
    if (hint := find_hint(error)) is not None:
        print_hint(hint)


def print_hint(text: str) -> None:
    print_note(f"  {paint('hint:', Ink.HINT, sys.stderr)} {text}")


def _error_document(error: OmnigraphError) -> Mapping[str, object]:
    # The same facts as over HTTP. Imported here, because most commands do not fail.
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
    """The first conflicts, with the value of each side."""
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
