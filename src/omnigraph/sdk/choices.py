"""Settings that are one of a few words: given as the word, or as a member of the enumeration."""

from enum import Enum
from typing import TypeVar

from omnigraph.errors import UsageError

C = TypeVar("C", bound=Enum)


def parse_choice(kind: type[C], given: C | str, what: str) -> C:
    """Raises UsageError, which says what there is to choose from."""
    try:
        return kind(given)
    except ValueError:
        *others, last = (str(each.value) for each in kind)
        raise UsageError(f"{what} is {', '.join(others)} or {last}, not '{given}'") from None
