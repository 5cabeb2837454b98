"""Full-text clauses and rank functions over one table of a snapshot.

`match` answers a text clause with ids. `rank` answers a rank function with ids and scores, best
first. Both consider only the given candidates, before the best are taken. Both give the same answer
with an index, without one, and with an index that covers part of the table. A text is scored
against the whole table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import Vector
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Operand, TextFunction
from omnigraph.engine.search.analysis import terms_of
from omnigraph.engine.search.kept_texts import KEPT_TEXTS, KeptTexts
from omnigraph.engine.search.texts import INDEX_ROW_COST, SCAN_ROWS_MAX, TextColumn
from omnigraph.engine.search.vectors import Vectors, both, id_in
from omnigraph.engine.tables import filters
from omnigraph.engine.tables.memory import Memory
from omnigraph.engine.tables.metered import Metered
from omnigraph.errors import EmbedderMissing
from omnigraph.storage.mapped import MappedFiles
from omnigraph.storage.tables import Handle, ScanRequest, Tables

EDITS_DEFAULT: Final = 2

TRIED_MAX: Final = filters.VALUES_MAX
"""How many of the best matches are checked against a filter before all matches are."""

FUSING: Final = 200
"""The bytes per ranked id while rankings are fused."""

ValueOf = Callable[[Operand], object]
"""The value of a constant or a parameter."""

EmbedText = Callable[[str, int, str | None], Sequence[float]]
"""Embeds a text as a vector of so many dimensions, with the model that the property names."""


def refuse(text: str, dimension: int, model: str | None) -> Sequence[float]:  # noqa: ARG001
    """The embedder of a graph without a provider."""
    raise EmbedderMissing("nothing", reason="no provider was given")


@dataclass(frozen=True, slots=True)
class SearchedTable:
    """One table of the snapshot, and the memory budget of the search."""

    tables: Tables
    handle: Handle
    type: NodeType | EdgeType
    memory: Memory = field(default_factory=Memory)

    @property
    def metered(self) -> Metered:
        return Metered(self.tables, self.handle, self.memory)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows to consider: those that pass the filter and have one of these ids."""

    where: str | None = None
    ids: "pa.Array[Any] | None" = None
    passes: "Callable[[pa.Array[Any]], npt.NDArray[np.bool_]] | None" = None
    """Tells of some ids whether they pass the filter, if that is known without a read."""


EVERY_ROW: Final = Candidates()


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The embedder, the cache and the limits of a search."""

    embed: EmbedText = refuse
    scan_rows_max: int = SCAN_ROWS_MAX
    kept: KeptTexts = KEPT_TEXTS
    tried_max: int = TRIED_MAX
    mapped: MappedFiles | None = None
    index_row_cost: int = INDEX_ROW_COST

    def texts(self, table: Metered, column: str) -> TextColumn:
        return TextColumn(
            table, column, self.scan_rows_max, self.kept, self.mapped, self.index_row_cost
        )


DEFAULT_OPTIONS: Final = SearchOptions()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first, ties by id. The score of `nearest` is a distance: less is better."""

    ids: "pa.Array[Any]"
    scores: "pa.Array[Any]"

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.scores.nbytes

    def first(self, count: int | None) -> "Ranking":
        return self if count is None else Ranking(self.ids[:count], self.scores[:count])


NOTHING: Final = Ranking(pa.array([], pa.string()), pa.array([], pa.float64()))


def match(
    searched: SearchedTable,
    predicate: ir.TextMatch,
    value_of: ValueOf,
    candidates: Candidates = EVERY_ROW,
    *,
    options: SearchOptions = DEFAULT_OPTIONS,
) -> "pa.Array[Any]":
    """The ids of the candidates for which a text clause is true, unordered.

    Raises QueryMemoryExceeded.
    """
    query = value_of(predicate.query)
    if not isinstance(query, str):
        return NOTHING.ids
    table = searched.metered
    texts = options.texts(table, predicate.target.name)
    terms = terms_of(query)
    if not terms:
        return NOTHING.ids
    match predicate.function:
        case TextFunction.SEARCH | TextFunction.MATCH_TEXT:
            found = texts.holding(query, terms)
        case TextFunction.FUZZY:
            edits = EDITS_DEFAULT
            if predicate.max_edits is not None:
                given = value_of(predicate.max_edits)
                if not isinstance(given, int):
                    return NOTHING.ids
                edits = given
            found = texts.alike(query, terms, edits)
        case _:
            assert_never(predicate.function)
    return found.filter(_is_candidate(table, found, candidates))


def rank(
    searched: SearchedTable,
    by: ir.Rank,
    value_of: ValueOf,
    candidates: Candidates = EVERY_ROW,
    keep: int | None = None,
    *,
    options: SearchOptions = DEFAULT_OPTIONS,
) -> Ranking:
    """The best candidates by a rank function, at most `keep` of them.

    Raises QueryMemoryExceeded, and EmbeddingError if a query text cannot be embedded.
    """
    ranker = _Ranker(searched.metered, searched.type, value_of, candidates, options)
    return ranker.rank(by, keep).first(keep)


