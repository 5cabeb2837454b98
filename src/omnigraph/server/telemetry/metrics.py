"""Metrics for Prometheus: requests, latencies, commits, conflicts, waits.

Several workers keep their numbers in shared files, so that each of them can report all.
"""

import operator
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from omnigraph.commit.context import Meter

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
GRAPH: Final = "graph"
"""The label that names a graph."""

_own: Final = CollectorRegistry()

REQUESTS: Final = Counter(
    "omnigraph_requests_total", "Answers given.", ("method", "route", "status"), registry=_own
)
LATENCY: Final = Histogram(
    "omnigraph_request_seconds",
    "How long answers took.",
    ("method", "route"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120),
    registry=_own,
)
INFLIGHT: Final = Gauge(
    "omnigraph_requests_inflight",
    "Requests under way.",
    registry=_own,
    multiprocess_mode="livesum",
)
READS: Final = Gauge(
    "omnigraph_reads_inflight",
    "Reads under way.",
    ("graph",),
    registry=_own,
    multiprocess_mode="livesum",
)
READ_MEMORY: Final = Gauge(
    "omnigraph_read_memory_bytes",
    "Memory that reads under way hold, without caches.",
    ("graph",),
    registry=_own,
    multiprocess_mode="livesum",
)
COMMITS: Final = Counter(
    "omnigraph_commits_total", "Writes that were acknowledged.", (GRAPH,), registry=_own
)
CONFLICTS: Final = Counter(
    "omnigraph_conflicts_total", "Writes that lost to others.", ("code",), registry=_own
)
REFUSALS: Final = Counter(
    "omnigraph_admission_refusals_total", "Writes refused by admission.", registry=_own
)
JOBS: Final = Counter("omnigraph_jobs_total", "Jobs that ended.", ("kind", "state"), registry=_own)
RECOVERIES: Final = Counter(
    "omnigraph_recoveries_total",
    "Writes of dead writers that were rolled forward or back.",
    (GRAPH, "kind"),
    registry=_own,
)
WAITS: Final = Histogram(
    "omnigraph_write_wait_seconds",
    "How long writers waited for their tables.",
    (GRAPH,),
    buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30),
    registry=_own,
)
GROUPS: Final = Histogram(
    "omnigraph_group_writes",
    "How many waiting writes one publish made visible.",
    (GRAPH,),
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    registry=_own,
)
STAGES: Final = Histogram(
    "omnigraph_stage_seconds",
    "How long the stages of loads took.",
    ("stage",),
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    registry=_own,
)
LOADS: Final = Histogram(
    "omnigraph_load_seconds",
    "How long loads took, on Spark.",
    buckets=(1, 2.5, 5, 10, 30, 60, 300, 1800),
    registry=_own,
)


@dataclass(frozen=True, slots=True)
class GraphMeter(Meter):
    """Counts the events of one graph."""

    graph: str

    def waited(self, elapsed_ms: int) -> None:
        WAITS.labels(self.graph).observe(elapsed_ms / 1000)

    def grouped(self, writes: int) -> None:
        GROUPS.labels(self.graph).observe(writes)

    def reading(self, reads: int, nbytes: int) -> None:
        if reads:
            READS.labels(self.graph).inc(reads)
        if nbytes:
            READ_MEMORY.labels(self.graph).inc(nbytes)

    def recovered(self, kind: str) -> None:
        RECOVERIES.labels(self.graph, kind).inc()


class StageMeter:
    """Observes the duration of each stage of a load."""

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None: ...

    def count(self, stage: str, rows: int) -> None: ...

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        STAGES.labels(stage).observe(elapsed_ms / 1000)


@dataclass(frozen=True, slots=True)
class _Unnamed(Collector):
    """The sums over all graphs, for callers who may not list graphs."""

    source: CollectorRegistry

    def collect(self) -> Iterator[Metric]:
        for metric in self.source.collect():
            if any(GRAPH in each.labels for each in metric.samples):
                summed = Metric(metric.name, metric.documentation, metric.type, metric.unit)
                summed.samples = _sum_over_graphs(metric.samples)
                yield summed
            else:
                yield metric


def _sum_over_graphs(samples: Iterable[Sample]) -> list[Sample]:
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for each in samples:
        labels = {name: value for name, value in each.labels.items() if name != GRAPH}
        key = (each.name, tuple(labels.items()))
        before = found.get(key)
        # `_created` samples are start times: the sum starts at the earliest.
        put = min if each.name.endswith("_created") else operator.add
        value = each.value if before is None else put(before.value, each.value)
        found[key] = each._replace(labels=labels, value=value)
    return list(found.values())


def render(*, names_graphs: bool) -> bytes:
    """All metrics, in the text format of Prometheus."""
    registry = _own
    if os.environ.get(SHARED):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    if not names_graphs:
        source, registry = registry, CollectorRegistry()
        registry.register(_Unnamed(source))
    return generate_latest(registry)
