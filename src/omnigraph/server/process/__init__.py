"""The processes of a server: one listens, and one or several answer.

Invariants:

1. The listening socket is opened once. With one worker, this process answers. With several, each
   worker is a fresh interpreter that inherits the socket, and this process supervises.
2. The first SIGTERM or SIGINT lets requests and jobs finish within the drain time; the second ends
   the process at once. SIGHUP reloads the configuration.
3. A worker whose supervisor died stops.

Modules, in reading order:

    run         `serve`: listen, then answer in this process or supervise workers; signals
    supervisor  starts workers, replaces dead ones, stops them
    worker      the main program of one worker process
    connection  one HTTP connection: limits on headers and on slow callers
"""

from omnigraph.extras import require

require("fastapi", extra="server")
