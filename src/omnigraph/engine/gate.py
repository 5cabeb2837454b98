"""May this actor do this to that branch? Every writer asks first; policies answer.

Without policies everybody may. An embedded graph is as open as the files it is made of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.ids import BranchName
from omnigraph.lang.source import Source
from omnigraph.policy.actions import Action

__all__ = ["Action", "FindRule", "Gate", "MergeRule", "let_pass", "unprotected"]


class Gate(Protocol):
    """Told who wants to do what where; raises Forbidden if they may not."""

    def __call__(
        self,
        actor: str | None,
        action: Action,
        branch: BranchName | None,
        target: BranchName | None = None,
    ) -> None:
        """`branch` is what is read or changed, `target` the branch that is made, merged into,
        deleted, or given another schema.
        """
        ...


def let_pass(
    actor: str | None,
    action: Action,
    branch: BranchName | None,
    target: BranchName | None = None,
) -> None:
    """The gate of a graph without policies."""


@dataclass(frozen=True, slots=True)
class MergeRule:
    """What a proposal needs before it may be merged into a protected branch (D39)."""

    approvals: int = 0
    author_may_approve: bool = False
    checks: Mapping[str, Source | None] = field(default_factory=dict)
    """Queries by name that must return no row; None for a name that no stored read has."""


FindRule = Callable[[BranchName], MergeRule | None]
"""The rule of a branch that only merged proposals change; None for any other branch."""


def unprotected(branch: BranchName) -> None:
    """The rules of a graph without policies: no branch has one."""
