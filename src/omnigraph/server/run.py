"""Running a server: one process that listens, and one or several that answer.

The listening socket is opened once. With one worker this very process answers; with several, each
is a fresh interpreter that inherits the socket, and this process only watches: it starts another
for one that dies, passes signals on, and has them all read their configuration again.
"""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from omnigraph.errors import ConfigInvalid, UsageError
from omnigraph.server import metrics, sparks
from omnigraph.server.app import build_app
from omnigraph.server.connection import connection_type
from omnigraph.server.crew import DRAIN_S, Crew
from omnigraph.server.generations import Generations
from omnigraph.server.logs import start_logging
from omnigraph.server.serving import Host
from omnigraph.server.settings import Flags

WATCH_S = 0.5
"""How soon a worker notices what another one was told."""


def serve(flags: Flags, *, workers: int = 1, environment: Mapping[str, str] = os.environ) -> None:
    """Serve until told to stop. Raises what a bad configuration raises."""
    start_logging()
    if workers == 1:
        host = Host(flags, environment)
        with listen(host.current.settings.bind) as listening:
            announce(listening)
            answer_from(host, listening)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-server-") as folder:
        generations = Generations(Path(folder) / "configuration")
        # Nobody asks this host anything. It finds out whether a configuration can be used.
        host = Host(flags, environment, generations)
        with listen(host.current.settings.bind) as listening:
            spark = Path(folder) / "spark"
            shared = {**environment, metrics.SHARED: folder, sparks.SHARED: str(spark)}
            crew = Crew(flags, generations.path, listening, shared)
            announce(listening)
            try:
                crew.run(workers, host)
            finally:
                sparks.stop_spark(spark)


def listen(bind: str) -> socket.socket:
    """Raises UsageError, ConfigInvalid."""
    address, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--bind takes ADDRESS:PORT, not '{bind}'")
    name = address.removeprefix("[").removesuffix("]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # Only of a socket that says it is TCP does asyncio send small pieces at once. The body of an
    # answer would wait for the caller's kernel to confirm the headers, which takes it 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((name, int(port)))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another program listens there; name another with --bind"
        raise ConfigInvalid(bind, reason=reason) from error
    return listening


def announce(listening: socket.socket) -> None:
    """One line that says where, for whoever let us choose the port."""
    host, port = listening.getsockname()[:2]
    sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={host}:{port}\n")
    sys.stdout.flush()


def make_server(host: Host) -> uvicorn.Server:
    config = uvicorn.Config(
        build_app(host),
        loop="uvloop",
        http=connection_type(lambda: host.current.settings.limits.body_timeout_s),
        ws="none",
        proxy_headers=False,  # nothing depends on where a caller sits
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    return uvicorn.Server(config)


def answer_from(host: Host, listening: socket.socket, *, crew: int | None = None) -> None:
    """Answer requests in this process, until SIGTERM or SIGINT; then finish what is under way.

    `crew` is the process that watches over a worker. A server of one process depends on nobody:
    the shell that started it may go.
    """
    server = make_server(host)
    # uvicorn passes on what it was told once it has drained, and jobs may still be running then.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def is_orphan() -> bool:
        return crew is not None and os.getppid() != crew

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, host.try_reload))
        watching = asyncio.create_task(_watch(host, server, is_orphan))
        await server.serve(sockets=[listening])
        watching.cancel()

    # What is there by now stays, and need not be looked at whenever garbage is searched for.
    gc.collect()
    gc.freeze()
    with (
        contextlib.suppress(KeyboardInterrupt),
        asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
    ):
        runner.run(answer())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    host.jobs.close(DRAIN_S)
    if is_orphan() and (spark := os.environ.get(sparks.SHARED)):
        sparks.stop_spark(Path(spark))  # nobody else is left to do it


async def _watch(host: Host, server: uvicorn.Server, is_orphan: Callable[[], bool]) -> None:
    """Follow the other workers; and stop when nobody is left who would start us again."""
    while not server.should_exit:
        await asyncio.sleep(WATCH_S)
        await asyncio.to_thread(host.follow)
        if is_orphan():
            server.should_exit = True
