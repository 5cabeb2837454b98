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
