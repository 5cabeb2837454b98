"""May this actor do this to that branch? Every writer asks first; policies answer.

Without policies everybody may. An embedded graph is as open as the files it is made of.
"""

from typing import Protocol

from omnigraph.ids import BranchName
from omnigraph.policy.actions import Action

__all__ = ["Action", "Gate", "let_pass"]


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
