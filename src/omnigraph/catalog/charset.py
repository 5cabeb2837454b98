r"""Sets of characters, and the classes of Unicode as the Rust `regex` crate defines them.

RE2 has `\w` and `\s` for ASCII only, folds case by its own version of Unicode, and cannot intersect
classes. So this module computes a class as a set of code points and writes it as plain ranges.
"""

import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

MAX: Final = 0x10FFFF
SURROGATES: Final = (0xD800, 0xDFFF)

# No character is assigned between these planes; scanning them would take 100 ms.
_ASSIGNED: Final = (range(0x32400), range(0xE0000, 0xE0200))
_PRIVATE_PLANES: Final = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))

_ALPHABETIC_SYMBOLS: Final = (
    (0x24B6, 0x24E9),
    (0x1F130, 0x1F149),
    (0x1F150, 0x1F169),
    (0x1F170, 0x1F189),
)
"""Circled and squared letters: alphabetic, though their category is «symbol»."""

_JOINERS: Final = (0x200C, 0x200D)

_CASED_STOP: Final = 0x1E960
"""Adlam, the last script with two cases, ends before this code point."""


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points, as sorted, inclusive ranges with a gap between any two."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def of(ranges: Iterable[tuple[int, int]]) -> "CharSet":
        merged: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return CharSet(tuple(merged))

    @staticmethod
    def char(character: str) -> "CharSet":
        return CharSet(((ord(character), ord(character)),))

    @staticmethod
    def variants(character: str) -> "CharSet":
        """The character in every case."""
        codes = (ord(character), *_case_partners().get(ord(character), ()))
        return CharSet.of((code, code) for code in codes)

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self.ranges, (code, MAX)) - 1
        return at >= 0 and code <= self.ranges[at][1]

    def __or__(self, other: "CharSet") -> "CharSet":
        return CharSet.of((*self.ranges, *other.ranges))

    def __invert__(self) -> "CharSet":
        edges = ((-1, -1), *CharSet.of((*self.ranges, SURROGATES)).ranges, (MAX + 1, MAX + 1))
        gaps = ((left[1] + 1, right[0] - 1) for left, right in pairwise(edges))
        return CharSet(tuple((low, high) for low, high in gaps if low <= high))

    def __and__(self, other: "CharSet") -> "CharSet":
        return ~(~self | ~other)

    def __sub__(self, other: "CharSet") -> "CharSet":
        return ~(~self | other)

    def __xor__(self, other: "CharSet") -> "CharSet":
        return (self - other) | (other - self)

    def folded(self) -> "CharSet":
        """The set with every character that differs only in case, by simple case folding."""
        added = (
            (other, other)
            for code, others in _case_partners().items()
            if code in self
            for other in others
        )
        return CharSet.of((*self.ranges, *added))

    def to_re2(self) -> str:
        """The set in the syntax of RE2."""
        if not self.ranges:
            return r"[^\x{0}-\x{10ffff}]"
        pairs = ((written(low), written(high)) for low, high in self.ranges)
        return f"[{''.join(low if low == high else f'{low}-{high}' for low, high in pairs)}]"


def written(code: int) -> str:
    """One character in the syntax of RE2."""
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


ASCII: Final = CharSet(((0, 0x7F),))
WHITE_SPACE: Final = CharSet.of(
    [
        (0x09, 0x0D),
        (0x20, 0x20),
        (0x85, 0x85),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
    ]
)
POSIX: Final = {
    name: CharSet.of((ord(pair[0]), ord(pair[1])) for pair in pairs)
    for name, pairs in {
        "alnum": ["09", "AZ", "az"],
        "alpha": ["AZ", "az"],
        "ascii": ["\x00\x7f"],
        "blank": ["\t\t", "  "],
        "cntrl": ["\x00\x1f", "\x7f\x7f"],
        "digit": ["09"],
        "graph": ["!~"],
        "lower": ["az"],
        "print": [" ~"],
        "punct": ["!/", ":@", "[`", "{~"],
        "space": ["\t\r", "  "],
        "upper": ["AZ"],
        "word": ["09", "AZ", "__", "az"],
        "xdigit": ["09", "AF", "af"],
    }.items()
}

