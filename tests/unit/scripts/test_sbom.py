"""The bill of materials of a release."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

SCRIPT = Path(__file__).parents[3] / "scripts" / "build_sbom.py"


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    printed = subprocess.run([sys.executable, SCRIPT], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(printed.stdout)
    return found


def test_every_pin_of_the_lock_is_a_component(bill: dict[str, Any]) -> None:
    lock = SCRIPT.parents[1].joinpath("requirements.lock").read_text().splitlines()
    pinned = [each for each in lock if "==" in each.partition(";")[0] and each[0] not in " #"]
    assert len(bill["components"]) == len(pinned) > 100
    assert f"pkg:pypi/pyarrow@{version('pyarrow')}" in {each["purl"] for each in bill["components"]}
    references = {each["bom-ref"] for each in bill["components"]}
    assert len(references) == len(pinned)
    listed = {each for entry in bill["dependencies"] for each in entry["dependsOn"]}
    assert listed <= references


def test_what_the_package_needs_is_required_and_tools_are_not(bill: dict[str, Any]) -> None:
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    for tool in ("pytest", "mypy", "moto", "hypothesis", "ruff"):
        assert scopes[tool] == "excluded"
    for name in ("pylance", "fastapi", "starlette", "pydantic-core", "numpy"):
        assert scopes[name] == "required"
    # The closure that the lock notes is the closure that the installed packages declare.
    for name in [name for name, scope in scopes.items() if scope == "required"]:
        for needed in _needs(name):
            assert scopes.get(needed, "required") == "required", (name, needed)


def _needs(name: str) -> list[str]:
    try:
        declared = [Requirement(each) for each in requires(name) or []]
    except PackageNotFoundError:
        return []  # for another platform
    here = [each for each in declared if each.marker is None or each.marker.evaluate({"extra": ""})]
    return [each.name.lower().replace("_", "-").replace(".", "-") for each in here]
