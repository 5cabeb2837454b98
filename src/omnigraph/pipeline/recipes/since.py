"""`since: last`: what earlier runs of a pipeline loaded, and what is new.

1. The commit of a run records how far each input was loaded, so data and record are one write. A
   run that was killed left neither, or both.
2. A file is known by its address, its size and its tag. A file that changed is a new file. Of a
   Delta table the version is recorded, of an Iceberg table the snapshot.
3. A run records only the files that it loaded. Together the runs of a branch say what is known.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from omnigraph.commit.manifest.records import JsonObject, PipelineRun
from omnigraph.engine.load.inputs import LAKES
from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.recipes.recipe import RecipeInput
from omnigraph.pipeline.sources.iceberg import CATALOG
from omnigraph.pipeline.sources.lake import locate
from omnigraph.pipeline.sources.lake_rows import list_lake
from omnigraph.storage.inputs import InputFile, find_inputs

_FILES: Final = "files"
_VERSIONS: Final = "versions"
_DIGEST_BYTES: Final = 12


@dataclass(slots=True)
class Remembered:
    """What earlier runs loaded of one input."""

    files: set[str] = field(default_factory=set)
    """Digests."""
    versions: dict[str, int] = field(default_factory=dict)
    """By the address of a Delta or Iceberg table."""


def recall(runs: Iterable[PipelineRun]) -> dict[str, Remembered]:
    """(3) What these runs loaded, by the name of the input; the last run comes last."""
    found: dict[str, Remembered] = {}
    for run in runs:
        for name, record in run.inputs.items():
            remembered = found.setdefault(name, Remembered())
            files, versions = record.get(_FILES), record.get(_VERSIONS)
            remembered.files.update(map(str, files if isinstance(files, list) else ()))
            for address, number in (versions if isinstance(versions, dict) else {}).items():
                if isinstance(number, int):
                    remembered.versions[address] = number
    return found


@dataclass(frozen=True, slots=True)
class NewData:
    """What is to be loaded of one input."""

    data: tuple[object, ...]
    """Files, or listings of tables."""
    record: JsonObject
    """(1) For the commit."""
    shown: Mapping[str, int]


def find_new(
    recipe: RecipeInput,
    options: Mapping[str, str],
    storage_options: Mapping[str, str],
    before: Remembered,
) -> NewData:
    """Raises FileUnreadable, ExtraMissing, UsageError."""
    if recipe.format in LAKES:
        return _find_new_versions(recipe, options, storage_options, before)
    files = [file for each in recipe.data for file in _find_files(each, storage_options, before)]
    new = {digest(each): each for each in files if digest(each) not in before.files}
    shown = {"files_before": len(before.files), "new_files": len(new)}
    return NewData(tuple(new.values()), {_FILES: [*new]}, shown)


def _find_files(
    source: str, storage_options: Mapping[str, str], before: Remembered
) -> Sequence[InputFile]:
    try:
        return find_inputs(source, storage_options)
    except FileUnreadable:
        # The files of an earlier run may have been moved away; a first run must find some.
        if before.files:
            return []
        raise


def _find_new_versions(
    recipe: RecipeInput,
    options: Mapping[str, str],
    storage_options: Mapping[str, str],
    before: Remembered,
) -> NewData:
    assert recipe.format is not None
    listings = {}
    for each in recipe.data:
        key = each if CATALOG in options else locate(each)
        after = before.versions.get(key)
        listings[key] = list_lake(recipe.format, each, options, storage_options, after=after)
    new = tuple(each for each in listings.values() if each.files)
    record: JsonObject = {
        _VERSIONS: {each: listing.table.version for each, listing in listings.items()}
    }
    shown = {"new_files": sum(len(each.files) for each in new)}
    if len(listings) == 1:
        ((address, listing),) = listings.items()
        known = {"version_before": before.versions[address]} if address in before.versions else {}
        shown = {**known, "version": listing.table.version, **shown}
    return NewData(new, record, shown)


def digest(file: InputFile) -> str:
    """(2)"""
    text = f"{file.path}\0{file.size_bytes}\0{file.tag}"
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
