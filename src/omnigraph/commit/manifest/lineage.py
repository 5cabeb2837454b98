"""How commits descend from one another, and where two of them last agreed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest.records import Commit
from omnigraph.errors import CommitNotFound
from omnigraph.ids import CommitId


@dataclass(frozen=True)
class Lineage:
    """A set of commits and their parents. A parent that is not in the set ends the walk there."""

    commits: Mapping[CommitId, Commit]

    @staticmethod
    def of(commits: Iterable[Commit]) -> "Lineage":
        return Lineage({each.id: each for each in commits})

    def parents_of(self, commit_id: CommitId) -> tuple[CommitId, ...]:
        commit = self.commits.get(commit_id)
        return () if commit is None else tuple(p for p in commit.parents if p in self.commits)

    def ancestors_of(self, commit_id: CommitId) -> frozenset[CommitId]:
        """The commit itself and everything it descends from. Raises CommitNotFound."""
        if commit_id not in self.commits:
            raise CommitNotFound(commit_id)
        seen = {commit_id}
        frontier = [commit_id]
        while frontier:
            for parent in self.parents_of(frontier.pop()):
                if parent not in seen:
                    seen.add(parent)
                    frontier.append(parent)
        return frozenset(seen)

    def merge_bases(self, left: CommitId, right: CommitId) -> tuple[CommitId, ...]:
        """The maximal common ancestors: common ancestors no other common ancestor descends from.

        None when the two are unrelated; several when histories criss-cross. Every ancestor of a
        common ancestor is one too, so one that is not maximal is the parent of another.
        """
        common = self.ancestors_of(left) & self.ancestors_of(right)
        surpassed = {parent for each in common for parent in self.parents_of(each)}
        return tuple(sorted(common - surpassed))
