"""Who is asked for text and vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.compiler import ir
from omnigraph.compiler.ir import Operand
from omnigraph.engine.search import ranking
from omnigraph.engine.search.ranking import Candidates, Embedder, Means, Ranking, Searched
from omnigraph.engine.search.texts import KeptTexts
from omnigraph.engine.tables.arrays import Array

ValueOf = Callable[[Operand], object]


@dataclass(frozen=True, slots=True)
class Searching:
    match: Callable[[Searched, ir.TextMatch, ValueOf, Candidates], Array]
    """The ids of the candidates for which a text clause is true."""
    rank: Callable[[Searched, ir.Rank, ValueOf, Candidates, int | None], Ranking]
    """The candidates that a rank function keeps, best first; at most so many."""


def searching_with(embed: Embedder, *, kept_bytes_max: int) -> Searching:
    """The tables themselves, and this embedder for texts that have to become vectors."""
    means = Means(embed=embed, kept=KeptTexts(kept_bytes_max))
    return Searching(partial(ranking.match, means=means), partial(ranking.rank, means=means))


INDEXES: Final = Searching(ranking.match, ranking.rank)
"""The tables themselves, without an embedder."""
