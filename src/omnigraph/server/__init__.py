"""The HTTP server: the same engine, for callers in other processes.

Invariants:

1. A request works with the `ServerState` that was current when it arrived, even if the
   configuration is reloaded meanwhile.
2. The order is fixed: token, graph, policy, admission, engine. The server reads no body of a
   caller without a valid token.
3. No route catches an error: `responses.error_mapping` has the one table from errors to answers.
4. All workers of a server serve by the same configuration (ADR 21).

Packages and modules, in reading order:

    process/         sockets, signals, the supervisor and its workers
    runtime/         settings, tokens, the guard, the open graphs, reloading
    jobs/            work that outlives its request
    request_context  one request: its actor, its graph, the limits of its body
    spool            bodies that are too large for memory
    routes/          parse, call, render
    responses/       JSON, streams, errors, the OpenAPI document
    telemetry/       access log, metrics, traces
    app              the application, put together from all of these
"""
