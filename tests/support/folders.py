"""A folder as a value: compared byte by byte, and put back as it was.

Branches of a table know the absolute path they were made at, so a graph can be tried again only in
the place it was written to.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def put_back(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder hold exactly these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
