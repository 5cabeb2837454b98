"""Programs as callers give them: a text, or the path of one."""

from pathlib import Path

from omnigraph.errors import FileUnreadable


def read_text(given: str | Path, name: str = "<text>") -> tuple[str, str]:
    """The text of a program and what to call it in messages. A string is always text."""
    if isinstance(given, str):
        return given, name
    try:
        return given.read_text(encoding="utf-8"), str(given)
    except OSError as error:
        raise FileUnreadable(str(given), reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(str(given), reason=f"not UTF-8 text: {error.reason}") from error
