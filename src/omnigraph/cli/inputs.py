"""The files and texts that a command names: reading queries and parameters, writing results."""

import os
from collections.abc import Iterable
from pathlib import Path

from omnigraph.effects import REAL
from omnigraph.errors import FileUnreadable, OmnigraphError, UsageError
from omnigraph.jsontext import read_json
from omnigraph.lang.source import Source
from omnigraph.sdk.files import is_file_name, read_text


def read_source(path: Path) -> Source:
    """The text of a file, named by its path in diagnostics. Raises FileUnreadable."""
    text, name = read_text(path)
    return Source(name, text)


def write_whole(path: Path, chunks: Iterable[bytes]) -> int:
    """Write a file that appears when it is complete; the number of bytes. Raises FileUnreadable."""
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


def read_query(path: Path | None, text: str | None) -> str | Path:
    """Raises UsageError unless exactly one of them is given, and in its own place."""
    if text is not None and path is None:
        if is_file_name(text):
            raise UsageError(f"-e takes the text of a query; '{text}' is a file: --query {text}")
        return text
    if path is not None and text is None:
        if "{" in str(path):
            raise UsageError("--query takes the name of a file; give the text of a query with -e")
        return path
    raise UsageError("give the query once: --query FILE or -e TEXT")


def read_params(text: str | None, path: Path | None) -> dict[str, object] | None:
    """Raises UsageError, FileUnreadable."""
    if text is not None and path is not None:
        raise UsageError("give the parameters once: --params or --params-file")
    if path is not None:
        text = read_source(path).text
    if text is None:
        return None
    try:
        values = read_json(text)
    except ValueError as error:
        example = """'{"name": "Ada"}'"""
        raise UsageError(f"the parameters are not JSON: {error}; write {example}") from None
    if not isinstance(values, dict):
        raise UsageError("the parameters are a JSON object of names and values")
    return values
