"""The invariants of a stored graph, and the remedy for each violation.

The doctor reads only what is stored, through new handles, changes nothing, and reports every
finding. The checks are slow and simple on purpose: they share no shortcut with the code they check.

1. No two rows of a manifest have the same `object_id`.
2. The commits of a branch form one chain: each names its predecessor, the first names none.
3. The head row of a branch names its newest commit.
4. The manifest version of a commit shows that commit as its newest, unless it was cleaned up.
5. Every shown table version can be read, and has the row count of the manifest.
6. The newest version of a table is the one that its owner shows: every move was published.
   Recovery undoes fenced and torn versions by itself; any other drift needs repair.
7. The manifest has the columns, the key and the stamp of the format.
8. The three schema files agree with each other and with the newest commit.
9. Main shows exactly one table for each type of the schema, with the columns of the type.
10. Both ends of every edge exist, and no two rows of a table have the same id (deep check).
11. No dead writer left a sidecar, a schema lock or a staging record.
12. Every fork of a table is shown by a branch.
13. Every blob file exists, and is as long as its last blob needs (deep check).
14. Every value can be read, and no required property is without one (deep check).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import SCHEMA_LOCK_KEY, LockKey
from omnigraph.commit.leases.staging import find_staging
from omnigraph.commit.manifest import stamp
from omnigraph.commit.manifest.base import Base, manifest_ref, read_base, read_past
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.model import SCHEMA, Manifest, Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.recovery.drift import Drift, DriftClass, inspect_drift
from omnigraph.commit.recovery.sidecar_store import find_sidecars, lock_keys_of, read_sidecar
from omnigraph.engine.active_schema import ActiveSchema, read_active_schema
from omnigraph.engine.maintain.blob_check import find_lost_blobs
from omnigraph.engine.maintain.cleanup import DEBRIS_AGE_MS
from omnigraph.engine.maintain.torn_files import find_torn_files
from omnigraph.engine.schema.staged_leftovers import STAGED
from omnigraph.engine.tables.columns import schema_of
from omnigraph.errors import (
    BranchNotFound,
    CorruptionError,
    NotFoundError,
    OmnigraphError,
    ProgramInvalid,
    TableCorrupt,
)
from omnigraph.ids import MAIN, SCHEMA_LOCK, BranchName
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import MANIFEST, SCHEMA_LOCK_OWNER, SCHEMA_SOURCE
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ScanRequest

REPAIR: Final = "omnigraph repair"
CLEANUP: Final = "omnigraph cleanup --keep 10 --confirm"
CLEANUP_LATER: Final = f"{CLEANUP}, {DEBRIS_AGE_MS // 60_000} minutes after it was written"
RESOLVE: Final = "open the graph for writing, or write to it"
UNREADABLE: Final = "upgrade; or look at the tables it names, and remove it from __recovery"
BACKUP: Final = "put the files back from a backup"
CLEANUP_AGAIN: Final = f"{CLEANUP}, if a cleanup was interrupted; else {BACKUP}"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A violated invariant, and its remedy."""

    branch: BranchName
    subject: str
    problem: str
    remedy: str = BACKUP
    is_over: bool = False
    """Can no operation ever publish it, so that the next writer undoes it?"""

    def __str__(self) -> str:
        return f"{self.branch}: {self.subject}: {self.problem}"


def examine(context: WriteContext, *, is_deep: bool = False) -> list[DoctorFinding]:
    """Every violated invariant of a graph. `is_deep` reads every row (10, 13, 14)."""
    stores = context.stores
    findings = [*check_formats(stores), *check_manifests(stores, is_strict=False)]
    findings += check_tables(stores, partial(_is_moving, context))
    schema = _read_schema(stores, findings)
    if schema is not None:
        findings += check_schema(stores, schema)
        if is_deep:
            findings += check_rows(stores, schema.catalog)
            findings += check_blobs(stores, schema.catalog)
            findings += check_values(stores, schema.catalog)
    return [*findings, *check_leftovers(context), *check_forks(stores)]


def check_formats(stores: Stores) -> Iterator[DoctorFinding]:
    """Rule 7."""
    for branch in find_branches(stores):
        handle = stores.tables.open_at(manifest_ref(branch))
        found = stamp.read_stamp(handle)
        if found != stamp.CURRENT:
            problem = f"is of format {found}, not {stamp.CURRENT}"
            yield DoctorFinding(branch, MANIFEST, problem, RESOLVE)
        if handle.schema.names != SCHEMA.names:
            yield DoctorFinding(branch, MANIFEST, f"has the columns {handle.schema.names}")
        key = handle.schema.field("object_id").metadata or {}
        if key.get(b"lance-schema:unenforced-primary-key") != b"true":
            yield DoctorFinding(
                branch, MANIFEST, "has no key, so two publishers could both win", RESOLVE
            )


