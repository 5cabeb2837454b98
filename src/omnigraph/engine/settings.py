"""How a graph is opened. The defaults suit a directory on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from omnigraph.commit.leases import DEFAULT_TIMING, Timing
from omnigraph.effects import REAL, Effects
from omnigraph.storage.durability import Durability


@dataclass(frozen=True, slots=True)
class Settings:
    storage_options: Mapping[str, str] = field(default_factory=dict)
    durability: Durability = Durability.DURABLE
    maintenance: bool = True
    """Do writers tidy up after themselves? See `upkeep`."""
    timing: Timing = DEFAULT_TIMING
    effects: Effects = REAL


DEFAULTS: Final = Settings()
