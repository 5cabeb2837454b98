"""What must be true of a graph after anything: races, crashes, recoveries.

Looks only at what is stored, through fresh handles, and reports every violation it finds. Slow and
obvious on purpose; the checks share no shortcut with the code they judge.

1. No two rows of a manifest have one `object_id`.
2. The commits of a branch form one chain: each on top of the one before, the first on top of none.
3. The head row of a branch names its newest commit.
4. The version a commit records shows that commit, and none newer.
5. What a branch shows of a table can be read, and has as many rows as the manifest says.
6. A table's newest version is the one its owner shows: nothing moved that was not published.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from omnigraph.commit.base import manifest_ref, read_base, read_past
from omnigraph.commit.manifest import Manifest, Pin
from omnigraph.commit.records import Commit
from omnigraph.commit.refs import find_branches
from omnigraph.commit.snapshot import open_pin
from omnigraph.errors import NotFoundError, OmnigraphError
from omnigraph.ids import BranchName, lance_branch
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ScanRequest, TableRef


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be."""

    branch: BranchName
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.branch}: {self.subject}: {self.problem}"


def check_graph(stores: Stores) -> list[Finding]:
    """Everything wrong with a graph; nothing, it is hoped."""
    return [*check_manifests(stores), *check_tables(stores)]


def check_manifests(stores: Stores) -> list[Finding]:
    """Rules 1 to 4: what a graph says about itself."""
    judged: dict[tuple[BranchName, int, str], str | None] = {}
    findings: list[Finding] = []
    for branch in find_branches(stores):
        manifest = read_base(stores, branch).manifest
        findings += _find_repeated_rows(stores, branch)
        findings += _find_breaks(manifest)
        findings += _find_false_heads(stores, manifest)
        for commit in manifest.log.commits:
            place = (commit.branch, commit.manifest_version, commit.id)
            if place not in judged:
                judged[place] = _judge_record(stores, commit)
            if (problem := judged[place]) is not None:
                findings.append(Finding(branch, commit.id, problem))
    return findings


def check_tables(stores: Stores) -> list[Finding]:
    """Rules 5 and 6: whether the tables are as the graph says."""
    findings = []
    for branch in find_branches(stores):
        for pin in read_base(stores, branch).manifest.pins.values():
            findings += [
                Finding(branch, pin.key, problem) for problem in _judge_pin(stores, branch, pin)
            ]
    return findings


def _find_repeated_rows(stores: Stores, branch: BranchName) -> Iterator[Finding]:
    handle = stores.tables.open_at(manifest_ref(branch))
    rows = stores.tables.read(handle, ScanRequest(columns=("object_id",)))
    for object_id, count in Counter(rows["object_id"].to_pylist()).items():
        if count > 1:
            yield Finding(branch, str(object_id), f"stands in {count} rows")


def _find_breaks(manifest: Manifest) -> Iterator[Finding]:
    commits = manifest.log.commits
    if not commits:
        yield Finding(manifest.branch, "history", "is empty")
        return
    if commits[0].parent is not None:
        yield Finding(manifest.branch, commits[0].id, f"comes first, after {commits[0].parent}")
    for before, commit in pairwise(commits):
        if commit.parent != before.id:
            problem = f"follows {before.id}, and says it follows {commit.parent}"
            yield Finding(manifest.branch, commit.id, problem)


def _find_false_heads(stores: Stores, manifest: Manifest) -> Iterator[Finding]:
    """A branch that nobody has published to has no head row yet, only its parent's."""
    branch, head = manifest.branch, manifest.head
    if head is None or head.branch != branch:
        return
    request = ScanRequest(columns=("metadata",), where=f"object_id = 'graph_head:{branch}'")
    rows = stores.tables.read(stores.tables.open_at(manifest_ref(branch)), request)
    named = [json.loads(str(text))["head_commit_id"] for text in rows["metadata"].to_pylist()]
    if named != [head.id]:
        yield Finding(branch, f"graph_head:{branch}", f"names {named}, the head is {head.id}")


def _judge_record(stores: Stores, commit: Commit) -> str | None:
    """What is wrong with the version a commit records, if anything."""
    where = f"version {commit.manifest_version} of '{commit.branch}'"
    try:
        shown = read_past(stores, commit.branch, commit.manifest_version)
    except NotFoundError as error:
        return f"{where} cannot be read: {error}"
    if shown.log.find(commit.id) is None:
        return f"{where} does not show it"
    head = shown.head
    assert head is not None
    # Several commits may land in one version; rule 2 orders those.
    if head.id != commit.id and head.manifest_version != commit.manifest_version:
        return f"{where} shows {head.id} as the head, recorded at {head.manifest_version}"
    return None


def _judge_pin(stores: Stores, branch: BranchName, pin: Pin) -> Iterator[str]:
    ref = TableRef(pin.path, lance_branch(pin.owner))
    try:
        rows = stores.tables.read(open_pin(stores, pin), ScanRequest(columns=("id",)))
        newest = stores.tables.open_at(ref).version
    except OmnigraphError as error:
        yield f"version {pin.version} of '{pin.owner}' cannot be read: {error}"
        return
    if rows.num_rows != pin.row_count:
        yield f"has {rows.num_rows} rows, the manifest says {pin.row_count}"
    if pin.owner == branch and newest != pin.version:
        yield f"is at version {newest}, the manifest shows {pin.version}"
