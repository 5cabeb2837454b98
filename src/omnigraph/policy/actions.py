"""The actions that a policy can allow, in the spelling of policies."""

from enum import StrEnum


class Action(StrEnum):
    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    PROPOSE = "propose"
    """Open a proposal to merge a branch, and comment on it."""
    APPROVE = "approve"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    """Reload the server, request maintenance, and see or cancel jobs of other actors."""
    GRAPH_LIST = "graph_list"
    """The only action on the server instead of a graph."""


ON_BRANCH = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""Actions that `branch_scope` can restrict: by the branch that they read or write."""

ON_TARGET = frozenset(
    {
        Action.SCHEMA_APPLY,
        Action.BRANCH_CREATE,
        Action.BRANCH_DELETE,
        Action.BRANCH_MERGE,
        Action.PROPOSE,
        Action.APPROVE,
    }
)
"""Actions that `target_branch_scope` can restrict: by their target branch."""

ON_SERVER = frozenset({Action.GRAPH_LIST})
