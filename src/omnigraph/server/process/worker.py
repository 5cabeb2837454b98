"""The main program of a worker process; the supervisor passes its socket and its flags."""

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


def main(supervisor_pid: str, descriptor: str, broadcast: str, flags: str) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all processes; the supervisor decides
    start_logging()
    try:
        runtime = ServerRuntime(
            FLAGS.validate_json(flags), os.environ, ConfigBroadcast(Path(broadcast))
        )
    except OmnigraphError as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400 - the message is complete
        sys.exit(1)
    with socket.socket(fileno=int(descriptor)) as listening:
        answer_from(runtime, listening, supervisor_pid=int(supervisor_pid))


if __name__ == "__main__":
    main(*sys.argv[1:])
