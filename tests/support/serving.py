"""A real server on a port of its own, in a thread of this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

from omnigraph.effects import REAL
from omnigraph.server.process.run import listen, make_server
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    runtime: ServerRuntime


@contextmanager
def running(flags: Flags, environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Serve until the block ends."""
    runtime = ServerRuntime(flags, environment or {})
    with listen("127.0.0.1:0") as listening:
        server = make_server(runtime)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            REAL.sleep_ms(5)
        try:
            yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", runtime)
        finally:
            server.should_exit = True
            thread.join(120)
            runtime.jobs.close()
