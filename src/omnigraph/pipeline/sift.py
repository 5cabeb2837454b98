"""Is it plain that nothing is wrong? Asked of workers, bucket by bucket, before Spark joins keys.

Nearly always nothing is wrong, and telling so takes Arrow a fraction of what a join takes. So each
check that can be put as a question about texts is asked here first. Whatever is cleared here, the
check would have found right; a property test holds it to that. What is not cleared is in doubt, and
no more is said about it: the check itself finds out what is wrong, if anything is.

A committed table that is much larger than the input is not read for this. What comes in is looked
up in its indexes, so that a load costs what it brings and not what is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from omnigraph.pipeline.buckets import Texts
from omnigraph.pipeline.jobs import run_tasks
from omnigraph.pipeline.stage import Storage
from omnigraph.storage.tables import LOOKED_UP_MAX, TableRef

Column = Any
"""An Arrow array, in one piece or several; the compute functions take either."""

ROWS_PER_BUCKET_MAX: Final = 8_000_000
"""What a task may have to hold of one question. Beyond, Spark is asked, which can spill."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One column of a committed table, which is asked and not read."""

    storage: Storage = field(hash=False)
    ref: TableRef
    version: int
    column: str

    def find(self, texts: Column) -> "list[pa.Array[Any]]":
        """Those of some texts that are there, as often as they are there."""
        tables = self.storage.open().tables
        handle = tables.open_at(self.ref, self.version)
        found: list[pa.Array[Any]] = []
        for start in range(0, len(texts), LOOKED_UP_MAX):
            some = [str(each) for each in texts.slice(start, LOOKED_UP_MAX).to_pylist()]
            found += tables.locate(handle, self.column, some)[self.column].chunks
        return found


@dataclass(frozen=True, slots=True)
class Distinct:
    """No text is there twice."""

    texts: tuple[Texts, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """No text of the one is in the other."""

    ours: tuple[Texts, ...]
    theirs: tuple[Texts, ...]
    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True)
class Within:
    """Every text of the one is in the other."""

    wanted: tuple[Texts, ...]
    known: tuple[Texts, ...]
    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """Every text that is there at all is there so many times. Of what is stored, only those count
    that are among the texts too.
    """

    texts: tuple[Texts, ...]
    low: int
    high: int | None
    stored: tuple[Stored, ...] = ()


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
            case Apart(ours, theirs, stored):
                mine = self._read(ours, bucket)
                is_theirs = pc.is_in(mine, value_set=self._read(theirs, bucket))
                if pc.any(is_theirs, min_count=0).as_py():
                    return False
                return not len(_find(stored, pc.unique(mine)))
            case Within(wanted, known, stored):
                looked_for = self._read(wanted, bucket)
                is_known = pc.is_in(looked_for, value_set=self._read(known, bucket))
                missing = pc.unique(looked_for.filter(pc.invert(is_known)))
                return len(pc.unique(_find(stored, missing))) == len(missing)
            case Counted(texts, low, high, stored):
                found = self._read(texts, bucket)
                more = _find(stored, pc.unique(found))
                both = pa.chunked_array([*found.chunks, *more.chunks], pa.string())
                counts = pc.value_counts(both).field("counts").to_numpy()
                return not len(counts) or bool(
                    counts.min() >= low and (high is None or counts.max() <= high)
                )
            case _:
                assert_never(question)

    def _read(self, texts: Sequence[Texts], bucket: int) -> Column:
        chunks = [chunk for each in texts for chunk in each.read(bucket, self.bucket_count)]
        return pa.chunked_array(chunks, pa.string())


def _find(stored: Sequence[Stored], texts: Column) -> Column:
    chunks = [chunk for each in stored for chunk in each.find(texts)] if len(texts) else []
    return pa.chunked_array(chunks, pa.string())


def find_doubts(
    spark: SparkSession, questions: Iterable[Plain], bucket_count: int, job: str
) -> set[Plain]:
    """Those that are not cleared. Raises JobFailed."""
    wanted = dict.fromkeys(questions)
    asked = [each for each in wanted if count_rows(each) <= ROWS_PER_BUCKET_MAX * bucket_count]
    answers = []
    if asked:
        answers = run_tasks(spark, Sift(tuple(asked), bucket_count), bucket_count, job=job)
    cleared = set(asked) - {asked[at] for answer in answers for at in answer["doubts"]}
    return set(wanted) - cleared


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