_LONG_NAMES: Final = {
    "casedletter": "LC",
    "closepunctuation": "Pe",
    "connectorpunctuation": "Pc",
    "control": "Cc",
    "currencysymbol": "Sc",
    "dashpunctuation": "Pd",
    "decimalnumber": "Nd",
    "enclosingmark": "Me",
    "finalpunctuation": "Pf",
    "format": "Cf",
    "initialpunctuation": "Pi",
    "letter": "L",
    "letternumber": "Nl",
    "lineseparator": "Zl",
    "lowercaseletter": "Ll",
    "mark": "M",
    "mathsymbol": "Sm",
    "modifierletter": "Lm",
    "modifiersymbol": "Sk",
    "nonspacingmark": "Mn",
    "number": "N",
    "openpunctuation": "Ps",
    "other": "C",
    "otherletter": "Lo",
    "othernumber": "No",
    "otherpunctuation": "Po",
    "othersymbol": "So",
    "paragraphseparator": "Zp",
    "privateuse": "Co",
    "punctuation": "P",
    "separator": "Z",
    "spaceseparator": "Zs",
    "spacingmark": "Mc",
    "symbol": "S",
    "titlecaseletter": "Lt",
    "unassigned": "Cn",
    "uppercaseletter": "Lu",
}


def find_property(name: str) -> CharSet | None:
    r"""The characters of a supported `\p{name}`: categories, `Any`, `ASCII`, `Assigned`."""
    loose = "".join(each for each in name.lower() if each not in " _-")
    match loose:
        case "any":
            return ~CharSet(())
        case "ascii":
            return ASCII
        case "assigned":
            return ~category("Cn")
        case "whitespace":
            return WHITE_SPACE
        case _:
            short = _LONG_NAMES.get(loose) or _short_names().get(loose)
            return None if short is None else category(short)


def category(name: str) -> CharSet:
    """The characters of a general category: `Lu`, or all of `L`, or `LC`."""
    if name == "LC":
        return category("Lu") | category("Ll") | category("Lt")
    ranges = (
        each for short, found in _categories().items() if short.startswith(name) for each in found
    )
    return CharSet.of(ranges)


@cache
def word() -> CharSet:
    r"""`\w`: letters, marks, digits, connectors such as `_`, and the two joiners."""
    # «Alphabetic» in Unicode: letters, letter numbers, some marks and these symbols. Which marks
    # does not matter, because all marks belong to a word.
    categories = (each for name in ("L", "Nl", "M", "Nd", "Pc") for each in category(name).ranges)
    return CharSet.of((*categories, *_ALPHABETIC_SYMBOLS, _JOINERS))


@cache
def _categories() -> dict[str, tuple[tuple[int, int], ...]]:
    codes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for block in _ASSIGNED:
        for name, low, high in _runs(block):
            codes[name].append((low, high))
    codes["Co"].extend(_PRIVATE_PLANES)
    known = CharSet.of(each for name, found in codes.items() if name != "Cn" for each in found)
    codes["Cn"] = list((~known).ranges)
    codes.pop("Cs")  # surrogates are not characters
    return {name: CharSet.of(found).ranges for name, found in codes.items()}


def _runs(block: range) -> Iterator[tuple[str, int, int]]:
    """Ranges of one category."""
    start, current = block.start, unicodedata.category(chr(block.start))
    for code in block[1:]:
        name = unicodedata.category(chr(code))
        if name != current:
            yield current, start, code - 1
            start, current = code, name
    yield current, start, block.stop - 1


@cache
def _short_names() -> dict[str, str]:
    names = {name.lower(): name for name in _categories()}
    return {**names, **{name[0]: name[0].upper() for name in names}, "lc": "LC"}


@cache
def _case_partners() -> dict[int, tuple[int, ...]]:
    """Character → the other characters that equal it if case is ignored."""
    classes: defaultdict[str, list[int]] = defaultdict(list)
    for code in range(_CASED_STOP):
        classes[_simple_fold(chr(code))].append(code)
    return {
        code: tuple(other for other in members if other != code)
        for members in classes.values()
        if len(members) > 1
        for code in members
    }


def _simple_fold(character: str) -> str:
    """Folds to one character: where full folding gives several, the lower case if it is one."""
    folded = character.casefold()
    if len(folded) > 1:
        folded = character.lower()
    return folded if len(folded) == 1 else character
