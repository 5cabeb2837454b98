"""How a store spells its paths."""

from pathlib import Path

import pytest

from omnigraph.errors import StoreUriInvalid
from omnigraph.ids import BRANCH_NAME_MAX
from omnigraph.storage import layout


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("", "cbf29ce484222325"),
        ("Person", "40d76f1f51639ec0"),
        ("Company", "7cb4e55c59663b1c"),
        ("WorksAt", "844eefbe5068b644"),
    ],
)
def test_type_names_hash_as_the_format_says(name: str, digest: str) -> None:
    assert layout.fnv1a64(name) == digest


def test_the_hash_is_of_utf8_and_keeps_its_leading_zeros() -> None:
    assert len({len(layout.fnv1a64(f"T{number}")) for number in range(500)}) == 1
    assert layout.fnv1a64("Ä") == layout.fnv1a64(b"\xc3\x84".decode())
    assert layout.fnv1a64("Ä") != layout.fnv1a64("A")


def test_tables_live_below_their_kind() -> None:
    assert layout.table_path("node", "Person") == "nodes/40d76f1f51639ec0"
    assert layout.table_path("edge", "WorksAt") == "edges/844eefbe5068b644"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (1, "_versions/18446744073709551614.manifest"),
        (5, "_versions/18446744073709551610.manifest"),
        (2**64 - 1, "_versions/00000000000000000000.manifest"),
    ],
)
def test_manifest_files_count_down(version: int, name: str) -> None:
    assert layout.version_file(version) == name


def test_branches_nest_as_folders_and_are_escaped_as_refs() -> None:
    assert layout.branch_folder(None) == ""
    assert layout.branch_folder("team/x") == "tree/team/x"
    assert layout.branch_ref_file("team/x") == "_refs/branches/team%2Fx.json"


def test_leases_name_a_table_and_a_branch_in_one_segment() -> None:
    assert layout.lease_key("node:Person", None) == "__leases/node%3APerson@main.json"
    assert layout.lease_key("node:Person", "a/b") == "__leases/node%3APerson@a%2Fb.json"
    assert layout.lease_key("a@b", "c") != layout.lease_key("a", "b@c")


def test_the_lease_of_a_long_name_is_a_short_file_that_names_itself() -> None:
    branch = "b" * BRANCH_NAME_MAX
    keys = {layout.lease_key("node:" + "A" * length, branch) for length in range(60, 400)}
    assert len(keys) == 340
    for key in keys:
        assert len(key.removeprefix("__leases/")) <= layout.LEASE_NAME_MAX + len(".json")
        table, named = layout.parse_lease_key(key) or ("", "")
        assert named == branch
        assert layout.lease_key(table, named) == key


def test_operations_leave_their_sidecars_under_their_id() -> None:
    assert layout.sidecar_key("01J") == "__recovery/01J.json"
    assert layout.staging_record_key("01J") == "__staging/01J.json"
    assert layout.job_key("01J") == "__jobs/01J.json"
    assert layout.staged_schema_key(layout.SCHEMA_IR) == "_schema.ir.json.staging"


@pytest.mark.parametrize("spelling", ["/data/g", "/data/g/", "/data/./x/../g", "file:///data/g//"])
def test_local_roots_become_absolute_paths_without_a_trailing_slash(spelling: str) -> None:
    root = layout.parse_root(spelling)
    assert (root.uri, root.is_local) == ("/data/g", True)
    assert root.locate("nodes/x") == "/data/g/nodes/x"


def test_a_relative_root_is_fixed_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = layout.parse_root("here/g")
    monkeypatch.chdir("/")
    assert root.uri == str(tmp_path / "here" / "g")


@pytest.mark.parametrize("spelling", ["s3://bucket/kb", "s3://bucket/kb///"])
def test_buckets_keep_their_address(spelling: str) -> None:
    root = layout.parse_root(spelling)
    assert (root.uri, root.is_local) == ("s3://bucket/kb", False)
    assert root.locate("__manifest") == "s3://bucket/kb/__manifest"


def test_the_root_of_the_file_system_is_a_root() -> None:
    assert layout.parse_root("/").locate("x") == "/x"


@pytest.mark.parametrize("spelling", ["", "  ", "file://", "s3://", "gs://b/g", "https://x/y"])
def test_other_places_are_refused_by_name(spelling: str) -> None:
    with pytest.raises(StoreUriInvalid):
        layout.parse_root(spelling)
