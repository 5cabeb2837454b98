"""Reading the programs a command names, and writing what it was asked for."""

import os
from collections.abc import Iterable
from pathlib import Path

from omnigraph.effects import REAL
from omnigraph.errors import FileUnreadable, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.sdk.texts import read_text


def read_source(path: Path) -> Source:
    """A program file as a source named by its path. Raises FileUnreadable."""
    text, name = read_text(path)
    return Source(name, text)


def write_whole(path: Path, chunks: Iterable[bytes]) -> int:
    """A file that appears when all of it is there; how many bytes. Raises FileUnreadable."""
    hidden = path.with_name(f".{path.name}.{REAL.new_id()}")
    try:
        with hidden.open("xb") as file:
            count = sum(file.write(chunk) for chunk in chunks)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except OmnigraphError:
        raise
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
    finally:
        hidden.unlink(missing_ok=True)
    return count
