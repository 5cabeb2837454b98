"""Doing a write once, however often it is asked for.

A caller that does not know what became of its write asks again with the same key. The key, a hash
of what was asked, and what came of it travel in the commit, so whoever is asked knows: another
process, after a crash, on another day. A write that changes nothing leaves a commit too, if it has
a key, because its answer has to be somewhere.

1. It is looked for before anything is done, again under the leases, and at last in the manifest
   that is swapped.
2. A key belongs to an actor and a branch. The same key with another request is a mistake.
3. Making and deleting a branch leaves no commit, so the key is noted beside the graph: before, that
   it was begun, and after, that it was done. Whoever finds it begun, and the branch as it was to
   be, was interrupted between the two. Such notes are forgotten after a month.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.records import Commit, Idempotency, JsonObject
from omnigraph.errors import (
    AlreadyDone,
    KeyReused,
    ObjectCorrupt,
    ObjectExists,
    OmnigraphError,
    UsageError,
)
from omnigraph.ids import is_encodable
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import PROMISES, promise_key
from omnigraph.storage.objects import Objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The key of a write, and the hash of what it asks for."""

    key: str
    body_hash: str

    def record(self, result: JsonObject) -> Idempotency:
        """What the commit is to say."""
        return Idempotency(self.key, self.body_hash, result)


def parse_key(key: str | None, *parts: object) -> IdempotencyKey | None:
    """The key for a write that asks for these; nothing if there is no key. Raises UsageError."""
    if key is None:
        return None
    if not is_encodable(key):
        raise UsageError(f"{key!r} cannot be an idempotency key: half a character cannot be kept")
    return IdempotencyKey(key, hash_of(*parts))


def hash_of(*parts: object) -> str:
    """The same for requests that ask for the same."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def parse_key_of_files(
    key: str | None, files: Sequence[str | Path], *parts: object
) -> IdempotencyKey | None:
    """The key for a write of files, by what is in them: a copy under another name is the same."""
    if key is None:
        return None
    return parse_key(key, hash_files(files), *parts)


def hash_files(files: Sequence[str | Path]) -> list[str]:
    """By what is in them, in whatever order they come."""
    return sorted(_fingerprint(Path(each)) for each in files)


def _fingerprint(path: Path) -> str:
    if not path.is_file():
        return str(path)  # a folder, a pattern, a bucket: by name
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Done:
    """A write that was done before."""

    commit: Commit
    result: Mapping[str, object]

    def number(self, name: str) -> int:
        found = self.result.get(name)
        return found if isinstance(found, int) else 0


def find_done(manifest: Manifest, wanted: IdempotencyKey | None, actor: str | None) -> Done | None:
    """(1) What became of the write with this key. Raises KeyReused."""
    if wanted is None:
        return None
    commit = manifest.log.find_key(wanted.key, actor=actor, branch=manifest.branch)
    if commit is None:
        return None
    recorded = commit.extension.idempotency
    assert recorded is not None, "it was found by its key"
    if recorded.body_hash != wanted.body_hash:
        raise KeyReused(wanted.key)
    result = recorded.result
    return Done(commit, result if isinstance(result, dict) else {})


def run_idempotent(find: Callable[[], T | None], act: Callable[[], T]) -> T:
    """(1) What was done before; or act now.

    Raises KeyReused, and whatever acting raises.
    """
    done = find()
    if done is not None:
        return done
    try:
        return act()
    except AlreadyDone:
        # Somebody else was asked the same at the same time, and is the one who did it.
        done = find()
        if done is None:
            raise
        return done


# ── what leaves no commit ────────────────────────────────────────────────────────────────────────


def run_idempotent_without_commit(
    objects: Objects,
    wanted: IdempotencyKey | None,
    actor: str | None,
    act: Callable[[], None],
    *,
    is_done: type[OmnigraphError],
) -> None:
    """(3) Act, unless that was done before. `is_done` is raised by acting on what is so already.

    Raises KeyReused, and whatever acting raises.
    """
    if wanted is None:
        act()
        return
    owner = hashlib.sha256(json.dumps([actor, wanted.key]).encode()).hexdigest()
    key = promise_key(owner)
    is_begun = _begin(objects, key, wanted)
    if is_begun is Begun.DONE:
        return
    try:
        act()
    except is_done:
        if is_begun is not Begun.BEFORE:
            objects.delete(key)
            raise
    except OmnigraphError:
        if is_begun is Begun.NOW:
            objects.delete(key)
        raise
    objects.put_over(key, _encode_record(wanted, is_done=True))


class Begun(Enum):
    NOW = "now"
    BEFORE = "before"
    DONE = "done"


def _begin(objects: Objects, key: str, wanted: IdempotencyKey) -> Begun:
    """Raises KeyReused, ObjectCorrupt."""
    try:
        objects.put_new(key, _encode_record(wanted, is_done=False))
    except ObjectExists:
        body_hash, is_done = _read_record(objects, key)
        if body_hash != wanted.body_hash:
            raise KeyReused(wanted.key) from None
        return Begun.DONE if is_done else Begun.BEFORE
    return Begun.NOW


def _read_record(objects: Objects, key: str) -> tuple[str, bool]:
    data = objects.read(key).data
    try:
        found = read_json(data)
        return str(found["body_hash"]), bool(found["is_done"])
    except (ValueError, KeyError, TypeError) as error:
        reason = f"it does not say what was promised: {error}"
        raise ObjectCorrupt(key, reason=reason) from error


def _encode_record(wanted: IdempotencyKey, *, is_done: bool) -> bytes:
    return json.dumps({"body_hash": wanted.body_hash, "is_done": is_done}).encode()


def forget_old_keys(objects: Objects, *, before_ms: int) -> None:
    """Remove the notes that were last written before some time. Raises StorageFailure."""
    for each in objects.list(PROMISES):
        if each.modified_ms < before_ms:
            objects.delete(each.key)
