"""Graphs as earlier programs left them, written with the table format itself.

No writer of ours takes part in the tables, so the code that reads them did not shape them. Every
graph has the schema `SCHEMA` and the same history, one commit per publish:

    GENESIS ── FIRST ── SECOND ── THIRD          main: 0, 2, 3 and 5 people
                            └──── SIDE           feature, if it exists: 4 people

Main's manifest is at version 1 with genesis, and settings move it on before the first publish.
THIRD merges SIDE, if SIDE exists.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import lance
import pyarrow as pa

from omnigraph.catalog.arrow import edge_schema, node_schema
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.schema_files import SchemaFiles
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version, lance_branch

SCHEMA: Final = """node Person {
    name: String @key
    age: I32? @index
}
node Company {
    name: String @key
}
edge WorksAt: Person -> Company {
    since: Date?
}
"""
PERSON: Final = TableKey("node:Person")
PERSON_PATH: Final = "nodes/40d76f1f51639ec0"
PATHS: Final = {
    PERSON: PERSON_PATH,
    TableKey("node:Company"): "nodes/7cb4e55c59663b1c",
    TableKey("edge:WorksAt"): "edges/844eefbe5068b644",
}

FEATURE: Final = BranchName("feature")
RUNS: Final = ("__run__01HV0000000000000000000001", "__run__01HV0000000000000000000002")

STAMP: Final = "omnigraph:internal_schema_version"
PRIMARY_KEY: Final[dict[bytes | str, bytes | str]] = {
    b"lance-schema:unenforced-primary-key": b"true"
}

Columns = Sequence["pa.Field[pa.DataType]"]

MANIFEST_COLUMNS: Final[Columns] = (
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("metadata", pa.string()),
    pa.field("base_objects", pa.list_(pa.field("item", pa.string()))),
    pa.field("table_key", pa.string(), nullable=False),
    pa.field("table_version", pa.uint64()),
    pa.field("table_branch", pa.string()),
    pa.field("row_count", pa.uint64()),
)
COMMIT_COLUMNS: Final[Columns] = (
    pa.field("graph_commit_id", pa.string(), nullable=False),
    pa.field("manifest_branch", pa.string()),
    pa.field("manifest_version", pa.uint64(), nullable=False),
    pa.field("parent_commit_id", pa.string()),
    pa.field("merged_parent_commit_id", pa.string()),
    pa.field("created_at", pa.timestamp("us"), nullable=False),
)
ACTOR_COLUMNS: Final[Columns] = (
    pa.field("graph_commit_id", pa.string(), nullable=False),
    pa.field("actor_id", pa.string(), nullable=False),
    pa.field("created_at", pa.timestamp("us"), nullable=False),
)
COMMITS: Final = pa.schema(COMMIT_COLUMNS)
ACTORS: Final = pa.schema(ACTOR_COLUMNS)

GENESIS: Final = CommitId("01HV0000000000000000000G00")
FIRST: Final = CommitId("01HV0000000000000000000C01")
SECOND: Final = CommitId("01HV0000000000000000000C02")
THIRD: Final = CommitId("01HV0000000000000000000C03")
SIDE: Final = CommitId("01HV0000000000000000000B01")

PEOPLE: Final = {GENESIS: 0, FIRST: 2, SECOND: 3, THIRD: 5, SIDE: 4}
"""How many people there are after each commit."""


class Lineage(Enum):
    """Where the commits of a graph are kept."""

    IN_TABLES = "in tables of their own"
    IN_MANIFEST = "in the manifest"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What distinguishes one old graph from another."""

    stamp: str | None
    """None: nothing says which format it is."""
    is_keyed: bool = True
    lineage: Lineage = Lineage.IN_TABLES
    has_branch: bool = False
    runs: tuple[str, ...] = ()


V1: Final = Recipe(None, is_keyed=False)
V2: Final = Recipe("2", runs=RUNS)
V3: Final = Recipe("3")
V4: Final = Recipe("4", lineage=Lineage.IN_MANIFEST)
V1_BRANCHED: Final = Recipe(None, is_keyed=False, has_branch=True)
V2_BRANCHED: Final = Recipe("2", runs=RUNS, has_branch=True)
V3_BRANCHED: Final = Recipe("3", has_branch=True)
V0: Final = Recipe("0")
V5: Final = Recipe("5", lineage=Lineage.IN_MANIFEST)


