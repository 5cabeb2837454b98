"""When and where a read looks."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, Version


@dataclass(frozen=True, slots=True)
class Target:
    """A branch as it is now, unless one of the others is set."""

    branch: BranchName = MAIN
    version: Version | None = None
    """The branch at this version of its manifest."""
    at_us: int | None = None
    """The branch as it was at this time, in microseconds since the epoch."""
    commit_id: CommitId | None = None
    """The graph as this commit left it."""
    snapshot: ManifestSnapshot | None = None
    """This very snapshot."""

    @property
    def is_past(self) -> bool:
        """Is it anything but a branch as it is now?"""
        return (
            self.version is not None
            or self.at_us is not None
            or self.commit_id is not None
            or self.snapshot is not None
        )


NOW_ON_MAIN: Final = Target()


def microseconds(moment: datetime | str) -> int:
    """A time as microseconds since the epoch; without a zone it is UTC. Raises UsageError."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            example = "2026-06-01T00:00:00Z"
            raise UsageError(f"a time is written such as {example}, not '{moment}'") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)
