"""How workers learn that there is another configuration: a file they share holds it (D23).

Its first line is a number that only rises, so that looking for news costs next to nothing; the rest
is the configuration of that number. The file is replaced as a whole, by one worker at a time.
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
    """In a folder that nobody else may read."""

    def find_newest(self) -> int:
        """The number of the configuration in force; 0 before there is one."""
        try:
            with self.path.open("rb") as file:
                return int(file.readline())
        except FileNotFoundError:
            return 0

    def read(self) -> tuple[int, Configuration]:
        """The configuration in force, and its number. There must be one."""
        number, _, document = self.path.read_bytes().partition(b"\n")
        return int(number), _FORMAT.validate_json(document)

    def announce(self, configuration: Configuration) -> int:
        """Put a configuration in force for all workers; its number. Only `alone`."""
        number = self.find_newest() + 1
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(b"%d\n%s" % (number, _FORMAT.dump_json(configuration)))
        fresh.replace(self.path)
        return number

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Among all workers, from reading files to announcing what they say.

        What was read first would otherwise be announced last now and then, and stay in force.
        """
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
