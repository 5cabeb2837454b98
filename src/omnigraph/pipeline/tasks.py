"""Tasks: plain functions of their number, run by the workers of Spark or in this process.

A task returns a small JSON document: receipts, counts, names of files. `run_here` and
`spark.jobs.run_tasks` run the same functions, so both engines obey the same rules.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.stages import stage
from omnigraph.errors import FileUnreadable, JobFailed
from omnigraph.jsontext import read_json

Work = Callable[[int], dict[str, Any]]
"""What one task does. Its answer is a JSON document; `rows` in it is reported to a watcher."""

RunTasks = Callable[[Work, int, str], list[dict[str, Any]]]
"""Runs tasks 0 to before a count of some work, named by the text, and returns their answers."""

_FAILURES: Final = (OSError, pa.ArrowException)


def run_here(work: Work, count: int, job: str) -> list[dict[str, Any]]:
    """`RunTasks` in this process, one task after the other.

    Raises FileUnreadable, JobFailed, Cancelled.
    """
    return begin_here(work, count, job, lambda: False)


def begin_here(
    work: Work, count: int, job: str, is_enough: Callable[[], bool]
) -> list[dict[str, Any]]:
    """The answers of the first tasks, up to the moment at which that is enough.

    Raises FileUnreadable, JobFailed, Cancelled.
    """
    answers: list[dict[str, Any]] = []
    with stage(job) as record:
        for number in range(count):
            if is_enough():
                break
            check_cancelled()
            try:
                answers.append(read_json(json.dumps(work(number))))  # as Spark returns it
            except FileUnreadable:
                raise
            except _FAILURES as error:
                reason = f"{type(error).__name__}: {error}"
                raise JobFailed(job, reason=reason) from error
            if record is not None:
                rows = sum(each.get("rows", 0) for each in answers)
                record.advance(done=number + 1, total=count, rows=rows or None)
    return answers
