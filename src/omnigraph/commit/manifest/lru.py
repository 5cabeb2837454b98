"""What was last used, and so much of it at most.

A process that serves a graph sees branches come and go that others make and delete. It is not told
when one is gone, so whatever it keeps by branch has to end by itself.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key; those not asked for the longest go first. Its owner locks."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._values: OrderedDict[K, V] = OrderedDict()

    def find(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def keep(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._count_max:
            self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        self._values.pop(key, None)

    def __len__(self) -> int:
        return len(self._values)
