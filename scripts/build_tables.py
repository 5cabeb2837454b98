"""Hatch's hook: a wheel holds the tables of both grammars and the web page."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TablesHook(BuildHookInterface):  # type: ignore[type-arg] # Hatch's own parameter
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        root = Path(self.root)
        # pip shows this process the packages of the build by its path alone.
        path = os.pathsep.join([str(root / "src"), *sys.path])
        subprocess.run(
            [sys.executable, str(root / "scripts" / "tables")],
            check=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        # Without Node there is no page, and `/ui` of the server says so. `make setup`, which
        # installs the sources in place, builds the page itself.
        if version != "editable":
            subprocess.run([sys.executable, str(root / "scripts" / "ui")], check=False)
