"""Tags: names for commits, each a small object beside the graph. Cleanup keeps what a tag names.

1. A tag never moves. A name is used again only after its tag was deleted.
2. A tag exists only while its commit can be read: creating one checks the commit after the tag is
   there, and the branch of a tagged commit cannot be deleted.
3. Cleanup takes the lock of branches for each table, and so does the creation of a tag. So a state
   that cleanup is about to delete is not tagged.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import (
    BranchExists,
    BranchNameInvalid,
    ObjectExists,
    ObjectNotFound,
    TagExists,
    TagNotFound,
    UsageError,
)
from omnigraph.ids import BranchName, CommitId, parse_branch
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import TAGS, tag_key
from omnigraph.storage.objects import Objects

_COMMIT_ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True, slots=True)
class CommitTag:
    name: str
    commit_id: CommitId
    actor: str | None
    created_at_us: int
    message: str | None = None

    def encode(self) -> bytes:
        document = {
            "name": self.name,
            "commit_id": self.commit_id,
            "actor": self.actor,
            "created_at": self.created_at_us,
            "message": self.message,
        }
        return json.dumps(document, ensure_ascii=False).encode()


def parse_tag(text: str, branches: Collection[BranchName]) -> str:
    """A name that no branch has and that is no commit id. Raises UsageError, BranchExists."""
    try:
        name = parse_branch(text)
    except BranchNameInvalid as invalid:
        raise UsageError(f"{text!r} cannot name a tag: {invalid.reason}") from invalid
    if name in branches:
        raise BranchExists(name)
    if _COMMIT_ID.fullmatch(name):
        raise UsageError(f"'{name}' looks like the id of a commit; a tag needs another name")
    return name


def put_tag(objects: Objects, tag: CommitTag) -> None:
    """Raises TagExists."""
    try:
        objects.put_new(tag_key(tag.name), tag.encode())
    except ObjectExists:
        raise TagExists(tag.name, commit_id=read_tag(objects, tag.name).commit_id) from None


def read_tag(objects: Objects, name: str) -> CommitTag:
    """Raises TagNotFound."""
    try:
        parse_branch(name)  # what cannot name a tag may not even name a file
        return _decode(objects.read(tag_key(name)).data)
    except (BranchNameInvalid, ObjectNotFound):
        raise TagNotFound(name) from None


def find_tags(objects: Objects) -> Sequence[CommitTag]:
    """By name. A tag that is deleted meanwhile is left out."""
    found = []
    for listed in objects.list(TAGS):
        try:
            found.append(_decode(objects.read(listed.key).data))
        except ObjectNotFound:
            continue
    return sorted(found, key=lambda each: each.name)


def remove_tag(objects: Objects, name: str) -> None:
    """Raises TagNotFound."""
    read_tag(objects, name)
    objects.delete(tag_key(name))


def _decode(data: bytes) -> CommitTag:
    document = read_json(data)
    return CommitTag(
        document["name"],
        CommitId(document["commit_id"]),
        document["actor"],
        document["created_at"],
        document["message"],
    )
