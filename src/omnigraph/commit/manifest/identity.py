"""The identity of a graph: its id, and the place at which its branches record their files.

`__identity.json` is written when a graph is made. A copy of the graph has a copy of the object,
which names the place of the original. So a graph whose identity names another place was moved or
copied, and its branches are not re-rooted yet (`commit.relocation`). A graph of another program,
or of an older one, has no such object until it is opened for writing.

A graph keeps the id of its first commit as its own until it is moved or cloned. Then it gets a new
id: the copy and the original share their first commits, and continue differently.
"""

import hashlib
import json
import os
from dataclasses import dataclass

from omnigraph.errors import ObjectCorrupt, ObjectNotFound
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import IDENTITY, Root
from omnigraph.storage.objects import Objects, Tag


@dataclass(frozen=True, slots=True)
class GraphIdentity:
    graph_id: str
    uri: str
    """The root at which the branches were made, or last re-rooted. Empty if it is not known, while
    a graph that had no identity is re-rooted."""

    def encode(self) -> bytes:
        return json.dumps({"graph_id": self.graph_id, "uri": self.uri}).encode()

    def is_at(self, root: Root) -> bool:
        """Does it name this root, perhaps through a symbolic link?"""
        if self.uri == root.uri:
            return True
        if not root.is_local or not self.uri:
            return False
        return os.path.realpath(self.uri) == os.path.realpath(root.uri)


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    identity: GraphIdentity
    tag: Tag


def read_identity(objects: Objects) -> StoredIdentity | None:
    """None if the graph has none. Raises ObjectCorrupt."""
    try:
        stored = objects.read(IDENTITY)
    except ObjectNotFound:
        return None
    try:
        document = read_json(stored.data)
        graph_id, uri = document["graph_id"], document["uri"]
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(IDENTITY, reason=f"it is no identity of a graph: {error}") from error
    if not isinstance(graph_id, str) or not isinstance(uri, str):
        raise ObjectCorrupt(IDENTITY, reason="the id and the place of a graph are texts")
    return StoredIdentity(GraphIdentity(graph_id, uri), stored.tag)


def is_relocated(objects: Objects, root: Root) -> bool:
    """Must this graph be re-rooted before it is written to? True if that is not known."""
    found = read_identity(objects)
    return found is None or not found.identity.is_at(root)


def write_identity(
    objects: Objects, identity: GraphIdentity, known: StoredIdentity | None
) -> StoredIdentity:
    """Create or replace the identity. Raises ObjectExists, ObjectChanged if it is not `known`."""
    data = identity.encode()
    if known is None:
        return StoredIdentity(identity, objects.put_new(IDENTITY, data))
    return StoredIdentity(identity, objects.put_if_match(IDENTITY, data, tag=known.tag))


def read_graph_id(objects: Objects, root: Root, first_commit: str) -> str:
    """The id of the graph at this root.

    A copy that was not opened for writing yet still has the identity of its original. Its id is
    derived from both places, so that the original refuses the cursors of the copy.
    """
    found = read_identity(objects)
    if found is None:
        return first_commit
    identity = found.identity
    if identity.is_at(root):
        return identity.graph_id
    return f"{identity.graph_id}@{hashlib.sha256(root.uri.encode()).hexdigest()[:12]}"
