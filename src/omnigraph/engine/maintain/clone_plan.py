"""Which files a clone copies: what the chosen branches show, now and in their history.

1. The heads of the branches are read first, children before parents. So the version of a parent
   that a child was forked from is never later than the chosen version of the parent.
2. Of a table on a branch, the versions up to the greatest one that a chosen manifest names are
   copied. Later versions belong to writes that are not published.
3. The files of a version are those that the version names. Files that no version names, such as
   those of running writes, are left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest.base import Bases, manifest_ref, read_base, scan_manifest
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.commit_tags import find_tags
from omnigraph.commit.manifest.model import TABLE_VERSION, Manifest
from omnigraph.commit.manifest.schema_files import SchemaFiles, find_past_schema
from omnigraph.commit.manifest.snapshot import find_commit, snapshot_at_commit
from omnigraph.engine.active_schema import compile_active_schema, read_active_schema
from omnigraph.errors import BranchNotFound, TableCorrupt, TableNotFound, UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, graph_branch
from omnigraph.storage.layout import (
    INDICES,
    LEGACY_ACTORS,
    LEGACY_COMMITS,
    MANIFEST,
    RECOVERY_AUDIT,
    SCHEMA_SOURCE,
    SCHEMAS,
    TRANSACTIONS,
    branch_folder,
    branch_ref_file,
    tag_key,
    version_file,
)
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, TableRef

_BESIDE: tuple[str, ...] = (LEGACY_COMMITS, LEGACY_ACTORS, RECOVERY_AUDIT)
"""Tables that no manifest names. They are copied as they are."""


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """What to clone: everything, some branches, or the state at one commit."""

    branches: tuple[BranchName, ...] = ()
    """These, main, and the branches that they were created from; all if there are none."""
    at: CommitId | None = None


@dataclass(frozen=True, slots=True)
class ClonedVersion:
    """A version file, which is copied after all other files; its bases are re-rooted."""

    path: str
    """The table."""
    key: str


@dataclass(frozen=True, slots=True)
class ClonePlan:
    branches: tuple[BranchName, ...]
    commits: int
    schema: SchemaFiles
    files: Mapping[str, int]
    """The sizes of files that are copied as they are, by key."""
    versions: tuple[ClonedVersion, ...]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A branch at the version that is cloned."""

    manifest: Manifest
    handle: Handle


def plan_clone(source: Stores, request: CloneRequest) -> ClonePlan:
    """Raises BranchNotFound, CommitNotFound, VersionNotFound, UsageError, TableCorrupt."""
    chosen = _choose(source, request)
    bounds = _find_bounds(source, chosen)
    versions, wanted = [], set[str]()
    for ref, last in sorted(bounds.items(), key=lambda item: _order(item[0])):
        for number in _find_versions(source, ref, last):
            versions.append(ClonedVersion(ref.path, f"{_folder(ref)}/{version_file(number)}"))
            wanted |= source.tables.find_files(ref, number)
    files = dict(_find_files(source, {ref.path for ref in bounds}, wanted))
    for ref in bounds:
        if ref.branch is not None:
            key = f"{ref.path}/{branch_ref_file(ref.branch)}"
            files[key] = len(source.objects.read(key).data)
    logs = [each.manifest.log for each in chosen.values()]
    commits = {commit.id for log in logs for commit in log.commits}
    files |= dict(_find_small(source, commits))
    return ClonePlan(
        branches=(MAIN, *sorted(set(chosen) - {MAIN})),
        commits=len(commits),
        schema=_read_schema(source, chosen[MAIN].manifest, request),
        files=files,
        versions=tuple(versions),
    )


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def _choose(source: Stores, request: CloneRequest) -> dict[BranchName, _Chosen]:
    parents = {
        BranchName(each.name): graph_branch(each.parent)
        for each in source.tables.find_branches(MANIFEST)
    }
    if request.at is not None:
        return _choose_at(source, request, request.at)
    live = find_branches(source)
    for name in request.branches:
        if name not in live:
            raise BranchNotFound(name)
    wanted: set[BranchName] = {MAIN}
    for name in request.branches or live:
        wanted |= set(_line(name, parents))
    # (1) A branch has a longer line than its parent.
    ordered = sorted(wanted, key=lambda name: (-len(list(_line(name, parents))), name))
    read = {name: read_base(source, name) for name in ordered}
    return {name: _Chosen(base.manifest, base.handle) for name, base in read.items()}


def _line(name: BranchName, parents: Mapping[BranchName, BranchName]) -> Iterator[BranchName]:
    """A branch, the branch it was created from, and so on to main."""
    while name != MAIN:
        yield name
        name = parents.get(name, MAIN)
    yield MAIN


