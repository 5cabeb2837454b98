"""Every fault of a load that is refused, however few of them are told."""

from collections import Counter

import pytest

from omnigraph.engine.load.bulk import Fault, LoadMode
from omnigraph.engine.load.run import LoadRequest
from omnigraph.errors import LoadRejected
from support.loading import Loader, person

MANY = 40


def reject(loader: Loader, *lines: object) -> tuple[LoadRejected, list[Fault]]:
    """What was told, and what there was."""
    found: list[Fault] = []
    order = LoadRequest(
        (loader.write(*lines),), LoadMode.APPEND, errors_max=3, rejects=found.append
    )
    with pytest.raises(LoadRejected) as rejected:
        loader.graph.load(order, loader.bulk)
    assert len(rejected.value.faults) == 3
    assert list(rejected.value.faults) == found[:3]
    assert rejected.value.count == len(found)
    return rejected.value, found


def test_all_records_that_are_wrong_are_passed_on_in_order(either: Loader) -> None:
    lines = [person(f"p{at}", age="old" if at % 2 else 1) for at in range(2 * MANY)]
    _, found = reject(either, *lines)
    assert [each.line for each in found] == list(range(2, 2 * MANY + 1, 2))
    assert {each.value for each in found} == {"old"}


def test_all_ids_that_come_twice_are_passed_on(either: Loader) -> None:
    _, found = reject(either, *(person(f"p{at % MANY}") for at in range(2 * MANY)))
    assert {each.ids for each in found} == {(f"p{at}",) for at in range(MANY)}


def test_all_that_is_wrong_between_rows_is_passed_on(either: Loader) -> None:
    people = [person(f"p{at}", mail=f"m{at // 2}") for at in range(2 * MANY)]
    edges = [{"edge": "Wrote", "from": f"p{at}", "to": f"n{at}"} for at in range(MANY)]
    _, found = reject(either, *people, *edges)
    assert Counter(each.type_name for each in found) == {"Person": MANY, "Wrote": MANY}
    shared = [each for each in found if each.type_name == "Person"]
    assert {frozenset(each.ids) for each in shared} == {
        frozenset({f"p{2 * at}", f"p{2 * at + 1}"}) for at in range(MANY)
    }
    lost = [each for each in found if each.type_name == "Wrote"]
    assert {each.line for each in lost} == set(range(2 * MANY + 1, 3 * MANY + 1))
