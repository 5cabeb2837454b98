"""What we believe of Lance's indices, traps included."""

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments
from lance.query import MatchQuery

COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64(), "text": pa.string()}
SCHEMA = pa.schema(COLUMNS)


def rows(**content: tuple[int, str]) -> pa.Table:
    columns = {
        "id": list(content),
        "n": [number for number, _ in content.values()],
        "text": [text for _, text in content.values()],
    }
    return pa.table(columns, schema=SCHEMA)


def create(uri: Path) -> LanceDataset:
    dataset = LanceDataset.commit(
        uri, Transaction(0, LanceOperation.Overwrite(SCHEMA, [])), enable_stable_row_ids=True
    )
    fresh = write_fragments(rows(a=(0, "red fox"), b=(1, "blue whale")), dataset, mode="append")
    return send(dataset, LanceOperation.Append(list(fresh)))


def send(dataset: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def build(dataset: LanceDataset, column: str, kind: str, fragment_ids: list[int]) -> Any:
    segment = dataset.create_index_uncommitted(
        column, kind, name=f"{column}_idx", fragment_ids=fragment_ids, replace=True
    )
    return dataset.merge_existing_index_segments([segment]) if kind == "INVERTED" else segment


def attach(dataset: LanceDataset, column: str, kind: str, fragment_ids: list[int]) -> LanceDataset:
    segment = build(dataset, column, kind, fragment_ids)
    return send(dataset, LanceOperation.CreateIndex([segment], []))


def replace_a(dataset: LanceDataset, *, names_fields: bool = True) -> LanceDataset:
    """Update row a, keeping its row id."""
    shrunk = dataset.get_fragments()[0].delete_rows([0])
    assert shrunk is not None
    (fresh,) = write_fragments(rows(a=(9, "grey wolf")), dataset, mode="append")
    fresh.row_id_meta = RowIdSequence([0]).to_inline_metadata()
    fields = [field.id() for field in dataset.lance_schema.fields()] if names_fields else []
    operation = LanceOperation.Update(
        updated_fragments=[shrunk],
        new_fragments=[fresh],
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=fields,
    )
    return send(dataset, operation)


def search(dataset: LanceDataset, word: str) -> list[object]:
    scanner = dataset.scanner(columns=["id", "_score"], full_text_query=MatchQuery(word, "text"))
    return list(scanner.to_table()["id"].to_pylist())


def test_an_updated_row_is_found_by_its_new_text_only(tmp_path: Path) -> None:
    dataset = replace_a(attach(create(tmp_path), "text", "INVERTED", [0]))
    assert (search(dataset, "wolf"), search(dataset, "red")) == (["a"], [])


def test_an_update_that_names_no_fields_hides_its_rows_from_full_text_search(
    tmp_path: Path,
) -> None:
    dataset = attach(create(tmp_path), "text", "INVERTED", [0])
    assert search(replace_a(dataset, names_fields=False), "wolf") == []


def test_a_second_full_text_segment_brings_the_former_text_of_updated_rows_back(
    tmp_path: Path,
) -> None:
    dataset = replace_a(attach(create(tmp_path), "text", "INVERTED", [0]))
    dataset = attach(dataset, "text", "INVERTED", [1])
    assert (search(dataset, "wolf"), search(dataset, "red")) == (["a"], ["a"])


def test_a_second_segment_of_a_btree_tells_updated_rows_apart(tmp_path: Path) -> None:
    dataset = replace_a(attach(create(tmp_path), "n", "BTREE", [0]))
    dataset = attach(dataset, "n", "BTREE", [1])
    assert dataset.to_table(filter="n = 0").num_rows == 0
    assert dataset.to_table(filter="n = 9")["id"].to_pylist() == ["a"]


def test_a_full_text_segment_is_useless_until_it_is_finalised(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    raw = dataset.create_index_uncommitted("text", "INVERTED", name="text_idx", fragment_ids=[0])
    dataset = send(dataset, LanceOperation.CreateIndex([raw], []))
    with pytest.raises((OSError, ValueError)):
        search(dataset, "red")


def test_rows_no_segment_covers_are_searched_all_the_same(tmp_path: Path) -> None:
    dataset = attach(create(tmp_path), "text", "INVERTED", [0])
    (fresh,) = write_fragments(rows(c=(2, "red panda")), dataset, mode="append")
    dataset = send(dataset, LanceOperation.Append([fresh]))
    assert sorted(str(each) for each in search(dataset, "red")) == ["a", "c"]


def test_an_overwrite_drops_indices_and_deleting_every_row_keeps_them(tmp_path: Path) -> None:
    dataset = attach(create(tmp_path), "n", "BTREE", [0])
    assert len(send(dataset, LanceOperation.Delete([], [0], "true")).describe_indices()) == 1
    dataset = lance.dataset(tmp_path)
    assert len(send(dataset, LanceOperation.Overwrite(SCHEMA, [])).describe_indices()) == 0


def test_a_vector_called_flat_cannot_be_indexed(tmp_path: Path) -> None:
    """An index over vectors has a column of that name, and Lance panics over a second one."""
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    dataset = lance.write_dataset(pa.table({"flat": vectors, "even": vectors}), tmp_path)
    dataset.create_index("even", "IVF_FLAT", num_partitions=1)
    with pytest.raises(BaseException, match="unwrap"):
        dataset.create_index("flat", "IVF_FLAT", num_partitions=1)


def test_a_filter_that_lets_few_rows_through_makes_a_vector_index_stop_too_early(
    tmp_path: Path,
) -> None:
    """Asked for thirty of sixty rows it finds thirty, not the closest ones. Exact search does."""
    points = np.random.default_rng(0).normal(size=(20_000, 8)).astype(np.float32)
    columns = {
        "n": pa.array(np.arange(20_000) % 1000),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), 8),
    }
    dataset = lance.write_dataset(pa.table(columns), tmp_path)
    dataset.create_index("v", "IVF_FLAT", num_partitions=100, metric="l2")
    some = np.flatnonzero(np.arange(20_000) % 1000 < 3)
    closest = np.sort(((points[some] - points[0]) ** 2).sum(axis=1))[:30]

    def farthest(**how: int | bool) -> float:
        scanner = dataset.scanner(
            columns=["_distance"],
            filter="n < 3",
            prefilter=True,
            nearest={"column": "v", "q": points[0], "k": 30, "metric": "l2", **how},
        )
        distances = scanner.to_table()["_distance"].to_numpy()
        assert len(distances) == 30
        return float(distances.max())

    assert farthest(minimum_nprobes=40) > closest[-1] * 1.01
    assert farthest(use_index=False) == pytest.approx(closest[-1], rel=1e-4)


