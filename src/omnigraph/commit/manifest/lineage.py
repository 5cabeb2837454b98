"""The ancestry of commits, and the merge base of two of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest.records import Commit
from omnigraph.errors import CommitNotFound
from omnigraph.ids import CommitId


@dataclass(frozen=True)
class Lineage:
    """A set of commits and their parents. A walk ends at a parent outside the set."""

    commits: Mapping[CommitId, Commit]

    @staticmethod
    def of(commits: Iterable[Commit]) -> "Lineage":
        return Lineage({each.id: each for each in commits})

    def parents_of(self, commit_id: CommitId) -> tuple[CommitId, ...]:
        commit = self.commits.get(commit_id)
        return () if commit is None else tuple(p for p in commit.parents if p in self.commits)

    def ancestors_of(self, commit_id: CommitId) -> frozenset[CommitId]:
        """The commit itself and all its ancestors. Raises CommitNotFound."""
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
        """The maximal common ancestors: those from which no other common ancestor descends.

        Empty for unrelated commits; several after criss-cross merges. Every ancestor of a common
        ancestor is common too, so a common ancestor that is not maximal is a parent of another.
        """
        common = self.ancestors_of(left) & self.ancestors_of(right)
        surpassed = {parent for each in common for parent in self.parents_of(each)}
        return tuple(sorted(common - surpassed))
