"""Which files of a table are incomplete: Lance names the table it cannot read, not the file."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from omnigraph.errors import OmnigraphError
from omnigraph.storage.objects import Listed, Objects

_END: Final = b"LANC"
"""The last bytes of a complete file of these kinds."""
_KINDS: Final = frozenset({".lance", ".manifest"})

NAMED_MAX: Final = 5


def find_torn_files(objects: Objects, path: str) -> list[str]:
    """The incomplete files of a table and its branches; at most `NAMED_MAX`."""
    found = _find(objects, path)
    return [each for each, _ in zip(found, range(NAMED_MAX), strict=False)]


def _find(objects: Objects, path: str) -> Iterator[str]:
    for each in objects.list(path):
        if PurePosixPath(each.key).suffix in _KINDS and not _is_whole(objects, each):
            yield each.key


def _is_whole(objects: Objects, file: Listed) -> bool:
    size = len(_END)
    if file.size_bytes < size:
        return False
    try:
        return objects.read_range(file.key, file.size_bytes - size, size) == _END
    except OmnigraphError:
        return False
