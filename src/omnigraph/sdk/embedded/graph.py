"""An embedded graph: a directory or a prefix, opened in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.portability import check_portable
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.engine import opening
from omnigraph.engine.active_schema import compile_active_schema
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import Remains
from omnigraph.engine.query.target import NOW_ON_MAIN
from omnigraph.engine.settings import DEFAULTS, AccessMode, Settings
from omnigraph.errors.base import counted
from omnigraph.ids import MAIN, BranchName, CommitId, parse_branch
from omnigraph.sdk.choices import parse_choice
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.embedded.bulk import LocalBulk
from omnigraph.sdk.embedded.history import LocalHistory
from omnigraph.sdk.embedded.reads import LocalReads
from omnigraph.sdk.embedded.review import LocalReview
from omnigraph.sdk.embedded.upkeep import LocalUpkeep
from omnigraph.sdk.files import read_text
from omnigraph.sdk.handles import Branch, Closed
from omnigraph.sdk.steps import parts_of
from omnigraph.storage.durability import Durability
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.catalog.outline import SchemaOutline
    from omnigraph.embed.settings import EmbedSettings
    from omnigraph.engine.history.branch_summary import BranchSummary
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.engine.write.steps import WriteStep


class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        return self._graph.branches()

    def summaries(self) -> tuple[BranchSummary, ...]:
        """The same branches, each with its head and how far it is ahead of and behind main.

        It reads the manifest of every branch, and no table.
        """
        return self._graph.branch_summaries()

    def create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchName:
        """A branch that starts as `source` is now, or as `commit` left the graph.

        It costs the same whatever the graph holds. Raises BranchExists, BranchNameInvalid,
        BranchNotFound, CommitNotFound, SchemaLocked, OpenedReadOnly.
        """
        from omnigraph.engine.write.idempotency import parse_key

        return self._graph.create_branch(
            name,
            source=parse_branch(source),
            commit_id=None if commit is None else CommitId(commit),
            actor=actor,
            idempotency=parse_key(idempotency_key, "branch create", name, source, commit),
        )

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Raises BranchNotFound, BranchInUse, BranchNameInvalid, SchemaLocked, OpenedReadOnly."""
        from omnigraph.engine.write.idempotency import parse_key

        key = parse_key(idempotency_key, "branch delete", name)
        return self._graph.delete_branch(name, actor=actor, idempotency=key)


class LocalGraph(LocalReads, LocalReview, LocalHistory, LocalUpkeep, LocalBulk, GraphClient):
    """A graph opened in this process. Safe to share among threads."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._branches = Branches(graph)
        self._place = graph.uri

    def __repr__(self) -> str:
        if isinstance(self._graph, Closed):
            return f"Graph({self._place!r}, closed)"
        manifest = self._graph.resolve(NOW_ON_MAIN)
        head = "no commit" if manifest.commit is None else manifest.commit.id
        types, branches = len(manifest.pins), len(self._graph.branches())
        counts = f"{counted(types, 'type')}, {counted(branches, 'branch', 'branches')}"
        return f"Graph({self._place!r}, main @ {head}, {counts})"

    @property
    def branches(self) -> Branches:
        """The branches: `list`, `create`, `delete`."""
        return self._branches

    def close(self) -> None:
        """Release leases and caches. Later calls raise GraphClosed; closing again does nothing."""
        if not isinstance(self._graph, Closed):
            self._graph.close()
        self._graph = cast("Graph", Closed(self._place))
        self._branches = Branches(self._graph)

    @property
    def engine(self) -> Graph:
        """The engine's open graph, for programs that embed it."""
        return self._graph

    def acting_as(self, actor: str | None) -> LocalGraph:
        """The same open graph, whose reads the policy decides for this actor."""
        return LocalGraph(self._graph.acting_as(actor))

    @property
    def uri(self) -> str:
        return self._graph.uri

    @property
    def objects(self) -> Objects:
        """For records that are kept beside the graph, such as jobs."""
        return self._graph.objects

    @property
    def catalog(self) -> Catalog:
        """What the schema in force means."""
        return self._graph.catalog

    @property
    def schema_source(self) -> str:
        """The schema in force, as it was written."""
        return self._graph.schema_source

    def describe(
        self,
        *,
        types: Sequence[str] = (),
        question: str | None = None,
        budget: int | None = None,
        samples: int = 0,
    ) -> SchemaOutline:
        """The schema in few tokens, as a text that is a schema again.

        types: only these types, and the edges among them.
        question: only what its words touch, and the edges that join it.
        budget: at most about so many tokens; details go first, then types.
        samples: so many values of each property.

        Raises TypeUnknown, UsageError.
        """
        from omnigraph.sdk.describing import describe_graph

        return describe_graph(
            self.catalog,
            self.query,
            types=types,
            question=question,
            budget=budget,
            samples=samples,
        )

    # writing

    def write(
        self,
        steps: Sequence[WriteStep],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run steps in order, as one commit or not at all. Raises what each step raises."""
        from omnigraph.engine.write.idempotency import parse_key
        from omnigraph.engine.write.mutate import WriteRequest

        parts = [parts_of(each) for each in steps] if idempotency_key is not None else []
        asked = parts[0] if len(parts) == 1 else ["transaction", parts]
        request = WriteRequest(
            parse_branch(branch),
            actor,
            None if if_commit is None else CommitId(if_commit),
            parse_key(idempotency_key, *asked, branch),
            message,
        )
        return self._graph.write(steps, request)

    def merge(
        self,
        source: str | Branch,
        into: str | Branch = MAIN,
        *,
        actor: str | None = None,
        detect: str = "row",
        on_conflict: str | Mapping[str, str] | None = None,
        resolutions: str | Path | None = None,
        base: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Make `into` show what `source` changed since they last agreed: one commit, or nothing.

        `detect` is `row`, or `property` to let both sides change different properties of a row.
        `on_conflict` is `ours` or `theirs`, or says it by type name. `resolutions` is the text or
        the path of a file of conflicts that somebody filled in. `dry_run` only tells, and lists
        conflicts instead of raising them. `base` names the commit to take as the common state.
        `delete_branch` deletes the source afterwards; if that cannot be, the merge stands and the
        result says why.

        Raises MergeConflicts, MergeBaseUnavailable, HeadMoved, ResolutionsInvalid, BranchNotFound,
        CommitNotFound, SchemaLocked, OpenedReadOnly, UsageError.
        """
        from omnigraph.sdk.embedded import merging

        text = None if resolutions is None else read_text(resolutions, "<resolutions>")[0]
        request = merging.parse_merge(
            str(source),
            str(into),
            actor=actor,
            detect=detect,
            on_conflict=on_conflict,
            resolutions=text,
            base=base,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            message=message,
        )
        return merging.merge(self._graph, request, delete_branch=delete_branch)


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    force: bool = False,
    portable: bool = False,
    actor: str | None = None,
    message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | str = Durability.DURABLE,
) -> LocalGraph:
    """Make an empty graph at `uri`. `schema` is the text of a schema, or the path of one.

    `portable` refuses a schema that the reference 0.8 does not understand, such as a key of edges.
    `force` clears the remains of an attempt that was killed. It never touches a graph. The first
    commit keeps `actor` and `message`.

    Raises SchemaInvalid, FileUnreadable, GraphExists, GraphIncomplete, UsageError.
    """
    text, name = read_text(schema, "<schema>")
    if portable:
        check_portable(compile_active_schema(text, name=name).catalog)
    graph = opening.create(
        str(uri),
        text,
        name=name,
        remains=Remains.CLEAR if force else Remains.REFUSE,
        actor=actor,
        message=message,
        settings=_settings(storage_options, durability),
    )
    return LocalGraph(graph)


