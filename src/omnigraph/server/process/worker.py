"""One worker process of a server: the `supervisor` starts it with its socket and settings."""

import logging
import os
import signal
import socket
import sys
from pathlib import Path

from omnigraph.errors import OmnigraphError
from omnigraph.server.process.run import answer_from
from omnigraph.server.process.supervisor import FLAGS
from omnigraph.server.runtime.config_broadcast import ConfigBroadcast
from omnigraph.server.runtime.state import ServerRuntime
from omnigraph.server.telemetry.logs import start_logging

logger = logging.getLogger(__name__)


def main(crew: str, descriptor: str, generations: str, flags: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the crew, which passes it on
    start_logging()
    try:
        host = ServerRuntime(
            FLAGS.validate_json(flags), os.environ, ConfigBroadcast(Path(generations))
        )
    except OmnigraphError as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400 - it is told whole
        sys.exit(1)
    with socket.socket(fileno=int(descriptor)) as listening:
        answer_from(host, listening, crew=int(crew))


if __name__ == "__main__":
    main(*sys.argv[1:])
