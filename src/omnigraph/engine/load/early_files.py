"""Files of a load that are written before its tables are locked."""

import logging
from dataclasses import dataclass, field

from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.engine.load.bulk import Ingested
from omnigraph.errors import StorageFailure
from omnigraph.ids import BranchName, TableKey, lance_branch
from omnigraph.storage.tables import Handle, Pieces, TableRef, Tables

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files of one table, staged on the version that the pin names."""

    pin: Pin
    pieces: tuple[Pieces, ...]


@dataclass(frozen=True, slots=True)
class EarlyFiles:
    """The files of one load; those that its ingest wrote are the `receipts`."""

    tables: Tables
    branch: BranchName
    ingested: Ingested
    base: Manifest
    """The branch when the load began."""
    written: dict[TableKey, WrittenFiles] = field(default_factory=dict)

    def write_all(self) -> None:
        """Write pending rows that do not fit in memory, if the branch owns their table."""
        for key in self.ingested.counts:
            pin = self.base.pins[key]
            is_pending = not self.ingested.receipts.get(key)
            if is_pending and pin.owner == self.branch and not self.ingested.fits(key):
                ref = TableRef(pin.path, lance_branch(pin.owner))
                self.written[key] = WrittenFiles(pin, self.ingested.write_pending(key, pin, ref))

    def write(self, pin: Pin, handle: Handle) -> tuple[Pieces, ...]:
        """The pending rows as files on the locked version.

        Files that were written early serve, unless the table moved since.
        """
        early = self.written.get(pin.key)
        if early is not None and early.pin == pin:
            return early.pieces
        if early is not None:
            self._discard(self.written.pop(pin.key))
        return self.ingested.write_pending(pin.key, pin, handle.ref)

    def discard(self) -> None:
        """Delete the staged files that no commit will name, as far as they are known here."""
        for key, receipts in self.ingested.receipts.items():
            self._discard(WrittenFiles(self.base.pins[key], (Pieces(fresh=receipts),)))
        for written in self.written.values():
            self._discard(written)

    def _discard(self, written: WrittenFiles) -> None:
        ref = TableRef(written.pin.path, lance_branch(written.pin.owner))
        try:
            for pieces in written.pieces:
                self.tables.discard(ref, pieces)
        except StorageFailure as failure:
            logger.info("left files of %s for cleaning up: %s", written.pin.key, failure)
