"""The history as text: a log, one-liners, and drawings that never cross or lose a line."""

from datetime import UTC, datetime

import pytest

from omnigraph.cli.history import age, graph_lines, log_lines, mark_drawing, short_lines
from omnigraph.commit.manifest.lineage import newest_first
from omnigraph.commit.manifest.records import Commit, Extension, RowCounts
from omnigraph.ids import MAIN, CommitId, TableKey, Version

NOON = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000


def commit(name: str, *parents: str, at: int = 0, message: str | None = None) -> Commit:
    first, second = (*(CommitId(each) for each in parents), None, None)[:2]
    counts = {TableKey("node:Person"): RowCounts(2, 1, 0)}
    extension = Extension(message=message, counts=None if name == "a" else counts)
    return Commit(
        CommitId(name), MAIN, Version(1), first, second, "ann", NOON + at * 1_000_000, extension
    )


def drawn(*commits: Commit) -> list[str]:
    """The drawing with the names of the commits alone."""
    lines = graph_lines(newest_first(commits), {})
    return [line.partition("  2026")[0].rstrip() for line in lines]


def test_a_straight_history_is_one_column() -> None:
    assert drawn(commit("a"), commit("b", "a", at=1), commit("c", "b", at=2)) == [
        "*  c",
        "*  b",
        "*  a",
    ]


def test_a_merge_opens_a_column_that_ends_where_the_lines_parted() -> None:
    found = drawn(
        commit("a"),
        commit("m", "a", at=1),
        commit("t", "a", at=2),
        commit("x", "m", "t", at=3),
        commit("y", "x", at=4),
    )
    assert found == ["*  y", "*  x", "|\\", "| *  t", "* |  m", "|/", "*  a"]


def test_branches_that_were_not_merged_stand_beside_each_other() -> None:
    found = drawn(
        commit("a"),
        commit("b", "a", at=1),
        commit("one", "a", at=2),
        commit("two", "a", at=3),
    )
    assert found == ["*  two", "| *  one", "|/", "| *  b", "|/", "*  a"]


def test_merges_both_ways_keep_every_line() -> None:
    found = drawn(
        commit("a"),
        commit("m", "a", at=1),
        commit("t", "a", at=2),
        commit("back", "t", "m", at=3),
        commit("x", "m", "back", at=4),
    )
    told = ["*  x", "|\\", "| *  back", "| |\\", "|_|/", "| *  t", "* |  m", "|/", "*  a"]
    assert found == told


def test_clocks_that_disagree_put_no_parent_above_its_child() -> None:
    found = drawn(commit("a", at=50), commit("b", "a", at=10), commit("c", "b", at=1))
    assert found == ["*  c", "*  b", "*  a"]


def test_a_parent_that_is_not_listed_ends_its_line() -> None:
    assert drawn(commit("c", "gone", at=2), commit("b", "lost", at=1)) == ["*  c", "*  b"]


def test_a_log_has_what_a_reader_asks_first() -> None:
    told = list(
        log_lines(
            [commit("b", "a", "t", at=1, message="two\nlines"), commit("a")],
            {CommitId("b"): ["main", "review"]},
        )
    )
    assert told == [
        "commit b (main, review)",
        "merge: a t",
        "time: 2026-06-01T12:00:01Z",
        "actor: ann",
        "changes: +2 ~1 −0",
        "",
        "    two",
        "    lines",
        "",
        "commit a",
        "time: 2026-06-01T12:00:00Z",
        "actor: ann",
    ]


def test_a_short_line_aligns_and_keeps_the_first_line_of_a_message() -> None:
    told = short_lines([commit("bcd", "a", message="two\nlines"), commit("a")], {})
    assert told == [
        "bcd  2026-06-01T12:00:00Z  ann  +2 ~1 −0  two",
        "a    2026-06-01T12:00:00Z  ann  -",
    ]
    assert short_lines([], {}) == []


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "now"),
        (-5, "now"),
        (1, "1 second ago"),
        (119, "1 minute ago"),
        (7_200, "2 hours ago"),
        (86_400 * 8, "1 week ago"),
        (86_400 * 800, "2 years ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, told: str) -> None:
    time = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert age(time, NOON // 1000 + seconds * 1000) == told


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("log g.omni --graph", "log g.omni --draw"),
        ("log --graph g.omni", "log --draw g.omni"),
        ("commit list g.omni --graph --oneline", "commit list g.omni --draw --oneline"),
        ("log --server prod --graph museum", "log --server prod --graph museum"),
        ("log --profile p --graph", "log --profile p --draw"),
        ("log --graph=museum --graph", "log --graph=museum --draw"),
        ("query q --graph museum", "query q --graph museum"),
    ],
)
def test_a_drawing_is_told_from_the_name_of_a_graph(line: str, marked: str) -> None:
    assert mark_drawing(line.split()) == marked.split()
