"""Is it plain that nothing is wrong? Asked of workers, bucket by bucket, before Spark joins keys.

Nearly always nothing is wrong, and telling so takes Arrow a fraction of what a join takes. So each
check that can be put as a question about texts is asked here first. Whatever is cleared here, the
check would have found right; a property test holds it to that. What is not cleared is in doubt, and
no more is said about it: the check itself finds out what is wrong, if anything is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from omnigraph.pipeline.buckets import Texts
from omnigraph.pipeline.jobs import run_tasks

ROWS_PER_BUCKET_MAX: Final = 8_000_000
"""What a task may have to hold of one question. Beyond, Spark is asked, which can spill."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """No text is there twice."""

    texts: tuple[Texts, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """No text of the one is in the other."""

    ours: tuple[Texts, ...]
    theirs: tuple[Texts, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """Every text of the one is in the other."""

    wanted: tuple[Texts, ...]
    known: tuple[Texts, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Every text that is there at all is there so many times."""

    texts: tuple[Texts, ...]
    low: int
    high: int | None


Plain = Distinct | Apart | Within | Counted


@dataclass(frozen=True, slots=True)
class Sift:
    """The work of answering questions; task n answers them for bucket n."""

    questions: tuple[Plain, ...]
    bucket_count: int

    def __call__(self, number: int) -> dict[str, Any]:
        doubts = [at for at, each in enumerate(self.questions) if not self._is_clear(each, number)]
        return {"doubts": doubts}

    def _is_clear(self, question: Plain, bucket: int) -> bool:
        match question:
            case Distinct(texts):
                found = self._read(texts, bucket)
                return len(pc.unique(found)) == len(found)
            case Apart(ours, theirs):
                return not pc.any(self._look_up(ours, theirs, bucket), min_count=0).as_py()
            case Within(wanted, known):
                return bool(pc.all(self._look_up(wanted, known, bucket), min_count=0).as_py())
            case Counted(texts, low, high):
                counts = pc.value_counts(self._read(texts, bucket)).field("counts").to_numpy()
                return not len(counts) or (
                    counts.min() >= low and (high is None or counts.max() <= high)
                )
            case _:
                assert_never(question)

    def _look_up(
        self, wanted: Sequence[Texts], known: Sequence[Texts], bucket: int
    ) -> "pa.BooleanArray":
        """Which of these are among those."""
        return pc.is_in(self._read(wanted, bucket), value_set=self._read(known, bucket))

    def _read(self, texts: Sequence[Texts], bucket: int) -> "pa.ChunkedArray[Any]":
        chunks = [chunk for each in texts for chunk in each.read(bucket, self.bucket_count)]
        return pa.chunked_array(chunks, pa.string())


def find_doubts(
    spark: SparkSession, questions: Mapping[int, Plain], bucket_count: int, job: str
) -> set[int]:
    """The numbers of those that are not cleared. Raises JobFailed."""
    asked = [
        number
        for number, each in questions.items()
        if count_rows(each) <= ROWS_PER_BUCKET_MAX * bucket_count
    ]
    if not asked:
        return set(questions)
    work = Sift(tuple(questions[number] for number in asked), bucket_count)
    answers = run_tasks(spark, work, bucket_count, job=job)
    doubts = {asked[at] for answer in answers for at in answer["doubts"]}
    return doubts | (set(questions) - set(asked))


def count_rows(question: Plain) -> int:
    match question:
        case Distinct(texts) | Counted(texts):
            parts = [texts]
        case Apart(ours, theirs):
            parts = [ours, theirs]
        case Within(_, known):
            # Who is looked for is not held, only looked at.
            parts = [known]
        case _:
            assert_never(question)
    return sum(each.row_count for part in parts for each in part)
