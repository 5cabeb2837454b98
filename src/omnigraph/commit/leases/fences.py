"""Fences: the tables that a recovered writer may still move once.

A writer that was recovered while its process was only paused cannot publish any more: the publish
finds the recovery commit (D2). But one table commit may be under way and lands when the process
resumes, however late. The recovery of such a writer writes `__recovery/{operation}.fence` with the
tables of the operation. An open and `refresh` then check those tables for drift. Without a fence
they would have to check every table of every branch. A fence is deleted when the process is dead,
or after `FENCE_MS_MAX`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.owner import Owner, is_dead
from omnigraph.effects import Effects
from omnigraph.errors import ObjectNotFound
from omnigraph.ids import OperationId, TableKey
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import FENCE_SUFFIX, fence_key
from omnigraph.storage.objects import Listed, Objects

FENCE_MS_MAX: Final = 7 * 24 * 3_600_000
"""Whether a process of another machine is dead is unknown. A commit that lands after this time is
still found by the next write to the table, by doctor and by repair.
"""


@dataclass(frozen=True, slots=True)
class Fence:
    key: str
    lock_keys: tuple[LockKey, ...]
    is_expired: bool
    """Is the process dead, or the fence older than `FENCE_MS_MAX`?"""


def write_fence(
    objects: Objects, operation_id: OperationId, lock_keys: Sequence[LockKey], paused: Owner
) -> None:
    document = {"places": [list(each) for each in lock_keys], "owner": asdict(paused)}
    objects.put_over(fence_key(operation_id), json.dumps(document).encode())


def find_fences(objects: Objects, effects: Effects, listed: Sequence[Listed]) -> tuple[Fence, ...]:
    """The fences in a listing of `__recovery`."""
    left = [each for each in listed if each.key.endswith(FENCE_SUFFIX)]
    found = (_read(objects, effects, each) for each in left)
    return tuple(each for each in found if each is not None)


def _read(objects: Objects, effects: Effects, listed: Listed) -> Fence | None:
    """A fence that a power cut left torn is expired: the power cut also ended the writer."""
    try:
        document = read_json(objects.read(listed.key).data)
        lock_keys = tuple(LockKey(TableKey(table), branch) for table, branch in document["places"])
        is_gone = is_dead(Owner(**document["owner"]))
    except ObjectNotFound:
        return None
    except (ValueError, KeyError, TypeError):
        return Fence(listed.key, (), is_expired=True)
    is_old = effects.now_ms() - listed.modified_ms > FENCE_MS_MAX
    return Fence(listed.key, lock_keys, is_expired=is_gone or is_old)
