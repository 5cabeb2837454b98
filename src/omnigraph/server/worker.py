"""One worker: `python -m omnigraph.server.worker CREW SOCKET GENERATIONS FLAGS`; see `crew`."""

import logging
import os
import signal
import socket
import sys
from pathlib import Path

from omnigraph.errors import OmnigraphError
from omnigraph.server.crew import FLAGS
from omnigraph.server.generations import Generations
from omnigraph.server.logs import start_logging
from omnigraph.server.run import answer_from
from omnigraph.server.serving import Host

logger = logging.getLogger(__name__)


def main(crew: str, descriptor: str, generations: str, flags: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the crew, which passes it on
    start_logging()
    try:
        host = Host(FLAGS.validate_json(flags), os.environ, Generations(Path(generations)))
    except OmnigraphError as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400 - it is told whole
        sys.exit(1)
    with socket.socket(fileno=int(descriptor)) as listening:
        answer_from(host, listening, crew=int(crew))


if __name__ == "__main__":
    main(*sys.argv[1:])