def check_manifests(stores: Stores, *, is_strict: bool = True) -> list[DoctorFinding]:
    """Rules 1 to 4: the manifests. `is_strict` assumes that nothing was ever cleaned up."""
    checked: dict[tuple[BranchName, int, str], tuple[str, str] | None] = {}
    findings: list[DoctorFinding] = []
    for branch in find_branches(stores):
        manifest = read_base(stores, branch).manifest
        findings += _find_repeated_rows(stores, branch)
        findings += _find_breaks(manifest)
        findings += _find_false_heads(stores, manifest)
        for commit in manifest.log.commits:
            place = (commit.branch, commit.manifest_version, commit.id)
            if place not in checked:
                checked[place] = _check_record(stores, commit, is_strict=is_strict)
            if (found := checked[place]) is not None:
                findings.append(DoctorFinding(branch, commit.id, *found))
    return findings


def check_tables(
    stores: Stores, is_moving: Callable[[BranchName, Pin], bool] = lambda _branch, _pin: False
) -> list[DoctorFinding]:
    """Rules 5 and 6: the tables. A table that a writer moves right now is left out."""
    findings = []
    for branch in find_branches(stores):
        manifest = read_base(stores, branch).manifest
        for pin in manifest.pins.values():
            found = list(_check_pin(stores, manifest, pin))
            if found and not is_moving(branch, pin):
                findings += found
    return findings


def _is_moving(context: WriteContext, branch: BranchName, pin: Pin) -> bool:
    """Is the table being written, or was it written since the branch was read?"""
    if context.leases.find_holder(LockKey(pin.key, branch)) is not None:
        return True
    try:
        return context.bases.current(branch).manifest.pins.get(pin.key) != pin
    except BranchNotFound:
        return True


def _find_repeated_rows(stores: Stores, branch: BranchName) -> Iterator[DoctorFinding]:
    handle = stores.tables.open_at(manifest_ref(branch))
    rows = stores.tables.read(handle, ScanRequest(columns=("object_id",)))
    for object_id, count in Counter(rows["object_id"].to_pylist()).items():
        if count > 1:
            yield DoctorFinding(branch, str(object_id), f"stands in {count} rows")


def _find_breaks(manifest: Manifest) -> Iterator[DoctorFinding]:
    commits = manifest.log.commits
    if not commits:
        yield DoctorFinding(manifest.branch, "history", "is empty")
        return
    if commits[0].parent is not None:
        yield DoctorFinding(
            manifest.branch, commits[0].id, f"comes first, after {commits[0].parent}"
        )
    for before, commit in pairwise(commits):
        if commit.parent != before.id:
            problem = f"follows {before.id}, and says it follows {commit.parent}"
            yield DoctorFinding(manifest.branch, commit.id, problem)


def _find_false_heads(stores: Stores, manifest: Manifest) -> Iterator[DoctorFinding]:
    """Rule 3. A branch without commits of its own has no head row, only that of its parent."""
    branch, head = manifest.branch, manifest.head
    if head is None or head.branch != branch:
        return
    request = ScanRequest(columns=("metadata",), where=f"object_id = 'graph_head:{branch}'")
    rows = stores.tables.read(stores.tables.open_at(manifest_ref(branch)), request)
    try:
        named = [read_json(str(text))["head_commit_id"] for text in rows["metadata"].to_pylist()]
    except (ValueError, KeyError, TypeError) as error:
        yield DoctorFinding(branch, f"graph_head:{branch}", f"cannot be read: {error}")
        return
    if named != [head.id]:
        yield DoctorFinding(branch, f"graph_head:{branch}", f"names {named}, the head is {head.id}")


def _check_record(stores: Stores, commit: Commit, *, is_strict: bool) -> tuple[str, str] | None:
    """Rule 4: the problem of the manifest version of a commit, and its remedy."""
    where = f"version {commit.manifest_version} of '{commit.branch}'"
    try:
        shown = read_past(stores, commit.branch, commit.manifest_version)
    except NotFoundError as error:
        return (f"{where} cannot be read: {error}", BACKUP) if is_strict else None
    except TableCorrupt as error:
        # Lance removes the files of a version before the version.
        return f"{where} cannot be read: {error}", CLEANUP_AGAIN
    if shown.log.find(commit.id) is None:
        return f"{where} does not show it", BACKUP
    head = shown.head
    assert head is not None
    # One version may publish several commits; rule 2 checks their order.
    if head.id != commit.id and head.manifest_version != commit.manifest_version:
        found = f"{where} shows {head.id} as the head, recorded at {head.manifest_version}"
        return found, BACKUP
    return None