def open(  # noqa: A001 - omnigraph.open reads as it should
    uri: str | Path,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | str = Durability.DURABLE,
    maintenance: bool = True,
    group: bool = True,
    embedding: EmbedSettings | None = None,
    query_access: AccessMode | str = AccessMode.AUTO,
    query_hops_max: int = DEFAULTS.query_hops_max,
    query_memory_bytes_max: int = DEFAULTS.query_memory_bytes_max,
    query_cache_bytes_max: int = DEFAULTS.query_cache_bytes_max,
    storage_cache_bytes_max: int = DEFAULTS.storage_cache_bytes_max,
) -> LocalGraph:
    """Open the graph at `uri`. Opened read-only, nothing is ever written, not even a migration.

    Writes of several threads that wait for each other share one commit of each table, and are made
    visible together, each with a commit of its own; `group=False` carries each out by itself.
    `embedding` says who turns the texts that `nearest` is given into vectors; without it the
    environment does. One read holds at most `query_memory_bytes_max`; columns and adjacencies that
    reads share take `query_cache_bytes_max`; `query_access` says how reads reach tables. A
    traversal without an upper bound walks `query_hops_max` steps at most. What is kept of the files
    themselves, as of indexes, takes `storage_cache_bytes_max`. `storage_options` say how a bucket
    is reached, over the variables of AWS.

    Raises UsageError, GraphNotFound, GraphIncomplete, GraphRelocated, FormatTooNew, FormatTooOld,
    SchemaFilesInvalid; of a bucket ConfigInvalid, BucketUnreachable, BucketForbidden,
    BucketNotFound, ConditionalWritesIgnored.
    """
    mode = Mode.READ_ONLY if read_only else Mode.READ_WRITE
    settings = replace(
        _settings(storage_options, durability, maintenance=maintenance),
        group=group,
        embedding=embedding,
        query_access=parse_choice(AccessMode, query_access, "query_access"),
        query_hops_max=query_hops_max,
        query_memory_bytes_max=query_memory_bytes_max,
        query_cache_bytes_max=query_cache_bytes_max,
        storage_cache_bytes_max=storage_cache_bytes_max,
    )
    return LocalGraph(opening.open_graph(str(uri), mode=mode, settings=settings))


def _settings(
    options: Mapping[str, str] | None, durability: Durability | str, *, maintenance: bool = True
) -> Settings:
    return Settings(
        storage_options=dict(options or {}),
        durability=parse_choice(Durability, durability, "durability"),
        maintenance=maintenance,
    )
