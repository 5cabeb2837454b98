"""Publications of pins alone: what the races, the cost tests and the benchmark publish.

A publish never reads the tables that it pins, so the version numbers are invented. Everything here
can be sent to another process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.model import COMMIT, HEAD, SCHEMA, TableVersion
from omnigraph.commit.manifest.publish import Publication, Published, publish
from omnigraph.commit.manifest.records import VersionFile
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, encode_commits, successor
from omnigraph.effects import REAL
from omnigraph.errors import Contention
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Landed, ManifestSwap, Mark


@dataclass(frozen=True, slots=True)
class Place:
    """Where a graph is, for whoever is to open it."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    durability: Durability = Durability.RELAXED
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL

    def open(self) -> Stores:
        return open_stores(
            self.uri,
            REAL,
            storage_options=self.storage_options,
            durability=self.durability,
            swap=self.swap,
        )


def new_intent(actor: str | None = None) -> CommitIntent:
    return CommitIntent(CommitId(REAL.new_id()), REAL.now_ms() * 1000, actor)


def pin_at(
    key: TableKey, version: int, *, row_count: int = 0, owner: BranchName = MAIN
) -> SetVersion:
    file = VersionFile(f"graph/nodes/0123456789abcdef/_versions/{version:020}.manifest", 512, "a-b")
    return SetVersion(TableVersion(key, Version(version), owner, row_count, file))


def advance(bases: Bases, key: TableKey, branch: BranchName = MAIN) -> Publication:
    """One commit that moves one table one version on, whoever moved it before."""
    shown = bases.current(branch).manifest.version_of(key)
    update = pin_at(key, shown + 1, owner=branch)
    return Publication(branch, (new_intent(),), (update,), expected={key: shown})


def lineage_only(branch: BranchName = MAIN, actor: str | None = None) -> Publication:
    """One commit that changes no table."""
    return Publication(branch, (new_intent(actor),))


def chain(commits: int) -> Publication:
    """Many commits that change no table, in one swap."""
    return Publication(MAIN, tuple(new_intent() for _ in range(commits)))


def publish_patiently(stores: Stores, bases: Bases, publication: Publication) -> Published:
    """Try until others let it through."""
    while True:
        try:
            return publish(stores, bases, publication)
        except Contention:
            continue


def grow_history(stores: Stores, count: int, key: TableKey) -> None:
    """Give main a history of that many commits, each of which moved a table, in a single write.

    The rows are those that publishing one by one would leave. What is missing is the
    versions in between: the commits made here cannot be looked up as snapshots.
    """
    base = read_base(stores, MAIN)
    genesis = base.manifest.head
    assert genesis is not None
    commits = [genesis]
    for number in range(1, count + 1):
        commit_id, at_us = CommitId(REAL.new_id()), genesis.created_at_us + number
        commits.append(replace(genesis, id=commit_id, parent=commits[-1].id, created_at_us=at_us))
    first = base.manifest.version_of(key) + 1
    planned = successor(base.manifest, [pin_at(key, first)], [new_intent()])
    (template, *_) = planned.rows.to_pylist()
    numbers = range(first, first + count)
    pinned = [{**template, "object_id": f"{key}${n:020}", "table_version": n} for n in numbers]
    rows = stores.tables.read(base.handle)
    kept = rows.filter(pc.invert(pc.is_in(rows["object_type"], pa.array([HEAD, COMMIT]))))
    logged = encode_commits(commits, branch=MAIN, head=commits[-1])
    moves = pa.Table.from_pylist(pinned, schema=SCHEMA)
    grown = pa.concat_tables([kept, moves, logged]).replace_schema_metadata(rows.schema.metadata)
    mark = Mark(REAL.new_id())
    staged = stores.tables.stage_overwrite(base.handle, base.handle.schema, mark, grown)
    assert isinstance(stores.tables.commit_exact(staged), Landed)
