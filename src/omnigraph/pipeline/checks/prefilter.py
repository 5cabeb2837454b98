"""The prefilter: proves conditions on keys with Arrow, bucket by bucket, before Spark joins them.

Most loads break no rule, and a proof takes Arrow a fraction of the time of a join. Whatever is
proven here, the join would have found right; a property test holds the prefilter to that. Of a
condition that is not proven, the prefilter says nothing more.

A committed table that is much larger than the input is not read. The incoming keys are looked up in
its indexes, so the cost of a load follows its input and not the graph.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.tables.filters import one_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.pipeline.stage.buckets import PAIR, BucketPairs, BucketTexts
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.keys import cells_of, texts_of
from omnigraph.pipeline.tasks import RunTasks
from omnigraph.storage.tables import LOOKED_UP_MAX, ScanRequest, TableRef

Column = Any
"""An Arrow array, in one piece or several; the compute functions take either."""

ROWS_PER_BUCKET_MAX: Final = 8_000_000
"""What a task may hold of one condition. Beyond that, joins decide, because Spark can spill."""


@dataclass(frozen=True, slots=True)
class CommittedLookup:
    """Texts of a committed table that is looked up and not read."""

    storage: Storage = field(hash=False)
    ref: TableRef
    version: int
    type: Type
    column: str
    is_unique: bool = False
    """Are the texts those of a unique constraint, and not the cells of the column?"""
    partner: str = "id"
    """The column whose cells are the partners of the texts."""

    def find(self, texts: Column) -> pa.Table:
        """The rows that hold one of these texts: the text and its partner."""
        tables = self.storage.open().tables
        handle = tables.open_at(self.ref, self.version)
        names = tuple(dict.fromkeys((self.column, self.partner)))
        found = [PAIR.empty_table()]
        for start in range(0, len(texts), LOOKED_UP_MAX):
            some = texts.slice(start, LOOKED_UP_MAX)
            where = one_of(self.column, column_type(self.type, self.column), self._cells_of(some))
            rows = tables.read(handle, ScanRequest(columns=names, where=where))
            held = rows[self.column]
            if self.is_unique:
                held = texts_of(self.type, rows, (self.column,))
            pairs = pa.table([held, rows[self.partner]], schema=PAIR)
            # The filter of the scan may return other rows as well.
            found.append(pairs.filter(pc.is_in(held, value_set=some)))
        return pa.concat_tables(found)

    def _cells_of(self, texts: Column) -> list[str | int | float]:
        listed = [str(each) for each in texts.to_pylist()]
        if not self.is_unique:
            return [*listed]
        cells = (cells_of(self.type, (self.column,), each)[0] for each in listed)
        return [each for each in cells if isinstance(each, str | int | float)]


@dataclass(frozen=True, slots=True)
class Distinct:
    """No text occurs twice."""

    texts: tuple[BucketTexts, ...]


@dataclass(frozen=True, slots=True)
class Disjoint:
    """No text of ours is in theirs."""

    ours: tuple[BucketTexts, ...]
    theirs: tuple[BucketTexts, ...]
    stored: tuple[CommittedLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Subset:
    """Every wanted text is known."""

    wanted: tuple[BucketTexts, ...]
    known: tuple[BucketTexts, ...]
    stored: tuple[CommittedLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """Every text occurs between `low` and `high` times. Stored texts only count if they also occur
    among the texts.
    """

    texts: tuple[BucketTexts, ...]
    low: int
    high: int | None
    stored: tuple[CommittedLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Paired:
    """Every text of ours has one partner across ours, theirs and the stored texts."""

    ours: tuple[BucketPairs, ...]
    theirs: tuple[BucketPairs, ...]
    stored: tuple[CommittedLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedPairs:
    """Every text of ours has between `low` and `high` partners across all three."""

    ours: tuple[BucketPairs, ...]
    theirs: tuple[BucketPairs, ...]
    low: int
    high: int | None
    stored: tuple[CommittedLookup, ...] = ()


KeyCondition = Distinct | Disjoint | Subset | Counted | Paired | CountedPairs


@dataclass(frozen=True, slots=True)
class ProveConditions:
    """The work of proving conditions; task n proves them for bucket n."""

    conditions: tuple[KeyCondition, ...]
    bucket_count: int

    def __call__(self, number: int) -> dict[str, Any]:
        unproven = [at for at, each in enumerate(self.conditions) if len(self.find(each, number))]
        return {"unproven": unproven}

    def find(self, condition: KeyCondition, bucket: int) -> Column:
        """The texts of one bucket that break the condition."""
        match condition:
            case Distinct(texts):
                return _find_miscounted(self._read(texts, bucket), 0, 1)
            case Disjoint(ours, theirs, stored):
                mine = self._read(ours, bucket)
                common = mine.filter(pc.is_in(mine, value_set=self._read(theirs, bucket)))
                return _joined(common, _find(stored, pc.unique(mine))["text"])
            case Subset(wanted, known, stored):
                looked_for = self._read(wanted, bucket)
                is_known = pc.is_in(looked_for, value_set=self._read(known, bucket))
                missing = pc.unique(looked_for.filter(pc.invert(is_known)))
                return _without(missing, _find(stored, missing)["text"])
            case Counted(texts, low, high, stored):
                found = self._read(texts, bucket)
                more = _find(stored, pc.unique(found))["text"]
                return _find_miscounted(_joined(found, more), low, high)
            case Paired(ours, theirs, stored):
                pairs = self._read_pairs(ours, bucket)
                found = _find(stored, pc.unique(pairs["text"]))
                return _find_shared(pairs, [self._read_pairs(theirs, bucket), found])
            case CountedPairs(ours, theirs, low, high, stored):
                pairs, others = (self._read_pairs(each, bucket) for each in (ours, theirs))
                touched = pc.unique(pairs["text"])
                others = others.filter(pc.is_in(others["text"], value_set=touched))
                every = _distinct(pa.concat_tables([pairs, others, _find(stored, touched)]))
                return _find_miscounted(every["text"], low, high)
            case _:
                assert_never(condition)

    def _read(self, texts: Sequence[BucketTexts], bucket: int) -> Column:
        chunks = [chunk for each in texts for chunk in each.read(bucket, self.bucket_count)]
        return pa.chunked_array(chunks, pa.string())

    def _read_pairs(self, pairs: Sequence[BucketPairs], bucket: int) -> pa.Table:
        parts = [each.read(bucket, self.bucket_count) for each in pairs]
        return pa.concat_tables([PAIR.empty_table(), *parts])


# ── texts, all of one bucket ─────────────────────────────────────────────────────────────────────


def _joined(*columns: Column) -> Column:
    return pa.chunked_array([chunk for each in columns for chunk in each.chunks], pa.string())


def _without(texts: Column, others: Column) -> Column:
    return texts.filter(pc.invert(pc.is_in(texts, value_set=others)))


def _distinct(pairs: pa.Table) -> pa.Table:
    return pairs.group_by(PAIR.names, use_threads=False).aggregate([])


def _find_miscounted(texts: Column, low: int, high: int | None) -> Column:
    """Texts that occur fewer times than `low`, or more than `high`."""
    counted = pc.value_counts(texts)
    counts = counted.field("counts").to_numpy()
    is_wrong = counts < low
    if high is not None:
        is_wrong |= counts > high
    return counted.field("values").filter(pa.array(is_wrong))


def _find_shared(ours: pa.Table, others: Iterable[pa.Table]) -> Column:
    """Texts of ours that have more than one partner."""
    shared = pa.chunked_array([], pa.string())
    if len(pc.unique(ours["text"])) < ours.num_rows:
        # The same pair may occur several times. A text that is left twice has two partners.
        ours = _distinct(ours)
        shared = pa.chunked_array([_find_miscounted(ours["text"], 0, 1)], pa.string())
        ours = ours.filter(pc.invert(pc.is_in(ours["text"], value_set=shared)))
    for theirs in others:
        at = pc.index_in(theirs["text"], value_set=ours["text"])
        held = theirs.filter(at.is_valid())
        is_other = pc.not_equal(held["partner"], ours["partner"].take(at.drop_null()))
        shared = _joined(shared, held["text"].filter(is_other))
    return shared


def _find(stored: Sequence[CommittedLookup], texts: Column) -> pa.Table:
    parts = [each.find(texts) for each in stored] if len(texts) else []
    return pa.concat_tables([PAIR.empty_table(), *parts])


def find_unproven(
    run: RunTasks, conditions: Iterable[KeyCondition], bucket_count: int, job: str
) -> set[KeyCondition]:
    """The conditions that no task proved. Raises JobFailed."""
    wanted = dict.fromkeys(conditions)
    tried = [each for each in wanted if count_rows(each) <= ROWS_PER_BUCKET_MAX * bucket_count]
    answers = []
    if tried:
        answers = run(ProveConditions(tuple(tried), bucket_count), bucket_count, job)
    proven = set(tried) - {tried[at] for answer in answers for at in answer["unproven"]}
    return set(wanted) - proven


def count_rows(condition: KeyCondition) -> int:
    """The keys that a proof holds in memory, over all buckets."""
    parts: list[Sequence[BucketTexts]]
    match condition:
        case Distinct(texts) | Counted(texts):
            parts = [texts]
        case Disjoint(ours, theirs):
            parts = [ours, theirs]
        case Subset(_, known):
            parts = [known]  # the wanted texts are streamed
        case Paired(ours, theirs) | CountedPairs(ours, theirs):
            parts = [[each.texts for each in (*ours, *theirs)]]
        case _:
            assert_never(condition)
    return sum(each.row_count for part in parts for each in part)