def _check_pin(stores: Stores, manifest: Manifest, pin: Pin) -> Iterator[DoctorFinding]:
    branch = manifest.branch
    try:
        rows = stores.tables.read(open_pin(stores, pin), ScanRequest(columns=("id",)))
        drift = inspect_drift(stores, manifest, pin) if pin.owner == branch else None
    except OmnigraphError as error:
        problem = f"version {pin.version} of '{pin.owner}' cannot be read: {error}"
        torn = ", ".join(find_torn_files(stores.objects, pin.path))
        yield DoctorFinding(
            branch, pin.key, f"{problem}; torn: {torn}" if torn else problem, REPAIR
        )
        return
    if rows.num_rows != pin.row_count:
        problem = f"has {rows.num_rows} rows, the manifest says {pin.row_count}"
        yield DoctorFinding(branch, pin.key, problem, REPAIR)
    if drift is not None and drift.drift_class is not DriftClass.NO_DRIFT:
        yield _describe_drift(drift)


def _describe_drift(drift: Drift) -> DoctorFinding:
    shown, newest = drift.pin.version, drift.torn or drift.head.version
    problem = f"is at version {newest}, the manifest shows {shown}"
    match drift.drift_class:
        case DriftClass.TORN:
            problem = f"version {newest} was torn by a power cut; {shown} is shown"
        case DriftClass.FENCED:
            problem += "; what came since is of a write that was undone"
        case _:
            return DoctorFinding(drift.branch, drift.pin.key, problem, REPAIR)
    return DoctorFinding(drift.branch, drift.pin.key, problem, RESOLVE, is_over=True)


# ── the schema and the rows ──────────────────────────────────────────────────────────────────────


def _read_schema(stores: Stores, findings: list[DoctorFinding]) -> ActiveSchema | None:
    """Rule 8. A schema that another process puts in force meanwhile is no violation."""
    newest = read_base(stores, MAIN).manifest.log.schema_hash
    while True:
        wanted = newest
        try:
            return read_active_schema(stores.objects, wanted, is_newest=True)
        except (CorruptionError, ProgramInvalid) as error:
            newest = read_base(stores, MAIN).manifest.log.schema_hash
            if newest == wanted:
                findings.append(DoctorFinding(MAIN, SCHEMA_SOURCE, str(error)))
                return None


def check_schema(stores: Stores, schema: ActiveSchema) -> Iterator[DoctorFinding]:
    """Rule 9."""
    manifest = read_base(stores, MAIN).manifest
    types = {each.table_key: each for each in _types(schema.catalog)}
    for key in sorted(types.keys() - manifest.pins.keys()):
        yield DoctorFinding(MAIN, key, "is in the schema, and there is no table of it")
    for key in sorted(manifest.pins.keys() - types.keys()):
        yield DoctorFinding(MAIN, key, "is shown, and not in the schema")
    for key in sorted(manifest.pins.keys() & types.keys()):
        wanted = schema_of(types[key])
        try:
            found = open_pin(stores, manifest.pins[key]).schema
        except OmnigraphError:
            continue  # reported by rule 5
        yield from (DoctorFinding(MAIN, key, each) for each in _compare_columns(wanted, found))


def _types(catalog: Catalog) -> tuple[NodeType | EdgeType, ...]:
    return (*catalog.nodes, *catalog.edges)


def _compare_columns(wanted: pa.Schema, found: pa.Schema) -> Iterator[str]:
    for name in sorted(set(wanted.names) - set(found.names)):
        yield f"has no column {name!r}"
    for name in sorted(set(found.names) - set(wanted.names)):
        yield f"has a column {name!r} that the schema does not know"
    for name in set(wanted.names) & set(found.names):
        if wanted.field(name).nullable != found.field(name).nullable:
            yield f"and the schema disagree whether {name!r} may be missing"


def check_rows(stores: Stores, catalog: Catalog) -> Iterator[DoctorFinding]:
    """Rule 10."""
    for branch in find_branches(stores):
        pins = read_base(stores, branch).manifest.pins
        ids: dict[str, pa.ChunkedArray[pa.StringScalar]] = {}
        unread: set[str] = set()
        for type_ in _types(catalog):
            pin = pins.get(type_.table_key)
            if pin is None:
                continue
            columns = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
            try:
                rows = stores.tables.read(open_pin(stores, pin), ScanRequest(columns=columns))
            except OmnigraphError:
                unread.add(type_.name)
                continue  # reported by rule 5
            if len(pc.unique(rows["id"])) != rows.num_rows:
                yield DoctorFinding(branch, pin.key, "has several rows of one id")
            if not isinstance(type_, EdgeType):
                ids[type_.name] = rows["id"]
                continue
            for column, end in (("src", type_.source), ("dst", type_.target)):
                if end in unread:
                    continue
                known = ids.get(end, pa.chunked_array([], pa.string()))
                lost = rows.num_rows - len(rows.filter(pc.is_in(rows[column], value_set=known)))
                if lost:
                    problem = f"has {lost} edges whose {column} is no {end}"
                    yield DoctorFinding(branch, pin.key, problem)


