"""What each member of a group touched, where that is too long for its commit row.

`__groups/{group}.json` lists, by the index of the member, the ids of the entities that the member
inserted, changed or deleted. It is written before the publish, so a commit that readers see has it.
The sidecar of the group holds the same, so a roll-forward writes the file again.
"""

from collections.abc import Sequence
from typing import Final

from omnigraph.commit.manifest.records import (
    Commit,
    JsonObject,
    Touched,
    decode_touched,
    dump_json,
    encode_touched,
)
from omnigraph.commit.manifest.updates import CommitIntent
from omnigraph.errors import ManifestCorrupt
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import group_key
from omnigraph.storage.objects import Objects

INLINE_BYTES_MAX: Final = 1_024
"""Every process that opens a branch reads the rows of its commits, so longer lists stay outside."""

_CHARACTER_BYTES_MAX: Final = 6
"""In JSON: `\\u001f`. The encoder need not run to see that a few ids are short."""

_PUNCTUATION_BYTES_MAX: Final = 8
"""Quotes, colon, brackets, commas of one text, and its share of the braces."""


def is_inline(touched: Touched) -> bool:
    """Does the commit row itself hold what a member touched?"""
    texts = [*touched, *(each for ids in touched.values() for each in ids)]
    longest = sum(map(len, texts)) * _CHARACTER_BYTES_MAX + len(texts) * _PUNCTUATION_BYTES_MAX
    if longest <= INLINE_BYTES_MAX:
        return True
    return len(dump_json(encode_touched(touched)).encode()) <= INLINE_BYTES_MAX


def write_group_file(objects: Objects, intents: Sequence[CommitIntent]) -> None:
    """Write what the members touched, if a commit row does not hold it."""
    lists: JsonObject = {}
    group_id = ""
    for intent in intents:
        place = intent.extension.group
        if place is not None and intent.touched is not None:
            group_id = place.id
            lists[str(place.index)] = encode_touched(intent.touched)
    if lists:
        objects.put_over(group_key(group_id), dump_json(lists).encode())


def read_touched(objects: Objects, commit: Commit) -> Touched | None:
    """What a member of a group touched; None for a commit that was published alone.

    Raises ObjectNotFound if the file was removed, ManifestCorrupt.
    """
    place = commit.extension.group
    if place is None or place.touched is not None:
        return None if place is None else place.touched
    key = group_key(place.id)
    try:
        found = read_json(objects.read(key).data)[str(place.index)]
    except (ValueError, TypeError, KeyError) as error:
        reason = f"it does not list what commit {commit.id} touched: {error}"
        raise ManifestCorrupt(key, reason=reason) from error
    return decode_touched(found, key)
