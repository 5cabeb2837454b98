"""Views that reads share, and what an eviction does to them."""

from collections.abc import Hashable
from dataclasses import dataclass

from omnigraph.engine.query.columns.table_cache import VIEWS_MAX, TableCache


@dataclass(frozen=True)
class Entry:
    nbytes: int


@dataclass(frozen=True)
class SeenTables:
    pins: object
    held: tuple[Hashable, ...]

    def entries(self) -> tuple[Hashable, ...]:
        return self.held


def keep(cache: TableCache, *names: str) -> None:
    for name in names:
        cache.get_or_build(name, lambda: Entry(10))
        cache.trim()


def test_a_view_is_shared_until_an_entry_is_evicted() -> None:
    cache = TableCache(bytes_max=20)
    keep(cache, "a", "b")
    view = SeenTables(pins={}, held=("a",))
    cache.keep_view(view)
    assert cache.view_of(view.pins) is view
    assert cache.view_of({}) is None, "another snapshot"
    keep(cache, "c")
    assert cache.view_of(view.pins) is None, "it may hold what was evicted"


def test_what_a_view_has_at_hand_counts_as_used_when_the_view_was() -> None:
    cache = TableCache(bytes_max=30)
    keep(cache, "a", "b", "c")
    old, new = SeenTables({}, ("b",)), SeenTables({}, ("a",))
    cache.keep_view(old)
    cache.keep_view(new)
    cache.view_of(old.pins)
    keep(cache, "d")
    keep(cache, "e")
    assert [name for name in "abcde" if cache.find(name)] == ["b", "d", "e"]


def test_the_views_of_many_snapshots_are_bounded() -> None:
    cache = TableCache(bytes_max=10)
    views = [SeenTables({}, ()) for _ in range(VIEWS_MAX + 1)]
    for each in views:
        cache.keep_view(each)
    assert cache.view_of(views[0].pins) is None
    assert cache.view_of(views[-1].pins) is views[-1]


@dataclass
class Growing:
    """An entry of which more is read later; counts how often it is measured."""

    size: int = 10
    measured: int = 0

    @property
    def nbytes(self) -> int:
        self.measured += 1
        return self.size


def test_an_entry_that_grows_in_a_view_counts_with_what_it_holds_now() -> None:
    cache, entry = TableCache(bytes_max=30), Growing()
    cache.get_or_build("a", lambda: entry)
    cache.keep_view(SeenTables({}, ("a",)))
    keep(cache, "b")
    entry.size = 30
    keep(cache, "c")
    assert [name for name in "abc" if cache.find(name)] == ["c"], "b is not used"


def test_an_entry_that_grew_in_a_view_of_long_ago_counts_with_what_it_held_last() -> None:
    cache, entry = TableCache(bytes_max=30), Growing()
    cache.get_or_build("a", lambda: entry)
    cache.keep_view(SeenTables({}, ("a",)))
    cache.trim()
    entry.size = 30
    others = [SeenTables({}, ()) for _ in range(VIEWS_MAX)]
    for each in others:
        cache.keep_view(each)
    keep(cache, "b")
    assert cache.find("a") is None


def test_entries_that_no_view_holds_are_not_measured_again() -> None:
    cache, entry = TableCache(bytes_max=10_000), Growing()
    cache.get_or_build("a", lambda: entry)
    keep(cache, *map(str, range(100)))
    assert entry.measured == 1, "each new version of a table adds an entry, and none of them goes"
