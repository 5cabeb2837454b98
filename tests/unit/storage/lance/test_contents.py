"""What small files hold: fragments that cannot match are left out, all others are not."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from omnigraph.storage.lance.contents import ROWS_MAX, ByFile, Contents


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    rows = pa.table({"id": ["first"], "word": ["red"], "age": [1]})
    return lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")


def append(dataset: LanceDataset, contents: Contents, ids: list[str], word: str) -> LanceDataset:
    rows = pa.table({"id": ids, "word": [word] * len(ids), "age": [1] * len(ids)})
    fragments = write_fragments(rows, dataset, mode="append", data_storage_version="2.2")
    contents.remember(dataset, fragments, rows)
    transaction = Transaction(dataset.version, LanceOperation.Append(fragments))
    return LanceDataset.commit(dataset, transaction)


def numbers(contents: Contents, dataset: LanceDataset, **among: list[str]) -> list[int]:
    return [each.fragment_id for each in contents.candidates(dataset, among)]


def test_only_strange_fragments_and_those_that_may_match_are_left(dataset: LanceDataset) -> None:
    contents = Contents()
    dataset = append(dataset, contents, ["a", "b"], "green")
    dataset = append(dataset, contents, ["c"], "blue")
    assert numbers(contents, dataset, id=["b"]) == [0, 1]
    assert numbers(contents, dataset, id=["b", "c"]) == [0, 1, 2]
    assert numbers(contents, dataset, id=["nobody"]) == [0]
    assert numbers(contents, dataset, id=["nobody"], word=["blue"]) == [0, 2]
    assert numbers(Contents(), dataset, id=["nobody"]) == [0, 1, 2]


def test_of_large_fragments_and_other_columns_nothing_is_known(dataset: LanceDataset) -> None:
    contents = Contents()
    dataset = append(dataset, contents, [f"m{number}" for number in range(ROWS_MAX + 1)], "many")
    dataset = append(dataset, contents, ["c"], "blue")
    assert numbers(contents, dataset, id=["nobody"]) == [0, 1]
    assert numbers(contents, dataset, age=["1"]) == [0, 1, 2]


def test_a_column_that_took_over_the_name_of_another_is_not_mistaken_for_it(
    dataset: LanceDataset,
) -> None:
    contents = Contents()
    dataset = append(dataset, contents, ["a"], "green")
    dataset.drop_columns(["id"])
    dataset.alter_columns({"path": "word", "name": "id"})  # type: ignore[dict-item]  # mistyped
    assert numbers(contents, dataset, id=["green"]) == [0, 1]
    assert numbers(contents, dataset, id=["a"]) == [0]


def test_a_file_that_is_asked_about_again_is_learned(dataset: LanceDataset) -> None:
    contents = Contents()

    def ask(**among: list[str]) -> list[int]:
        found = contents.candidates(dataset, among, learns=True)
        return [each.fragment_id for each in found]

    assert ask(id=["nobody"]) == [0]
    assert ask(id=["nobody"]) == []
    assert ask(id=["first"]) == [0]
    assert ask(id=["nobody"], word=["red"]) == [0]
    assert ask(id=["nobody"], word=["green"]) == []
    dataset = append(dataset, Contents(), ["of another process"], "blue")
    assert ask(id=["of another process"]) == [1]


def test_a_file_with_deleted_rows_is_not_learned(dataset: LanceDataset) -> None:
    dataset = append(dataset, Contents(), ["a", "b"], "green")
    before = dataset.version
    dataset.delete("id = 'a'")
    contents = Contents()
    for _ in range(3):
        assert numbers_learning(contents, dataset, "nobody") == [1]
    assert numbers_learning(contents, dataset.checkout_version(before), "a") == [1]


def numbers_learning(contents: Contents, dataset: LanceDataset, identity: str) -> list[int]:
    contents.candidates(dataset, {"id": [identity]}, learns=True)
    found = contents.candidates(dataset, {"id": [identity]}, learns=True)
    return [each.fragment_id for each in found]


def test_the_files_noted_first_are_dropped_when_there_are_too_many_values() -> None:
    kept: ByFile[frozenset[int]] = ByFile(4, len)
    kept.keep("a", frozenset({1, 2}))
    kept.keep("b", frozenset({3}))
    kept.keep("a", frozenset({1, 2, 3}))
    assert kept.find("b") == frozenset({3})
    kept.keep("c", frozenset({4}))
    assert (kept.find("b"), kept.find("a")) == (None, frozenset({1, 2, 3}))
    kept.keep("d", frozenset(range(9)))
    assert kept.find("d") == frozenset(range(9))
    assert kept.find("c") is None
