"""The thread that renews leases: there while there are leases, and not for ever."""

import pytest

from omnigraph.commit.leases import heartbeat
from omnigraph.commit.leases.heartbeat import Heartbeat
from omnigraph.effects import REAL


class Beaten:
    def __init__(self) -> None:
        self.renewals = 0

    def renew(self) -> None:
        self.renewals += 1

    def await_renewal(self) -> None:
        seen = self.renewals
        while self.renewals == seen:
            REAL.sleep_ms(1)


def test_the_thread_ends_without_leases_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "IDLE_S", 0.01)
    beat = Heartbeat(interval_ms=1)
    for _ in range(3):
        leases = Beaten()
        beat.add(leases)
        thread = beat._thread
        assert thread is not None
        leases.await_renewal()
        beat.remove(leases)
        thread.join(60)
        assert not thread.is_alive()


def test_the_thread_lasts_as_long_as_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "IDLE_S", 0.0)
    beat, lasting = Heartbeat(interval_ms=1), Beaten()
    beat.add(lasting)
    for _ in range(20):
        passing = Beaten()
        beat.add(passing)
        lasting.await_renewal()
        beat.remove(passing)
    beat.remove(lasting)
