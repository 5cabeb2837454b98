"""How a graph is opened. The defaults suit a directory on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from omnigraph.commit.context import UNMETERED, Meter
from omnigraph.commit.leases.lease import DEFAULT_TIMING, Timing
from omnigraph.effects import REAL, Effects
from omnigraph.embed.settings import EmbedSettings
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import CACHE_BYTES_MAX, ManifestSwap


class AccessMode(StrEnum):
    """How reads reach tables."""

    AUTO = "auto"
    """Whichever costs less."""
    RESIDENT = "resident"
    """Whole columns, and adjacencies of all edges, in memory."""
    INDEXED = "indexed"
    """By the indexes of the tables, and by scans with filters."""


@dataclass(frozen=True, slots=True)
class Settings:
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As the caller gave them; each process resolves them with its own environment."""
    durability: Durability = Durability.DURABLE
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL
    storage_cache_bytes_max: int = CACHE_BYTES_MAX
    """What is kept of manifests, footers and index pages."""
    maintenance: bool = True
    """Do writers tidy up after themselves? See `upkeep`."""
    group: bool = True
    """Do writes that wait for each other share one attempt? See `engine.write.write_queue`."""
    query_access: AccessMode = AccessMode.AUTO
    query_memory_bytes_max: int = 2 << 30
    """What one read may hold at a time, beside what is cached."""
    query_cache_bytes_max: int = 1 << 30
    """Columns and adjacencies that reads of this process share; a quarter more for texts."""
    query_hops_max: int = 1_000
    """How far a traversal without an upper bound walks, as in `knows{1,}`."""
    embedding: EmbedSettings | None = None
    """Who embeds the texts of queries; None: whom the environment names."""
    timing: Timing = DEFAULT_TIMING
    meter: Meter = UNMETERED
    """Told of waits and recoveries, for whoever counts them."""
    effects: Effects = REAL


DEFAULTS: Final = Settings()

# Defaults that signatures name; reading them must not import loads and change feeds.

ERRORS_MAX: Final = 100
"""How many faults a load reports, unless the request says otherwise."""
COMMITS_DEFAULT: Final = 128
"""How many commits one poll of the change feed reads."""
CHANGES_DEFAULT: Final = 1_000
"""How many changes one page of the change feed holds."""
