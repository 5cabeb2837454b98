"""Break and count the calls to a store, without the product's knowledge.

A `Watch` sees every call to the stores of a graph, before and after the call. It may count, record,
pause, or raise; an exception that it raises reaches the product as if the process had died there.

A sweep crashes only at calls that write: a crash before or after a read leaves the same bytes as a
crash after the write before it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any, Final, Protocol, cast

from omnigraph.errors import StorageFailure
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Tables

STRIDE: Final = int(os.environ.get("OMNIGRAPH_SWEEP_STRIDE", "4"))
"""A sweep tries every n-th crash position of the recovery inside it; the soak tries all."""

OBJECT_WRITES: Final = frozenset(
    {
        "put_over",
        "put_parts",
        "put_new",
        "put_if_match",
        "delete",
        "delete_prefix",
        "remove_unfinished",
    }
)
TABLE_WRITES: Final = frozenset(
    {
        "stage_create",
        "stage_rows",
        "stage_append",
        "stage_receipts",
        "stage_pieces",
        "to_pieces",
        "discard",
        "stage_upsert",
        "stage_delete",
        "stage_overwrite",
        "stage_reshape",
        "stage_unindex",
        "stage_indices",
        "stage_settings",
        "stage_compaction",
        "run_compaction_task",
        "stage_compaction_results",
        "fill",
        "commit_exact",
        "commit_detached",
        "remove_detached",
        "restore",
        "remove_torn",
        "harden",
        "fork",
        "delete_branch",
        "clear_branch",
    }
)
SINGLE_STEP_WRITES: Final = frozenset({"swap_rows", "commit_compaction", "delete_versions"})


class Crash(BaseException):
    """The process dies here. A BaseException: a product that catches it is wrong."""


class Watch(Protocol):
    """Sees calls such as `objects.put_new` or `tables.commit_exact`."""

    def before(self, call: str, *, is_write: bool) -> None: ...
    def after(self, call: str, *, is_write: bool) -> None: ...


def watch_stores(stores: Stores, watch: Watch) -> Stores:
    """The same stores; `watch` sees every call."""
    objects = _Watched(stores.objects, "objects", OBJECT_WRITES, watch)
    volatile = _Watched(stores.volatile, "volatile", OBJECT_WRITES, watch)
    nested = {"single_step": SINGLE_STEP_WRITES}
    tables = _Watched(stores.tables, "tables", TABLE_WRITES, watch, nested)
    return replace(
        stores,
        objects=cast("Objects", objects),
        volatile=cast("Objects", volatile),
        tables=cast("Tables", tables),
    )


class _Watched:
    """A proxy of any store. It is dynamic, so new methods of the protocols are watched too."""

    def __init__(
        self,
        inner: object,
        name: str,
        writes: frozenset[str],
        watch: Watch,
        nested: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self._inner = inner
        self._name = name
        self._writes = writes
        self._watch = watch
        self._nested = nested or {}

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._inner, method)
        if method in self._nested:
            return _Watched(found, f"{self._name}.{method}", self._nested[method], self._watch)
        call = f"{self._name}.{method}"
        is_write = method in self._writes

        def watched(*arguments: Any, **keywords: Any) -> Any:
            self._watch.before(call, is_write=is_write)
            result = found(*arguments, **keywords)
            self._watch.after(call, is_write=is_write)
            return result

        return watched


@dataclass
class Recorder:
    """Every call, in order."""

    calls: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)

    def before(self, call: str, *, is_write: bool) -> None:
        self.calls.append(call)
        if is_write:
            self.writes.append(call)

    def after(self, call: str, *, is_write: bool) -> None:
        pass

    def count(self, call: str) -> int:
        return self.calls.count(call)


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass
class CrashAt:
    """Dies at the n-th write, before or after it happens; every later call dies too."""

    step: int
    when: When
    seen: int = 0
    dead: bool = False

    def before(self, call: str, *, is_write: bool) -> None:
        if self.dead:
            raise Crash(call)
        if is_write:
            self.seen += 1
            self._die_if(self.when is When.BEFORE, call)

    def after(self, call: str, *, is_write: bool) -> None:
        if is_write:
            self._die_if(self.when is When.AFTER, call)

    def _die_if(self, due: bool, call: str) -> None:  # noqa: FBT001 - private
        if due and self.seen == self.step:
            self.dead = True
            raise Crash(f"{self.when.value} write {self.step}, {call}")


@dataclass
class CrashOn:
    """Dies at the first call of one name, before it happens; every later call dies too."""

    call: str
    dead: bool = False

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self.dead |= call == self.call
        if self.dead:
            raise Crash(call)

    def after(self, call: str, *, is_write: bool) -> None:
        pass


@dataclass
class FailAt:
    """The n-th write fails once, before it takes effect. The process continues."""

    step: int
    seen: int = 0

    def before(self, call: str, *, is_write: bool) -> None:
        self.seen += is_write
        if is_write and self.seen == self.step:
            raise StorageFailure("carry out", subject=call, reason="the test said so")

    def after(self, call: str, *, is_write: bool) -> None:
        pass


@dataclass
class FailOn:
    """Calls of one name fail `times` times, before or after they happen. The process continues."""

    call: str
    times: int = 1
    when: When = When.BEFORE

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self._fail_if(call, When.BEFORE)

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
        self._fail_if(call, When.AFTER)

    def _fail_if(self, call: str, when: When) -> None:
        if call == self.call and self.when is when and self.times:
            self.times -= 1
            raise StorageFailure("carry out", subject=call, reason="the test said so")


def sweep(when: When, run: Callable[[CrashAt], None], stride: int = 1) -> Iterator[CrashAt]:
    """Run again and again, each time with the crash `stride` writes later, until a run survives.

    Yields after every run that crashed, so that the caller can check what is left; and once more
    after the run that survived, with `dead` still false.
    """
    for step in count(1, stride):
        fault = CrashAt(step, when)
        try:
            run(fault)
        except Crash:
            yield fault
            continue
        yield fault
        return
