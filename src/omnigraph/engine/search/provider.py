"""What a query searches with: the match and rank functions, and the embedder of a graph.

A graph without embedding settings uses those of the environment. It reads the environment for every
text, because the variables may be set after the graph was opened.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final

from omnigraph.compiler import ir
from omnigraph.effects import Effects
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.settings import EmbedSettings, read_settings
from omnigraph.engine.search import ranking
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.ranking import (
    Candidates,
    EmbedText,
    Ranking,
    SearchedTable,
    SearchOptions,
    ValueOf,
)
from omnigraph.engine.tables.arrays import Array
from omnigraph.storage.mapped import MappedFiles


@dataclass(frozen=True, slots=True)
class SearchProvider:
    """Answers text clauses and rank functions."""

    match: Callable[[SearchedTable, ir.TextMatch, ValueOf, Candidates], Array]
    """The ids of the candidates for which a text clause is true."""
    rank: Callable[[SearchedTable, ir.Rank, ValueOf, Candidates, int | None], Ranking]
    """The best candidates by a rank function, best first, at most so many."""


def search_provider(
    embed: EmbedText, *, kept_bytes_max: int, mapped: MappedFiles | None
) -> SearchProvider:
    """Search the tables and their mapped files, and embed query texts with this embedder."""
    options = SearchOptions(embed=embed, kept=KeptTexts(kept_bytes_max), mapped=mapped)
    return SearchProvider(
        partial(ranking.match, options=options), partial(ranking.rank, options=options)
    )


WITHOUT_EMBEDDER: Final = SearchProvider(ranking.match, ranking.rank)
"""Search the tables, without an embedder."""


@dataclass
class GraphEmbedder:
    """Embeds the query texts of one graph. Safe to share among threads."""

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
