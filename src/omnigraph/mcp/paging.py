"""Answers within a budget of tokens, and the cursor from which the next call goes on.

A cursor names the commit that the first answer read and the number of entries that were given. The
caller repeats the call with the same arguments and the cursor, and reads on in the same state.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.catalog.outline import estimate_tokens
from omnigraph.errors import CursorInvalid
from omnigraph.jsontext import read_json
from omnigraph.mcp.tools import Arguments, Schema

BUDGET: Final = "budget"
CURSOR: Final = "cursor"
BUDGET_DEFAULT: Final = 6_000
"""Tokens of the entries of one answer, about, unless the caller says otherwise."""

PAGED: Final[Mapping[str, Schema]] = {
    BUDGET: {
        "type": "integer",
        "minimum": 1,
        "default": BUDGET_DEFAULT,
        "description": "About how many tokens of entries the answer may hold.",
    },
    CURSOR: {
        "type": "string",
        "description": "From the last answer, to go on; repeat the other arguments.",
    },
}


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where an answer begins."""

    offset: int = 0
    commit: str | None = None

    def encode(self) -> str:
        text = json.dumps([self.offset, self.commit])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(given: Arguments) -> PageCursor:
    """Raises CursorInvalid."""
    text = given.get(CURSOR)
    if text is None:
        return PageCursor()
    try:
        offset, commit = read_json(base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))
    except (ValueError, TypeError, binascii.Error):
        raise CursorInvalid("it is not a cursor of this tool") from None
    is_known = type(offset) is int and offset >= 0 and isinstance(commit, str | None)
    if not is_known:
        raise CursorInvalid("it is not a cursor of this tool")
    return PageCursor(offset, commit)


def cut_page(
    document: dict[str, Any], field: str, given: Arguments, cursor: PageCursor, entries_max: int
) -> dict[str, Any]:
    """The document with the entries of `field` that fit; at least one, if there is one.

    The entries begin where the cursor stands. If some are left, `truncated` and `cursor` are set.
    """
    left = document[field][cursor.offset :]
    budget = given.get(BUDGET, BUDGET_DEFAULT)
    count = tokens = 0
    for entry in left[:entries_max]:
        tokens += estimate_tokens(json.dumps(entry, ensure_ascii=False))
        if count and tokens > budget:
            break
        count += 1
    page = {**document, field: left[:count]}
    if count == len(left):
        return page
    following = PageCursor(cursor.offset + count, cursor.commit)
    return page | {"truncated": True, CURSOR: following.encode()}
