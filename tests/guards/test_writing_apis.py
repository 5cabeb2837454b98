"""Only the storage layer, and the workers of the pipeline, may call what writes through Lance.

The import rules already keep `lance` out of other packages. This scan also catches a dataset that
was handed out and is written to by a method call, and the calls inside storage that couple a
write with a move of HEAD: they may appear only where the residuals live.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph

SOURCE = Path(omnigraph.__file__).parent

STAGING = {
    "write_fragments",
    "delete_rows",
    "merge_columns",
    "create_index_uncommitted",
    "merge_existing_index_segments",
    "execute_uncommitted",
}
"""Writes files and leaves HEAD alone."""

MOVING = {
    "write_dataset",
    "merge_insert",
    "cleanup_old_versions",
    "commit_batch",
    "commit_existing_index_segments",
    "create_scalar_index",
    "optimize_indices",
    "compact_files",
    "drop_index",
    "add_columns",
    "alter_columns",
    "drop_columns",
    "update_config",
    "update_schema_metadata",
    "replace_field_metadata",
    "truncate_table",
    "migrate_manifest_paths_v2",
    "shallow_clone",
    "deep_clone",
}
"""Writes and publishes in one step."""

ALLOWED = {
    "storage/lance/stage.py": {"write_fragments", "delete_rows"},
    "storage/lance/reshaping.py": {
        "merge_columns",
        # On a scratch copy that only tells which field numbers the columns get.
        "shallow_clone",
        "add_columns",
        "alter_columns",
        "drop_columns",
    },
    "storage/lance/index.py": {"create_index_uncommitted", "merge_existing_index_segments"},
    "storage/lance/swap.py": {"merge_insert"},
    "storage/lance/tables.py": {"cleanup_old_versions"},
}
"""Each call that appears is declared here. docs/dev/storage.md says why the moving ones must be."""

WORKERS = "pipeline/stage"


def modules() -> list[str]:
    """Product code. What `testing` builds, such as graphs of old formats, is built from outside."""
    found = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return [module for module in found if not module.startswith("testing/")]


def names_used(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield name
            case ast.ImportFrom(names=aliases):
                yield from (alias.name for alias in aliases)
            case _:
                continue


def used_in(module: str) -> set[str]:
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    return set(names_used(tree)) & (STAGING | MOVING)


def test_writing_calls_appear_only_where_they_are_declared() -> None:
    found = {module: used_in(module) for module in modules()}
    strays = {
        module: sorted(names - ALLOWED.get(module, set()))
        for module, names in found.items()
        if names - ALLOWED.get(module, set())
        and not (module.startswith(WORKERS) and names <= STAGING)
    }
    assert strays == {}, "stage through storage.tables instead"


def test_nothing_is_declared_that_does_not_appear() -> None:
    assert {module: used_in(module) for module in ALLOWED} == ALLOWED


def test_lance_is_imported_by_storage_and_workers_only() -> None:
    def imports_lance(module: str) -> bool:
        tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=aliases):
                    roots = {alias.name.partition(".")[0] for alias in aliases}
                case ast.ImportFrom(module=str(name)):
                    roots = {name.partition(".")[0]}
                case _:
                    continue
            if "lance" in roots:
                return True
        return False

    importers = [module for module in modules() if imports_lance(module)]
    assert importers, "the scan found nothing, so it is broken"
    assert [each for each in importers if not each.startswith(("storage/", WORKERS))] == []


@pytest.mark.parametrize("name", sorted({"commit", "restore"}))
def test_datasets_are_committed_and_restored_in_one_module(name: str) -> None:
    """`commit` and `restore` are ours too, so only calls on the class of datasets count."""

    def calls_it(module: str) -> bool:
        tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id="LanceDataset" | "Compaction"), attr=attr):
                    if attr == name:
                        return True
                case ast.Attribute(value=ast.Attribute(attr="dataset"), attr=attr) if attr == name:
                    return True
                case _:
                    continue
        return False

    found = [module for module in modules() if calls_it(module)]
    assert found == (["storage/lance/commit.py"] if name == "commit" else [])


@pytest.mark.parametrize(
    "line",
    ["dataset.merge_insert('id')", "from lance import write_dataset", "lance.write_dataset(x, y)"],
)
def test_the_scan_sees_calls_attributes_and_imports(line: str) -> None:
    assert set(names_used(ast.parse(line))) & MOVING
