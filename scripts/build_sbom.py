"""The bill of materials of a release: CycloneDX JSON, from requirements.lock and pyproject.toml.

    scripts/sbom > omnigraph.cdx.json

A component is `required` if the package or one of its extras needs it, directly or not, and
`excluded` if only developers do. The same lock gives the same bytes. Nothing is asked over the
network.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SPEC: Final = "1.6"
DEV: Final = "dev"

_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)(?:\s*;\s*(.+))?")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_OURS: Final = "omnigraph"


@dataclass(frozen=True, slots=True)
class Pin:
    """One line of the lock."""

    name: str
    version: str
    marker: str | None
    parents: list[str] = field(default_factory=list)
    """Which pins need it, as the lock notes below the line."""

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> list[Pin]:
    """One name may have several pins, for several platforms or versions of Python.

    Raises ValueError for a line that pins nothing.
    """
    pins: list[Pin] = []
    for line in text.splitlines():
        if found := _PIN.fullmatch(line):
            pins.append(Pin(normalise(found[1]), found[2], found[3]))
        elif line.lstrip().startswith("#") and pins:
            note = line.strip().removeprefix("#").strip().removeprefix("via").strip()
            if note:
                pins[-1].parents.append(normalise(note.split()[0]))
        elif line.strip():
            raise ValueError(f"requirements.lock: '{line}' pins nothing")
    return pins


def find_roots(project: Mapping[str, Any]) -> set[str]:
    """What the package and its extras name, without the tools of developers."""
    extras: Mapping[str, list[str]] = project.get("optional-dependencies", {})
    wanted = [*project.get("dependencies", [])]
    wanted += [each for name, listed in extras.items() if name != DEV for each in listed]
    return {normalise(found[0]) for each in wanted if (found := _NAME.match(each))} - {_OURS}


def find_required(pins: Sequence[Pin], roots: Iterable[str]) -> set[str]:
    """The roots, and everything that they need."""
    needs: dict[str, set[str]] = {}
    for pin in pins:
        for parent in pin.parents:
            needs.setdefault(parent, set()).add(pin.name)
    found: set[str] = set()
    open_ = [*roots]
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += needs.get(name, ())
    return found


def build(lock: str, project: Mapping[str, Any], version: str) -> dict[str, Any]:
    pins = read_lock(lock)
    roots = find_roots(project)
    required = find_required(pins, roots)
    ours = {"type": "library", "name": _OURS, "version": version}
    ours |= {"bom-ref": f"pkg:pypi/{_OURS}@{version}", "purl": f"pkg:pypi/{_OURS}@{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{version} {lock}").urn,
        "version": 1,
        "metadata": {"component": ours},
        "components": [_component(each, required) for each in pins],
        "dependencies": [*_dependencies(pins, roots, ours["bom-ref"])],
    }


def _component(pin: Pin, required: set[str]) -> dict[str, Any]:
    marker = [{"name": "omnigraph:marker", "value": pin.marker}] if pin.marker else []
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "scope": "required" if pin.name in required else "excluded",
        **({"properties": marker} if marker else {}),
    }


def _dependencies(pins: Sequence[Pin], roots: set[str], ours: str) -> Iterator[dict[str, object]]:
    yield {"ref": ours, "dependsOn": sorted(each.purl for each in pins if each.name in roots)}
    for pin in pins:
        needed = sorted(each.purl for each in pins if pin.name in each.parents)
        yield {"ref": pin.purl, "dependsOn": needed}


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (ROOT / "src" / "omnigraph" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', source, re.MULTILINE)
    assert found is not None, "the package has no version"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    json.dump(build(lock, project, found[1]), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
