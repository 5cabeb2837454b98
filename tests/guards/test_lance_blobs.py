"""What we believe of Lance about blobs: how parts are read, and what it keeps of addresses."""

import os
import tarfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset

from omnigraph.catalog.arrow import BLOB_METADATA
from omnigraph.engine.tables.cells import EXTERNAL_BLOB, SCHEMES, find_address_flaw
from omnigraph.storage.translate import BLOB_SUFFIX, CUT_SHORT, MISSING_FILE

OLD = Path(__file__).parents[1] / "compat" / "fixtures" / "reference-0.8.0" / "plain.tar.gz"
KIND = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("b", KIND, metadata=BLOB_METADATA)])

Value = bytes | str | None


def create(place: Path, *values: Value) -> LanceDataset:
    structs = [
        None
        if each is None
        else {"data": None, "uri": each}
        if isinstance(each, str)
        else {"data": each, "uri": None}
        for each in values
    ]
    ids = pa.array(range(len(values)), pa.int64())
    return lance.write_dataset(
        pa.table([ids, pa.array(structs, KIND)], schema=SCHEMA),
        place,
        enable_stable_row_ids=True,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )


@pytest.mark.parametrize("size", [1, 60_000, 70_000, 200_000, 5_000_000])
def test_a_range_of_a_blob_is_read_without_the_rest(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    dataset = lance.dataset(create(tmp_path / "t", b"before", data, b"after").uri)
    (file,) = dataset.take_blobs("b", addresses=[1], buffer_size=0)
    assert file is not None
    assert file.size() == size
    dataset.io_stats_incremental()
    start = size // 2
    found = file.read_range(start, min(10, size - start))
    assert found == data[start : start + 10]
    assert dataset.io_stats_incremental().read_bytes == len(found)


def described(dataset: LanceDataset) -> list[Any]:
    return dataset.to_table(columns=["b"])["b"].to_pylist()


def test_null_is_no_blob_and_an_empty_one_is(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t", None, b"")
    absent, empty = dataset.take_blobs("b", addresses=[0, 1])
    assert absent is None
    assert empty is not None
    assert empty.size() == 0
    first, second = described(dataset)
    assert first is None
    assert second["size"] == 0


def test_nulls_that_lance_7_wrote_are_taken_for_empty_blobs(tmp_path: Path) -> None:
    """Once they are not, `storage/lance/old_blobs.py` can go."""
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    dataset = lance.dataset(tmp_path / "plain.omni" / "nodes" / "ce5637d8e4423baf")
    found = dataset.scanner(columns=["id", "data"]).to_table().to_pylist()
    assert {each["id"] for each in found if each["data"] is None} == set()
    assert {each["data"]["size"] for each in found if each["id"] in ("null", "later")} == {0}


def test_opening_a_blob_that_is_elsewhere_reaches_out_for_it(tmp_path: Path) -> None:
    """Which is why its description is looked at before."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"secret")
    dataset = create(tmp_path / "t", elsewhere.as_uri())
    (found,) = described(dataset)
    assert (found["kind"], found["blob_uri"]) == (EXTERNAL_BLOB, elsewhere.as_uri())
    (file,) = dataset.take_blobs("b", addresses=[0])
    assert file is not None
    assert file.read() == b"secret"


def test_the_address_of_nothing_survives_a_compaction(tmp_path: Path) -> None:
    create(tmp_path / "t", "file:///nowhere/a")
    dataset = lance.dataset(tmp_path / "t")
    dataset.insert(
        dataset.to_table(columns=["id"]).append_column(
            SCHEMA.field("b"), pa.array([{"data": b"x", "uri": None}], KIND)
        )
    )
    dataset.optimize.compact_files()
    found = described(lance.dataset(tmp_path / "t"))
    assert [each["blob_uri"] for each in found] == ["file:///nowhere/a", ""]


def test_a_file_of_blobs_that_is_missing_or_cut_short_is_named(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t", b"x" * 200_000)
    (lost,) = tmp_path.rglob(f"*{BLOB_SUFFIX}")
    (file,) = dataset.take_blobs("b", addresses=[0])
    assert file is not None
    lost.write_bytes(b"x" * 199_999)
    with pytest.raises(OSError, match="|".join(CUT_SHORT)):
        file.read_range(199_999, 1)
    lost.unlink()
    (file,) = dataset.take_blobs("b", addresses=[0])
    assert file is not None
    with pytest.raises(ValueError, match=MISSING_FILE) as failed:
        file.read_range(0, 1)
    assert lost.name in str(failed.value)


ADDRESSES = [
    *(f"{scheme}://place/some/key" for scheme in sorted(SCHEMES)),
    "file:///a b/ä",
    "S3://b/k",
    "s3://b",
    "file:///a//b",
    "abfss://c@account/k",
    "https://host/a",
    "http://host/a",
    "ftp://host/a",
    "urn:x:y",
    "C:\\letter.txt",
    "notes.txt",
    "/srv/notes.txt",
    "",
    "s3://b b/k",
    "s3://[b/k",
    "s3://b/%ff",
    "gs://b/a%00b",
    "s3://b//k",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_lance_keeps_the_addresses_that_we_take_and_refuses_the_others(
    tmp_path: Path, address: str
) -> None:
    try:
        create(tmp_path / "t", address)
        is_kept = True
    except OSError:
        is_kept = False
    assert (find_address_flaw(address) is None) == is_kept


def test_the_file_of_a_blob_column_lists_its_field(tmp_path: Path) -> None:
    """A tag stands for this file, and for the row in it."""
    dataset = create(tmp_path / "t", b"a")
    field = dataset.lance_schema.field("b")
    assert field is not None
    (file,) = dataset.get_fragments()[0].metadata.files
    assert field.id() in file.fields
    dataset.update({"id": "7"})
    (fragment,) = lance.dataset(tmp_path / "t").get_fragments()
    assert [each.path for each in fragment.metadata.files] != [file.path]
