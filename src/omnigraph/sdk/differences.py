"""A diff and a baseline to a caller, of an embedded graph and of one on a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import JsonObject, RowCounts
    from omnigraph.commit.manifest.snapshot import ManifestSnapshot
    from omnigraph.engine.history.diff import EntityChange
    from omnigraph.ids import TableKey


class Differences(Protocol):
    """What differs between two states: counted; and, as far as one reads on, told."""

    @property
    def before(self) -> ManifestSnapshot: ...

    @property
    def after(self) -> ManifestSnapshot: ...

    @property
    def counts(self) -> Mapping[TableKey, RowCounts]: ...

    def changes(self, *, skip: int = 0) -> Iterator[EntityChange]: ...
    def __len__(self) -> int: ...


class Beginning(Protocol):
    """Everything a branch shows, and the cursor from which its changes follow.

    Where it stands is known once its lines were read to the end.
    """

    @property
    def snapshot(self) -> ManifestSnapshot: ...

    @property
    def resume_cursor(self) -> str: ...

    def lines(self) -> Iterator[bytes]: ...
    def document(self) -> JsonObject: ...
