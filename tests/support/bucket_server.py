"""A bucket in a process of its own: it serves many clients, and outlives those that are killed."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

BUCKET = "graphs"


def main() -> None:
    """Serve until the process that started this one closes the pipe, or dies."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    create = urllib.request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")
    urllib.request.urlopen(create).close()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


@contextmanager
def serving_bucket() -> Iterator[Mapping[str, str]]:
    """The storage options of a bucket that another process serves."""
    command = [sys.executable, "-m", __name__]
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": ":".join(each for each in sys.path if each)},
        text=True,
    )
    try:
        assert child.stdout is not None
        yield {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_endpoint": child.stdout.readline().strip(),
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
    finally:
        child.kill()
        child.communicate()


if __name__ == "__main__":
    main()
