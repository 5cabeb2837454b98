"""What of a load reaches the driver: descriptions of files, never rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.load.bulk import LoadMode, LoadTarget, Placement
from omnigraph.engine.load.inputs import Input
from omnigraph.ids import MAIN
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.input_plan import InputSurvey, cut
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import TableRef
from support.writing import SCHEMA, new_graph, stores_at

CATALOG = compile_active_schema(SCHEMA, name="schema").catalog
FEW, MANY = 100, 20_000
SLACK = 200
"""Numbers have more digits when they count more."""


def write_people(folder: Path, count: int) -> str:
    path = folder / f"{count}.jsonl"
    lines = (
        json.dumps({"type": "Person", "data": {"name": f"person {number}"}})
        for number in range(count)
    )
    path.write_text("\n".join(lines))
    return str(path)


def read(folder: Path, count: int, mode: LoadMode, placement: Placement) -> Mapping[str, Any]:
    """What a worker answers that read so many records."""
    root = folder / f"{count}-{mode}"
    new_graph(root)
    stores = stores_at(root)
    pins = Bases(stores).current(MAIN).manifest.pins
    source = write_people(folder, count)
    plan = cut(InputSurvey(CATALOG, {}).look([Input(source)]), lambda splits: [0] * len(splits))
    work = Ingest(
        splits=tuple(plan.splits),
        catalog=CATALOG,
        mode=mode,
        targets={
            key: LoadTarget(TableRef(pin.path), pin.version, placement) for key, pin in pins.items()
        },
        storage=Storage(stores.root, {}, Durability.RELAXED),
        scratch=str(folder),
        errors_max=100,
        keeps_rows=False,
        bucket_count=2,
    )
    assert len(work.splits) == 1
    return work(0)


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("mode", LoadMode)
def test_a_task_answers_as_much_for_many_rows_as_for_few(
    tmp_path: Path, mode: LoadMode, placement: Placement
) -> None:
    few, many = (json.dumps(read(tmp_path, count, mode, placement)) for count in (FEW, MANY))
    assert len(many) <= len(few) + SLACK
    assert "person 7" not in many
