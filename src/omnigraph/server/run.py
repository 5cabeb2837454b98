"""Running a server: one process that listens, and one or several that answer.

The listening socket is opened once. With one worker this very process answers; with several, each
is a fresh interpreter that inherits the socket, and this process only watches: it starts another
for one that dies, passes signals on, and has them all read their configuration again.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping

import uvicorn

from omnigraph.errors import ConfigInvalid, UsageError
from omnigraph.server.app import build_app
from omnigraph.server.logs import start_logging
from omnigraph.server.serving import Host
from omnigraph.server.settings import Flags

DRAIN_S = 30
"""How long requests under way may take when the server is told to stop."""


def serve(flags: Flags, environment: Mapping[str, str] = os.environ) -> None:
    """Serve until told to stop. Raises what a bad configuration raises."""
    start_logging()
    host = Host(flags, environment)
    listening = listen(host.current.settings.bind)
    announce(listening)
    answer_from(host, listening)


def listen(bind: str) -> socket.socket:
    """Raises UsageError, ConfigInvalid."""
    address, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--bind takes ADDRESS:PORT, not '{bind}'")
    name = address.removeprefix("[").removesuffix("]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((name, int(port)))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise ConfigInvalid(bind, reason=error.strerror or str(error)) from error
    return listening


def announce(listening: socket.socket) -> None:
    """One line that says where, for whoever let us choose the port."""
    host, port = listening.getsockname()[:2]
    sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={host}:{port}\n")
    sys.stdout.flush()


def make_server(host: Host) -> uvicorn.Server:
    config = uvicorn.Config(
        build_app(host),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    return uvicorn.Server(config)


def answer_from(host: Host, listening: socket.socket) -> None:
    """Answer requests in this process, until SIGTERM or SIGINT; then finish what is under way."""
    server = make_server(host)

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, host.try_reload))
        await server.serve(sockets=[listening])

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(answer())