@dataclass(frozen=True, slots=True)
class OldGraph:
    """What was written, and what must be read back."""

    root: Path
    recipe: Recipe
    main: tuple[Commit, ...]
    """Its commits, oldest first."""
    feature: tuple[Commit, ...]
    """The commits of the branch, shared ones included; none if there is no branch."""


def write_old_graph(root: Path, recipe: Recipe) -> OldGraph:
    """Make a graph in a folder that does not exist yet."""
    root.mkdir(parents=True)
    _write_schema_files(root)
    writer = _Writer(root, recipe)
    genesis = writer.create()
    first = writer.publish(FIRST, genesis, people=2, actor="act-a")
    second = writer.publish(SECOND, first, people=3)
    side = None
    if recipe.has_branch:
        writer.fork(FEATURE)
        side = writer.publish(SIDE, second, people=4, actor="act-b", branch=FEATURE)
    third = writer.publish(THIRD, second, people=5, actor="act-m", merged=side)
    for run in recipe.runs:
        writer.fork(BranchName(run))
    shared = (genesis, first, second)
    return OldGraph(
        root,
        recipe,
        main=(*shared, third),
        feature=() if side is None else (*shared, side),
    )


def set_stamp(manifest: Path, stamp: str, branch: BranchName = MAIN) -> None:
    """Say of a manifest that it is of some format."""
    _open(manifest, branch).update_schema_metadata({STAMP: stamp})


def _write_schema_files(root: Path) -> None:
    files: SchemaFiles = compile_active_schema(SCHEMA, name="<schema>").files()
    (root / "_schema.pg").write_text(files.source)
    (root / "_schema.ir.json").write_text(files.ir)
    (root / "__schema_state.json").write_text(files.encode_state())


