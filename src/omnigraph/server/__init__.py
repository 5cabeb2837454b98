"""The HTTP server: the same engine, for people who are not in the process.

    settings   what was configured: flags, `server.yaml`, the environment
    tokens     who a bearer token stands for
    guard      may they? the runtime states, and the gate of every served graph
    serving    the open graphs, and swapping them for others without dropping a request
    asking     one request: who asks, of which graph, with how large a body
    problems   every error as an answer, in one table
    routes/    parse, call, render
    app        all of it put together
    run        processes, signals, sockets

A request works with the `Serving` it found when it came in, whatever is reloaded meanwhile.
"""

from omnigraph.extras import require

require("fastapi", extra="server")
