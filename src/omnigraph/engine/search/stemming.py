"""English words to their stems, by the rules known as Porter 2.

The full-text index stems, so whoever scans must stem alike: an index may make an answer faster and
never another one. `tests/guards/test_lance_text.py` holds the two against each other. A stem is a
name for words that belong together, and need not be a word.
"""

import re
from typing import Final

_VOWELS: Final = "aeiouy"
_SHORT_WORD_LENGTH: Final = 2

_KNOWN: Final = {
    "skis": "ski",
    "skies": "sky",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
"""Words the rules would get wrong."""

_KNOWN_SINGULARS: Final = frozenset(
    ("inning", "outing", "canning", "herring", "earring", "evening")
)
"""Words that only look like a tense of another."""

_SEEMING_PAST: Final = ("proc", "exc", "succ")
"""What `eed` belongs to."""

_FIRST_REGION: Final = re.compile(
    r"(?:gener|commun|arsen|past|univers|later|emerg|organ|inter)|[^aeiouy]*[aeiouy]+[^aeiouy]"
)
"""Everything before the first region: one syllable, or a prefix that counts as one."""
_SYLLABLE: Final = re.compile(r"[^aeiouy]*[aeiouy]+[^aeiouy]")
_SHORT_SYLLABLE: Final = re.compile(r"(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy]|past)$")
_DOUBLE: Final = re.compile(r"(?<!^a)(?<!^e)(?<!^o)(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$")
"""Of `hopping`, not of `adding`."""

_Y_STEM: Final = re.compile(r"^[^aeiouy]y$")
"""Of `dying`."""

_STEP_2: Final = {
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "entli": "ent",
    "izer": "ize",
    "ization": "ize",
    "ational": "ate",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "aliti": "al",
    "alli": "al",
    "fulness": "ful",
    "ousli": "ous",
    "ousness": "ous",
    "iveness": "ive",
    "iviti": "ive",
    "biliti": "ble",
    "bli": "ble",
    "ogi": "og",
    "ogist": "og",
    "fulli": "ful",
    "lessli": "less",
    "li": "",
}
_STEP_3: Final = {
    "tional": "tion",
    "ational": "ate",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
    "ative": "",
}
_STEP_4: Final = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous"),
    *("ive", "ize", "ion", "al", "er", "ic"),
)


def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if len(word) <= _SHORT_WORD_LENGTH:
        return word
    if word in _KNOWN:
        return _KNOWN[word]
    word = _mark_consonant_y(word)
    first = _region(word, _FIRST_REGION, 0)
    second = _region(word, _SYLLABLE, first)
    word = _drop_plural(word)
    if word in _KNOWN_SINGULARS:
        return word
    word = _drop_tense(word, first)
    word = _replace_y(word)
    word = _shorten(word, first, _STEP_2)
    word = _shorten_more(word, first, second)
    word = _drop_suffix(word, second)
    word = _drop_final(word, first, second)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """A y at the beginning or after a vowel is a consonant, and is written Y meanwhile."""
    if "y" not in word:
        return word
    letters = list(word)
    for place, letter in enumerate(letters):
        if letter == "y" and (place == 0 or letters[place - 1] in _VOWELS):
            letters[place] = "Y"
    return "".join(letters)


def _region(word: str, pattern: re.Pattern[str], start: int) -> int:
    """Where the part begins that suffixes may be taken from."""
    found = pattern.match(word, start)
    return len(word) if found is None else found.end()


def _has_vowel(part: str) -> bool:
    return any(letter in _VOWELS for letter in part)


def _drop_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > len("ties") else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _has_vowel(word[:-2]):
        return word[:-1]
    return word


def _drop_tense(word: str, first: int) -> str:
    suffix = next((each for each in ("eedly", "eed") if word.endswith(each)), None)
    if suffix is not None:
        start = len(word) - len(suffix)
        is_past = start >= first and word[:start] not in _SEEMING_PAST
        return f"{word[:start]}ee" if is_past else word
    suffix = next((each for each in ("ingly", "edly", "ing", "ed") if word.endswith(each)), None)
    if suffix is None or not _has_vowel(word[: -len(suffix)]):
        return word
    word = word[: -len(suffix)]
    if suffix in {"ing", "ingly"} and _Y_STEM.search(word):
        return f"{word[:-1]}ie"
    if word.endswith(("at", "bl", "iz")):
        return f"{word}e"
    if _DOUBLE.search(word):
        return word[:-1]
    if first >= len(word) and _SHORT_SYLLABLE.search(word):
        return f"{word}e"
    return word


def _replace_y(word: str) -> str:
    if len(word) > _SHORT_WORD_LENGTH and word[-1] in "yY" and word[-2] not in _VOWELS:
        return f"{word[:-1]}i"
    return word


def _find_suffix(word: str, suffixes: dict[str, str] | tuple[str, ...]) -> str | None:
    return max((each for each in suffixes if word.endswith(each)), key=len, default=None)


def _shorten(word: str, first: int, endings: dict[str, str]) -> str:
    suffix = _find_suffix(word, endings)
    if suffix is None or (start := len(word) - len(suffix)) < first:
        return word
    if suffix == "ogi" and not word[:start].endswith("l"):
        return word
    if suffix == "li" and word[start - 1] not in "cdeghkmnrt":
        return word
    return word[:start] + endings[suffix]


def _shorten_more(word: str, first: int, second: int) -> str:
    if word.endswith("ative") and len(word) - len("ative") < second:
        return word
    return _shorten(word, first, _STEP_3)


def _drop_suffix(word: str, second: int) -> str:
    suffix = _find_suffix(word, _STEP_4)
    if suffix is None or (start := len(word) - len(suffix)) < second:
        return word
    if suffix == "ion" and word[start - 1] not in "st":
        return word
    return word[:start]


def _drop_final(word: str, first: int, second: int) -> str:
    start = len(word) - 1
    if word.endswith("e"):
        is_short = _SHORT_SYLLABLE.search(word[:-1]) is not None
        return word[:-1] if start >= second or (start >= first and not is_short) else word
    if word.endswith("ll") and start >= second:
        return word[:-1]
    return word
