"""The branches of a graph beside main: their heads, and how far each is ahead and behind.

A branch is ahead by the commits of its history that the history of main lacks, and behind by the
commits of main that it lacks. Both come from the manifests; no table is read.
"""

from dataclasses import dataclass

from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.records import Commit
from omnigraph.ids import BranchName


@dataclass(frozen=True, slots=True)
class BranchSummary:
    name: BranchName
    head: Commit | None = None
    """Its newest commit. None, as `ahead` and `behind`, if the caller may not read the branch."""
    ahead: int | None = None
    """How many commits of its history main lacks."""
    behind: int | None = None
    """How many commits of main it lacks."""


def summarize(branch: Manifest, main: Manifest) -> BranchSummary:
    return BranchSummary(
        branch.branch,
        branch.head,
        ahead=branch.log.count_missing_in(main.log),
        behind=main.log.count_missing_in(branch.log),
    )
