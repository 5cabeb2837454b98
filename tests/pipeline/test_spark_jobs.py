"""What the pipeline relies on when it hands work to Spark."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.errors import FileUnreadable, JobFailed
from omnigraph.pipeline.spark.jobs import run_tasks
from support.tasks import Marking, fill_the_disk, read_nothing


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


def test_our_errors_come_back_as_themselves_and_others_as_one_line(spark: SparkSession) -> None:
    with pytest.raises(FileUnreadable, match="cannot read file-0: gone"):
        run_tasks(spark, read_nothing, 1, job="reading")
    with pytest.raises(JobFailed) as caught:
        run_tasks(spark, fill_the_disk, 1, job="writing")
    assert str(caught.value) == "writing failed: ValueError: the disk is full, said task 0"
