"""Numbers for whoever watches: requests, latencies, commits, conflicts, what waits.

With several workers the numbers are kept in files they share, so that any of them can tell all.
"""

import os
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from omnigraph.commit.workbench import Meter

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

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
COMMITS: Final = Counter(
    "omnigraph_commits_total", "Writes that were acknowledged.", ("graph",), registry=_own
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
    "Writes of the dead that were finished or undone.",
    ("graph", "kind"),
    registry=_own,
)
WAITS: Final = Histogram(
    "omnigraph_write_wait_seconds",
    "How long writers waited for their tables, in this process and among all.",
    ("graph",),
    buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30),
    registry=_own,
)
STAGES: Final = Histogram(
    "omnigraph_stage_seconds",
    "How long stages of loads took; most of them are jobs of Spark.",
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
    """Counts for one graph."""

    graph: str

    def waited(self, elapsed_ms: int) -> None:
        WAITS.labels(self.graph).observe(elapsed_ms / 1000)

    def recovered(self, kind: str) -> None:
        RECOVERIES.labels(self.graph, kind).inc()


class StageMeter:
    """Is told of the stages of a load, and counts those that end."""

    def begin(self, stage: str) -> None: ...

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None: ...

    def count(self, stage: str, rows: int) -> None: ...

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        STAGES.labels(stage).observe(elapsed_ms / 1000)


def render() -> bytes:
    """All of it, in the format of Prometheus."""
    if not os.environ.get(SHARED):
        return generate_latest(_own)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
