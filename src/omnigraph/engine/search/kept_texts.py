"""A cache of postings, which belong to data that never changes."""

from collections import Counter, OrderedDict
from threading import Lock
from typing import Final, NamedTuple

from omnigraph.engine.search.postings import Postings
from omnigraph.storage.block_file import BlockFile

KEPT_BYTES_MAX: Final = 256 * 1024 * 1024

Parts = tuple[Postings, ...]


class _Entry(NamedTuple):
    parts: Parts
    file: BlockFile | None

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.parts)


class KeptTexts:
    """A cache of postings, of fragments and of index results, shared by threads.

    A key is the identity of immutable data, so an entry never becomes stale. The least recently
    used entry is evicted first.
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.bytes_max: Final = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._distrusted: set[str] = set()
        self._rows_asked: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def find(self, identity: str, column: str) -> Parts | None:
        key = (identity, column)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found.parts

    def keep(self, identity: str, column: str, parts: Parts, file: BlockFile | None = None) -> None:
        key, entry = (identity, column), _Entry(parts, file)
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = entry
            self._bytes += entry.size_bytes
            while self._bytes > self.bytes_max and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.size_bytes

    def distrust(self, file: BlockFile) -> None:
        """Forget what a damaged file said, and map it no more."""
        with self._lock:
            self._distrusted.add(file.facts["identity"])
            for key in [key for key, each in self._kept.items() if not self._is_trusted(each)]:
                self._bytes -= self._kept.pop(key).size_bytes

    def _is_trusted(self, entry: _Entry) -> bool:
        return entry.file is None or self.trusts(entry.file)

    def trusts(self, file: BlockFile) -> bool:
        return file.facts["identity"] not in self._distrusted

    def charge(self, identity: str, column: str, row_count: int) -> None:
        """Note how many rows an index named among fragments of this identity."""
        with self._lock:
            self._rows_asked[(identity, column)] += row_count

    def charged(self, identity: str, column: str) -> int:
        return self._rows_asked[(identity, column)]


KEPT_TEXTS: Final = KeptTexts()
