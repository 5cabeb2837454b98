"""Writes that arrive in a known order while their branch is busy, so that they form groups."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import OmnigraphError
from omnigraph.ids import MAIN, BranchName

T = TypeVar("T")

Result = MutationResult | LoadResult
Answer = Result | OmnigraphError


@dataclass(frozen=True)
class Busy:
    """A branch whose lane is led, as if a write were under way; later writes wait."""

    graph: Graph
    branch: BranchName = MAIN

    def run(
        self, calls: Sequence[Callable[[], T]], before_leading: Callable[[], object] = int
    ) -> list["Future[T]"]:
        """Let the calls arrive one after the other; then let a thread lead them."""
        queue = self.graph._queue
        assert queue is not None
        lane = queue._enter(self.branch, (), None)
        assert lane is not None, "no other write is under way"
        with ThreadPoolExecutor(max(1, len(calls))) as pool:
            futures = []
            for call in calls:
                before = len(lane.waiting)
                futures.append(pool.submit(call))
                while len(lane.waiting) == before and not futures[-1].done():
                    REAL.sleep_ms(1)
            before_leading()
            queue._leave(lane)
        while queue._lanes:
            with queue._changed:  # nobody else will write
                lane.expected = 0
                queue._changed.notify_all()
            REAL.sleep_ms(1)
        return futures


def answer_of(call: Callable[[], Result]) -> Answer:
    try:
        return call()
    except OmnigraphError as error:
        return error


def run_grouped(
    graph: Graph,
    calls: Sequence[Callable[[], Result]],
    branch: BranchName = MAIN,
    before_leading: Callable[[], object] = int,
) -> list[Answer]:
    """The answers of calls that arrive in this order while the branch is busy."""
    futures = Busy(graph, branch).run([partial(answer_of, call) for call in calls], before_leading)
    return [each.result() for each in futures]


def run_in_turn(calls: Sequence[Callable[[], Result]]) -> list[Answer]:
    return [answer_of(call) for call in calls]
