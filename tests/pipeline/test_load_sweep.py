"""Die at every single store call of the driver during a load.

The records are read once, by Spark; what a worker writes nobody refers to, so only the driver's own
calls can leave half of something behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.load.bulk import Ingested, LoadJob, LoadMode, LoadTarget, Placement
from omnigraph.engine.load.run import LoadRequest, load
from omnigraph.engine.settings import DEFAULTS
from omnigraph.ids import MAIN, BranchName, OperationId
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import parse_root
from omnigraph.storage.tables import TableRef
from omnigraph.testing.faults import Crash, CrashAt, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.loading import SMALL, Loader
from support.writing import (
    COMPANY,
    PERSON,
    SCHEMA,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

CONTRACT = compile_active_schema(SCHEMA, name="schema")
SIDE = BranchName("side")


@dataclass(frozen=True)
class ReadBefore:
    """Bulk work that is done already."""

    ingested: Ingested

    @contextmanager
    def ingest(self, job: LoadJob) -> Iterator[Ingested]:
        del job
        yield self.ingested


@pytest.fixture
def second(loader: Loader) -> Iterator[ReadBefore]:
    """One person and one company, both called second."""
    path = loader.write(
        *({"type": each, "data": {"name": "second"}} for each in ("Person", "Company"))
    )
    job = LoadJob(
        sources=(path,),
        mode=LoadMode.APPEND,
        branch=MAIN,
        operation_id=OperationId("read-before"),
        catalog=CONTRACT.catalog,
        targets={
            key: LoadTarget(TableRef("nowhere"), 1, Placement.PENDING) for key in (PERSON, COMPANY)
        },
        root=parse_root(str(loader.folder)),
        storage_options={},
        durability=Durability.RELAXED,
    )
    with SMALL.ingest(job) as ingested:
        yield ReadBefore(ingested)


def survives(
    root: Path, bulk: ReadBefore, mode: LoadMode, branch: BranchName, fault: CrashAt
) -> bool:
    context = mortal_bench(watch_stores(stores_at(root), fault))
    try:
        load(context, CONTRACT, bulk, LoadRequest(("-",), mode, branch), DEFAULTS)
    except Crash:
        return False
    return True


@pytest.mark.parametrize("branch", [MAIN, SIDE])
@pytest.mark.parametrize("mode", LoadMode)
@pytest.mark.parametrize("when", When)
def test_a_crash_anywhere_leaves_all_of_a_load_or_nothing(
    tmp_path: Path,
    second: ReadBefore,
    when: When,
    mode: LoadMode,
    branch: BranchName,
) -> None:
    new = {"second"} if mode is LoadMode.OVERWRITE else {"first", "second"}
    seen = set()
    for step in count(1):
        root = tmp_path / str(step)
        graph = new_graph(root)
        write(mortal_bench(stores_at(root)), "first")
        if branch != MAIN:
            graph.create_branch(branch)
        survived = survives(root, second, mode, branch, CrashAt(step, when))
        heal(mortal_bench(stores_at(root)))
        people = names_in(root, PERSON, branch)
        assert people == names_in(root, COMPANY, branch), "half a load is visible"
        assert people in ({"first"}, new)
        seen.add(frozenset(people))
        write(mortal_bench(stores_at(root)), "third", branch=branch)
        assert names_in(root, PERSON, branch) == people | {"third"}
        assert check_graph(stores_at(root)) == []
        assert find_sidecars(stores_at(root).objects) == ()
        if survived:
            assert people == new
            break
    assert seen == {frozenset({"first"}), frozenset(new)}
