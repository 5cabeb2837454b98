"""Text to terms: what a full-text search compares.

Words are runs of letters and digits, by their Unicode category, and of signs that count as letters
although they have another category, such as the vowel signs of Indic and Semitic scripts. A word is
lowercased and stemmed, stop words are dropped, and accents are removed last.

The full-text index of the table format takes the same steps in the same order, so scanned rows and
indexed rows match alike. `tests/guards/test_lance_text.py` compares the two by character.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from Stemmer import Stemmer, version  # type: ignore[import-not-found] # it ships no types

from omnigraph.engine.cancellation import check_cancelled

_SIGNS: Final = """
345 363-36f 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e8 6ed
711-73f 7a6-7b0 816-817 81b-82c 8d4-8df 8e3-8e9 8f0-93b 93e-94c 94e-94f 955-963 981-983
9be-9cc 9d7-9e3 a01-a03 a3e-a4c a51-a75 a81-a83 abe-acc ae2-ae3 afa-afc b01-b03 b3e-b4c
b56-b63 b82-bcc bd7 c00-c04 c3e-c4c c55-c63 c81-c83 cbe-ccc cd5-d03 d3e-d4c d57-d63 d81-d83
dcf-df3 e31-e3a e4d eb1-eb9 ebb-ebc ecd f71-f83 f8d-fbc 102b-1036 1038 103b-103e 1056-109d
1712-1713 1732-1733 1752-1773 17b6-17c8 1885-1938 1a17-1a1b 1a55-1a5e 1a61-1a74 1abf-1ac0
1acc-1b04 1b35-1b43 1b80-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1dd3-1df4 24b6-24e9 2de0-2dff
a674-a67b a69e-a69f a802 a80b-a827 a880-a8c3 a8c5 a8ff-a92a a947-a952 a980-a983 a9b4-a9bf
a9e5-aa4d aa7b-aabe aaeb-aaef aaf5 abe3-abea fb1e 10376-1037a 10a01-10a0f 10d24-10eac
11000-11045 11073-11074 11080-110b8 110c2 11100-11132 11145-11146 11180-111bf 111ce-111cf
1122c-11234 11237 1123e 112df-112e8 11300-11303 1133e-1134c 11357-11363 11435-11441
11443-11445 114b0-114c1 115af-115be 115dc-1163e 11640 116ab-116b5 1171d-1172a 1182c-11838
11930-1193c 11940-11942 119d1-119df 119e4-11a0a 11a35-11a3e 11a51-11a97 11c2f-11c3e
11c92-11d41 11d43 11d47-11d96 11ef3-11ef6 16f4f-16f92 16ff0-16ff1 1bc9e 1e000-1e02a 1e947
1f130-1f149 1f150-1f169 1f170-1f189
2ebf0-2ee5d 31350-323af
"""
"""Ranges of code points that count as letters. A range may also contain letters, nothing else.
The last two ranges are ideographs that the Unicode tables of Python 3.11 do not contain."""


def _runs() -> Iterable[tuple[str, str]]:
    for run in _SIGNS.split():
        first, _, last = run.partition("-")
        yield first, last or first


WORD: Final = re.compile(
    r"(?:[^\W_]|["
    + "".join(f"\\U{int(first, 16):08x}-\\U{int(last, 16):08x}" for first, last in _runs())
    + "])+"
)
"""Matches a word, in the syntax of `re`."""

BETWEEN_WORDS: Final = (
    r"[^\pL\pN" + "".join(f"\\x{{{first}}}-\\x{{{last}}}" for first, last in _runs()) + "]+"
)
"""Matches the text between words, in the syntax of Arrow."""


WORD_BYTES_MAX: Final = 39
"""A longer word is ignored."""

_FEW_TEXTS: Final = 2_000
"""Fewer texts are split one by one; for more, the start-up cost of Arrow pays off."""

_PART_BYTES: Final = 8 << 20
"""How much text is split between two checks for cancellation."""

_STOP_WORDS: Final = """
    a about after again against all am an and are as at be been below between both but by can
    did do down each few for from further had has have he her here herself him himself his how i
    if in into is it itself just me more most my myself now of off on or other our out over own
    re same she should so some such than that the their theirs them then there these they this
    those through to too under until up was we were what when where which while who whom will
    with you your yourself
"""

_STOP_STEMS: Final = frozenset(_STOP_WORDS.split())
"""Stems of stop words."""

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
"""Letters that Unicode does not decompose into a letter and an accent."""

_REVISION: Final = 1
"""Changes whenever this module makes other terms of a text."""


def _name_analysis() -> str:
    made_by = (_REVISION, version(), unicodedata.unidata_version, pa.__version__)
    return hashlib.sha256(repr(made_by).encode()).hexdigest()[:8]


ANALYSIS: Final = _name_analysis()
"""Names what decides about the terms of a text. Terms of another analysis are never compared."""

_TERMS_KEPT_MAX: Final = 1 << 17
_QUERIES_KEPT_MAX: Final = 256


def stem(word: str) -> str:
    """The stem of an English word in lower case; a stem need not be a word (ADR 24)."""
    # A stemmer holds the state of one word, so threads cannot share it. Making one takes 0.3 µs.
    return str(Stemmer("english", 0).stemWord(word))


@lru_cache(maxsize=_TERMS_KEPT_MAX)
def term_of(word: str) -> str | None:
    """The term of a word; None for a stop word or a word that is too long."""
    if not word or len(word.encode()) > WORD_BYTES_MAX:
        return None
    stemmed = stem(word.lower())
    if stemmed in _STOP_STEMS:
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
    """Every term of every text: the index of the text, and the index into `vocabulary`."""

    vocabulary: tuple[str, ...]
    texts: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int64]


def analyse(texts: "pa.Array[Any]") -> Occurrences:
    """The terms of texts without nulls. Each distinct word of a part is analysed once."""
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
    """For every term, its text and its index; new terms are added to `places`."""
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
"""The words of all texts in order, and the number of words of each text."""


def cut_few(texts: "pa.Array[Any]") -> Cut:
    words = [WORD.findall(str(each)) for each in texts.to_pylist()]
    flat = pa.array([word for each in words for word in each], pa.large_string())
    return flat, np.array([len(each) for each in words], dtype=np.int64)


def cut_many(texts: "pa.Array[Any]") -> Cut:
    """Like `cut_few`, but the result may contain empty words."""
    words = pc.split_pattern_regex(texts.cast(pa.large_string()), BETWEEN_WORDS)
    return words.flatten(), np.diff(words.offsets.to_numpy())


@lru_cache(maxsize=_QUERIES_KEPT_MAX)
def terms_of(text: str) -> tuple[str, ...]:
    """The distinct terms of one text, sorted."""
    return tuple(sorted(analyse(pa.array([text])).vocabulary))


def edit_distances(vocabulary: tuple[str, ...], term: str) -> npt.NDArray[np.int64]:
    """The Levenshtein distance of each word of the vocabulary to `term`."""
    if not vocabulary:
        return np.empty(0, np.int64)
    spelled = np.array(vocabulary, dtype=np.str_)
    letters = spelled.view(np.uint32).reshape(len(vocabulary), -1)
    width = letters.shape[1]
    # One row of the dynamic program for all words at once: the distances to their prefixes.
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
