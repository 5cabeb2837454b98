"""What a server reports about itself: logs, metrics, traces.

No header and no body is logged, counted or traced, so a token cannot leak.

    logs        one JSON object a line, on stderr
    access_log  the id, the log line and the counters of each request
    metrics     counters, gauges and histograms for Prometheus
    tracing     a span for each request, if OpenTelemetry is configured
"""
