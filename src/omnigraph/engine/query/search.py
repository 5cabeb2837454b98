"""Full-text clauses and rankings over one table of a snapshot.

`match` answers a text clause with ids, `rank` a rank function with ids and scores, best first. Both
look only at the candidates they are given, which narrow a search before the best are taken, and
both answer alike with an index, without one, and with one that covers part of the table. Text is
scored against the whole table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import Vector
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Operand, TextFunction
from omnigraph.engine.query.analysis import terms_of
from omnigraph.engine.query.postings import Collection
from omnigraph.engine.query.texts import KEPT_TEXTS, SCAN_ROWS_MAX, KeptTexts, Texts
from omnigraph.engine.query.vectors import IDS_PER_FILTER_MAX, Vectors, both, id_in
from omnigraph.errors import EmbedderMissing
from omnigraph.storage.tables import Handle, ScanRequest, Tables

EDITS_DEFAULT: Final = 2

ValueOf = Callable[[Operand], object]
"""What a constant or a parameter stands for."""

Embedder = Callable[[str, int, str | None], Sequence[float]]
"""A text to a vector of so many dimensions, by the model the property was embedded with, if it
says so."""


def refuse(text: str, dimension: int, model: str | None) -> Sequence[float]:  # noqa: ARG001
    """The embedder of who has none."""
    raise EmbedderMissing("nothing", reason="no provider was given")


@dataclass(frozen=True, slots=True)
class Searched:
    """One table of the snapshot."""

    tables: Tables
    handle: Handle
    type: NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class Candidates:
    """Which rows count: those the filter lets through, and that have one of these ids."""

    where: str | None = None
    ids: "pa.Array[Any] | None" = None


EVERY_ROW: Final = Candidates()


@dataclass(frozen=True, slots=True)
class Means:
    """What a search may use, and how much of it."""

    embed: Embedder = refuse
    scan_rows_max: int = SCAN_ROWS_MAX
    kept: KeptTexts = KEPT_TEXTS

    def texts(self, searched: Searched, column: str) -> Texts:
        return Texts(searched.tables, searched.handle, column, self.scan_rows_max, self.kept)


USUAL: Final = Means()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first; equal scores by id. The score of `nearest` is a distance: less is better."""

    ids: "pa.Array[Any]"
    scores: "pa.Array[Any]"

    def first(self, count: int | None) -> "Ranking":
        return self if count is None else Ranking(self.ids[:count], self.scores[:count])


NOTHING: Final = Ranking(pa.array([], pa.string()), pa.array([], pa.float64()))


def match(
    searched: Searched,
    predicate: ir.TextMatch,
    value_of: ValueOf,
    candidates: Candidates = EVERY_ROW,
    *,
    means: Means = USUAL,
) -> "pa.Array[Any]":
    """The ids of the candidates for which a text clause is true, in no order."""
    query = value_of(predicate.query)
    if not isinstance(query, str):
        return NOTHING.ids
    texts = means.texts(searched, predicate.target.name)
    terms = terms_of(query)
    if not terms:
        return NOTHING.ids
    match predicate.function:
        case TextFunction.SEARCH | TextFunction.MATCH_TEXT:
            found = Collection(texts.matching(query)).holding(terms)
        case TextFunction.FUZZY:
            edits = EDITS_DEFAULT
            if predicate.max_edits is not None:
                given = value_of(predicate.max_edits)
                if not isinstance(given, int):
                    return NOTHING.ids
                edits = given
            found = Collection(texts.matching(query, edits_max=edits)).alike(terms, edits)
        case _:
            assert_never(predicate.function)
    return found.filter(_is_candidate(searched, found, candidates))


