"""Bodies that are too large for memory: files in a temporary folder, for as long as the request.

Of the name of an uploaded file only the suffix is kept on disk, because it tells the format. Errors
name the files as the client did, and never the paths on the server.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from omnigraph.engine.load.bulk import Fault
from omnigraph.errors import OmnigraphError

_SUFFIXES: Final = re.compile(r"(\.[A-Za-z0-9]{1,10}){1,2}$")
_RECORD: Final = re.compile(r"[^ \t\r\n]")
_DECODER: Final = json.JSONDecoder()
FILES_MAX: Final = 1000
BODY: Final = "the body"
"""The name of a raw body in errors."""


@dataclass(frozen=True, slots=True)
class Spool:
    """The files of one request. Its owner calls `remove`."""

    folder: Path
    files: tuple[Path, ...]
    names: tuple[str, ...]
    """The names that the client gave them."""

    @contextmanager
    def named(self) -> Iterator[None]:
        """Replace paths with the names of the client in errors of the work inside."""
        try:
            yield
        except OmnigraphError as error:
            error.args = tuple(map(self._rename, error.args))
            for key, value in vars(error).items():
                setattr(error, key, self._rename(value))
            raise

    def _rename(self, value: object) -> object:
        match value:
            case str():
                for path, name in zip(self.files, self.names, strict=True):
                    value = value.replace(str(path), name)
                return value
            case tuple():
                return tuple(map(self._rename, value))
            case Fault():
                return replace(
                    value,
                    file=None if value.file is None else str(self._rename(value.file)),
                    message=str(self._rename(value.message)),
                )
            case _:
                return value

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def spool_text(text: str) -> Spool:
    """Records in one text, separated by white space."""
    with _new_folder() as folder:
        path = folder / "records.jsonl"
        path.write_text(one_a_line(text), encoding="utf-8")
    return Spool(folder, (path,), (BODY,))


@contextmanager
def _new_folder() -> Iterator[Path]:
    """A temporary folder that is removed if the work inside fails."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-load-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def one_a_line(text: str) -> str:
    """The same records, one a line.

    Returns the text unchanged if it has one record a line, so that line numbers stay, and also if
    it is not JSON: the load reports what is wrong, and where.
    """
    records: list[str] = []
    at, is_fine = 0, True
    try:
        while found := _RECORD.search(text, at):
            start = found.start()
            is_fine &= not records or "\n" in text[at:start]
            _, at = _DECODER.raw_decode(text, start)
            records.append(text[start:at])
            is_fine &= "\n" not in records[-1]
    except (ValueError, RecursionError):
        return text
    # Inside a record, a line end is white space: JSON strings must escape it.
    return text if is_fine else "\n".join(each.replace("\n", " ") for each in records)


async def spool_stream(request: Request) -> Spool:
    """The raw body as one file of records."""
    with _new_folder() as folder:
        path = folder / "records.jsonl"
        with path.open("wb") as file:
            async for piece in request.stream():
                await run_in_threadpool(file.write, piece)
    return Spool(folder, (path,), (BODY,))


async def spool_files(request: Request, bytes_max: int) -> Spool:
    """The files of a multipart body.

    Raises HTTPException if there are none, or if they are larger than `bytes_max` when unpacked.
    """
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise HTTPException(415, "the body must be multipart/form-data")
    with _new_folder() as folder:
        async with request.form(max_files=FILES_MAX, max_fields=0) as form:
            uploads = [each for _, each in form.multi_items() if isinstance(each, UploadFile)]
            paths = [
                await run_in_threadpool(_keep, upload, folder, at)
                for at, upload in enumerate(uploads)
            ]
        if not paths:
            raise HTTPException(422, "the body holds no file")
        await run_in_threadpool(_check_unpacked, paths, bytes_max)
    names = (_name(each, at) for at, each in enumerate(uploads, start=1))
    return Spool(folder, tuple(paths), tuple(names))


def _check_unpacked(paths: list[Path], bytes_max: int) -> None:
    """A small compressed file may stand for a huge one. Raises HTTPException."""
    from omnigraph.pipeline.sources.splits import BLOCK_BYTES, codec_of  # noqa: PLC0415 - for loads

    left = bytes_max
    for path in paths:
        codec = codec_of(str(path))
        if codec is None:
            left -= path.stat().st_size
            continue
        # A file that is damaged is reported by the load, with the name that the client gave it.
        with suppress(OSError), pa.CompressedInputStream(str(path), codec) as stream:
            while left >= 0 and (piece := stream.read(BLOCK_BYTES)):
                left -= len(piece)
    if left < 0:
        raise HTTPException(413, f"the files are larger than {bytes_max} bytes when unpacked")


def _name(upload: UploadFile, number: int) -> str:
    """The last part of the client's name, if it is printable."""
    name = re.split(r"[/\\]", upload.filename or "")[-1]
    return name if name and name.isprintable() else f"file {number}"


def _keep(upload: UploadFile, folder: Path, at: int) -> Path:
    ends = _SUFFIXES.search(upload.filename or "")
    path = folder / f"part-{at}{ends[0] if ends else '.jsonl'}"
    with path.open("wb") as file:
        shutil.copyfileobj(upload.file, file)
    return path
