"""Diffs and change feeds as callers ask for them: texts in, values out."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from omnigraph.catalog.canonical import type_id
from omnigraph.commit.manifest.records import Commit, JsonObject
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.graph import Graph
from omnigraph.engine.history.diff import (
    ChangeFilter,
    ChangeOp,
    EntityChange,
    Image,
)
from omnigraph.engine.history.feed import Block, CommitPage, FeedPage, Poll
from omnigraph.engine.load.export import Selection
from omnigraph.errors import UsageError
from omnigraph.ids import BranchName, CommitId, split_table_key
from omnigraph.sdk.differences import Differences
from omnigraph.sdk.documents import counts_document, iso_time
from omnigraph.sdk.embedded.exporting import lines_of

KINDS = ("node", "edge")


@dataclass(frozen=True, slots=True)
class DiffRange:
    """Two states to compare. `A...B` compares B with the state at which it parted from A."""

    before: str
    after: str
    since_merge_base: bool = False


def parse_range(text: str) -> DiffRange:
    """`A..B` or `A...B`; a side left out is main. Raises UsageError."""
    dots = "..." if "..." in text else ".."
    before, found, after = text.partition(dots)
    if not found or ".." in after or after.startswith("."):
        raise UsageError(
            f"say what to compare as A..B, or as A...B for what B changed since they parted, "
            f"not '{text}'"
        )
    return DiffRange(before or "main", after or "main", since_merge_base=dots == "...")


def read_filter(
    kinds: Collection[str], types: Collection[str], ops: Collection[str]
) -> ChangeFilter:
    """Raises UsageError."""
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"an entity is a node or an edge, not '{kind}'")
    try:
        wanted = tuple(ChangeOp(each) for each in ops)
    except ValueError as error:
        raise UsageError(f"a change is an insert, update or delete: {error}") from None
    return ChangeFilter(tuple(kinds), tuple(types), wanted)


def commit_page(
    graph: Graph, commit_id: str, where: ChangeFilter, page_token: str | None, limit: int
) -> CommitPage:
    asked = Poll(where, page_token, None if page_token else "beginning", changes_max=limit)
    asked.check()
    return graph.commit_changes(CommitId(commit_id), asked)


# ── baselines ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Baseline:
    """One snapshot of a branch, and where its changes go on."""

    snapshot: ManifestSnapshot
    resume_cursor: str
    _graph: Graph = field(repr=False)
    _where: ChangeFilter = field(repr=False)

    def lines(self) -> Iterator[bytes]:
        """Every row, as an export spells it; then one line that says where to go on.

        Whoever does not see that line has not seen everything.
        """
        tables = [key for key in self.snapshot.pins if self._where.accepts(key)]
        if tables:
            yield from lines_of(self._graph, self.snapshot, Selection(tables=tuple(tables)))
        yield json.dumps({"baseline": self.document()}).encode() + b"\n"

    def document(self) -> JsonObject:
        commit = self.snapshot.commit
        return {
            "snapshot_commit_id": None if commit is None else commit.id,
            "resume_cursor": self.resume_cursor,
        }


def take_baseline(graph: Graph, branch: BranchName, where: ChangeFilter) -> Baseline:
    """The snapshot and the cursor belong to the same commit."""
    snapshot, cursor = graph.baseline(branch, where)
    return Baseline(snapshot, cursor, graph, where)


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def change_document(change: EntityChange) -> JsonObject:
    kind: JsonObject = {"kind": change.kind}
    identity = type_id("node" if change.kind == "node" else "edge", change.type_name)
    document: JsonObject = {
        **kind,
        "type": {"id": identity, "name": change.type_name},
        "id": change.id,
        "op": change.op.value,
    }
    if change.ends is not None:
        document["endpoints"] = _ends(change.ends)
    if change.before is not None:
        document["before"] = _image(change.before, change)
    if change.after is not None:
        document["after"] = _image(change.after, change)
    return document


def _image(image: Image, change: EntityChange) -> JsonObject:
    """An edge that used to lead elsewhere says so."""
    document: JsonObject = {"properties": image.properties}
    if image.ends is not None and image.ends != change.ends:
        document["endpoints"] = _ends(image.ends)
    return document


def _ends(ends: tuple[str, str]) -> JsonObject:
    return {"from": ends[0], "to": ends[1]}


def cause_document(commit: Commit) -> JsonObject:
    document: JsonObject = {
        "graph_commit_id": commit.id,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "authored_branch": commit.branch,
        "graph_manifest_version": commit.manifest_version,
        "actor_id": commit.actor,
        "authored_at": commit.created_at_us,
        "authored_at_iso": iso_time(commit.created_at_us),
        "message": commit.message,
        "tables": None if commit.counts is None else counts_document(commit.counts),
    }
    return {name: value for name, value in document.items() if value is not None}


def block_document(block: Block) -> JsonObject:
    return {
        "cause": cause_document(block.cause),
        "changes": [change_document(each) for each in block.changes],
    }


def feed_document(page: FeedPage) -> JsonObject:
    document: JsonObject = {"blocks": [block_document(each) for each in page.blocks]}
    if page.next_page_token is not None:
        document["next_page_token"] = page.next_page_token
    if page.cursor is not None:
        document |= {"cursor": page.cursor, "caught_up": page.caught_up}
    return document


def commit_changes_document(page: CommitPage) -> JsonObject:
    document = block_document(Block(page.cause, page.changes))
    if page.next_page_token is not None:
        document["next_page_token"] = page.next_page_token
    return document


def diff_document(diff: Differences) -> JsonObject:
    """What was compared, and the counts; without the changes."""
    return {
        "from": _side(diff.before),
        "to": _side(diff.after),
        "types": [
            {
                "kind": split_table_key(key)[0],
                "name": split_table_key(key)[1],
                "inserted": each.inserted,
                "updated": each.updated,
                "deleted": each.deleted,
            }
            for key, each in diff.counts.items()
        ],
    }


def _side(snapshot: ManifestSnapshot) -> JsonObject:
    return {
        "branch": snapshot.branch,
        "graph_commit_id": None if snapshot.commit is None else snapshot.commit.id,
        "manifest_version": snapshot.manifest_version,
    }
