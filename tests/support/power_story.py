"""A story of writes, each acknowledged, for the tests that cut the power.

The story makes every kind of write once, in one process and with flushes. The process prints the
number of a step as soon as the step has returned: from then on its caller believes in it.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import LoadEngine, LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.opening import open_graph
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.ids import MAIN, BranchName
from omnigraph.pipeline.load import open_bulk
from support.breaking import CASCADE, LINK, PROGRAM, SIDE, Ask, maintain_late, populate
from support.grouping import run_grouped
from support.scenes import GROWN

Step = Callable[[Graph], object]

KEPT_COMMITS: Final = 2
AFTER_LATE: Final = "insert after late maintenance"


@dataclass(frozen=True, slots=True)
class Story:
    """Named steps on the graph of `support.breaking`."""

    steps: Sequence[tuple[str, Step]]

    def tell(self, root: Path) -> None:
        """Take every step, and say so."""
        graph = open_graph(str(root), settings=Settings(maintenance=False))
        for number, (_, step) in enumerate(self.steps, 1):
            step(graph)
            os.write(sys.stdout.fileno(), f"{number}\n".encode())


def _ask(ask: Ask, branch: BranchName, graph: Graph) -> object:
    request = WriteRequest(branch, actor="writer")
    return graph.mutate(PROGRAM, name=ask.query, params=ask.params, request=request)


def _insert(name: str, branch: BranchName = MAIN) -> Step:
    return partial(_ask, Ask("put", {"name": name, "age": 1}), branch)


def _group(graph: Graph) -> None:
    calls = [partial(_insert(f"member {each}"), graph) for each in range(3)]
    calls.append(partial(_ask, Ask("pair", {"a": "member"}), MAIN, graph))
    answers = run_grouped(graph, calls)  # type: ignore[arg-type]  # a step returns any object
    errors = [each for each in answers if isinstance(each, Exception)]
    assert not errors, errors


def load(graph: Graph) -> None:
    source = Path(f"{graph.uri}.jsonl")
    rows = [
        {"type": "Person", "data": {"name": "ann", "age": 99}},
        {"type": "Person", "data": {"name": "loaded", "age": 5}},
        {"edge": "Knows", "from": "loaded", "to": "ann", "data": {}},
    ]
    source.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    request = LoadRequest((str(source),), LoadMode.MERGE, MAIN, engine=LoadEngine.LOCAL)
    graph.load(request, open_bulk())


def _heal(graph: Graph) -> object:
    """The insert publishes the maintenance before it begins."""
    maintain_late(Path(graph.uri))
    return _insert("kim")(graph)


def clean(graph: Graph) -> object:
    keep = RetentionPolicy(keep=KEPT_COMMITS)
    # What was written a moment ago counts as old.
    return graph.cleanup(CleanupRequest(keep, is_confirmed=True, debris_age_ms=-60_000))


STORY: Final = Story(
    (
        ("insert", _insert("dora")),
        ("nodes and edges", partial(_ask, Ask("every", {"a": "fay"}), MAIN)),
        ("group", _group),
        ("load", load),
        ("branch create", lambda graph: graph.create_branch(SIDE)),
        ("first write of a branch", partial(_ask, Ask("every", {"a": "gil"}), SIDE)),
        ("second write of a branch", partial(_ask, LINK, SIDE)),
        ("delete", partial(_ask, CASCADE, MAIN)),
        ("merge", lambda graph: graph.merge(MergeRequest(SIDE, MAIN, actor="writer"))),
        ("branch delete", lambda graph: graph.delete_branch(SIDE)),
        ("schema apply", lambda graph: graph.apply_schema(SchemaRequest(GROWN))),
        ("insert after the schema", _insert("hal")),
        ("optimize", lambda graph: graph.optimize()),
        (AFTER_LATE, _heal),
        ("cleanup", clean),
        ("insert after the cleanup", _insert("ida")),
    )
)
"""Every kind of write once, in an order that lets each build on unflushed remains of others."""


def prepare(root: Path) -> None:
    """The graph before the first step."""
    populate(root)


def main(root: str) -> None:
    STORY.tell(Path(root))


if __name__ == "__main__":
    main(*sys.argv[1:])
