"""Reading the programs a command names."""

from pathlib import Path

from omnigraph.errors import FileUnreadable
from omnigraph.lang.source import Source


def read_source(path: Path) -> Source:
    """A program file as a source named by its path. Raises FileUnreadable."""
    try:
        return Source(str(path), path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(str(path), reason=f"not UTF-8 text: {error.reason}") from error
