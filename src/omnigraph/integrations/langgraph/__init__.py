"""LangGraph on a graph of ours: long-term memory with branches, and checkpoints of threads.

    types       the node types of both, and how a graph gets them
    store       `OmnigraphStore`: items in namespaces, found by words through vectors
    saver       `OmnigraphSaver`: the checkpoints of threads

Every write is a commit: memory has a history, can be reviewed, merged and undone as all data.
"""

from omnigraph.extras import require

require("langgraph", extra="langgraph")

from omnigraph.integrations.langgraph.saver import OmnigraphSaver  # noqa: E402
from omnigraph.integrations.langgraph.store import OmnigraphStore  # noqa: E402

__all__ = ["OmnigraphSaver", "OmnigraphStore"]
