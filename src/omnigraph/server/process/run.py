"""Running a server: listen, then answer in this process, or supervise workers that answer."""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import uvicorn

from omnigraph.errors import ConfigInvalid, UsageError
from omnigraph.server.app import build_app
from omnigraph.server.process.connection import connection_type
from omnigraph.server.process.supervisor import GRACE_S, STOPS, SignalCounts, Supervisor
from omnigraph.server.runtime import shared_spark
from omnigraph.server.runtime.config_broadcast import ConfigBroadcast
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime
from omnigraph.server.telemetry import metrics
from omnigraph.server.telemetry.logs import start_logging

WATCH_S = 0.5
"""How often a worker looks for a new configuration, and for its supervisor."""


def serve(flags: Flags, *, workers: int = 1, environment: Mapping[str, str] = os.environ) -> None:
    """Serve until a stop signal. Raises the errors of a wrong configuration."""
    start_logging()
    if workers == 1:
        runtime = ServerRuntime(flags, environment)
        with listen(runtime.current.settings.bind) as listening:
            announce(listening)
            answer_from(runtime, listening)
        return
    # This runtime answers no request. It checks whether a configuration can be served.
    runtime = ServerRuntime(flags, environment)
    with listen(runtime.current.settings.bind) as listening:
        signals = SignalCounts()
        signals.install()
        with tempfile.TemporaryDirectory(prefix="omnigraph-server-") as folder:
            broadcast = ConfigBroadcast(Path(folder) / "configuration")
            runtime.share(broadcast)
            spark = Path(folder) / "spark"
            shared = {**environment, metrics.SHARED: folder, shared_spark.SHARED: str(spark)}
            announce(listening)
            try:
                Supervisor(flags, broadcast, listening, shared, signals).run(workers, runtime)
            finally:
                shared_spark.stop_spark(spark)


def listen(bind: str) -> socket.socket:
    """Raises UsageError, ConfigInvalid."""
    address, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--bind takes ADDRESS:PORT, not '{bind}'")
    name = address.removeprefix("[").removesuffix("]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # asyncio sets TCP_NODELAY only on a socket whose protocol is IPPROTO_TCP. Without it, the body
    # of an answer waits up to 40 ms for the acknowledgement of its headers.
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
    """Print the address: with port 0 the kernel chose it."""
    host, port = listening.getsockname()[:2]
    sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={host}:{port}\n")
    sys.stdout.flush()


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: a signal between two owners would be lost."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(runtime: ServerRuntime) -> HttpServer:
    config = uvicorn.Config(
        build_app(runtime),
        loop="uvloop",
        http=connection_type(lambda: runtime.current.settings.limits.body_timeout_s),
        ws="none",
        proxy_headers=False,  # nothing depends on where a caller sits
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=runtime.current.settings.limits.drain_s,
    )
    return HttpServer(config)


def answer_from(
    runtime: ServerRuntime, listening: socket.socket, *, supervisor_pid: int | None = None
) -> None:
    """Answer requests in this process until SIGTERM or SIGINT; then finish those under way.

    `supervisor_pid` is the supervisor of a worker; a worker whose supervisor died stops. A server
    of one process has none: the shell that started it may end.
    """
    server = make_server(runtime)

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler
        _stop(server, runtime.current.settings.limits.drain_s, is_worker=supervisor_pid is not None)

    for each in STOPS if supervisor_pid is None else [signal.SIGTERM]:
        signal.signal(each, stop)

    def is_orphan() -> bool:
        return supervisor_pid is not None and os.getppid() != supervisor_pid

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGHUP, lambda: loop.run_in_executor(None, runtime.try_reload)
        )
        watching = asyncio.create_task(_watch(runtime, server, is_orphan))
        if not server.should_exit:  # a signal may have arrived before
            await server.serve(sockets=[listening])
        watching.cancel()

    # Everything imported by now stays; the garbage collector need not look at it again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(answer())
        runtime.jobs.close(runtime.current.settings.limits.drain_s)
        if is_orphan() and (spark := os.environ.get(shared_spark.SHARED)):
            shared_spark.stop_spark(Path(spark))  # the supervisor is gone
        signal.alarm(GRACE_S)  # abandoned requests may still run in their threads


def _stop(server: HttpServer, drain_s: int, *, is_worker: bool) -> None:
    """The first signal starts the shutdown. The second ends the process at once; a worker ignores
    it, because its supervisor gets the same signal and decides.
    """
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN if is_worker else signal.SIG_DFL)
    server.config.timeout_graceful_shutdown = drain_s
    server.should_exit = True
    # Requests have the drain time, then jobs. After that the kernel ends the process, even if a
    # thread holds the interpreter's lock.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(2 * drain_s + GRACE_S)


async def _watch(
    runtime: ServerRuntime, server: uvicorn.Server, is_orphan: Callable[[], bool]
) -> None:
    """Follow the configuration of the other workers; stop if the supervisor is gone."""
    while not server.should_exit:
        await asyncio.sleep(WATCH_S)
        await asyncio.to_thread(runtime.follow)
        if is_orphan():
            os.kill(os.getpid(), signal.SIGTERM)
