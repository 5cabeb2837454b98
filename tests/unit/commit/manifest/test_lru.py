"""Keeping what was last used."""

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commit.manifest.lru import Kept

KEYS = st.integers(0, 5)
STEPS = st.lists(st.tuples(st.sampled_from(["keep", "find", "forget"]), KEYS))


@given(STEPS)
def test_the_newest_few_are_kept_in_the_order_of_their_use(
    steps: list[tuple[str, int]],
) -> None:
    kept: Kept[int, int] = Kept(3)
    used: list[int] = []
    """The keys there should be, the last used last."""
    for at, (act, key) in enumerate(steps):
        if act == "find":
            assert (kept.find(key) is not None) == (key in used)
        elif act == "keep":
            kept.keep(key, at)
            assert kept.find(key) == at
        else:
            kept.forget(key)
        was_there = key in used
        used = [each for each in used if each != key]
        if act == "keep" or (act == "find" and was_there):
            used = [*used, key][-3:]
        assert len(kept) == len(used)


def test_whatever_comes_and_goes_only_so_much_stays() -> None:
    kept: Kept[str, bytes] = Kept(10)
    for number in range(1_000):
        kept.keep(f"branch-{number}", b"")
    assert len(kept) == 10
    assert kept.find("branch-999") == b""
    assert kept.find("branch-0") is None
