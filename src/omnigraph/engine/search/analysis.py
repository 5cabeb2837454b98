"""Text to terms: what a full-text search compares.

Words are runs of letters and digits (`letters`). Each is put in lower case and stemmed
(`stemming`); words that say nothing are dropped, accents are taken off last. This is what the
index does by default, step by step, so that rows which are scanned and rows which the index knows
are judged alike; the order of the steps is part of it. `tests/guards/test_lance_text.py` would
notice a difference.
"""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.search.letters import BETWEEN_WORDS, WORD
from omnigraph.engine.search.stemming import stem

WORD_BYTES_MAX: Final = 39
"""A longer word is not one."""

_FEW_TEXTS: Final = 2_000
"""So many are cut one by one; for more it pays to prepare Arrow for the task."""

_PART_BYTES: Final = 8 << 20
"""So much text is cut before a read is asked whether it was cancelled."""

_SILENT_WORDS: Final = """
    a about after again against all am an and are as at be been below between both but by can
    did do down each few for from further had has have he her here herself him himself his how i
    if in into is it itself just me more most my myself now of off on or other our out over own
    re same she should so some such than that the their theirs them then there these they this
    those through to too under until up was we were what when where which while who whom will
    with you your yourself
"""

_SILENT: Final = frozenset(_SILENT_WORDS.split())
"""Stems that say nothing."""

_FOLDED: Final = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ł": "l",
    "ı": "i",
    "ħ": "h",
    "ŋ": "n",
    "ŧ": "t",
}
"""Letters without an accent to take off."""

_TERMS_KEPT_MAX: Final = 1 << 17
_QUERIES_KEPT_MAX: Final = 256


@lru_cache(maxsize=_TERMS_KEPT_MAX)
def term_of(word: str) -> str | None:
    """What a word is compared by; None if by nothing."""
    if not word or len(word.encode()) > WORD_BYTES_MAX:
        return None
    stemmed = stem(word.lower())
    if stemmed in _SILENT:
        return None
    return stemmed if stemmed.isascii() else "".join(map(_fold, stemmed))


def _fold(letter: str) -> str:
    if letter.isascii() or letter in _FOLDED:
        return _FOLDED.get(letter, letter)
    apart = unicodedata.normalize("NFKD", letter)
    plain = "".join(each for each in apart if not unicodedata.combining(each))
    return plain.lower() if plain and plain.isascii() else letter


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Every term of every text: the text it is in, and its place in `vocabulary`."""

    vocabulary: tuple[str, ...]
    texts: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int64]


def analyse(texts: "pa.Array[Any]") -> Occurrences:
    """The terms of texts, none of which is null. Each distinct word of a part is looked at once."""
    places: dict[str, int] = {}
    owners, terms = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    rows = max(1, int(_PART_BYTES * len(texts) / max(1, texts.nbytes)))
    for start in range(0, len(texts), rows):
        check_cancelled()
        met, found = _terms_in(texts.slice(start, rows), places)
        owners.append(met + start)
        terms.append(found)
    return Occurrences(tuple(places), np.concatenate(owners), np.concatenate(terms))


def _terms_in(
    texts: "pa.Array[Any]", places: dict[str, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of every term, the text it is in and its place; terms that are new get one."""
    words, counts = cut_few(texts) if len(texts) < _FEW_TEXTS else cut_many(texts)
    encoded = words.dictionary_encode()
    spelled = [term_of(each) for each in encoded.dictionary.to_pylist()]
    by_word = np.array(
        [-1 if each is None else places.setdefault(each, len(places)) for each in spelled],
        dtype=np.int64,
    )
    terms = by_word[encoded.indices.to_numpy()] if spelled else np.empty(0, np.int64)
    is_term = terms >= 0
    return np.repeat(np.arange(len(texts)), counts)[is_term], terms[is_term]


Cut: TypeAlias = "tuple[pa.Array[Any], npt.NDArray[np.int64]]"
"""The words of all texts, one after the other, and how many each text has."""


def cut_few(texts: "pa.Array[Any]") -> Cut:
    words = [WORD.findall(str(each)) for each in texts.to_pylist()]
    flat = pa.array([word for each in words for word in each], pa.large_string())
    return flat, np.array([len(each) for each in words], dtype=np.int64)


def cut_many(texts: "pa.Array[Any]") -> Cut:
    """The same, only that empty words may be among them."""
    words = pc.split_pattern_regex(texts.cast(pa.large_string()), BETWEEN_WORDS)
    return words.flatten(), np.diff(words.offsets.to_numpy())


@lru_cache(maxsize=_QUERIES_KEPT_MAX)
def terms_of(text: str) -> tuple[str, ...]:
    """The distinct terms of one text, sorted."""
    return tuple(sorted(analyse(pa.array([text])).vocabulary))


def edit_distances(vocabulary: tuple[str, ...], term: str) -> npt.NDArray[np.int64]:
    """How many letters to insert, drop or exchange to make `term` of each of these."""
    if not vocabulary:
        return np.empty(0, np.int64)
    spelled = np.array(vocabulary, dtype=np.str_)
    letters = spelled.view(np.uint32).reshape(len(vocabulary), -1)
    width = letters.shape[1]
    # One row of the usual table, for all words at once: the distance to each of their beginnings.
    row = np.broadcast_to(np.arange(width + 1), (len(vocabulary), width + 1)).copy()
    for letter in term:
        above = row
        row = np.empty_like(above)
        row[:, 0] = above[:, 0] + 1
        cheapest = np.minimum(above[:, 1:] + 1, above[:, :-1] + (letters != ord(letter)))
        for place in range(width):
            row[:, place + 1] = np.minimum(cheapest[:, place], row[:, place] + 1)
    lengths = np.char.str_len(spelled)
    distances: npt.NDArray[np.int64] = row[np.arange(len(vocabulary)), lengths]
    return distances
