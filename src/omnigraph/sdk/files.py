"""Files that callers name: programs to read, and outputs to write whole or not at all."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO, Final, Literal

from omnigraph.effects import REAL
from omnigraph.errors import FileUnreadable, OmnigraphError, UsageError

PROGRAM_SUFFIXES: Final = (".gq", ".pg")
FILE_NAME_MAX: Final = 255
"""Longer texts are not looked up as names of files."""


def read_text(given: str | Path, name: str = "<text>") -> tuple[str, str]:
    """The text of a program and what to call it in messages. A string is always text.

    Raises FileUnreadable; UsageError for a string that is the name of a file.
    """
    if isinstance(given, str):
        if is_file_name(given):
            shown = f"'{given}' is the name of a file, and a string is the text of a program"
            raise UsageError(f"{shown}; pass pathlib.Path('{given}') to read the file")
        return given, name
    try:
        return given.read_text(encoding="utf-8"), str(given)
    except OSError as error:
        raise FileUnreadable(str(given), reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(str(given), reason=f"not UTF-8 text: {error.reason}") from error


def is_file_name(text: str) -> bool:
    """Whether a text is the name of a file of programs. No program does without a brace."""
    if "{" in text or "\n" in text.strip() or len(text) > FILE_NAME_MAX:
        return False
    return text.strip().endswith(PROGRAM_SUFFIXES) or Path(text).is_file()


def write_output(
    output: str | Path | BinaryIO,
    lines: Iterator[bytes],
    options: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """`options` reach an output at `s3://`. Raises FileUnreadable, ConfigInvalid."""
    if isinstance(output, str | Path):
        write_lines(output, lines, options)
    else:
        for chunk in lines:
            output.write(chunk)


def write_lines(
    output: str | Path, lines: Iterator[bytes], options: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Whole or not at all; compressed if the name ends in `.gz` or `.zst`, which a load reads.

    Raises FileUnreadable, ConfigInvalid.
    """
    import pyarrow as pa

    if isinstance(output, str) and output.startswith("s3://"):
        from omnigraph.storage.outputs import write_object

        write_object(output, _compressed(lines, output), options)
        return
    path = Path(output)
    hidden = path.with_name(f".{path.name}.{REAL.new_id()}{path.suffix}")
    with naming_output(path):
        try:
            with pa.output_stream(str(hidden), compression="detect") as file:
                for chunk in lines:
                    file.write(chunk)
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)


def _compressed(lines: Iterator[bytes], name: str) -> Iterator[bytes]:
    import pyarrow as pa

    codecs: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd"}
    codec = codecs.get(PurePosixPath(name).suffix)
    if codec is None:
        yield from lines
        return
    sink = _Sink()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), codec) as stream:
        for chunk in lines:
            stream.write(chunk)
            yield _drain(sink)
    yield _drain(sink)


class _Sink(io.BytesIO):
    def close(self) -> None:
        """Stay open: the stream above it writes its end and closes at once."""


def _drain(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


@contextmanager
def naming_output(output: str | Path) -> Iterator[None]:
    """Report what the disk refuses as `FileUnreadable`, which names the output."""
    try:
        yield
    except OmnigraphError:
        raise
    except OSError as error:
        raise FileUnreadable(str(output), reason=error.strerror or str(error)) from error
