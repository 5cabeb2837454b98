"""Stages: who is told, and what is kept."""

import pytest

from omnigraph.engine.stages import count_rows, stage, watching


class Heard:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def begin(self, stage: str) -> None:
        self.said.append(("begin", stage))

    def advance(self, stage: str, *, done: int, total: int, rows: int | None) -> None:
        self.said.append(("advance", stage, done, total, rows))

    def count(self, stage: str, rows: int) -> None:
        self.said.append(("count", stage, rows))

    def end(self, stage: str, *, elapsed_ms: int) -> None:
        assert elapsed_ms >= 0
        self.said.append(("end", stage))


def test_work_that_nobody_watches_goes_on_as_it_is() -> None:
    with stage("reading") as record:
        count_rows("reading", 3)
    assert record is None


def test_a_watcher_around_a_call_is_told_of_stages_deep_inside() -> None:
    heard = Heard()
    with watching(heard), watching() as inner, stage("reading") as record:
        assert record is inner
        with stage("checking"):
            inner.advance(done=1, total=4, rows=7)
        inner.advance(done=2, total=4)
        count_rows("reading", 3)
    assert heard.said == [
        ("begin", "reading"),
        ("begin", "checking"),
        ("advance", "checking", 1, 4, 7),
        ("end", "checking"),
        ("advance", "reading", 2, 4, None),
        ("count", "reading", 3),
        ("end", "reading"),
    ]
    assert set(inner.timings_ms) == {"reading", "checking"}


def test_a_stage_that_fails_has_ended_and_its_time_is_kept() -> None:
    heard = Heard()
    with watching(heard) as record:
        with pytest.raises(ValueError, match="no"), stage("reading"):
            raise ValueError("no")
        with stage("reading"):
            pass
    assert heard.said == [("begin", "reading"), ("end", "reading")] * 2
    assert list(record.timings_ms) == ["reading"]
