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

from omnigraph.engine.gate import MergeRule
from omnigraph.errors import ConfigInvalid, Forbidden
from omnigraph.ids import BranchName
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest, Policy
from omnigraph.sdk.stored_queries import StoredQueries
from omnigraph.server.runtime.tokens import FILE, INLINE, SINGLE

NO_QUERIES: Final = StoredQueries()


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

    def __init__(
        self,
        mode: AuthMode,
        policy: Policy | None = None,
        queries: StoredQueries = NO_QUERIES,
    ) -> None:
        self._rule: Final = [(mode, policy, queries)]

    def replace(
        self, mode: AuthMode, policy: Policy | None, queries: StoredQueries = NO_QUERIES
    ) -> None:
        """Decide by another mode, policy and set of checks from now on."""
        self._rule[0] = (mode, policy, queries)

    def find_rule(self, branch: BranchName) -> MergeRule | None:
        """What proposals for a branch need; None if the policy does not protect it so (D39)."""
        _, policy, queries = self._rule[0]
        found = None if policy is None else policy.bundle.protections.get(branch)
        if found is None:
            return None
        checks = {name: queries.queries.get(name) for name in found.checks}
        return MergeRule(
            found.approvals,
            found.author_may_approve,
            {
                name: None if query is None or query.is_mutation else query.source
                for name, query in checks.items()
            },
        )

    def allows(self, request: AccessRequest) -> bool:
        mode, policy, _ = self._rule[0]
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
