"""Numbers for whoever watches: requests, latencies, commits, conflicts, what waits.

With several workers the numbers are kept in files they share, so that any of them can tell all.
"""

import os
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
LOADS: Final = Histogram(
    "omnigraph_load_seconds",
    "How long loads took, on Spark.",
    buckets=(1, 2.5, 5, 10, 30, 60, 300, 1800),
    registry=_own,
)


def render() -> bytes:
    """All of it, in the format of Prometheus."""
    if not os.environ.get(SHARED):
        return generate_latest(_own)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
