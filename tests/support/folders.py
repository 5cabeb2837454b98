"""A folder as a value: compared byte by byte, and restored.

A branch of a table records the absolute path at which it was made, so a graph is restored only at
the place where it was written.
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
