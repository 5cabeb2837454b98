"""A Spark Connect server of this user on this machine: started once, used by many processes.

Starting Spark takes longer than most loads. A client of a running server needs no Java process of
its own. The server listens on this machine only, and runs workers with the Python that started it,
so they find this package. A record in the user's folder names the process; the record counts only
if the process still is that server.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyspark

from omnigraph.commit.leases.owner import Owner, find_process, is_dead
from omnigraph.effects import REAL
from omnigraph.errors import SparkUnusable
from omnigraph.jsontext import read_json
from omnigraph.pipeline.settings import LOCAL
from omnigraph.pipeline.spark.class_archive import archive_options
from omnigraph.pipeline.spark.java import cache_folder, find_java
from omnigraph.pipeline.spark.session import CONNECT_PORT, tail_of, tuned

_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS_MAX: Final = 180
_STOP_SECONDS_MAX: Final = 30
_STEP_MS: Final = 100


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server that runs."""

    owner: Owner
    port: int
    folder: str

    @property
    def address(self) -> str:
        return f"sc://localhost:{self.port}"

    @property
    def log(self) -> Path:
        return Path(self.folder) / "server.log"


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the record is, and all the server writes."""
    above = environment.get("XDG_RUNTIME_DIR")
    home = Path(above) / "omnigraph" if above and Path(above).is_dir() else cache_folder()
    return home / "connect"


def find_server(folder: Path | None = None) -> ConnectServer | None:
    """The server that is up, the user's or that of a folder; None if there is none."""
    record = (folder or state_folder()) / "server.json"
    try:
        document = read_json(record.read_text(encoding="utf-8"))
        found = ConnectServer(Owner(**document["owner"]), document["port"], document["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if is_dead(found.owner) or not _answers(found.port) else found


def start_server(
    port: int = CONNECT_PORT, *, master: str = LOCAL, folder: Path | None = None
) -> ConnectServer:
    """The server that is up, or a new one that answers. Raises JavaMissing, SparkUnusable."""
    folder = folder or state_folder()
    found = find_server(folder)
    if found is not None:
        return found
    stop_server(folder)  # one that runs and does not answer
    if _answers(port):
        raise SparkUnusable(f"port {port} of this machine is taken, by something else")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    process = _launch(folder, port, master)
    server = ConnectServer(find_process(process.pid), port, str(folder))
    record = {**asdict(server)}
    (folder / "server.json").write_text(json.dumps(record), encoding="utf-8")
    try:
        _await(process, server)
    except BaseException:
        stop_server(folder)
        raise
    return server


def _launch(folder: Path, port: int, master: str) -> "subprocess.Popen[bytes]":
    options = ["-XX:+UseSerialGC", *archive_options(find_java())]
    configuration = {
        **tuned(folder, options),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    home = Path(pyspark.__file__).parent
    words = [str(home / "bin" / "spark-submit"), "--class", _CLASS, "--master", master]
    words += ["--name", "omnigraph"]
    for name, value in configuration.items():
        words += ["--conf", f"{name}={value}"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
    }
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - Spark's own program
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives us, and a Ctrl-C is not meant for it
        )


def _await(process: "subprocess.Popen[bytes]", server: ConnectServer) -> None:
    """Raises SparkUnusable."""
    until = REAL.monotonic_ms() + 1_000 * _START_SECONDS_MAX
    while not _answers(server.port):
        if process.poll() is not None:
            raise SparkUnusable(f"the server ended at once: {tail_of(server.log)}")
        if REAL.monotonic_ms() > until:
            raise SparkUnusable(f"the server did not answer; see {server.log}")
        REAL.sleep_ms(_STEP_MS)


def stop_server(folder: Path | None = None) -> bool:
    """End the server, whether or not it answers; False if there was none."""
    folder = folder or state_folder()
    record = folder / "server.json"
    try:
        document = read_json(record.read_text(encoding="utf-8"))
        owner = Owner(**document["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    was_alive = not is_dead(owner)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = REAL.monotonic_ms() + 1_000 * _STOP_SECONDS_MAX
        if not is_dead(owner):
            os.kill(owner.pid, number)
        while not is_dead(owner) and REAL.monotonic_ms() < until:
            _reap(owner.pid)
            REAL.sleep_ms(_STEP_MS)
    shutil.rmtree(folder, ignore_errors=True)
    return was_alive


def _reap(pid: int) -> None:
    """A child of this process stays a zombie until it is waited for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
