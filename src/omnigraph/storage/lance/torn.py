"""Versions that a power cut left unreadable.

A commit is flushed after it lands, so a power cut may happen in between. Then the file of the
version has its name and no content or only a part of it; or it is complete, and a file that it
names is not. Without a power cut no process sees such a file, because Lance links the file of a
version after writing all of it. This module examines contents and not errors: Lance reads a file of
zeros as a table of version 0, and a store that does not answer is no power cut.
"""

from pathlib import Path
from typing import Final

from omnigraph.errors import ObjectNotFound, TableCorrupt
from omnigraph.storage import layout
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.read import probe
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating

_ENDINGS: Final = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}
"""The last bytes of a complete file of this kind."""

_TAIL_BYTES: Final = 8


def find_torn(store: LanceStore, shown: LanceHandle) -> int | None:
    newest = probe(store, shown)
    if newest == shown.version:
        return None
    try:
        data = store.objects.read(_key(shown, newest)).data
        if not data.endswith(_ENDINGS[".manifest"]):
            return newest
        handle = store.open(shown.ref, newest)
    except ObjectNotFound:
        return None
    except TableCorrupt:
        return newest
    if not store.root.is_local:
        return None  # an object of a bucket is complete or missing
    with translating(shown.ref, "look through", version=newest):
        known = set(table_files.reachable(shown.dataset))
        new = [each for each in table_files.reachable(handle.dataset) if each not in known]
        return newest if any(map(_is_torn, new)) else None


def remove_torn(store: LanceStore, shown: LanceHandle, version: int) -> None:
    assert version > shown.version, "what is shown stays"
    # Checked again: a process that was suspended must not remove a version made meanwhile.
    if find_torn(store, shown) == version:
        store.objects.delete(_key(shown, version))


def _key(handle: LanceHandle, version: int) -> str:
    folder = layout.branch_folder(handle.ref.branch)
    table = f"{handle.ref.path}/{folder}" if folder else handle.ref.path
    return f"{table}/{layout.version_file(version)}"


def _is_torn(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - _TAIL_BYTES))
            tail = opened.read()
    except FileNotFoundError:
        return True
    ending = _ENDINGS.get(file.suffix)
    # Other kinds of file have no fixed last bytes, and some may be empty.
    return ending is not None and not tail.endswith(ending)
