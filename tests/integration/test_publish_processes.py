"""Functions in processes of their own: answers, errors, deaths and the gate."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.processes import (
    Died,
    Process,
    Raised,
    Returned,
    TimedOut,
    launch,
    race,
    values_of,
)


@dataclass(frozen=True)
class Answer:
    """A class of a file nobody can import by name."""

    pid: int
    text: str


def answer(text: str) -> Answer:
    print("whatever is printed does not disturb the answer")  # noqa: T201
    return Answer(os.getpid(), text)


def fail(text: str) -> None:
    raise LookupError(text)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    while True:
        time.sleep(60)  # noqa: TID251 - as long as it takes


def touch(file: str) -> float:
    Path(file).touch()
    return time.monotonic()


def test_answers_come_back_from_processes_of_their_own() -> None:
    answers = values_of(race([launch(answer, "ä"), launch(answer, text="b")]))
    assert [each.text for each in answers] == ["ä", "b"]
    assert len({os.getpid(), *(each.pid for each in answers)}) == 3


def test_what_is_raised_is_reported_and_does_not_hide_the_others() -> None:
    runners: list[Process[object]] = [launch(fail, "the reason"), launch(answer, "fine")]
    raised, returned = race(runners)
    assert isinstance(raised, Raised)
    assert raised.kind == "LookupError"
    assert "the reason" in raised.report
    assert isinstance(returned, Returned)
    with pytest.raises(AssertionError, match="the reason"):
        values_of([raised])


def test_a_process_that_dies_or_hangs_is_told_apart() -> None:
    died, hung = race([launch(die), launch(hang)], timeout_s=3)
    assert isinstance(died, Died)
    assert died.exit_code == -signal.SIGKILL
    assert isinstance(hung, TimedOut)


def test_nothing_begins_before_all_are_ready(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    runner = launch(touch, str(mark))
    runner.await_ready()
    assert not mark.exists()
    runner.begin()
    assert isinstance(runner.finish(300), Returned)
    assert mark.exists()


def test_a_process_can_be_killed_at_the_gate() -> None:
    runner = launch(hang)
    runner.await_ready()
    runner.kill()
    runner.begin()
    assert isinstance(runner.finish(300), Died)
