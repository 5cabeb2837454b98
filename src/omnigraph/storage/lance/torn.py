"""Versions that a power cut left unreadable.

A commit is flushed after it lands, so a power cut may happen in between. Then the file of the
version has its name and no content or only a part of it; or it is complete, and a file that it
names is not. Without a power cut no process sees such a file, because Lance links the file of a
version after writing all of it. This module examines contents and not errors: Lance reads a file of
zeros as a table of version 0, and a store that does not answer is no power cut.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from omnigraph.errors import ObjectNotFound, TableCorrupt, VersionNotFound
from omnigraph.storage import layout
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.read import probe
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import TableRef

_ENDINGS: Final = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}
"""The last bytes of a complete file of this kind."""

_TAIL_BYTES: Final = 8


def find_torn(store: LanceStore, shown: LanceHandle) -> int | None:
    newest = _find_newest(store, shown)
    if newest == shown.version:
        return None
    try:
        data = store.objects.read(_key(shown, newest)).data
        if not data.endswith(_ENDINGS[".manifest"]):
            return newest
        handle = _open(store, shown.ref, newest)
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


def find_whole(store: LanceStore, ref: TableRef) -> LanceHandle | None:
    """By the listing: the newest version itself may be the one that Lance cannot open."""
    for version in sorted(_list_versions(store, ref), reverse=True):
        if (handle := _open_whole(store, ref, version)) is not None:
            return handle
    return None


def _find_newest(store: LanceStore, shown: LanceHandle) -> int:
    """On a disk by the listing: a power cut may leave a version without the one before it, and a
    probe does not look beyond the gap.
    """
    if not store.root.is_local:
        return probe(store, shown)
    return max([*_list_versions(store, shown.ref), shown.version])


def _list_versions(store: LanceStore, ref: TableRef) -> list[int]:
    listed = store.objects.list(f"{_home(ref)}/{layout.VERSIONS}")
    found = (layout.version_of_file(each.key.rpartition("/")[2]) for each in listed)
    return [each for each in found if each is not None]


def _open_whole(store: LanceStore, ref: TableRef, version: int) -> LanceHandle | None:
    try:
        data = store.objects.read(f"{_home(ref)}/{layout.version_file(version)}").data
        if not data.endswith(_ENDINGS[".manifest"]):
            return None
        handle = _open(store, ref, version)
    except (ObjectNotFound, VersionNotFound, TableCorrupt):
        return None
    with translating(ref, "look through", version=version):
        return None if any(map(_is_torn, table_files.reachable(handle.dataset))) else handle


def _open(store: LanceStore, ref: TableRef, version: int) -> LanceHandle:
    """Examined and never written: the branches of a moved graph are examined where they are now."""
    return replace(store, maps_bases=True).open(ref, version)


def remove_torn(store: LanceStore, shown: LanceHandle, version: int) -> None:
    assert version > shown.version, "what is shown stays"
    # Checked again: a process that was suspended must not remove a version made meanwhile.
    if find_torn(store, shown) == version:
        store.objects.delete(_key(shown, version))


def _key(handle: LanceHandle, version: int) -> str:
    return f"{_home(handle.ref)}/{layout.version_file(version)}"


def _home(ref: TableRef) -> str:
    folder = layout.branch_folder(ref.branch)
    return f"{ref.path}/{folder}" if folder else ref.path


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
