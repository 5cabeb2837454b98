"""A small load as a write of rows, which may share a group with other writes (D29)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.load.bulk import Fault, Ingested, Rejects, gather_faults, type_of
from omnigraph.engine.load.incoming import (
    Incoming,
    LoadEvaluation,
    find_all_repeated,
    locate,
    write_into,
)
from omnigraph.engine.tables.cells import size_of
from omnigraph.engine.write.mutate import WriteTask
from omnigraph.engine.write.pending import Affected, Pending, affected
from omnigraph.engine.write.violations import Violation
from omnigraph.errors import LoadRejected
from omnigraph.ids import TableKey


@dataclass(frozen=True, slots=True)
class LoadTask(WriteTask):
    """All rows of an append or a merge, each valid by itself."""

    kind: ClassVar[WriterKind] = WriterKind.LOAD

    incoming: Incoming
    errors_max: int
    branch_created: bool = False
    _faults: list[Fault] = field(default_factory=list)
    """What the last check found: a member of a group is checked several times."""

    @property
    def tables(self) -> Collection[TableKey]:
        return tuple(self.incoming.ingested.counts)

    @property
    def strict(self) -> Collection[TableKey]:
        return ()

    @property
    def size_bytes(self) -> int:
        rows = (row for some in self.incoming.rows.values() for _, row in some)
        return sum(size_of(cell) for row in rows for cell in row.values())

    def run(self, pending: Pending) -> Affected:
        self.check_alone()
        write_into(pending, self.incoming)
        catalog, counts = self.incoming.catalog, self.incoming.ingested.counts
        each = (affected(type_of(catalog, key), count) for key, count in counts.items())
        return sum(each, Affected())

    def check_alone(self) -> None:
        """Check the records, and the rows against each other. Raises LoadRejected."""
        check_records(self.incoming.ingested)
        self._refuse(find_all_repeated(self.incoming))

    def check(self, pending: Pending) -> None:
        self._refuse([*LoadEvaluation(self.incoming, pending).find_all()])
        pending.check_fresh()

    def refuse(self, violations: Sequence[Violation]) -> None:
        self._refuse(locate(self.incoming, violations, is_sorted=False))

    def _refuse(self, faults: Sequence[Fault]) -> None:
        self._faults[:] = faults
        if faults:
            raise LoadRejected(tuple(faults[: self.errors_max]), count=len(faults))

    def reject(self, rejects: Rejects | None) -> None:
        """Pass on every fault of a load that was refused."""
        ingested = self.incoming.ingested
        faults = ingested.read_faults() if ingested.faults.count else self._faults
        gather_faults(faults, self.errors_max, rejects)

    def result_of(self, affected: Affected) -> JsonObject:  # noqa: ARG002 - the protocol's
        return encode_result(self.incoming.ingested, branch_created=self.branch_created)


def encode_result(ingested: Ingested, *, branch_created: bool) -> JsonObject:
    """The result that a commit records for a repeated request."""
    return {
        "counts": {str(key): count for key, count in ingested.counts.items()},
        "branch_created": branch_created,
        "engine": ingested.engine.value,
    }


def check_records(ingested: Ingested, rejects: Rejects | None = None) -> None:
    """Raises LoadRejected for records that are wrong by themselves."""
    faults = ingested.faults
    if faults.count:
        if rejects is not None:
            for each in ingested.read_faults():
                rejects(each)
        raise LoadRejected(faults.listed, count=faults.count)
