"""Text search and ranking, the slow way.

The tokeniser folds accents, lowers case and splits at every character that is neither letter nor
digit. It neither stems nor drops stop words, as a real index does: compare it with an index only on
words that are their own stem. Scores are BM25 with the usual constants over all texts of the table;
distances are squared L2, which orders as L2 does.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from omnigraph.compiler.ir import TextFunction

K1 = 1.2
B = 0.75
EDITS_DEFAULT = 2

Ranking = list[tuple[str, float]]
"""Ids with their scores, best first."""


def tokens(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKD", text)
    plain = "".join(each for each in folded if not unicodedata.combining(each))
    return re.findall(r"[^\W_]+", plain.lower())


def edits(left: str, right: str) -> int:
    """Levenshtein distance, straight from its definition."""
    before = list(range(len(right) + 1))
    for row, one in enumerate(left, start=1):
        now = [row]
        for column, other in enumerate(right, start=1):
            now.append(min(now[-1] + 1, before[column] + 1, before[column - 1] + (one != other)))
        before = now
    return before[-1]


def is_text_match(function: TextFunction, text: str, query: str, edits_max: int | None) -> bool:
    """Any token of the query will do, in every function."""
    match function:
        case TextFunction.SEARCH | TextFunction.MATCH_TEXT:
            return not set(tokens(text)).isdisjoint(tokens(query))
        case TextFunction.FUZZY:
            most = EDITS_DEFAULT if edits_max is None else edits_max
            return any(
                edits(word, wanted) <= most for word in tokens(text) for wanted in tokens(query)
            )
        case _:
            assert_never(function)


def rank_by_text(texts: Mapping[str, str], query: str) -> Ranking:
    """Every text that matches, best score first; equal scores by id."""
    documents = {each: tokens(text) for each, text in texts.items()}
    mean = sum(map(len, documents.values())) / max(1, len(documents))
    scores: dict[str, float] = {}
    for token in sorted(set(tokens(query))):
        holders = [each for each, words in documents.items() if token in words]
        rarity = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for each in holders:
            count = documents[each].count(token)
            damping = K1 * (1 - B + B * len(documents[each]) / mean)
            scores[each] = scores.get(each, 0.0) + rarity * count * (K1 + 1) / (count + damping)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def distance(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True))


def rank_by_distance(vectors: Mapping[str, Sequence[float]], query: Sequence[float]) -> Ranking:
    """Closest first; equal distances by id."""
    found = ((each, distance(vector, query)) for each, vector in vectors.items())
    return sorted(found, key=lambda item: (item[1], item[0]))


def fuse(first: Ranking, second: Ranking, k: int) -> Ranking:
    """Reciprocal rank fusion; ties keep the order of the first arm, then of the second."""
    scores: dict[str, float] = {}
    for arm in (first, second):
        for rank, (each, _) in enumerate(arm, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (k + rank)
    # The dict holds the ids in the order that ties must keep, and sorting is stable.
    return sorted(scores.items(), key=lambda item: -item[1])


def only(ranking: Ranking, candidates: Iterable[str]) -> Ranking:
    wanted = set(candidates)
    return [(each, score) for each, score in ranking if each in wanted]
