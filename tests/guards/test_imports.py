"""Importing the package is cheap: nothing heavy comes along."""

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "lance", "pyarrow", "numpy", "obstore", "fastapi", "typer", "rich", "lark")


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("library", HEAVY)
def test_importing_omnigraph_does_not_import(library: str) -> None:
    assert library not in loaded_after("import omnigraph")


@pytest.mark.parametrize("library", ["pyspark", "lance"])
def test_the_command_line_does_not_import(library: str) -> None:
    assert library not in loaded_after("import omnigraph.cli.app")
