"""`graph.spark(…)`: reads of an embedded graph on Spark, for more than one machine can hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.compiler.explain import explain
from omnigraph.engine.query.reading import Explanation
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text
from omnigraph.sdk.frames import plain_params
from omnigraph.sdk.moments import target_of

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.query.target import Target
    from omnigraph.pipeline.datasource import DataFrame, SparkSession
    from omnigraph.pipeline.settings import SparkSettings


class GraphOnSpark:
    """A graph and the Spark session that its queries run on."""

    def __init__(self, graph: Graph, spark: SparkSession | SparkSettings | None) -> None:
        self._graph = graph
        self._spark = spark

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
    ) -> DataFrame:
        """The result of a read as a DataFrame, which shows one snapshot whenever it is used.

        The arguments are those of `Graph.query`. `now()` is the time of this call. Rows come in
        order where the query has an `order`.

        Raises what `Graph.query` raises before any table is read; UsageError for a ranking without
        a limit or with too many candidates; JavaMissing, SparkUnusable.
        """
        target = target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return self._lower(source, params, name, target)[1]

    def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
    ) -> Explanation:
        """The plan of a read, and the plan that Spark makes of it. Raises what `query` raises."""
        from omnigraph.pipeline.queries.run import explain_dataframe

        target = target_of(branch, snapshot=snapshot)
        ours, data = self._lower(source, params, name, target)
        text = f"{ours.text}\n\nOn Spark:\n{explain_dataframe(data)}"
        return Explanation(ours.query_name, text)

    def _lower(
        self,
        source: str | Path,
        params: Mapping[str, object] | None,
        name: str | None,
        target: Target,
    ) -> tuple[Explanation, DataFrame]:
        from omnigraph.pipeline.queries.run import session_of, storage_of, to_dataframe

        text, called = read_text(source, "<query>")
        bound, execution = self._graph.prepare(
            Source(called, text), name=name, params=plain_params(params), target=target
        )
        data = to_dataframe(session_of(self._spark), bound.plan, execution, storage_of(self._graph))
        return Explanation(bound.plan.name, explain(bound.plan)), data
