"""The rows of a variable that is bound to paths: `all shortest { … } as $path`."""

import json
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import PathPart
from omnigraph.engine.query.columns.rows import ID, Ordinals
from omnigraph.engine.tables.arrays import Array

_TYPES: Final = {
    ID: pa.string(),
    PathPart.LENGTH: pa.int64(),
    PathPart.NODES: pa.list_(pa.string()),
    PathPart.COST: pa.float64(),
}


class PathRows:
    """Paths in the order in which they were found; they are appended while a read runs."""

    def __init__(self, ids: Callable[[Ordinals], list[str]]) -> None:
        self._ids = ids
        self._found: list[npt.NDArray[np.int32]] = []
        """The nodes of some paths: a path for each row, and a node for each column."""
        self._costs: list[float] = []
        self._starts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, paths: npt.NDArray[np.int32], cost: float) -> Ordinals:
        """The ordinals of these paths, which have one cost."""
        start = self._count
        self._found.append(paths)
        self._costs.append(cost)
        self._starts.append(start)
        self._count += len(paths)
        return np.arange(start, self._count, dtype=np.int32)

    def take(self, name: str, at: Ordinals) -> Array:
        if name in (PathPart.NODES, ID):
            return self._take_nodes(at, is_id=name == ID)
        part = self._length if name == PathPart.LENGTH else self._cost
        return pa.array([None if each < 0 else part(each) for each in at.tolist()], _TYPES[name])

    def find(self, ids: Array) -> Ordinals:
        raise AssertionError(f"paths are handed on by ordinals, so {len(ids)} are not found")

    def _take_nodes(self, at: Ordinals, *, is_id: bool) -> Array:
        """A path is known by its nodes from the end backwards: so paths are in their order."""
        taken = [self._nodes(each) for each in at.tolist() if each >= 0]
        ids = self._ids(np.concatenate([*taken, np.empty(0, np.int32)]))
        values: list[object] = []
        start = 0
        for each in at.tolist():
            if each < 0:
                values.append(None)
                continue
            stop = start + self._length(each) + 1
            path = ids[start:stop]
            values.append(json.dumps(path[::-1], ensure_ascii=False) if is_id else path)
            start = stop
        return pa.array(values, _TYPES[ID if is_id else PathPart.NODES])

    def _group(self, at: int) -> int:
        return bisect_right(self._starts, at) - 1

    def _nodes(self, at: int) -> Ordinals:
        group = self._group(at)
        nodes: Ordinals = self._found[group][at - self._starts[group]]
        return nodes

    def _length(self, at: int) -> int:
        return len(self._nodes(at)) - 1

    def _cost(self, at: int) -> float:
        return self._costs[self._group(at)]
