"""Which positional word of a command line is the graph.

Every command takes the graph at any position among its words: `branch create g.omni review` and
`branch create review g.omni` are the same. A word is the graph by its looks, not by its position:

    a name that ends in .omni, or a folder that holds a manifest    certainly a graph
    a URI of storage, such as s3://bucket/museum                    a graph, or a file to load
    an http:// or https:// address                                  a server, or an id

The surest word wins. Two words that are certainly graphs are refused, never guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from omnigraph.errors import Misaddressed, UsageError

SUFFIX: Final = ".omni"
MANIFEST: Final = "__manifest"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WHAT: Final = f"a graph is a folder that omnigraph init made, a name in {SUFFIX}, or a URI"


class GraphLikeness(IntEnum):
    """How much a word looks like a graph."""

    NONE = 0
    SERVER = 1
    STORAGE = 2
    GRAPH = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A positional argument of a command, apart from the graph."""

    name: str
    is_required: bool
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class PlacedWords:
    """The words of a command line, apart: the graph, and the words of the slots, in order."""

    graph: str | None
    words: tuple[str, ...]


def find_likeness(word: str) -> GraphLikeness:
    scheme = _SCHEME.match(word)
    if scheme is not None and scheme[1].lower() in ("http", "https"):
        return GraphLikeness.SERVER
    if word.rstrip("/").endswith(SUFFIX):
        return GraphLikeness.GRAPH
    if scheme is not None and scheme[1] != "file":
        return GraphLikeness.STORAGE
    if word and _holds_manifest(word.removeprefix("file://")):
        return GraphLikeness.GRAPH
    return GraphLikeness.NONE if scheme is None else GraphLikeness.STORAGE


def _holds_manifest(folder: str) -> bool:
    try:
        return (Path(folder) / MANIFEST).is_dir()
    except (OSError, ValueError):  # too long for a path, or a null byte
        return False


def place_words(words: Sequence[str], slots: Sequence[Slot], *, is_named: bool) -> PlacedWords:
    """Find the graph among the words; `is_named` says that a flag names a graph already.

    Raises:
        Misaddressed: the words do not tell the graph.
        UsageError: a required word is missing.

    """
    likeness = [find_likeness(each) for each in words]
    best = max(likeness, default=GraphLikeness.NONE)
    alike = [at for at, each in enumerate(likeness) if each == best]
    if not _takes(slots, len(words) - 1):
        if best is GraphLikeness.GRAPH and not is_named:
            missing = [each.name for each in slots if each.is_required][-1]
            raise UsageError(f"'{words[alike[0]]}' is the graph; {missing} is missing")
        return PlacedWords(None, tuple(words))
    if best is GraphLikeness.NONE or (is_named and best is not GraphLikeness.GRAPH):
        return _place_unlike(words, slots, is_named=is_named)
    if best is GraphLikeness.GRAPH and len(alike) > 1:
        graphs = " and ".join(f"'{words[at]}'" for at in alike)
        raise Misaddressed(f"{graphs} are graphs; name the one that is meant by --store")
    at = alike[0]
    return PlacedWords(words[at], (*words[:at], *words[at + 1 :]))


def _takes(slots: Sequence[Slot], count: int) -> bool:
    """Whether the slots take so many words."""
    least = sum(each.is_required for each in slots)
    return least <= count and (count <= len(slots) or any(each.is_list for each in slots))


def _place_unlike(words: Sequence[str], slots: Sequence[Slot], *, is_named: bool) -> PlacedWords:
    """No word looks like a graph, so there is none, unless a word is left over."""
    if _takes(slots, len(words)):
        return PlacedWords(None, tuple(words))
    if len(words) == 1:
        return PlacedWords(words[0], ())
    given = " ".join(f"'{each}'" for each in words)
    if is_named:
        raise Misaddressed(f"name the graph once: a flag names it, and {given} hold one more word")
    raise Misaddressed(f"none of {given} is a graph; {_WHAT}")
