"""Time and identity are passed in, so that a run is a function of its seed.

Only this module reads the clock or makes an id. Every other module takes an `Effects` from its
caller: `REAL` in production, a scripted one in tests.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ulid import ULID


@dataclass(frozen=True, slots=True)
class Effects:
    """The sources of time, sleep and identity."""

    now_ms: Callable[[], int]
    """Wall clock, milliseconds since the epoch. For messages and records, never for waiting."""

    monotonic_ms: Callable[[], int]
    """A clock that never runs backwards, and runs on while the machine is suspended. For waiting
    and for the age of leases, never for records."""

    sleep_ms: Callable[[int], None]

    new_id: Callable[[], str]
    """A fresh ULID: 26 upper-case Crockford characters, time first, the rest random."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""After a suspension the monotonic clock of Linux would show an expired lease as fresh (D30)."""


def _monotonic_ms() -> int:
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def _sleep_ms(duration_ms: int) -> None:
    time.sleep(duration_ms / 1_000)


def _new_id() -> str:
    return str(ULID())


REAL = Effects(now_ms=_now_ms, monotonic_ms=_monotonic_ms, sleep_ms=_sleep_ms, new_id=_new_id)
