"""How workers learn that there is another configuration: a number in a file they share (D23)."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GenerationFile:
    path: Path

    def read(self) -> int:
        try:
            return int(self.path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0

    def bump(self) -> int:
        """Say that there is a newer one; its number."""
        number = self.read() + 1
        fresh = self.path.with_suffix(".new")
        fresh.write_text(str(number), encoding="ascii")
        fresh.replace(self.path)
        return number
