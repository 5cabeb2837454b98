"""When a table is worth tidying up."""

import pytest

from omnigraph.engine.write.upkeep import FRAGMENTS_MAX, SMALL_ROWS, needs_upkeep
from omnigraph.storage.tables import Fragment, Index, IndexKind, IndexSpec, TableStats

ID = (IndexSpec("id", IndexKind.BTREE),)


def table(small: int, large: int, *, uncovered: int = 0) -> TableStats:
    rows = [SMALL_ROWS - 1] * small + [SMALL_ROWS] * large
    fragments = tuple(Fragment(at, count, 0) for at, count in enumerate(rows))
    covered = frozenset(range(uncovered, len(rows)))
    return TableStats(fragments, (Index("id_idx", "id", "BTREE", covered, 1),), {})


@pytest.mark.parametrize(
    ("anatomy", "is_needed"),
    [
        (table(FRAGMENTS_MAX - 1, 0), False),
        (table(FRAGMENTS_MAX, 0), True),
        (table(1, 2 * FRAGMENTS_MAX), False),
        (table(0, FRAGMENTS_MAX, uncovered=FRAGMENTS_MAX - 1), False),
        (table(0, FRAGMENTS_MAX, uncovered=FRAGMENTS_MAX), True),
    ],
)
def test_so_many_small_or_uncovered_fragments_are_too_many(
    anatomy: TableStats, *, is_needed: bool
) -> None:
    assert needs_upkeep(anatomy, ID) is is_needed
