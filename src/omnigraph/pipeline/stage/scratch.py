"""The scratch folder of one bulk job: it lasts as long as the job."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnigraph.errors import SparkUnusable
from omnigraph.ids import OperationId
from omnigraph.pipeline.settings import SCRATCH, SparkSettings
from omnigraph.storage.layout import STAGING, Root


@contextmanager
def open_scratch(settings: SparkSettings, root: Root, operation_id: OperationId) -> Iterator[Path]:
    """A folder that the driver and all workers see. Raises SparkUnusable."""
    check_scratch(settings, root)
    with open_local_scratch(settings, root, operation_id) as folder:
        yield folder


def check_scratch(settings: SparkSettings, root: Root) -> None:
    """Raises SparkUnusable if no folder is known that workers on other machines see."""
    if settings.scratch is None and not root.is_local and not settings.is_local:
        raise SparkUnusable(f"set {SCRATCH} to a folder that the driver and all workers see")


@contextmanager
def open_local_scratch(
    settings: SparkSettings, root: Root, operation_id: OperationId
) -> Iterator[Path]:
    """The same folder where it is known; else one that only this machine sees."""
    folder = scratch_folder(settings, root, operation_id)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_folder(settings: SparkSettings, root: Root, operation_id: OperationId) -> Path:
    """Where the folder is, or will be."""
    if settings.scratch is not None:
        above = Path(settings.scratch)
    else:
        above = Path(root.uri) / STAGING if root.is_local else Path(tempfile.gettempdir())
    return above / f"{operation_id}.files"
