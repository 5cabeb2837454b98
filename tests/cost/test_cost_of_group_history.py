"""A long history of groups costs no more than a short one: store calls are counted, no seconds."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.faults import Recorder, watch_stores
from support.grouping import run_grouped

GROUPS = int(os.environ.get("OMNIGRAPH_GROUPS", "40"))
FEW = 10
RATIO_MAX = 1.3
PAGE = 10


class Counted:
    """A graph whose store calls are counted, and that publishes groups of three."""

    def __init__(self, root: Path) -> None:
        settings = Settings(durability=Durability.RELAXED)
        create(str(root), "node Person { name: String @key }", settings=settings)
        self.calls = Recorder()
        stores = open_stores(str(root), REAL, durability=Durability.RELAXED)
        opened = open_in(watch_stores(stores, self.calls), Mode.READ_WRITE, settings)
        self.graph = LocalGraph(opened)
        self._names = iter(range(10**9))

    def publish_group(self) -> None:
        run_grouped(self.graph.engine, [self.insert] * 3)
        newest = self.graph.commits(limit=2)  # upkeep may have followed
        assert any(each.extension.group is not None for each in newest)

    def insert(self) -> MutationResult:
        return self.graph.insert("Person", [{"name": f"p{next(self._names)}"}])

    def count(self, operation: Callable[[], object]) -> int:
        """The fewest calls of five: an insert now and then pays for upkeep."""
        counts = []
        for _ in range(5):
            self.calls.calls.clear()
            operation()
            counts.append(len(self.calls.calls))
        return min(counts)

    def read_page(self) -> None:
        head = self.graph.commits(limit=2 * PAGE)[-1]
        self.graph.changes(start=f"after:{head.id}", commits_max=PAGE)

    def costs(self) -> Iterator[int]:
        yield self.count(self.insert)
        yield self.count(lambda: self.graph.commits(limit=PAGE))
        yield self.count(self.read_page)


@pytest.mark.slow
def test_many_groups_make_no_write_and_no_page_of_history_dearer(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "g")
    for _ in range(FEW):
        counted.publish_group()
    inserting, listing, feeding = counted.costs()
    for _ in range(GROUPS - FEW):
        counted.publish_group()
    later = tuple(counted.costs())
    print(f"after {FEW} groups {(inserting, listing, feeding)}, after {GROUPS} {later}")  # noqa: T201
    assert later[0] <= RATIO_MAX * inserting
    assert later[1] == listing
    assert later[2] <= feeding
