"""Lines: straight through while nobody waits, one after the other as soon as somebody does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Never

import pytest

from omnigraph.commit.leases.fair_queue import FairBackoff, FairQueue, Ticket
from omnigraph.commit.leases.owner import Owner, this_process
from omnigraph.effects import REAL
from omnigraph.errors import StorageFailure
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import open_objects

ELSEWHERE = Owner("another-host", "boot", 5, 5)
PREFIX = "__leases/manifest@main.line"


@pytest.fixture
def objects() -> Objects:
    return open_objects("memory://", REAL)


def line_of(
    objects: Objects, *, sleep_ms: Callable[[int], None] = REAL.sleep_ms, owner: Owner = ELSEWHERE
) -> FairQueue:
    effects = replace(REAL, sleep_ms=sleep_ms)
    return FairQueue(objects, effects, owner, PREFIX, patience_ms=60_000, poll_ms=1)


def forbidden(_: int) -> Never:
    pytest.fail("there was nothing to wait for")


def tickets_in(objects: Objects) -> int:
    return len(objects.list(PREFIX))


def test_nobody_waits_and_nothing_is_written_where_there_is_no_line(objects: Objects) -> None:
    with FairBackoff(line_of(objects, sleep_ms=forbidden), wait_ms_max=1_000):
        assert tickets_in(objects) == 0


def test_who_finds_a_line_goes_after_those_who_stand_in_it(objects: Objects) -> None:
    first = line_of(objects).join()
    first.__enter__()
    seen = []

    def leave(_: int) -> None:
        seen.append(tickets_in(objects))
        first.__exit__(None, None, None)

    with FairBackoff(line_of(objects, sleep_ms=leave), wait_ms_max=60_000):
        assert seen == [2]
        assert tickets_in(objects) == 1
    assert tickets_in(objects) == 0


def test_who_was_refused_stands_in_line_until_it_is_through(objects: Objects) -> None:
    with FairBackoff(line_of(objects, sleep_ms=forbidden), wait_ms_max=1_000) as turn:
        turn.wait()
        turn.wait()
        assert tickets_in(objects) == 1
        assert not line_of(objects).is_empty()
    assert tickets_in(objects) == 0


def test_the_wait_for_a_turn_ends(objects: Objects) -> None:
    """A line is a courtesy: somebody who never moves on delays others, and stops nobody."""
    with line_of(objects).join(), FairBackoff(line_of(objects), wait_ms_max=5):
        pass


def test_the_oldest_ticket_is_next_and_the_dead_do_not_count(objects: Objects) -> None:
    gone = replace(this_process(), pid_start=1)
    line = line_of(objects)
    with line_of(objects, owner=gone).join(), line.join() as older, line.join() as younger:
        assert line.count_ahead(older) == 0
        assert line.count_ahead(replace(younger, number=f"{older.number}-later")) == 1


def test_a_ticket_nobody_can_be_waiting_with_any_more_is_passed_over(objects: Objects) -> None:
    line = replace(line_of(objects), patience_ms=-1)
    with line.join():
        assert line.count_ahead(Ticket("Z" * 26, ELSEWHERE)) == 0


class Broken:
    """A store that answers nothing."""

    def __getattr__(self, name: str) -> Never:
        raise StorageFailure(name, subject=PREFIX, reason="the test said so")


def test_a_line_that_cannot_be_read_stops_nobody() -> None:
    line = FairQueue(Broken(), REAL, ELSEWHERE, PREFIX, patience_ms=1, poll_ms=1)
    with FairBackoff(line, wait_ms_max=1_000) as turn:
        turn.wait()
