"""Who turns the texts that `nearest` is given into vectors.

Without settings of its own a graph takes those of the environment, and looks at them again for
every text: they may be set after it was opened.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from omnigraph.effects import Effects
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.settings import EmbedSettings, read_settings


@dataclass
class Embedding:
    """The embedder of one graph. Safe to share among threads."""

    settings: EmbedSettings | None
    effects: Effects
    _embedder: Embedder | None = None
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, text: str, dimension: int, model: str | None) -> Sequence[float]:
        """Raises ConfigInvalid, EmbeddingModelMismatch, EmbedderMissing, EmbeddingFailed."""
        return self._current().embed(text, dimension, model)

    def _current(self) -> Embedder:
        settings = self.settings or read_settings(os.environ)
        with self._lock:
            if self._embedder is None or self._embedder.settings != settings:
                self._embedder = Embedder(settings, effects=self.effects)
            return self._embedder