class _Writer:
    """A program of old: moves a table, then the manifest, then tells what it did."""

    def __init__(self, root: Path, recipe: Recipe) -> None:
        self._root = root
        self._recipe = recipe
        self._manifest = root / "__manifest"
        self._commits = root / "_graph_commits.lance"
        self._actors = root / "_graph_commit_actors.lance"
        key, *others = MANIFEST_COLUMNS
        self._schema = pa.schema(
            [key.with_metadata(PRIMARY_KEY) if recipe.is_keyed else key, *others]
        )

    def create(self) -> Commit:
        for key, schema in _table_schemas():
            _write_new(self._root / PATHS[key], schema.empty_table())
        genesis = self._describe(GENESIS, version=1)
        rows = [row for key in PATHS for row in self._first_rows(key)]
        table = pa.Table.from_pylist([*rows, *self._lineage_rows(genesis)], schema=self._schema)
        _write_new(self._manifest, table)
        _open(self._manifest).update_config({"table_version_management": "true"})
        if self._recipe.stamp is not None:
            set_stamp(self._manifest, self._recipe.stamp)
        if self._recipe.lineage is Lineage.IN_TABLES:
            _write_new(self._commits, COMMITS.empty_table())
            _write_new(self._actors, ACTORS.empty_table())
            self._tell(genesis)
        return genesis

    def fork(self, branch: BranchName) -> None:
        """As the graph is now. No table of rows is touched."""
        for table in (self._manifest, self._commits):
            if table.exists():
                dataset = _open(table)
                dataset.create_branch(branch, dataset.version)

    def publish(
        self,
        commit_id: CommitId,
        parent: Commit,
        *,
        people: int,
        branch: BranchName = MAIN,
        actor: str | None = None,
        merged: Commit | None = None,
    ) -> Commit:
        """Add people until there are so many, and commit that."""
        table = self._root / PERSON_PATH
        if branch != MAIN:
            _open(table).create_branch(branch, _open(table).version)
        dataset = _open(table, branch)
        dataset.insert(_people(range(dataset.count_rows(), people)))
        commit = self._describe(
            commit_id,
            version=_open(self._manifest, branch).version + 1,
            branch=branch,
            parent=parent,
            merged=merged,
            actor=actor,
        )
        rows = [self._version_row(PERSON, dataset.version, branch, people)]
        self._merge([*rows, *self._lineage_rows(commit)], branch)
        if self._recipe.lineage is Lineage.IN_TABLES:
            self._tell(commit)
        return commit

    def _describe(
        self,
        commit_id: CommitId,
        *,
        version: int,
        branch: BranchName = MAIN,
        parent: Commit | None = None,
        merged: Commit | None = None,
        actor: str | None = None,
    ) -> Commit:
        return Commit(
            id=commit_id,
            branch=branch,
            manifest_version=Version(version),
            parent=None if parent is None else parent.id,
            merged_parent=None if merged is None else merged.id,
            actor=actor,
            created_at_us=1_700_000_000_000_000 + version,
        )

    def _merge(self, rows: Sequence[dict[str, object]], branch: BranchName) -> None:
        (
            _open(self._manifest, branch)
            .merge_insert("object_id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(pa.Table.from_pylist(list(rows), schema=self._schema))
        )

    def _tell(self, commit: Commit) -> None:
        told = {
            "graph_commit_id": commit.id,
            "manifest_branch": lance_branch(commit.branch),
            "manifest_version": commit.manifest_version,
            "parent_commit_id": commit.parent,
            "merged_parent_commit_id": commit.merged_parent,
            "created_at": commit.created_at_us,
        }
        _open(self._commits, commit.branch).insert(pa.Table.from_pylist([told], schema=COMMITS))
        if commit.actor is not None:
            signed = {**told, "actor_id": commit.actor}
            _open(self._actors).insert(pa.Table.from_pylist([signed], schema=ACTORS))

    def _first_rows(self, key: TableKey) -> Iterator[dict[str, object]]:
        yield {
            "object_id": key,
            "object_type": "table",
            "location": PATHS[key],
            "table_key": key,
        }
        yield self._version_row(key, 1, MAIN, 0)

    def _version_row(
        self, key: TableKey, version: int, branch: BranchName, row_count: int
    ) -> dict[str, object]:
        table = self._root / PATHS[key]
        folder = table if branch == MAIN else table / "tree" / branch
        file = folder / "_versions" / f"{2**64 - 1 - version:020}.manifest"
        described = {
            "manifest_path": str(file).removeprefix("/"),
            "manifest_size": None,
            "e_tag": None,
            "naming_scheme": "V2",
        }
        return {
            "object_id": f"{key}${version:020}",
            "object_type": "table_version",
            "metadata": json.dumps(described, separators=(",", ":")),
            "table_key": key,
            "table_version": version,
            "table_branch": lance_branch(branch),
            "row_count": row_count,
        }

    def _lineage_rows(self, commit: Commit) -> Iterator[dict[str, object]]:
        if self._recipe.lineage is Lineage.IN_TABLES:
            return
        parents = {
            "parent_commit_id": commit.parent,
            "merged_parent_commit_id": commit.merged_parent,
            "actor_id": commit.actor,
        }
        named = {key: value for key, value in parents.items() if value is not None}
        yield {
            "object_id": commit.id,
            "object_type": "graph_commit",
            "metadata": json.dumps({**named, "created_at": commit.created_at_us}),
            "table_key": "",
            "table_version": commit.manifest_version,
            "table_branch": lance_branch(commit.branch),
        }
        yield {
            "object_id": f"graph_head:{commit.branch}",
            "object_type": "graph_head",
            "metadata": json.dumps({"head_commit_id": commit.id}),
            "table_key": "",
        }


def _table_schemas() -> Iterator[tuple[TableKey, pa.Schema]]:
    catalog = compile_active_schema(SCHEMA, name="<schema>").catalog
    for node in catalog.nodes:
        yield node.table_key, node_schema(node)
    for edge in catalog.edges:
        yield edge.table_key, edge_schema(edge)


def _people(numbers: range) -> pa.Table:
    rows = [{"id": f"p{number}", "name": f"p{number}", "age": number} for number in numbers]
    return pa.Table.from_pylist(rows, schema=dict(_table_schemas())[PERSON])


def _open(table: Path, branch: BranchName = MAIN) -> lance.LanceDataset:
    return lance.dataset(str(table if branch == MAIN else table / "tree" / branch))


def _write_new(table: Path, rows: pa.Table) -> None:
    lance.write_dataset(
        rows,
        str(table),
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )
