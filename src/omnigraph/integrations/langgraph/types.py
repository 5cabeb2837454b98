"""The node types of the store and of the checkpointer."""

from typing import Final
from urllib.parse import quote, unquote

from omnigraph.sdk.client import GraphClient

ITEM: Final = "AgentItem"
VECTOR: Final = "AgentVector"
CHECKPOINT: Final = "AgentCheckpoint"
CHANNEL: Final = "AgentChannel"
WRITE: Final = "AgentWrite"

STORE_TYPES: Final = f"""
node {ITEM} {{
    path: String @key
    space: String @index
    label: String
    value: String
    vector_count: I32
    created_at: DateTime
    updated_at: DateTime
}}
"""

SAVER_TYPES: Final = f"""
node {CHECKPOINT} {{
    path: String @key
    thread: String @index
    space: String
    checkpoint: String
    parent: String?
    data: String
    metadata: String
}}

node {CHANNEL} {{
    path: String @key
    thread: String @index
    channel: String
    data: String
}}

node {WRITE} {{
    path: String @key
    thread: String @index
    place: String @index
    task: String
    task_path: String
    number: I32
    channel: String
    data: String
}}
"""


def vector_type(dimension: int) -> str:
    return f"""
node {VECTOR} {{
    path: String @key
    item: String @index
    space: String @index
    vec: Vector({dimension}) @index
}}
"""


def ensure_types(graph: GraphClient, declared: str, names: tuple[str, ...]) -> None:
    """Add the types to the schema of a graph that lacks them. Raises BranchesExist."""
    if any(graph.catalog.node(each) is None for each in names):
        graph.apply_schema(f"{graph.schema_source}\n{declared}")


def join_path(*parts: str) -> str:
    """Parts as one text from which they can be read again; it ends with a slash."""
    return "".join(f"{quote(each, safe='')}/" for each in parts)


def split_path(path: str) -> tuple[str, ...]:
    return tuple(unquote(each) for each in path.split("/")[:-1])
