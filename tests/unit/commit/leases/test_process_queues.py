"""ProcessQueues inside a process: first come, first served, and never two at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.leases.process_queues import ProcessQueues
from omnigraph.errors import LeaseHeld
from omnigraph.ids import TableKey

A, B, C = (LockKey(TableKey(f"node:{name}"), "main") for name in "ABC")


def test_whoever_comes_first_goes_first() -> None:
    queues = ProcessQueues()
    order: list[int] = []
    threads = []

    def work(number: int) -> None:
        with queues.hold([A]):
            order.append(number)

    with queues.hold([A]):
        for number in range(8):
            threads.append(Thread(target=work, args=(number,)))
            threads[-1].start()
            while len(queues._queues[A]) < number + 2:
                time.sleep(0.001)  # noqa: TID251 - the test waits for a thread, not for time
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_places_are_taken_in_one_order_whatever_was_asked() -> None:
    """Opposite orders would wait for each other for good."""
    queues = ProcessQueues()
    done = []

    def work(places: list[LockKey]) -> None:
        for _ in range(200):
            with queues.hold(places):
                pass
        done.append(True)

    threads = [Thread(target=work, args=(each,)) for each in ([A, B, C], [C, B, A], [B, A], [C, A])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(done) == 4


def test_the_same_table_on_two_branches_is_two_places() -> None:
    queues = ProcessQueues()
    with queues.hold([A]), queues.hold([LockKey(A.table, "side")]):
        pass


def test_a_place_asked_for_twice_is_taken_once() -> None:
    with ProcessQueues().hold([A, A]):
        pass


def test_an_error_gives_everything_back() -> None:
    queues = ProcessQueues()
    with pytest.raises(ZeroDivisionError), queues.hold([A, B]):
        raise ZeroDivisionError
    assert queues._queues == {}


def test_a_waiter_that_gives_up_does_not_stop_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = ProcessQueues()
    passed = Event()

    def interrupted(self: Event, timeout: float | None = None) -> bool:  # noqa: ARG001
        raise KeyboardInterrupt

    with queues.hold([A]):
        with monkeypatch.context() as patch:
            patch.setattr(Event, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt), queues.hold([A]):
                pass
        thread = Thread(target=lambda: _pass_through(queues, passed))
        thread.start()
    thread.join(timeout=120)
    assert passed.is_set()
    assert queues._queues == {}


def _pass_through(queues: ProcessQueues, passed: Event) -> None:
    with queues.hold([A]):
        passed.set()


def test_a_successor_is_somebody_who_wants_the_same_place_and_no_other() -> None:
    queues = ProcessQueues()
    found = []
    wishes: list[list[LockKey]] = [[], [A], [A, B], [B]]
    for wanted in wishes:
        with ThreadPoolExecutor(1) as other:
            with queues.hold([A]):
                waiting = other.submit(pass_through, queues, wanted)
                while A in wanted and len(queues._queues[A]) < 2:
                    time.sleep(0.001)  # noqa: TID251 - the test waits for a thread, not for time
                found.append(queues.has_successor([A]))
            waiting.result()
    assert found == [False, True, False, False]
    with queues.hold([A, B]):
        assert not queues.has_successor([A, B])


def pass_through(queues: ProcessQueues, places: list[LockKey]) -> None:
    with queues.hold(places):
        pass


def test_a_waiter_that_gives_up_leaves_the_queue() -> None:
    queues = ProcessQueues()
    with queues.hold([A]):
        with pytest.raises(LeaseHeld), queues.hold([A], wait_ms_max=1):
            raise AssertionError("it is held")
        assert len(queues._queues[A]) == 1
    assert queues._queues == {}
