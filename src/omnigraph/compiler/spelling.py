"""Which name was meant: suggestions by edit distance."""

from collections.abc import Iterable
from typing import Final

CANDIDATES_MAX: Final = 12
"""A diagnostic names at most so many candidates."""

_NAME_COMPARED_MAX: Final = 80


def spell_edge(name: str) -> str:
    """The name of an edge type, as queries write it."""
    return f"{name[0].lower()}{name[1:]}"


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the closest candidate, when one is close enough to be a slip."""
    best = closest(name, candidates)
    return None if best is None else f"did you mean '{best}'?"


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The nearest candidate within a third of the word; case alone makes no difference."""
    folded = name.lower()
    allowed = (len(name) + 1) // 3  # none for one letter: every other one would be close
    ranked = sorted(
        (distance, candidate)
        for candidate in set(candidates)
        if abs(len(candidate) - len(name)) <= allowed
        and (distance := _edits(folded, candidate.lower())) <= allowed
    )
    return ranked[0][1] if ranked else None


def rank_candidates(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """The candidates, the closest first; at most `CANDIDATES_MAX`."""
    folded = name.lower()[:_NAME_COMPARED_MAX]

    def distance(candidate: str) -> tuple[int, str]:
        return _edits(folded, candidate.lower()[:_NAME_COMPARED_MAX]), candidate

    return tuple(sorted(set(candidates), key=distance)[:CANDIDATES_MAX])


def _edits(left: str, right: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that separate two words."""
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for row, a in enumerate(left, start=1):
        current = [row]
        for column, b in enumerate(right, start=1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and b == left[row - 2]:
                cost = min(cost, before_last[column - 2] + 1)
            current.append(cost)
        before_last, last = last, current
    return last[-1]
