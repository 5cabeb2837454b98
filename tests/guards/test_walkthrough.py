"""The pages that lead through the code name files, functions and classes that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "omnigraph"
PAGES = [
    ROOT / "docs" / "dev" / "walkthrough.md",
    ROOT / "docs" / "architecture.md",
    ROOT / "CONTRIBUTING.md",
]
HOPS_MAX = 25

# What a page may name in backticks; everything of these forms must exist.
FILES = re.compile(r"`((?:[\w-]+/)*[\w.-]+\.(?:py|toml|md|lark|lock|pg|gq|jsonl|yaml))`")
FOLDERS = re.compile(r"`((?:[\w-]+/)+)`")
DOTTED = re.compile(r"`((?:\w+\.)+\w+)(?:\(\))?`")
CLASS = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z0-9]*)*)`")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names_in(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """What a module or a class defines at its top, each with its own body."""
    found: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node.body
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({each.id: [] for each in targets if isinstance(each, ast.Name)})
        elif isinstance(node, ast.ImportFrom):
            found.update({each.asname or each.name: [] for each in node.names})
    return found


def _is_there(dotted: str) -> bool:
    """Is `engine.graph.Graph.mutate` a module, or something that a module defines?"""
    words = dotted.split(".")
    if words[0] == "omnigraph":
        words = words[1:]
    place = SRC
    while words and (place / words[0]).is_dir():
        place /= words.pop(0)
    if not words:
        return True
    module = place / f"{words[0]}.py"
    if module.exists():
        words = words[1:]
    else:
        module = place / "__init__.py"
    body = _tree(module).body
    for word in words:
        names = _names_in(body)
        if word not in names:
            return False
        body = names[word]
    return True


def _has_file(name: str) -> bool:
    return any((base / name).exists() for base in (ROOT, SRC, ROOT / "docs"))


def _classes() -> set[str]:
    modules = (_tree(path) for path in SRC.rglob("*.py"))
    return {
        node.name for tree in modules for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_on_a_page_about_the_code_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = set(FILES.findall(text))
    missing = [name for name in files if not _has_file(name)]
    missing += [name for name in FOLDERS.findall(text) if not _has_file(name)]
    missing += [name for name in set(DOTTED.findall(text)) - files if not _is_there(name)]
    missing += set(CLASS.findall(text)) - _classes()
    assert not missing, f"{page.name} names what is not there: {', '.join(sorted(missing))}"


def test_every_test_and_script_that_the_docs_name_exists() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = re.compile(r"`((?:tests|benchmarks|scripts|examples|src)/[\w./-]+)`")
    made = "benchmarks/results/"
    missing = {
        f"{page.name}: {name}"
        for page in pages
        for name in named.findall(page.read_text(encoding="utf-8"))
        if not name.startswith(made) and not (ROOT / name).exists()
    }
    assert not missing, f"not there: {', '.join(sorted(missing))}"


def test_every_walk_takes_few_hops() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    walks = [part for part in text.split("\n## ")[1:] if "\n| 1 |" in part]
    hops = {
        part.splitlines()[0]: len(re.findall(r"^\| \d+ \|", part, re.MULTILINE)) for part in walks
    }
    assert len(hops) >= 4
    assert max(hops.values()) <= HOPS_MAX, hops
