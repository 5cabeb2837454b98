"""What a policy can allow, spelled as policies spell it."""

from enum import StrEnum


class Action(StrEnum):
    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    """Reloads of the server, upkeep on request, and other people's jobs."""
    GRAPH_LIST = "graph_list"
    """The one action on the server instead of a graph."""


ON_BRANCH = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""Actions a rule may restrict by the branch they read or write."""

ON_TARGET = frozenset(
    {Action.SCHEMA_APPLY, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE}
)
"""Actions a rule may restrict by the branch they lead to."""

ON_SERVER = frozenset({Action.GRAPH_LIST})
