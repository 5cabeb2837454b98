"""Parsing JSON from outside: from files, requests, lines and flags.

Code that walks a document by recursion overflows the stack if the document is nested deeply enough:
the parser, the printer, a message that shows it. So deeply nested documents are refused here.
"""

import json
from collections.abc import Callable
from typing import Any, Final

NESTING_MAX: Final = 100
"""The limit that queries have too. Documents of our own have less than ten levels."""


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

    The caller adds the origin of the text to its own error.
    """
    try:
        found = json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)
    except RecursionError:
        raise NestedTooDeeply from None
    if _count_brackets(text) > NESTING_MAX:  # most texts have fewer brackets
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
        # By identity: a YAML alias may repeat a value in many places, even inside itself.
        level = list(
            {
                id(inner): inner
                for outer in level
                for inner in (outer.values() if isinstance(outer, dict) else outer)
            }.values()
        )
