"""Who is asked for text and vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.compiler import ir
from omnigraph.compiler.ir import Operand
from omnigraph.engine.search import ranking
from omnigraph.engine.search.ranking import (
    Candidates,
    Embedder,
    Ranking,
    SearchedTable,
    SearchOptions,
)
from omnigraph.engine.search.texts import KeptTexts
from omnigraph.engine.tables.arrays import Array

ValueOf = Callable[[Operand], object]


@dataclass(frozen=True, slots=True)
class SearchProvider:
    match: Callable[[SearchedTable, ir.TextMatch, ValueOf, Candidates], Array]
    """The ids of the candidates for which a text clause is true."""
    rank: Callable[[SearchedTable, ir.Rank, ValueOf, Candidates, int | None], Ranking]
    """The candidates that a rank function keeps, best first; at most so many."""


def search_provider(embed: Embedder, *, kept_bytes_max: int) -> SearchProvider:
    """The tables themselves, and this embedder for texts that have to become vectors."""
    options = SearchOptions(embed=embed, kept=KeptTexts(kept_bytes_max))
    return SearchProvider(
        partial(ranking.match, options=options), partial(ranking.rank, options=options)
    )


WITHOUT_EMBEDDER: Final = SearchProvider(ranking.match, ranking.rank)
"""The tables themselves, without an embedder."""
