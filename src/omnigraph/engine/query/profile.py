"""The profile of a plan: the rows, time and reads of each operator.

Time and reads of an operator exclude those of its inputs. A read is one call to a table; its bytes
are the values returned. I/O counts the store requests through the same handle. Cached columns cost
neither.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from omnigraph.commit.manifest.records import JsonObject
from omnigraph.compiler import plan
from omnigraph.compiler.explain import explain, headline
from omnigraph.engine.query.operators.execution import Frames
from omnigraph.engine.query.operators.expand import Counted
from omnigraph.engine.tables.metered import TableRead
from omnigraph.storage.tables import IoStats

NO_IO: Final = IoStats()


@dataclass(slots=True)
class OperatorProfile:
    """One operator."""

    expected: float = 0.0
    """The rows that were expected before the run."""
    rows: int = 0
    seconds: float = 0.0
    reads: int = 0
    nbytes: int = 0
    io: IoStats = NO_IO
    is_counted: bool = False
    """Its rows were counted and never built."""

    def __str__(self) -> str:
        noun = "counted" if self.is_counted else "row" if self.rows == 1 else "rows"
        said = [f"{self.rows:,} {noun}", f"{round(self.expected):,} expected"]
        said.append(f"{self.seconds * 1000:.2f} ms")
        if self.reads:
            said.append(f"{self.reads} read{'' if self.reads == 1 else 's'}, {self.nbytes:,} bytes")
            said.append(f"{self.io.count} I/O, {self.io.nbytes:,} bytes")
        return ", ".join(said)

    def document(self, operator: plan.Operator) -> JsonObject:
        return {
            "operator": headline(operator),
            "rows": self.rows,
            "expected": round(self.expected, 1),
            "ms": round(self.seconds * 1000, 3),
            "reads": self.reads,
            "bytes": self.nbytes,
            "io": self.io.count,
            "io_bytes": self.io.nbytes,
        }


@dataclass(slots=True)
class Profile:
    """Measures one execution."""

    expected: Mapping[int, float] = field(default_factory=dict)
    """The rows that each operator is expected to yield, by its identity."""
    clock: Callable[[], float] = time.perf_counter
    _steps: dict[int, OperatorProfile] = field(default_factory=dict)
    _running: list[OperatorProfile] = field(default_factory=list)
    _since: float = 0.0

    def step(self, operator: plan.Operator) -> OperatorProfile:
        known = self._steps.get(id(operator))
        if known is None:
            known = OperatorProfile(self.expected.get(id(operator), 0.0))
            self._steps[id(operator)] = known
        return known

    # events

    def frames(self, operator: plan.Operator, frames: Frames) -> Frames:
        step = self.step(operator)
        while True:
            self._enter(step)
            try:
                frame = next(frames, None)
            finally:
                self._leave()
            if frame is None:
                return
            step.rows += frame.count
            yield frame

    def counted(self, operator: plan.Operator, rows: Counted) -> Counted:
        step = self.step(operator)
        while True:
            self._enter(step)
            try:
                found = next(rows, None)
            finally:
                self._leave()
            if found is None:
                return
            frame, weights = found
            step.is_counted |= weights is not None
            step.rows += frame.count if weights is None else int(weights.sum())
            yield found

    def table(self, operator: plan.Operator, make: Callable[[], pa.Table]) -> pa.Table:
        step = self.step(operator)
        self._enter(step)
        try:
            table = make()
        finally:
            self._leave()
        step.rows += table.num_rows
        return table

    def read(self, reading: TableRead) -> None:
        """Charge a table read to the running operator."""
        if self._running:
            step = self._running[-1]
            step.reads += 1
            step.nbytes += reading.nbytes
            step.io += reading.io

    def _enter(self, step: OperatorProfile) -> None:
        self._charge()
        self._running.append(step)

    def _leave(self) -> None:
        self._charge()
        self._running.pop()

    def _charge(self) -> None:
        now = self.clock()
        if self._running:
            self._running[-1].seconds += now - self._since
        self._since = now

    # output

    def text(self, read: plan.ReadPlan) -> str:
        return explain(read, lambda operator: str(self.step(operator)))

    def documents(self, read: plan.ReadPlan) -> Iterator[JsonObject]:
        """One document per operator, the top operator first."""
        for operator in plan.operators_in(read.root):
            yield self.step(operator).document(operator)
