"""Authorisation: the modes of a server, and the gate of each graph that it serves.

| tokens | any policy | `--unauthenticated` | mode         |
|--------|------------|---------------------|--------------|
| no     | no         | no                  | refuses to start |
| no     | no         | yes                 | open: every caller may do everything |
| yes    | no         | any                 | default deny: a token allows reading, no more |
| no     | yes        | any                 | refuses to start: no actor could match the policy |
| yes    | yes        | any                 | policy: Cedar decides |

A route asks the guard before it reads anything, and the engine asks it again before each write.
"""

from enum import Enum
from typing import Final

from omnigraph.errors import ConfigInvalid, Forbidden
from omnigraph.ids import BranchName
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest, Policy
from omnigraph.server.runtime.tokens import FILE, INLINE, SINGLE


class AuthMode(Enum):
    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY = "policy"


def find_auth_mode(*, has_tokens: bool, has_policy: bool, unauthenticated: bool) -> AuthMode:
    """Raises ConfigInvalid where the server must not start."""
    if has_tokens:
        return AuthMode.POLICY if has_policy else AuthMode.DEFAULT_DENY
    named = f"{SINGLE}, {FILE} or {INLINE}"
    if has_policy:
        reason = f"there are policies and no tokens to tell actors by; set them in {named}"
        raise ConfigInvalid("server", reason=reason)
    if not unauthenticated:
        reason = f"there are no tokens; set them in {named}, or say --unauthenticated"
        raise ConfigInvalid("server", reason=reason)
    return AuthMode.OPEN


class Guard:
    """The gate of one graph, or of the server itself. A reload replaces its mode and policy."""

    def __init__(self, mode: AuthMode, policy: Policy | None = None) -> None:
        self._rule: Final[list[tuple[AuthMode, Policy | None]]] = [(mode, policy)]

    def replace(self, mode: AuthMode, policy: Policy | None) -> None:
        """Decide by another mode and policy from now on."""
        self._rule[0] = (mode, policy)

    def allows(self, request: AccessRequest) -> bool:
        mode, policy = self._rule[0]
        if mode is AuthMode.OPEN:
            return True
        if policy is None:
            return request.actor is not None and request.action is Action.READ
        return policy.decide(request).allowed

    def __call__(
        self,
        actor: str | None,
        action: Action,
        branch: BranchName | None,
        target: BranchName | None = None,
    ) -> None:
        """Raises Forbidden."""
        if not self.allows(AccessRequest(actor, action, branch, target)):
            raise Forbidden(actor, action=action, branch=target or branch)
