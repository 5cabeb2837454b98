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
from omnigraph.sdk.frames import spooled
from omnigraph.storage.bucket_options import S3
from omnigraph.storage.inputs import find_inputs, reading


@contextmanager
def open_sources(source: object) -> Iterator[list[tuple[str, BinaryIO]]]:
    """Files, folders, patterns, tables in memory, and `-` for standard input, as named files.

    Raises FileUnreadable, UsageError.
    """
    with ExitStack() as stack:
        files = stack.enter_context(spooled(source))
        listed = files if isinstance(files, list | tuple) else [files]
        yield [each for given in listed for each in _open(given, stack)]


def _open(given: object, stack: ExitStack) -> Iterator[tuple[str, BinaryIO]]:
    if not isinstance(given, str | Path) or str(given).startswith(S3):
        raise UsageError("only files of this machine and tables in memory can be sent to a server")
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