def plan_of(dataset: LanceDataset, where: str) -> str:
    return str(dataset.scanner(columns=["id"], filter=where).explain_plan())


def count_rows(dataset: LanceDataset, where: str) -> int:
    return dataset.scanner(columns=["id"], filter=where).to_table().num_rows


def attach_named(dataset: LanceDataset, kind: str, name: str) -> LanceDataset:
    """A further index of the text column."""
    segment = dataset.create_index_uncommitted(
        "text", kind, name=name, fragment_ids=[0], replace=True
    )
    return send(dataset, LanceOperation.CreateIndex([segment], []))


def test_a_b_tree_beside_a_full_text_index_serves_equality(tmp_path: Path) -> None:
    dataset = attach(create(tmp_path), "text", "INVERTED", [0])
    dataset = attach_named(dataset, "BTREE", "text_btree_idx")
    assert "text_btree_idx" in plan_of(dataset, "text = 'red fox'")
    assert count_rows(dataset, "text = 'red fox'") == 1
    assert search(dataset, "fox") == ["a"]


def test_an_index_over_pieces_of_words_serves_contains_to_the_letter(tmp_path: Path) -> None:
    dataset = attach_named(create(tmp_path), "NGRAM", "text_ngram_idx")
    assert "text_ngram_idx" in plan_of(dataset, "contains(text, 'whale')")
    found = [
        count_rows(dataset, f"contains(text, '{piece}')")
        for piece in ("whale", "Whale", "e w", "re", "x", "foxy", "")
    ]
    assert found == [1, 0, 1, 1, 1, 0, 2]
    updated = replace_a(dataset)
    assert count_rows(updated, "contains(text, 'red')") == 0
    assert count_rows(updated, "contains(text, 'wolf')") == 1


@pytest.mark.parametrize("groups", [[[0], [1]], [[0, 1]]])
def test_full_text_segments_of_some_fragments_each_are_merged_into_one(
    tmp_path: Path, groups: list[list[int]]
) -> None:
    dataset = create(tmp_path)
    fresh = write_fragments(rows(c=(2, "green whale")), dataset, mode="append")
    dataset = send(dataset, LanceOperation.Append(list(fresh)))
    segments = [
        dataset.create_index_uncommitted(
            "text", "INVERTED", name="text_idx", fragment_ids=group, replace=True
        )
        for group in groups
    ]
    merged = dataset.merge_existing_index_segments(segments)
    dataset = send(dataset, LanceOperation.CreateIndex([merged], []))
    assert sorted(map(str, search(dataset, "whale"))) == ["b", "c"]
    (index,) = dataset.describe_indices()
    assert len(index.segments) == 1
