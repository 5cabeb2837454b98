"""Files that go to a server: found as an embedded graph finds them, and opened to be sent."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from omnigraph.engine.load.inputs import STDIN
from omnigraph.errors import UsageError
from omnigraph.storage.inputs import S3, find_inputs, reading


@contextmanager
def open_sources(source: object) -> Iterator[list[tuple[str, BinaryIO]]]:
    """Files, folders and patterns, and `-` for standard input: each file with its name.

    Raises FileUnreadable, UsageError.
    """
    listed = source if isinstance(source, list | tuple) else [source]
    with ExitStack() as stack:
        yield [each for given in listed for each in _open(given, stack)]


def _open(given: object, stack: ExitStack) -> Iterator[tuple[str, BinaryIO]]:
    if not isinstance(given, str | Path) or str(given).startswith(S3):
        raise UsageError("only files of this machine can be sent to a server")
    if str(given) == STDIN:
        yield "stdin.jsonl", _keep_stdin(stack)
        return
    for found in find_inputs(str(given), {}):
        with reading(found.shown):
            file = stack.enter_context(Path(found.path).open("rb"))  # noqa: SIM115 - it is one
        yield Path(found.path).name, file


def _keep_stdin(stack: ExitStack) -> BinaryIO:
    """On disk: whoever gets no answer sends it again from the start."""
    kept = cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.seek(0)
    return kept