def rank(
    searched: Searched,
    by: ir.Rank,
    value_of: ValueOf,
    candidates: Candidates = EVERY_ROW,
    keep: int | None = None,
    *,
    means: Means = USUAL,
) -> Ranking:
    """The candidates that `by` keeps, at most `keep` of them.

    Raises an EmbeddingError when a text has to become a vector and cannot.
    """
    match by:
        case ir.Nearest():
            vector = _vector(searched.type, by, value_of(by.query), means.embed)
            return (
                NOTHING if vector is None else _rank_vectors(searched, by, vector, candidates, keep)
            )
        case ir.Bm25():
            return _rank_texts(searched, by, value_of, candidates, means).first(keep)
        case ir.Rrf(first, second, k):
            # A nearest arm keeps as many as the whole, a text arm all that match.
            one, other = (
                rank(
                    searched,
                    arm,
                    value_of,
                    candidates,
                    keep if isinstance(arm, ir.Nearest) else None,
                    means=means,
                )
                for arm in (first, second)
            )
            constant = value_of(k)
            assert isinstance(constant, int)
            return _fuse(one, other, constant).first(keep)
        case _:
            assert_never(by)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _rank_texts(
    searched: Searched,
    by: ir.Bm25,
    value_of: ValueOf,
    candidates: Candidates,
    means: Means,
) -> Ranking:
    query = value_of(by.query)
    if not isinstance(query, str) or not (terms := terms_of(query)):
        return NOTHING
    texts = means.texts(searched, by.target.name)
    ids, scores = texts.collection(query).score(terms)
    is_candidate = _is_candidate(searched, ids, candidates)
    return _sorted(ids.filter(is_candidate), scores.filter(is_candidate), "descending")


def _is_candidate(
    searched: Searched, ids: "pa.Array[Any]", candidates: Candidates
) -> "pa.Array[Any]":
    """For each of these ids of the table: is it a candidate?"""
    mask = pa.array(np.ones(len(ids), dtype=np.bool_))
    if candidates.ids is not None:
        mask = pc.is_in(ids, value_set=candidates.ids.cast(pa.string()))
    if candidates.where is None or not len(ids):
        return mask
    where = candidates.where
    if len(ids) <= IDS_PER_FILTER_MAX:
        where = both(where, id_in(ids))
    passed = searched.tables.read(searched.handle, ScanRequest(("id",), where))["id"]
    return pc.and_(mask, pc.is_in(ids, value_set=passed.combine_chunks().cast(pa.string())))


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


def _rank_vectors(
    searched: Searched,
    by: ir.Nearest,
    vector: Sequence[float],
    candidates: Candidates,
    keep: int | None,
) -> Ranking:
    vectors = Vectors(searched.tables, searched.handle, by.target.name)
    if candidates.ids is not None:
        ids, distances = vectors.among(vector, candidates.where, candidates.ids, keep)
    elif keep is None:
        ids, distances = vectors.all(vector, candidates.where)
    else:
        ids, distances = vectors.nearest(vector, candidates.where, keep)
    return _sorted(ids, pa.array(distances), "ascending").first(keep)


def _vector(
    type_: NodeType | EdgeType, by: ir.Nearest, query: object, embed: Embedder
) -> Sequence[float] | None:
    if isinstance(query, str):
        base = by.target.type.base
        assert isinstance(base, Vector), "the checker lets nearest have vectors only"
        declared = type_.find(by.target.name)
        source = None if declared is None else declared.embed
        return embed(query, base.dimension, None if source is None else source.model)
    return [float(each) for each in query] if isinstance(query, tuple | list) else None


# ── order ────────────────────────────────────────────────────────────────────────────────────────


def _sorted(
    ids: "pa.Array[Any]", scores: "pa.Array[Any]", order: Literal["ascending", "descending"]
) -> Ranking:
    rows = pa.table({"id": ids, "score": scores})
    places = pc.sort_indices(rows, sort_keys=[("score", order), ("id", "ascending")])
    return Ranking(ids.take(places), scores.take(places))


def _fuse(first: Ranking, second: Ranking, k: int) -> Ranking:
    """Reciprocal rank fusion; ties keep the order of the first arm, then of the second."""
    scores: dict[str, float] = {}
    for arm in (first, second):
        for place, each in enumerate(map(str, arm.ids.to_pylist()), start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (k + place)
    # The dict holds the ids in the order that ties must keep, and sorting is stable.
    best = sorted(scores.items(), key=lambda item: -item[1])
    return Ranking(
        pa.array([each for each, _ in best], pa.string()),
        pa.array([score for _, score in best], pa.float64()),
    )
