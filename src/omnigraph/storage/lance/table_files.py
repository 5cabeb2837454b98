"""Which files a transaction created, by name.

Names are derived from the transaction and never found by listing a shared folder: a listing grows
with history, and files of refused writers vanish during it. Only folders that belong to one file or
one index are listed.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from lance import LanceDataset, LanceOperation
from lance.dataset import Index
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.storage import layout


def name_of(file: DataFile) -> str:
    """The name of a data file. Lance's property for it creates a class at each call, which takes
    longer than all other work on the description of a fragment.
    """
    return file._path  # noqa: SLF001 - see above


def written_data(fragments: Iterable[FragmentMetadata]) -> list[str]:
    """The data files of new fragments. Files with a base id belong to another branch."""
    return [
        layout.data_file(name_of(file))
        for fragment in fragments
        for file in fragment.files
        if file.base_id is None
    ]


def written_deletions(fragments: Iterable[FragmentMetadata]) -> list[str]:
    return [
        fragment.deletion_file.path(fragment.id)
        for fragment in fragments
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
    ]


def written_indices(indices: Iterable[Index]) -> list[str]:
    return [
        f"{layout.index_folder(index.uuid)}/{file.path}"
        for index in indices
        if index.base_id is None
        for file in index.files or ()
    ]


def with_blobs(folder: Path, files: Iterable[str]) -> list[str]:
    """Add the files of blobs that are outside their data file."""
    found = list(files)
    for name in list(found):
        if name.startswith(f"{layout.DATA}/") and name.endswith(".lance"):
            blobs = name.removesuffix(".lance")
            if os.path.isdir(f"{folder}/{blobs}"):  # noqa: PTH112 - most files have none
                found += [f"{blobs}/{each.name}" for each in (folder / blobs).iterdir()]
    return found


def written_by(operation: LanceOperation.BaseOperation, read_version: int) -> list[str]:
    """The files of a change of rows that Lance composed itself."""
    if not isinstance(operation, LanceOperation.Update):
        return []
    fresh = [
        fragment
        for fragment in operation.updated_fragments
        if fragment.deletion_file is not None
        and fragment.deletion_file.read_version == read_version
    ]
    return written_data(operation.new_fragments) + written_deletions(fresh)


def reachable(dataset: LanceDataset) -> list[Path]:
    """Every local file that a read of this version can open, on any branch."""
    own = Path(dataset.uri)
    bases = {number: Path(base.path) for number, base in dataset.base_paths().items()}

    def home(base_id: int | None) -> Path:
        return own if base_id is None else bases[base_id]

    files: list[Path] = [own / layout.version_file(dataset.version)]
    for each in dataset.get_fragments():
        fragment = each.metadata
        for file in fragment.files:
            folder = home(file.base_id)
            files += [
                folder / name for name in with_blobs(folder, [layout.data_file(name_of(file))])
            ]
        if fragment.deletion_file is not None:
            name = fragment.deletion_file.path(fragment.id)
            files.append(home(fragment.deletion_file.base_id) / name)
    for index in dataset.describe_indices():
        for segment in index.segments:
            folder = home(segment.base_id) / layout.index_folder(str(segment.uuid))
            files += [file for file in folder.rglob("*") if file.is_file()]
    return files
