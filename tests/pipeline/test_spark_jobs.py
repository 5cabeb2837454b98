"""What the pipeline relies on when it hands work to Spark."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph.errors import FileUnreadable, JobFailed
from omnigraph.pipeline.jobs import run_tasks


@dataclass(frozen=True)
class Marking:
    """Work that leaves a file for every time it is done."""

    folder: str

    def __call__(self, number: int) -> dict[str, Any]:
        marks = len(list(Path(self.folder).glob(f"{number}-*")))
        (Path(self.folder) / f"{number}-{marks}").touch()
        return {"number": number, "pid": os.getpid()}


def test_every_task_is_run_once_and_answers_come_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    answers = run_tasks(spark, Marking(str(tmp_path)), 7, job="marking")
    assert [each["number"] for each in answers] == list(range(7))
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{n}-0" for n in range(7)]
    assert all(each["pid"] != os.getpid() for each in answers)


def test_concurrency_bounds_how_many_workers_there_are(spark: SparkSession, tmp_path: Path) -> None:
    answers = run_tasks(spark, Marking(str(tmp_path)), 6, job="marking", concurrency=1)
    assert len({each["pid"] for each in answers}) == 1


def unreadable(number: int) -> dict[str, Any]:
    raise FileUnreadable(f"file-{number}", reason="gone")


def hopeless(number: int) -> dict[str, Any]:
    raise ZeroDivisionError(f"in task {number}")


def test_our_errors_come_back_as_themselves_and_others_as_one_line(spark: SparkSession) -> None:
    with pytest.raises(FileUnreadable, match="cannot read file-0: gone"):
        run_tasks(spark, unreadable, 1, job="reading")
    with pytest.raises(JobFailed) as caught:
        run_tasks(spark, hopeless, 1, job="dividing")
    assert str(caught.value) == "dividing failed: ZeroDivisionError: in task 0"