def _choose_at(
    source: Stores, request: CloneRequest, commit_id: CommitId
) -> dict[BranchName, _Chosen]:
    """The branch of the commit up to it, and its ancestors up to where they were forked."""
    commit = find_commit(Bases(source), find_branches(source), commit_id)
    if request.branches and request.branches != (commit.branch,):
        named = ", ".join(request.branches)
        raise UsageError(
            f"commit {commit_id} was made on '{commit.branch}', not on '{named}'; leave the branch "
            "out: a clone at a commit has the branch of the commit and those it was created from"
        )
    chosen: dict[BranchName, _Chosen] = {}
    branch, version = commit.branch, int(snapshot_at_commit(source, commit).manifest_version)
    while True:
        handle = source.tables.open_at(manifest_ref(branch), version)
        chosen[branch] = _Chosen(scan_manifest(source, handle, branch), handle)
        if branch == MAIN:
            return chosen
        fork = source.tables.find_branch(MANIFEST, branch)
        if fork is None:
            raise BranchNotFound(branch)
        branch, version = graph_branch(fork.parent), fork.parent_version


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _find_bounds(source: Stores, chosen: Mapping[BranchName, _Chosen]) -> dict[TableRef, int]:
    """(2) The last version to copy, of every table on every branch."""
    bounds: dict[TableRef, int] = defaultdict(int)
    for branch, each in chosen.items():
        bounds[manifest_ref(branch)] = each.handle.version
        for key, version, owner in _find_published(source, each.handle):
            ref = TableRef(each.manifest.paths[key], owner)
            bounds[ref] = max(bounds[ref], version)
    for path in _BESIDE:
        bounds |= _find_whole(source, path)
    known: dict[TableRef, int] = {}
    for ref, last in bounds.items():
        if _exists(source, ref):
            _add_line(source, known, ref, last)
    return known


def _find_published(source: Stores, handle: Handle) -> Iterator[tuple[TableKey, int, str | None]]:
    request = ScanRequest(
        columns=("table_key", "table_version", "table_branch"),
        where=f"object_type = '{TABLE_VERSION}'",
    )
    for row in source.tables.read(handle, request).to_pylist():
        yield TableKey(row["table_key"]), int(row["table_version"]), row["table_branch"]


def _find_whole(source: Stores, path: str) -> dict[TableRef, int]:
    try:
        head = source.tables.open_at(TableRef(path))
    except TableNotFound:
        return {}
    refs = [TableRef(path, each.name) for each in source.tables.find_branches(path)]
    return {
        TableRef(path): head.version,
        **{ref: source.tables.open_at(ref).version for ref in refs},
    }


def _exists(source: Stores, ref: TableRef) -> bool:
    """A manifest also names forks of branches that were deleted since."""
    return ref.branch is None or source.tables.find_branch(ref.path, ref.branch) is not None


def _add_line(source: Stores, known: dict[TableRef, int], ref: TableRef, last: int) -> None:
    """A fork needs the version that it was forked from, and so does that one."""
    while True:
        known[ref] = max(last, known.get(ref, 0))
        if ref.branch is None:
            return
        fork = source.tables.find_branch(ref.path, ref.branch)
        if fork is None:
            raise _missing(ref.path, branch_ref_file(ref.branch))
        ref, last = TableRef(ref.path, fork.parent), fork.parent_version


def _find_versions(source: Stores, ref: TableRef, last: int) -> list[int]:
    head = source.tables.open_at(ref)
    found = sorted(each.version for each in source.tables.find_versions(head))
    if last not in found:
        raise _missing(ref.path, version_file(last))
    return [each for each in found if each <= last]


def _order(ref: TableRef) -> tuple[bool, bool, str, str]:
    """Manifests after tables, and main after the other branches."""
    return ref.path == MANIFEST, ref.branch is None, ref.path, ref.branch or ""


def _folder(ref: TableRef) -> str:
    return f"{ref.path}/{branch_folder(ref.branch)}".rstrip("/")


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _find_files(
    source: Stores, paths: Iterable[str], wanted: set[str]
) -> Iterator[tuple[str, int]]:
    """(3) The wanted files, and the files in wanted folders. Raises TableCorrupt."""
    seen = set()
    for path in sorted(paths):
        for listed in source.objects.list(path):
            folder = listed.key.rpartition("/")[0]
            if listed.key in wanted or folder in wanted:
                seen |= {listed.key, folder}
                yield listed.key, listed.size_bytes
    for key in sorted(wanted - seen):
        if _is_needed(key):
            raise _missing(key.partition("/_")[0], key)


def _is_needed(key: str) -> bool:
    """A data file may have no folder of blobs, and Lance deletes old transactions."""
    *_, folder, name = key.split("/")
    return folder == INDICES or ("." in name and folder != TRANSACTIONS)


def _find_small(source: Stores, commits: set[CommitId]) -> Iterator[tuple[str, int]]:
    """The past schemas, and the tags of cloned commits."""
    for listed in source.objects.list(SCHEMAS):
        yield listed.key, listed.size_bytes
    for tag in find_tags(source.objects):
        if tag.commit_id in commits:
            yield tag_key(tag.name), len(tag.encode())


def _missing(path: str, file: str) -> TableCorrupt:
    return TableCorrupt("clone", subject=path, reason=f"{file} is missing")


def _read_schema(source: Stores, main: Manifest, request: CloneRequest) -> SchemaFiles:
    wanted = main.log.schema_hash
    past = find_past_schema(source.objects, wanted) if request.at and wanted else None
    if past is not None:
        return compile_active_schema(past, name=SCHEMA_SOURCE, in_force=True).files()
    return read_active_schema(source.objects, wanted).files()
