"""The ancestry of commits, and the merge base of two of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from omnigraph.commit.manifest.records import Commit
from omnigraph.errors import CommitNotFound
from omnigraph.ids import CommitId


def newest_first(commits: Iterable[Commit]) -> list[Commit]:
    """Every commit after all its children; of several that may come next, the newest.

    Times alone would not do: the clocks of writers differ.
    """
    known = {each.id: each for each in commits}
    children = Counter(parent for each in known.values() for parent in each.parents)
    ready = [(-each.created_at_us, each.id) for each in known.values() if not children[each.id]]
    heapify(ready)
    ordered = []
    while ready:
        commit = known[heappop(ready)[1]]
        ordered.append(commit)
        for parent in (known[each] for each in commit.parents if each in known):
            children[parent.id] -= 1
            if not children[parent.id]:
                heappush(ready, (-parent.created_at_us, parent.id))
    return ordered


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
