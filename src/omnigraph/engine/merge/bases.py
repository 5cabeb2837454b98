"""The merge base of two branches, and the commits that a merge carries over.

1. A base is a maximal common ancestor: a common commit that no other common commit descends from.
   Histories that criss-cross have several bases, and a merge uses all of them.
2. A base that can no longer be read is never replaced silently by an older one: rows that were
   merged before would come back, or conflict without reason (D7). The user must name a base.
3. A merge copies the source's commits into the target's history, so every parent can be found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.commit.manifest.lineage import Lineage
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import snapshot_at_commit
from omnigraph.engine.merge.classify import Outcome
from omnigraph.errors import (
    CommitNotFound,
    ManifestCorrupt,
    MergeBaseUnavailable,
    NotFoundError,
    UsageError,
)
from omnigraph.ids import CommitId, TableKey
from omnigraph.storage.stores import Stores

CANDIDATES_MAX: Final = 5
"""How many older common commits the error suggests as a base."""

Pins = Mapping[TableKey, Pin]


@dataclass(frozen=True, slots=True)
class Ancestry:
    source: Commit
    """The head of the source."""
    target: Commit
    bases: tuple[Commit, ...]
    base_pins: tuple[Pins, ...]
    """What each base showed; empty if there is nothing to merge."""
    carried: tuple[Commit, ...]
    """(3) Commits of the source that the target's history lacks."""

    def pins_of(self, key: TableKey) -> list[Pin | None]:
        """What each base showed of one table."""
        return [each.get(key) for each in self.base_pins]

    @property
    def outcome(self) -> Outcome:
        ids = {each.id for each in self.bases}
        if self.source.id in ids:
            return Outcome.ALREADY_UP_TO_DATE
        return Outcome.FAST_FORWARD if ids == {self.target.id} else Outcome.MERGED


def find_ancestry(
    stores: Stores, source: Manifest, target: Manifest, *, base: CommitId | None = None
) -> Ancestry:
    """Raises MergeBaseUnavailable, CommitNotFound, UsageError."""
    ours, theirs = _commits_of(target), _commits_of(source)
    lineage = Lineage({**theirs, **ours})
    if source.head is None or target.head is None:
        raise UsageError("a branch without commits cannot be merged")
    found = lineage.merge_bases(source.head.id, target.head.id)
    if not found:
        raise UsageError(
            f"'{source.branch}' and '{target.branch}' have no commit in common; "
            "export one and load it into the other"
        )
    bases = tuple(lineage.commits[each] for each in found)
    if source.head.id in found:
        return Ancestry(source.head, target.head, bases, (), ())
    if base is not None:
        bases = (_named_base(lineage, base, source.head.id, target.head.id),)
    carried = tuple(each for each in theirs.values() if each.id not in ours)
    if all(each.id == target.head.id for each in bases):
        return Ancestry(source.head, target.head, bases, (target.pins,), carried)
    pins = [_read_pins(stores, each) for each in bases]
    known = tuple(each for each in pins if each is not None)
    if len(known) < len(bases):
        lost = [commit.id for commit, each in zip(bases, pins, strict=True) if each is None]
        raise MergeBaseUnavailable(
            source.branch,
            target.branch,
            bases=lost,
            candidates=_find_candidates(stores, lineage, (source.head.id, target.head.id), found),
        )
    return Ancestry(source.head, target.head, bases, known, carried)


def _commits_of(manifest: Manifest) -> dict[CommitId, Commit]:
    return {each.id: each for each in (*manifest.log.ancestors, *manifest.log.commits)}


def _named_base(lineage: Lineage, base: CommitId, source: CommitId, target: CommitId) -> Commit:
    if base not in lineage.commits:
        raise CommitNotFound(base)
    if base not in lineage.ancestors_of(source) & lineage.ancestors_of(target):
        raise UsageError(f"commit {base} is not in the history of both branches")
    return _last_member(lineage, lineage.commits[base])


def _last_member(lineage: Lineage, commit: Commit) -> Commit:
    """Of a group, the last member: no state between two members ever existed (D29)."""
    place = commit.extension.group
    if place is None:
        return commit
    members = (
        (each.extension.group.index, each)
        for each in lineage.commits.values()
        if each.extension.group is not None and each.extension.group.id == place.id
    )
    return max(members, key=lambda member: member[0])[1]


def _read_pins(stores: Stores, commit: Commit) -> Pins | None:
    """(2) What a commit showed; None if its manifest version can no longer be read."""
    try:
        return snapshot_at_commit(stores, commit).pins
    except (NotFoundError, ManifestCorrupt):
        return None


def _find_candidates(
    stores: Stores,
    lineage: Lineage,
    heads: tuple[CommitId, CommitId],
    unreadable: Sequence[CommitId],
) -> list[CommitId]:
    """Readable common commits, newest first."""
    common = lineage.ancestors_of(heads[0]) & lineage.ancestors_of(heads[1])
    newest = sorted(common - set(unreadable), reverse=True)
    candidates: list[CommitId] = []
    for each in newest:
        if len(candidates) == CANDIDATES_MAX:
            break
        if _read_pins(stores, lineage.commits[each]) is not None:
            candidates.append(each)
    return candidates
