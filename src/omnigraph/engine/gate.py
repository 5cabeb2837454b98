"""May this actor do this to that branch? Every writer asks first; policies answer.

Without policies everybody may. An embedded graph is as open as the files it is made of.
"""

from collections.abc import Callable
from enum import StrEnum

from omnigraph.ids import BranchName


class Action(StrEnum):
    """What is asked for, spelled as policies spell it."""

    CHANGE = "change"


Gate = Callable[[str | None, Action, BranchName], None]
"""Told who wants to do what where; raises if they may not."""


def let_pass(actor: str | None, action: Action, branch: BranchName) -> None:
    """The gate of a graph without policies."""
