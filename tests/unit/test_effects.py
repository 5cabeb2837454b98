"""The real clock and the real ids."""

from ulid import ULID

from omnigraph.effects import REAL


def test_ids_are_ulids_that_tell_when_they_were_made() -> None:
    before_ms, made, after_ms = REAL.now_ms(), REAL.new_id(), REAL.now_ms()
    assert len(made) == 26
    assert before_ms <= ULID.from_str(made).milliseconds <= after_ms


def test_ids_differ() -> None:
    assert len({REAL.new_id() for _ in range(1_000)}) == 1_000


def test_waiting_takes_as_long_as_it_is_told() -> None:
    before_ms = REAL.monotonic_ms()
    REAL.sleep_ms(5)
    assert REAL.monotonic_ms() - before_ms >= 4
