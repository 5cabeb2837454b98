"""Reading JSON that comes from outside: from a file, a request, a line, a flag.

Whoever walks a document by calling itself runs out of stack on one that is nested deeply enough,
be it the parser, the printer or a message that shows it. So no such document is read at all.
"""

import json
from collections.abc import Callable
from typing import Any, Final

NESTING_MAX: Final = 100
"""As deep as queries may be. What we keep ourselves stays below ten."""


class NestedTooDeeply(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested more than {NESTING_MAX} levels deep")


def read_json(
    text: str | bytes,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """Raises ValueError: JSONDecodeError, UnicodeDecodeError, NestedTooDeeply, too many digits.

    Whoever asks knows where the text came from, and says so.
    """
    try:
        found = json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)
    except RecursionError:
        raise NestedTooDeeply from None
    if _count_brackets(text) > NESTING_MAX:  # most texts do not even have so many
        check_nesting(found)
    return found


def _count_brackets(text: str | bytes) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def check_nesting(document: object) -> None:
    """Raises NestedTooDeeply."""
    level, depth = [document], 0
    while level := [each for each in level if isinstance(each, dict | list | tuple)]:
        depth += 1
        if depth > NESTING_MAX:
            raise NestedTooDeeply
        # By identity: in YAML one value may stand in many places, even in itself.
        level = list(
            {
                id(inner): inner
                for outer in level
                for inner in (outer.values() if isinstance(outer, dict) else outer)
            }.values()
        )
