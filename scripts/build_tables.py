"""Hatch's hook: a wheel holds the tables of both grammars, whatever tree it is built from."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TablesHook(BuildHookInterface):  # type: ignore[type-arg] # Hatch's own parameter
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
        root = Path(self.root)
        subprocess.run(
            [sys.executable, str(root / "scripts" / "tables")],
            check=True,
            env={"PYTHONPATH": str(root / "src")},
        )