def check_blobs(stores: Stores, catalog: Catalog) -> Iterator[DoctorFinding]:
    """Rule 13."""
    for branch in find_branches(stores):
        pins = read_base(stores, branch).manifest.pins
        for type_ in _types(catalog):
            pin = pins.get(type_.table_key)
            names = [each.name for each in type_.properties if each.type.is_blob]
            if pin is None or not names:
                continue
            handle = open_pin(stores, pin)
            for name in set(names) & set(handle.schema.names):
                for problem in find_lost_blobs(stores.tables, handle, name):
                    yield DoctorFinding(branch, pin.key, problem)


def check_values(stores: Stores, catalog: Catalog) -> Iterator[DoctorFinding]:
    """Rule 14. Rule 5 reads the ids, rule 13 the blobs. A version is read once for all branches."""
    checked: set[tuple[str, BranchName, int]] = set()
    for branch in find_branches(stores):
        pins = read_base(stores, branch).manifest.pins
        for type_ in _types(catalog):
            pin = pins.get(type_.table_key)
            if pin is not None and (pin.path, pin.owner, pin.version) not in checked:
                checked.add((pin.path, pin.owner, pin.version))
                for problem in _find_bad_columns(stores, type_, pin):
                    yield DoctorFinding(branch, pin.key, problem)


def _find_bad_columns(stores: Stores, type_: NodeType | EdgeType, pin: Pin) -> Iterator[str]:
    try:
        handle = open_pin(stores, pin)
    except OmnigraphError:
        return  # reported by rule 5
    for column in schema_of(type_):
        if column.name not in handle.schema.names or pa.types.is_struct(column.type):
            continue
        empty = 0
        try:
            with stores.tables.scan(handle, ScanRequest(columns=(column.name,))) as batches:
                for batch in batches:
                    empty += 0 if column.nullable else batch.column(0).null_count
        except OmnigraphError as error:
            yield f"{column.name} cannot be read: {error}"
        if empty:
            yield f"has {empty} rows without {column.name}, which is required"


# ── leftovers ────────────────────────────────────────────────────────────────────────────────────


def check_leftovers(context: WriteContext) -> Iterator[DoctorFinding]:
    """Rule 11. A running operation is not a finding."""
    objects = context.stores.objects
    for operation_id in find_sidecars(objects):
        try:
            sidecar = read_sidecar(objects, operation_id)
        except CorruptionError as error:
            yield DoctorFinding(MAIN, operation_id, str(error), UNREADABLE)
            continue
        if sidecar is None:
            continue
        if not any(context.leases.is_alive(place, operation_id) for place in lock_keys_of(sidecar)):
            yield DoctorFinding(
                sidecar.branch, operation_id, "waits to be finished or undone", RESOLVE
            )
    if context.stores.tables.find_branch(MANIFEST, SCHEMA_LOCK) is not None:
        yield from _check_lock(context)
    for key in STAGED:
        if objects.exists(key):
            problem = "is what another program left of a change of the schema"
            yield DoctorFinding(MAIN, key, problem, CLEANUP_LATER)
    for record in find_staging(objects):
        if not record.is_alive:
            problem = "staged files and is gone"
            yield DoctorFinding(record.branch, record.operation_id, problem, CLEANUP_LATER)


def _check_lock(context: WriteContext) -> Iterator[DoctorFinding]:
    if not context.stores.objects.exists(SCHEMA_LOCK_OWNER):
        problem = "was locked by another program, which may be at work"
        yield DoctorFinding(MAIN, "schema", problem, "let it finish")
    elif context.leases.find_holder(SCHEMA_LOCK_KEY) is None:
        yield DoctorFinding(MAIN, "schema", "was locked by somebody who is gone", RESOLVE)


def check_forks(stores: Stores) -> Iterator[DoctorFinding]:
    """Rule 12."""
    bases: list[Base] = [read_base(stores, each) for each in find_branches(stores)]
    owned = {(pin.path, pin.owner) for base in bases for pin in base.manifest.pins.values()}
    paths = {pin.path for base in bases for pin in base.manifest.pins.values()}
    for path in sorted(paths):
        try:
            forks = stores.tables.find_branches(path)
        except OmnigraphError:
            continue  # reported by rule 5 or 6
        for fork in forks:
            if (path, fork.name) not in owned:
                subject = f"{path}@{fork.name}"
                yield DoctorFinding(MAIN, subject, "is a fork that no branch shows", CLEANUP)
