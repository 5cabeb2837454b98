"""Files that callers name: programs to read, and outputs to write whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph.effects import REAL
from omnigraph.errors import FileUnreadable, OmnigraphError


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


def write_output(output: str | Path | BinaryIO, lines: Iterator[bytes]) -> None:
    """Raises FileUnreadable."""
    if isinstance(output, str | Path):
        write_lines(Path(output), lines)
    else:
        for chunk in lines:
            output.write(chunk)


def write_lines(path: Path, lines: Iterator[bytes]) -> None:
    """Whole or not at all; compressed if the name ends in `.gz` or `.zst`, which a load reads.

    Raises FileUnreadable.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow, and most callers never write a file

    hidden = path.with_name(f".{path.name}.{REAL.new_id()}{path.suffix}")
    with naming_output(path):
        try:
            with pa.output_stream(str(hidden), compression="detect") as file:
                for chunk in lines:
                    file.write(chunk)
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)


@contextmanager
def naming_output(output: str | Path) -> Iterator[None]:
    """Report what the disk refuses as `FileUnreadable`, which names the output."""
    try:
        yield
    except OmnigraphError:
        raise
    except OSError as error:
        raise FileUnreadable(str(output), reason=error.strerror or str(error)) from error
