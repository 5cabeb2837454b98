"""Writing the files of an export into a bucket. Each object appears whole, or not at all.

obstore uploads an iterator in parts and aborts the upload if the iterator raises, so no reader sees
half an object. A folder has no such moment: its objects appear one by one. `_SUCCESS` comes last,
as in the output of Spark; readers of folders, our own loads too, leave that name out.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import obstore

from omnigraph.errors import FileUnreadable, UsageError
from omnigraph.storage.bucket_options import S3, BucketAccess, resolve_bucket
from omnigraph.storage.inputs import reading
from omnigraph.storage.objects_cloud import connect

COMPLETE: Final = "_SUCCESS"
PART_BYTES: Final = 16 * 2**20
"""S3 takes 10,000 parts: 160 GB in one object."""


def write_object(address: str, chunks: Iterator[bytes], options: Mapping[str, str]) -> None:
    """Raises FileUnreadable, ConfigInvalid, and what the iterator raises."""
    access, key = _locate(address, options)
    with reading(address, access):
        obstore.put(connect(access), key, chunks, chunk_size=PART_BYTES)


def upload_folder(folder: Path, address: str, options: Mapping[str, str]) -> None:
    """Copy all files below a folder. Raises FileUnreadable."""
    access, key = _locate(address, options)
    uploaded: list[str] = []
    with reading(address, access):
        store = connect(access)
        try:
            for file in sorted(each for each in folder.rglob("*") if each.is_file()):
                name = f"{key}/{file.relative_to(folder).as_posix()}"
                uploaded.append(name)
                obstore.put(store, name, file, chunk_size=PART_BYTES)
            obstore.put(store, f"{key}/{COMPLETE}", b"")
        except BaseException:
            # The failure is what counts; an object that stays lies in a folder without `_SUCCESS`.
            with suppress(Exception):
                obstore.delete(store, uploaded)
            raise


def check_free(address: str, options: Mapping[str, str]) -> None:
    """Raises UsageError if something is below the address; FileUnreadable."""
    access, key = _locate(address, options)
    with reading(address, access):
        store = connect(access, retries_max=1)
        if any(len(chunk) for chunk in obstore.list(store, key, chunk_size=1)):
            raise UsageError(f"{address} is there already, and not empty")


def _locate(address: str, options: Mapping[str, str]) -> tuple[BucketAccess, str]:
    bucket, _, key = address.removeprefix(S3).rstrip("/").partition("/")
    if not bucket or not key:
        raise FileUnreadable(address, reason="name a bucket and a key: s3://bucket/key")
    return resolve_bucket(f"{S3}{bucket}", options), key
