"""Which commits were given which idempotency keys, so that one is found without reading them all.

A log and those that follow it share one index. Several may follow one, when a publish is refused
and planned again, so an entry only says where to look: whoever asks looks the commit up in its own
log. Entries are added and never taken out. Safe to share among threads.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import CommitId
from omnigraph.jsontext import read_json

_SPELLED: Final = r'"idempotency":\{"key":(?P<key>"(?:[^"\\]|\\.)*")'


class IdempotencyIndex:
    def __init__(self, rows: pa.Table) -> None:
        self._commits: dict[str, tuple[CommitId, ...]] = {}
        self.add(rows)

    def add(self, rows: pa.Table) -> None:
        """Note the keys of more commits, as a manifest spells them."""
        spelled = pc.struct_field(pc.extract_regex(rows["metadata"], _SPELLED), [0])
        keyed = pc.is_valid(spelled)
        commits = rows["object_id"].filter(keyed).to_pylist()
        for text, commit_id in zip(spelled.filter(keyed).to_pylist(), commits, strict=True):
            key = read_json(text)
            known = self._commits.get(key, ())
            if commit_id not in known:
                self._commits[key] = (*known, CommitId(str(commit_id)))

    def find(self, key: str) -> tuple[CommitId, ...]:
        """The commits that may have been given this key."""
        return self._commits.get(key, ())
