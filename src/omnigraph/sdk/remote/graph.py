"""A graph behind a server, with the interface of an embedded one.

`omnigraph.connect("https://host", graph="research", token=…)` gives one. Who writes is the token's
affair: an actor cannot be named. What is written is written once, also if an answer gets lost.

Every method runs the method of the same name of `AsyncGraph` on a transport that blocks.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import cast

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.records import JsonObject, RowCounts
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.query.blob import OpenBlob
from omnigraph.ids import MAIN, TableKey
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.handles import Closed
from omnigraph.sdk.prepared import PreparedRead
from omnigraph.sdk.remote.async_graph import AsyncGraph, address_of
from omnigraph.sdk.remote.blocking import blocking, blocking_iterator, run
from omnigraph.sdk.remote.branches import AsyncBranches
from omnigraph.sdk.remote.history import AsyncTags
from omnigraph.sdk.remote.http import ServerConnection
from omnigraph.sdk.remote.proposals import AsyncProposals
from omnigraph.sdk.remote.result import RemoteResult
from omnigraph.sdk.remote.review import AsyncBaseline, AsyncDiff


class RemoteDiff:
    """What differs between two states: counted; and, as far as one reads on, told."""

    def __init__(self, core: AsyncDiff) -> None:
        self._core = core

    def __repr__(self) -> str:
        return repr(self._core).replace("AsyncDiff", "RemoteDiff")

    def __len__(self) -> int:
        return len(self._core)

    @property
    def counts(self) -> Mapping[TableKey, RowCounts]:
        return self._core.counts

    @cached_property
    def before(self) -> ManifestSnapshot:
        return run(self._core.before)

    @cached_property
    def after(self) -> ManifestSnapshot:
        return run(self._core.after)

    changes = blocking_iterator(AsyncDiff.changes)


class RemoteBaseline:
    """Everything a branch shows, and the cursor from which its changes follow.

    The server says where it stands once everything is told: read `lines()` to the end.
    """

    def __init__(self, core: AsyncBaseline) -> None:
        self._core = core

    lines = blocking_iterator(AsyncBaseline.lines)

    def document(self) -> JsonObject:
        return self._core.document()

    @property
    def resume_cursor(self) -> str:
        return self._core.resume_cursor

    @property
    def snapshot(self) -> ManifestSnapshot:
        return run(self._core.snapshot)


class RemoteBranches:
    """The branches of a graph."""

    def __init__(self, core: AsyncBranches) -> None:
        self._core = core

    list = blocking(AsyncBranches.list)
    summaries = blocking(AsyncBranches.summaries)
    create = blocking(AsyncBranches.create)
    delete = blocking(AsyncBranches.delete)
    ask_create = blocking(AsyncBranches.ask_create)
    ask_delete = blocking(AsyncBranches.ask_delete)


class RemoteTags:
    """The tags of a graph."""

    def __init__(self, core: AsyncTags) -> None:
        self._core = core

    list = blocking(AsyncTags.list)
    create = blocking(AsyncTags.create)
    delete = blocking(AsyncTags.delete)


class RemoteProposals:
    """The proposals of a graph."""

    def __init__(self, core: AsyncProposals) -> None:
        self._core = core

    open = blocking(AsyncProposals.open)
    list = blocking(AsyncProposals.list)
    show = blocking(AsyncProposals.show)
    comment = blocking(AsyncProposals.comment)
    approve = blocking(AsyncProposals.approve)
    check = blocking(AsyncProposals.check)
    merge = blocking(AsyncProposals.merge)
    close = blocking(AsyncProposals.close)


class RemoteGraph(GraphClient):
    """A graph on a server. Safe to share among threads; close it, or use it in a `with`."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._core = AsyncGraph(connection.core)
        self._place = connection.url

    def __repr__(self) -> str:
        return f"RemoteGraph({self._place!r})"

    def close(self) -> None:
        """Close the connection. Later calls raise GraphClosed; closing again does nothing."""
        run(self._core.close())
        self._connection = cast("ServerConnection", Closed(self._place))

    @property
    def uri(self) -> str:
        return self._core.uri

    @property
    def branches(self) -> RemoteBranches:
        """The branches: `list`, `summaries`, `create`, `delete`."""
        return RemoteBranches(self._core.branches)

    @property
    def tags(self) -> RemoteTags:
        """The tags: `list`, `create`, `delete`."""
        return RemoteTags(self._core.tags)

    @property
    def proposals(self) -> RemoteProposals:
        """The proposals: `open`, `list`, `show`, `approve`, `merge` and others."""
        return RemoteProposals(self._core.proposals)

    @property
    def schema_source(self) -> str:
        """The schema in force, as it was written."""
        return run(self._core.schema_source)

    @property
    def catalog(self) -> Catalog:
        """What the schema in force means."""
        return run(self._core.catalog)

    # reading

    snapshot = blocking(AsyncGraph.snapshot)
    schema_at = blocking(AsyncGraph.schema_at)
    describe = blocking(AsyncGraph.describe)
    query = blocking(AsyncGraph.query)
    explain = blocking(AsyncGraph.explain)

    def prepare(self, source: str | Path, *, name: str | None = None) -> PreparedRead[RemoteResult]:
        """A read to run often, checked by the server now."""
        prepared = run(self._core.prepare(source, name=name))
        return PreparedRead(prepared.name, lambda *given, **how: run(prepared.run(*given, **how)))

    look_up = blocking(AsyncGraph.look_up)
    run_stored = blocking(AsyncGraph.run_stored)
    stored_queries = blocking(AsyncGraph.stored_queries)
    commits = blocking(AsyncGraph.commits)
    commit = blocking(AsyncGraph.commit)
    commit_changes = blocking(AsyncGraph.commit_changes)
    changes = blocking(AsyncGraph.changes)
    blame = blocking(AsyncGraph.blame)
    revisions = blocking(AsyncGraph.revisions)
    export = blocking(AsyncGraph.export)
    export_lines = blocking_iterator(AsyncGraph.export_lines)
    plan_schema = blocking(AsyncGraph.plan_schema)

    def blob(
        self,
        entity: str,
        type_name: str,
        identity: str,
        property_name: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> OpenBlob:
        """What one property of one node or edge holds, to read parts of: now or in the past."""
        opened = self._core.blob(
            entity,
            type_name,
            identity,
            property_name,
            branch=branch,
            snapshot=snapshot,
            commit=commit,
            version=version,
            at=at,
        )
        return run(opened).to_blocking()

    def diff(
        self,
        before: str,
        after: str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> RemoteDiff:
        """What differs between two states: branches, commits, or `branch@version`."""
        found = self._core.diff(
            before, after, kinds=kinds, types=types, ops=ops, since_merge_base=since_merge_base
        )
        return RemoteDiff(run(found))

    def baseline(
        self,
        *,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
    ) -> RemoteBaseline:
        """Everything a branch shows, and the cursor from which its changes follow."""
        return RemoteBaseline(self._core.baseline(branch=branch, kinds=kinds, types=types))

    # writing

    write = blocking(AsyncGraph.write)
    mutate_stored = blocking(AsyncGraph.mutate_stored)
    merge = blocking(AsyncGraph.merge)
    revert = blocking(AsyncGraph.revert)
    cherry_pick = blocking(AsyncGraph.cherry_pick)
    load = blocking(AsyncGraph.load)
    apply_schema = blocking(AsyncGraph.apply_schema)
    optimize = blocking(AsyncGraph.optimize)


def connect(url: str, *, graph: str | None = None, token: str | None = None) -> RemoteGraph:
    """A graph on a server.

    `url` is the server's, with `graph` naming one of its graphs; or already that of a graph.
    Nothing is asked yet: the first call finds out who answers.
    """
    return RemoteGraph(ServerConnection(address_of(url, graph), token=token))
