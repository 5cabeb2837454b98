"""One worker: `python -m omnigraph.server.worker SOCKET GENERATIONS FLAGS`, started by `crew`."""

import logging
import os
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


def main(descriptor: str, generations: str, flags: str) -> None:
    crew = os.getppid()
    start_logging()
    try:
        host = Host(FLAGS.validate_json(flags), os.environ, Generations(Path(generations)))
    except OmnigraphError as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400 - it is told whole
        sys.exit(1)
    with socket.socket(fileno=int(descriptor)) as listening:
        answer_from(host, listening, crew=crew)


if __name__ == "__main__":
    main(*sys.argv[1:])
