"""Failed logins: who waits, how long, and who does not."""

from dataclasses import replace

import pytest

from omnigraph.effects import REAL
from omnigraph.errors import TooManyFailedLogins, Unauthorized
from omnigraph.server.runtime import failed_logins
from omnigraph.server.runtime.failed_logins import FORGOTTEN_MS, FailedLogins
from omnigraph.server.runtime.tokens import INLINE, read_tokens

TOKENS = read_tokens({INLINE: '{"ada": "right", "bo": "fine"}'})


class Door:
    """Failed logins of a server, and the clock."""

    def __init__(self, failures_max: int = 3) -> None:
        self.now_ms = 5_000
        effects = replace(REAL, monotonic_ms=lambda: self.now_ms)
        self._logins = FailedLogins(failures_max, effects)

    def knock(self, token: str | None, address: str = "192.0.2.1") -> str:
        header = None if token is None else f"Bearer {token}"
        return self._logins.resolve(TOKENS.resolve, header, address)

    def fail(self, times: int, address: str = "192.0.2.1") -> None:
        for _ in range(times):
            with pytest.raises(Unauthorized):
                self.knock("guess", address)

    def waits_s(self, token: str = "guess", address: str = "192.0.2.1") -> int:
        with pytest.raises(TooManyFailedLogins) as refused:
            self.knock(token, address)
        return int(refused.value.retry_after_s)


def test_whoever_guesses_waits_longer_each_time() -> None:
    door = Door()
    door.fail(3)
    waited = []
    for _ in range(9):
        waited.append(door.waits_s())
        door.now_ms += waited[-1] * 1000
        door.fail(1)
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_whoever_waits_learns_nothing_from_the_right_token() -> None:
    door = Door()
    door.fail(3)
    assert door.waits_s("right") == 1
    door.now_ms += 1000
    assert door.knock("right") == "ada"


def test_others_are_not_locked_out() -> None:
    door = Door()
    assert door.knock("fine") == "bo"
    door.fail(3)
    assert door.knock("fine") == "bo"  # worked from here before
    assert door.waits_s("right") == 1
    assert door.knock("right", "192.0.2.2") == "ada"


def test_a_request_without_a_token_is_no_guess() -> None:
    door = Door()
    for _ in range(20):
        with pytest.raises(Unauthorized, match="missing"):
            door.knock(None)
    assert door.knock("right") == "ada"


def test_old_failures_are_forgotten() -> None:
    door = Door()
    door.fail(2)
    door.now_ms += FORGOTTEN_MS + 1
    door.fail(2)
    assert door.knock("right") == "ada"


def test_all_addresses_of_one_network_are_one_caller() -> None:
    door = Door(2)
    door.fail(1, "2001:db8::1")
    door.fail(1, "2001:db8::2:3")
    assert door.waits_s(address="2001:db8::9") == 1
    assert door.knock("right", "2001:db8:0:1::1") == "ada"
    door.fail(1, "::ffff:192.0.2.7")
    door.fail(1, "192.0.2.7")
    assert door.waits_s(address="192.0.2.7") == 1


def test_addresses_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_logins, "ADDRESSES_MAX", 4)
    door = Door(1)
    for each in range(10):
        door.fail(1, f"192.0.2.{each}")
        door.knock("right", f"198.51.100.{each}")
    held = door._logins
    assert (len(held._failures), len(held._worked)) == (4, 4)
