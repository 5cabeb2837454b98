"""The configuration that all workers serve: a file that they share (D23, ADR 21).

The first line is a number that only rises, so a worker notices a new configuration by reading one
line. The rest is the configuration as JSON. One worker at a time replaces the file, as a whole.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from omnigraph.server.runtime.configuration import Configuration

_FORMAT: Final = TypeAdapter(Configuration)


@dataclass(frozen=True, slots=True)
class ConfigBroadcast:
    path: Path
    """In a folder that only the user of the server may read."""

    def find_newest(self) -> int:
        """The number of the current configuration; 0 before the first one."""
        try:
            with self.path.open("rb") as file:
                return int(file.readline())
        except FileNotFoundError:
            return 0

    def read(self) -> tuple[int, Configuration]:
        """The current configuration and its number. There must be one."""
        number, _, document = self.path.read_bytes().partition(b"\n")
        return int(number), _FORMAT.validate_json(document)

    def announce(self, configuration: Configuration) -> int:
        """Make a configuration current for all workers; its number. The caller holds `alone`."""
        number = self.find_newest() + 1
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(b"%d\n%s" % (number, _FORMAT.dump_json(configuration)))
        fresh.replace(self.path)
        return number

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A lock among all workers, held from reading the files to announcing them.

        Without it, a worker that read the files first could announce them last, and all workers
        would keep an old configuration.
        """
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
