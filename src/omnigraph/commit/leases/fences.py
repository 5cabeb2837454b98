"""Writers that were taken for dead and may only be asleep.

Such a writer is fenced: what it wakes up to publish is refused. But one table commit may be under
way, and lands when it wakes, however late. Its recovery leaves a fence that names its tables, so
that whoever opens the graph looks at them; without it every table of every branch would have to be.
A fence goes when its process is gone, or when nobody expects it to wake any more.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from omnigraph.commit.leases.owner import Owner, is_dead
from omnigraph.commit.leases.queues import Place
from omnigraph.effects import Effects
from omnigraph.errors import ObjectNotFound
from omnigraph.ids import OperationId, TableKey
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import FENCE_SUFFIX, fence_key
from omnigraph.storage.objects import Listed, Objects

KEPT_MS_MAX: Final = 7 * 24 * 3_600_000
"""A process of another machine cannot be asked. Later than this, writes, doctor and repair still
find what it did.
"""


@dataclass(frozen=True, slots=True)
class Fence:
    key: str
    places: tuple[Place, ...]
    is_over: bool
    """Can the writer not wake any more?"""


def leave_fence(
    objects: Objects, operation_id: OperationId, places: Sequence[Place], sleeper: Owner
) -> None:
    document = {"places": [list(each) for each in places], "owner": asdict(sleeper)}
    objects.put_over(fence_key(operation_id), json.dumps(document).encode())


def find_fences(objects: Objects, effects: Effects, listed: Sequence[Listed]) -> tuple[Fence, ...]:
    """The fences among what is listed of `__recovery`."""
    left = [each for each in listed if each.key.endswith(FENCE_SUFFIX)]
    found = (_read(objects, effects, each) for each in left)
    return tuple(each for each in found if each is not None)


def _read(objects: Objects, effects: Effects, listed: Listed) -> Fence | None:
    """One that a power cut left torn is over: its writer is gone, too."""
    try:
        document = read_json(objects.read(listed.key).data)
        places = tuple(Place(TableKey(table), branch) for table, branch in document["places"])
        is_gone = is_dead(Owner(**document["owner"]))
    except ObjectNotFound:
        return None
    except (ValueError, KeyError, TypeError):
        return Fence(listed.key, (), is_over=True)
    is_old = effects.now_ms() - listed.modified_ms > KEPT_MS_MAX
    return Fence(listed.key, places, is_over=is_gone or is_old)
