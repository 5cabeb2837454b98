"""Failed logins: an address that guesses tokens has to wait, longer and longer.

Each worker counts on its own. An address that waits gets no token compared, so a guess tells it
nothing. A token that worked from this address before still works: other callers behind the same
proxy must not be locked out by one that guesses.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import Final, TypeVar

from omnigraph.effects import REAL, Effects
from omnigraph.errors import TooManyFailedLogins, Unauthorized

ADDRESSES_MAX: Final = 10_000
"""How many addresses, and how many tokens that worked, are remembered; the oldest are dropped."""

WAIT_MS_MAX: Final = 60_000
FORGOTTEN_MS: Final = 15 * 60_000
"""After so long without a failure, an address starts anew."""

_NETWORK_BITS: Final = 64

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int
    last_ms: int
    until_ms: int


class FailedLogins:
    def __init__(self, failures_max: int, effects: Effects = REAL) -> None:
        self.failures_max = failures_max
        self._effects = effects
        self._lock = Lock()
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._worked: OrderedDict[tuple[str, str], None] = OrderedDict()

    def resolve(
        self, resolve: Callable[[str | None], str], header: str | None, address: str
    ) -> str:
        """The actor that `resolve` finds. Raises Unauthorized, TooManyFailedLogins."""
        if header is None:
            return resolve(header)
        caller = _find_network(address)
        login = (caller, hashlib.sha256(header.encode("utf-8", "surrogateescape")).hexdigest())
        self._check(caller, login)
        try:
            actor = resolve(header)
        except Unauthorized:
            self._count(caller)
            raise
        with self._lock:
            _remember(self._worked, login, None)
        return actor

    def _check(self, caller: str, login: tuple[str, str]) -> None:
        with self._lock:
            found = self._failures.get(caller)
            if found is None or login in self._worked:
                return
        left_ms = found.until_ms - self._effects.monotonic_ms()
        if left_ms > 0:
            raise TooManyFailedLogins(caller, retry_after_s=-(-left_ms // 1000))

    def _count(self, caller: str) -> None:
        now_ms = self._effects.monotonic_ms()
        with self._lock:
            found = self._failures.get(caller)
            is_old = found is None or now_ms - found.last_ms > FORGOTTEN_MS
            count = 1 if found is None or is_old else found.count + 1
            excess = count - self.failures_max
            wait_ms = 0 if excess < 0 else min(WAIT_MS_MAX, 1000 << min(excess, 16))
            _remember(self._failures, caller, _Failures(count, now_ms, now_ms + wait_ms))


def _remember(held: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    held[key] = value
    held.move_to_end(key)
    if len(held) > ADDRESSES_MAX:
        held.popitem(last=False)


def _find_network(address: str) -> str:
    """An IPv4 address; of an IPv6 address its network, because one caller has all of that."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    bits = int(found) >> _NETWORK_BITS << _NETWORK_BITS
    return f"{IPv6Address(bits)}/{_NETWORK_BITS}"
