"""Reads of an embedded graph: queries, entities, blobs, snapshots."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.graph import Graph
from omnigraph.engine.query.blob import BlobName, OpenBlob
from omnigraph.engine.query.reading import Explanation
from omnigraph.engine.query.result import QueryResult
from omnigraph.engine.query.target import Target
from omnigraph.extras import require
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text
from omnigraph.sdk.frames import plain_params
from omnigraph.sdk.moments import target_of
from omnigraph.sdk.prepared import PreparedRead

if TYPE_CHECKING:
    from omnigraph.pipeline.datasource import SparkSession
    from omnigraph.pipeline.settings import SparkSettings
    from omnigraph.sdk.embedded.on_spark import GraphOnSpark


class LocalReads:
    """The part of an embedded graph that reads one state."""

    _graph: Graph

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> ManifestSnapshot:
        """The table versions of a state. `at` gives the same state with its reads.

        Raises BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, UsageError.
        """
        return self._graph.resolve(target_of(branch, commit=commit, version=version, at=at))

    def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
    ) -> QueryResult:
        """Run a read on one snapshot, which no writer changes.

        `source` is the text of a query file, or the path of one; `name` picks a query when there
        are several. It reads a branch as it is now; or, of the past, a `commit` or a `snapshot`, a
        branch at a `version` of its manifest, or a branch as it was `at` a time. It is stopped
        after `timeout` seconds, if that is given.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotARead, UsageError before anything
        is read; BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, QueryMemoryExceeded,
        QueryTimeout.
        """
        text, called = read_text(source, "<query>")
        return self._graph.query(
            Source(called, text),
            name=name,
            params=plain_params(params),
            target=target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at),
            timeout=timeout,
            binding=binding,
        )

    def prepare(self, source: str | Path, *, name: str | None = None) -> PreparedRead[QueryResult]:
        """A read to run often: `statement = graph.prepare(text)`, `statement({"lo": 2})`.

        The text is parsed, checked and planned now, by the schema of main, and again only when a
        state with another schema is read. Raises QueryInvalid, QueryNotFound, NotARead.
        """
        text, called = read_text(source, "<query>")
        prepared, query_name = self._graph.compile(Source(called, text), name=name)

        def run(
            params: Mapping[str, object] | None, *, timeout: float | None, **where: Any
        ) -> QueryResult:
            target = target_of(where.pop("branch"), **where)
            given = plain_params(params)
            return self._graph.query(prepared, params=given, target=target, timeout=timeout)

        return PreparedRead(query_name, run)

    def spark(self, spark: "SparkSession | SparkSettings | None" = None) -> "GraphOnSpark":
        """The reads of this graph on Spark: `graph.spark(session).query(…)` is a DataFrame.

        Without a session it uses the active one, or starts one. Raises ExtraMissing.
        """
        require("pyspark", extra="spark")
        from omnigraph.sdk.embedded.on_spark import GraphOnSpark

        return GraphOnSpark(self._graph, spark)

    def look_up(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> QueryResult:
        """What `find` finds, as a result of one row or none."""
        target = target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return self._graph.find(type_name, identity, target)

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
        """What one property of one node or edge holds, to read parts of: now or in the past.

        `entity` is `node` or `edge`. Of a blob that is kept elsewhere only the `uri` is told; what
        is there is never fetched.

        Raises BlobNotFound, NotABlob, UsageError, BranchNotFound, CommitNotFound, VersionNotFound,
        NothingYet.
        """
        name = BlobName(entity, type_name, identity, property_name)
        target = target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return self._graph.blob(name, target)

    def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add rows, time and reads of each step.

        Raises what `query` raises.
        """
        text, called = read_text(source, "<query>")
        return self._graph.explain(
            Source(called, text),
            name=name,
            params=plain_params(params),
            target=target_of(branch, snapshot=snapshot),
            analyze=analyze,
            timeout=timeout,
        )

    def analyse(self, source: str | Path, **options: Any) -> Explanation:
        """The former name of `explain(…, analyze=True)`, for one more release."""
        warn("use explain(…, analyze=True)", DeprecationWarning, stacklevel=2)
        return self.explain(source, analyze=True, **options)

    def schema_at(self, snapshot: ManifestSnapshot) -> str:
        """The text of the schema under which a snapshot was committed."""
        return self._graph.schema_at(Target(snapshot=snapshot)).source
