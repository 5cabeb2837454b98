"""Small graphs, small inputs, and loads that are forced onto either path."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from omnigraph.commit.manifest.model import Manifest
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import BulkLoader, LoadJob, LoadMode, LoadTarget, Placement
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.run import LoadRequest, LoadResult
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.ids import MAIN, BranchName, OperationId
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.pipeline.spark_load import SparkLoader
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import TableRef
from support.mutations import Tables, read_tables
from support.writing import stores_at

SETTINGS: Final = SparkSettings(
    master="local[2,3]",
    configuration={
        "spark.driver.memory": "1g",
        # For a handful of rows, compiling a query takes longer than running it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    },
)
SMALL: Final = SparkLoader(SETTINGS)
LARGE: Final = SparkLoader(SETTINGS, split_bytes=150, small_bytes=0, bucket_bytes=300)
"""Every input is cut to pieces, and everything that spans rows is asked as joins."""
HUGE: Final = replace(LARGE, memory_bytes=0)
"""Rows that were put aside are too many for the driver, too."""

SCHEMA: Final = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Note { text: String? }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge Wrote: Person -> Note
"""


@dataclass(frozen=True)
class Loader:
    """A graph, a folder for input, and a way to load."""

    graph: Graph
    folder: Path
    bulk: BulkLoader

    def write(self, *lines: object, name: str = "input.jsonl") -> str:
        """A file of these records; texts are written as they are."""
        path = self.folder / name
        texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
        path.write_text("".join(f"{text}\n" for text in texts))
        return str(path)

    def load(
        self,
        mode: LoadMode,
        *sources: Input | str,
        branch: BranchName = MAIN,
        from_branch: BranchName | None = None,
        errors_max: int = 100,
    ) -> LoadResult:
        order = LoadRequest(sources, mode, branch, actor="dana", errors_max=errors_max)
        return self.graph.load(order, self.bulk, from_branch=from_branch)

    def put(
        self, mode: LoadMode, *lines: object, branch: BranchName = MAIN, errors_max: int = 100
    ) -> LoadResult:
        """Load these records."""
        return self.load(mode, self.write(*lines), branch=branch, errors_max=errors_max)

    def job(self, mode: LoadMode, source: str, manifest: Manifest, errors_max: int) -> LoadJob:
        """A load of which nothing is to be written to tables: it is only asked about."""
        return LoadJob(
            sources=(source,),
            mode=mode,
            branch=manifest.branch,
            operation_id=OperationId(f"asked-{REAL.new_id()}"),
            catalog=self.graph.catalog,
            targets={
                key: LoadTarget(TableRef(pin.path), pin.version, Placement.PENDING)
                for key, pin in manifest.pins.items()
            },
            root=stores_at(Path(self.graph.uri)).root,
            storage_options={},
            durability=Durability.RELAXED,
            errors_max=errors_max,
        )

    def tables(self, branch: BranchName = MAIN) -> Tables:
        return read_tables(self.graph, stores_at(Path(self.graph.uri)), branch)


def new_loader(folder: Path, bulk: BulkLoader, schema: str = SCHEMA) -> Loader:
    settings = Settings(durability=Durability.RELAXED)
    return Loader(create(str(folder / "g"), schema, settings=settings), folder, bulk)


def person(name: str, **data: object) -> Mapping[str, object]:
    return {"type": "Person", "data": {"name": name, **data}}


def note(**data: object) -> Mapping[str, object]:
    return {"type": "Note", "data": data}


def knows(source: str, target: str, **data: object) -> Mapping[str, object]:
    return {"edge": "Knows", "from": source, "to": target, "data": data}


def wrote(source: str, target: str, **data: object) -> Mapping[str, object]:
    return {"edge": "Wrote", "from": source, "to": target, "data": data}
