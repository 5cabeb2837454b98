"""Ancestry, and the point where two histories last agreed."""

import pytest
from hypothesis import given, strategies as st

from omnigraph.commit.manifest.lineage import Lineage
from omnigraph.commit.manifest.records import Commit
from omnigraph.errors import CommitNotFound
from omnigraph.ids import MAIN, CommitId, Version


def history(parents: dict[str, tuple[str, ...]]) -> Lineage:
    return Lineage.of(
        Commit(
            id=CommitId(name),
            branch=MAIN,
            manifest_version=Version(1),
            parent=CommitId(of[0]) if of else None,
            merged_parent=CommitId(of[1]) if len(of) > 1 else None,
            actor=None,
            created_at_us=0,
        )
        for name, of in parents.items()
    )


def bases(lineage: Lineage, left: str, right: str) -> tuple[str, ...]:
    return lineage.merge_bases(CommitId(left), CommitId(right))


def test_the_base_of_a_fork_is_the_fork_point() -> None:
    tree = history({"g": (), "a": ("g",), "b": ("a",), "x": ("a",)})
    assert bases(tree, "b", "x") == ("a",)


def test_the_base_with_a_descendant_is_the_ancestor_itself() -> None:
    tree = history({"g": (), "a": ("g",), "b": ("a",)})
    assert bases(tree, "a", "b") == ("a",)
    assert bases(tree, "b", "b") == ("b",)


def test_a_nearer_but_older_ancestor_is_not_the_base() -> None:
    """The case where the smallest sum of distances picks `g`, and with it resurrects rows."""
    main = {f"c{n}": (f"c{n - 1}",) for n in range(2, 21)} | {"c1": ("g",), "g": ()}
    tree = history(
        main | {"s1": ("g",), "s2": ("s1", "c20"), "u1": ("g",), "t1": ("c10",), "t2": ("t1", "u1")}
    )
    assert bases(tree, "s2", "t2") == ("c10",)


def test_histories_that_merged_each_other_have_two_bases() -> None:
    tree = history({"g": (), "a": ("g",), "b": ("g",), "a2": ("a", "b"), "b2": ("b", "a")})
    assert bases(tree, "a2", "b2") == ("a", "b")


def test_unrelated_histories_have_no_base() -> None:
    assert bases(history({"g": (), "h": ()}), "g", "h") == ()


def test_a_parent_that_is_not_known_ends_the_walk() -> None:
    tree = history({"a": ("gone",), "b": ("a", "gone")})
    assert tree.ancestors_of(CommitId("b")) == {"a", "b"}


def test_an_unknown_commit_is_named() -> None:
    with pytest.raises(CommitNotFound, match="nope"):
        bases(history({"g": ()}), "g", "nope")


@st.composite
def random_histories(draw: st.DrawFn) -> Lineage:
    size = draw(st.integers(1, 12))
    parents: dict[str, tuple[str, ...]] = {"0": ()}
    for n in range(1, size):
        older = st.integers(0, n - 1).map(str)
        parents[str(n)] = tuple(draw(st.lists(older, min_size=1, max_size=2, unique=True)))
    return history(parents)


@given(random_histories(), st.data())
def test_bases_are_exactly_the_common_ancestors_nobody_surpasses(
    tree: Lineage, data: st.DataObject
) -> None:
    names = st.sampled_from(sorted(tree.commits))
    left, right = data.draw(names), data.draw(names)
    common = tree.ancestors_of(left) & tree.ancestors_of(right)
    expected = {
        each
        for each in common
        if not any(each in tree.ancestors_of(other) for other in common - {each})
    }
    assert set(tree.merge_bases(left, right)) == expected
