"""What is built: how large it is, what it may load, and that it fits the API."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from browser.conftest import PAGE, ROOT
from omnigraph.server.app import build_app
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime

UI = ROOT / "ui"
NODE = shutil.which("node") or str(Path(sys.executable).parent / "node")
"""The machine's, or the one that `make setup` took from PyPI."""
GZIPPED_MAX = 350_000
PATIENCE_S = 300


def test_the_page_without_its_graph_library_is_small() -> None:
    packed = [each for each in PAGE.rglob("*.gz") if not each.name.startswith("cytoscape")]
    assert packed
    assert sum(each.stat().st_size for each in packed) <= GZIPPED_MAX


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = (PAGE / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!\./assets/)[^"]*"', page) == []
    assert "<style" not in page
    assert re.findall(r"<script(?![^>]*src=)", page) == []


def test_no_source_writes_markup() -> None:
    for each in (UI / "src").rglob("*.ts*"):
        assert not re.search("innerHTML|outerHTML|insertAdjacent", each.read_text()), each


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((UI / "package-lock.json").read_text())
    assert all("resolved" not in each for each in lock["packages"].values())


@pytest.mark.slow
def test_the_page_fits_the_api(tmp_path: Path) -> None:
    """The types of the OpenAPI document, and the sources that use them."""
    omnigraph.init(str(tmp_path / "g.omni"), "node A { name: String @key }")
    flags = Flags(graphs=(f"g={tmp_path / 'g.omni'}",), unauthenticated=True)
    document = build_app(ServerRuntime(flags, {})).openapi()
    (UI / "openapi.json").write_text(json.dumps(document))
    for words in (
        ["openapi-typescript/bin/cli.js", "openapi.json", "--output", "src/openapi.d.ts"],
        ["typescript/bin/tsc", "--noEmit"],
    ):
        done = subprocess.run(
            [NODE, f"node_modules/{words[0]}", *words[1:]],
            cwd=UI,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
