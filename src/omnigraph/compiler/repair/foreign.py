"""A text in another language, cut at its own words: outside of strings and of brackets."""

import re
from typing import Final

_STRING: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`\n]*`")
_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
HIDDEN: Final = "~"


def hide(text: str) -> str:
    """The text with what strings and brackets hold made unreadable, character by character."""
    plain = _STRING.sub(lambda each: HIDDEN * len(each[0]), text)
    depth = 0
    hidden = []
    for character in plain:
        depth -= character in _CLOSING
        hidden.append(character if depth <= 0 or character.isspace() else HIDDEN)
        depth += character in _OPENING
    return "".join(hidden)


def cut(text: str, pattern: str) -> list[tuple[str, str]]:
    """Each place where the pattern stands, in small letters, and what follows up to the next."""
    places = list(re.compile(pattern, re.IGNORECASE).finditer(hide(text)))
    starts = [*(each.start() for each in places), len(text)]
    return [
        (" ".join(place[0].lower().split()), text[place.end() : starts[at + 1]].strip())
        for at, place in enumerate(places)
    ]


def split(text: str, pattern: str = ",") -> list[str]:
    """What stands between the places of the pattern."""
    parts, at = [], 0
    for place in re.compile(pattern, re.IGNORECASE).finditer(hide(text)):
        parts.append(text[at : place.start()].strip())
        at = place.end()
    return [*parts, text[at:].strip()]