@dataclass(frozen=True, slots=True)
class _Ranker:
    """Computes one ranking. A result may be longer than `keep`."""

    table: Metered
    type: NodeType | EdgeType
    value_of: ValueOf
    candidates: Candidates
    options: SearchOptions

    def rank(self, by: ir.Rank, keep: int | None) -> Ranking:
        match by:
            case ir.Nearest():
                return self._rank_vectors(by, keep)
            case ir.Bm25():
                return self._rank_texts(by, keep)
            case ir.Rrf(first, second, k):
                constant = self.value_of(k)
                assert isinstance(constant, int)
                return self._fuse(self._rank_arms((first, second), keep), constant)
            case _:
                assert_never(by)

    # text

    def _rank_texts(
        self, by: ir.Bm25, keep: int | None, others: "Sequence[pa.Array[Any]]" = ()
    ) -> Ranking:
        """All matches, or at least the best; all if a match is also in `others`."""
        query = self.value_of(by.query)
        if not isinstance(query, str) or not (terms := terms_of(query)):
            return NOTHING
        texts = self.options.texts(self.table, by.target.name)
        ids, scores = texts.score(query, terms)
        if keep is not None and not _have_common(ids, others):
            best = self._try_best(ids, scores, keep)
            if best is not None:
                return best
        is_candidate = _is_candidate(self.table, ids, self.candidates)
        return self._sort(ids.filter(is_candidate), scores.filter(is_candidate), "descending")

    def _try_best(self, ids: "pa.Array[Any]", scores: "pa.Array[Any]", keep: int) -> Ranking | None:
        """The best candidates, if enough of the best matches are candidates; else None."""
        found = scores.to_numpy()
        tried = self.options.tried_max
        is_part = len(found) > tried
        if is_part:
            last = np.partition(found, len(found) - tried)[len(found) - tried]
            # Rows of equal score are taken together or not at all, because ids order them.
            places: Any = pa.array(np.flatnonzero(found > last))
            ids, scores = ids.take(places), scores.take(places)
        is_candidate = _is_candidate(self.table, ids, self.candidates)
        if is_part and is_candidate.true_count < keep:
            return None
        return self._sort(ids.filter(is_candidate), scores.filter(is_candidate), "descending")

    # vectors

    def _rank_vectors(self, by: ir.Nearest, keep: int | None) -> Ranking:
        vector = _vector(self.type, by, self.value_of(by.query), self.options.embed)
        if vector is None:
            return NOTHING
        vectors = Vectors(self.table, by.target.name)
        where = self.candidates.where
        if self.candidates.ids is not None:
            ids, distances = vectors.among(vector, where, self.candidates.ids, keep)
        elif keep is None:
            ids, distances = vectors.all(vector, where)
        else:
            ids, distances = vectors.nearest(vector, where, keep)
        return self._sort(ids, pa.array(distances), "ascending").first(keep)

    # both

    def _rank_arms(
        self, arms: tuple[ir.Nearest | ir.Bm25, ir.Nearest | ir.Bm25], keep: int | None
    ) -> tuple[Ranking, ...]:
        """A `nearest` arm keeps `keep` rows, a text arm all its matches.

        Only the best `keep` matches of a text arm can win by themselves. A lower match counts only
        if the other arm contains it too; for a vector arm this is known before the text arm runs.
        """
        near = [
            self._rank_vectors(arm, keep) if isinstance(arm, ir.Nearest) else None for arm in arms
        ]
        others = [each.ids for each in near if each is not None]
        return tuple(
            self._rank_texts(arm, keep if others else None, others)
            if isinstance(arm, ir.Bm25)
            else (each or NOTHING)
            for arm, each in zip(arms, near, strict=True)
        )

    def _fuse(self, arms: Sequence[Ranking], k: int) -> Ranking:
        """Reciprocal rank fusion. Ties keep the order of the first arm, then of the second."""
        self.table.check(FUSING * sum(len(each.ids) for each in arms))
        scores: dict[str, float] = {}
        for arm in arms:
            for place, each in enumerate(map(str, arm.ids.to_pylist()), start=1):
                scores[each] = scores.get(each, 0.0) + 1 / (k + place)
        # The dict keeps the ids in the order for ties, and the sort is stable.
        best = sorted(scores.items(), key=lambda item: -item[1])
        return Ranking(
            pa.array([each for each, _ in best], pa.string()),
            pa.array([score for _, score in best], pa.float64()),
        )

    def _sort(
        self,
        ids: "pa.Array[Any]",
        scores: "pa.Array[Any]",
        order: Literal["ascending", "descending"],
    ) -> Ranking:
        self.table.check(2 * (ids.nbytes + scores.nbytes))
        rows = pa.table({"id": ids, "score": scores})
        places = pc.sort_indices(rows, sort_keys=[("score", order), ("id", "ascending")])
        return Ranking(ids.take(places), scores.take(places))


def _have_common(ids: "pa.Array[Any]", others: "Sequence[pa.Array[Any]]") -> bool:
    return any(pc.is_in(each, value_set=ids).true_count for each in others)


def _is_candidate(table: Metered, ids: "pa.Array[Any]", candidates: Candidates) -> pa.BooleanArray:
    """For each id, whether it is a candidate."""
    mask = pa.array(np.ones(len(ids), dtype=np.bool_), pa.bool_())
    if candidates.ids is not None:
        mask = pc.is_in(ids, value_set=candidates.ids.cast(pa.string()))
    if candidates.where is None or not len(ids):
        return mask
    where = candidates.where
    if len(ids) <= filters.VALUES_MAX:
        if candidates.passes is not None:
            return pc.and_(mask, pa.array(candidates.passes(ids), pa.bool_()))
        where = both(where, id_in(ids))
    with table.meanwhile():
        passed = table.read(ScanRequest(("id",), where))["id"].combine_chunks()
        return pc.and_(mask, pc.is_in(ids, value_set=passed.cast(pa.string())))


def _vector(
    type_: NodeType | EdgeType, by: ir.Nearest, query: object, embed: EmbedText
) -> Sequence[float] | None:
    if isinstance(query, str):
        base = by.target.type.base
        assert isinstance(base, Vector), "the checker lets nearest have vectors only"
        declared = type_.find(by.target.name)
        source = None if declared is None else declared.embed
        return embed(query, base.dimension, None if source is None else source.model)
    return [float(each) for each in query] if isinstance(query, tuple | list) else None
