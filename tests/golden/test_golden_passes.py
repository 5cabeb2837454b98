"""What each pass makes of small queries, and the plans that come of them.

A case is a `.gq` file. In the folder of a pass stands beside it what the pass was given and what it
handed on; in `plans`, the plan as a tree and as it is explained.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler.compile import compile_tree
from omnigraph.compiler.explain import explain
from omnigraph.compiler.ir import Read
from omnigraph.compiler.passes import PASSES, optimise
from omnigraph.compiler.resolve import resolve_query
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source
from support.golden import check_golden, format_tree
from support.steps import format_read

ROOT = Path(__file__).parent / "passes"
NAMES = [each.__name__ for each in PASSES]


def cases_of(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).glob("*.gq"))


def read_source(path: Path) -> Source:
    return Source(path.name, path.read_text(encoding="utf-8"))


def gallery() -> Catalog:
    return compile_schema(read_source(ROOT / "gallery.pg"))


def before_and_after(query: ast.Query, source: Source, name: str) -> tuple[str, str]:
    """What the pass of this name was given, and what it handed on."""
    catalog = gallery()
    resolved = resolve_query(query, catalog, source)
    assert isinstance(resolved, Read)
    stages = [format_read(resolved)]
    optimise(resolved, catalog, watch=lambda _, made: stages.append(format_read(made)))
    at = NAMES.index(name)
    return stages[at], stages[at + 1]


@pytest.mark.parametrize(
    "path", cases_of(*NAMES), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_pass_makes_of_a_query_what_the_file_says(path: Path) -> None:
    source = read_source(path)
    blocks: list[str] = []
    for query in parse(source).queries:
        before, after = before_and_after(query, source, path.parent.name)
        result = "(the same)" if after == before else after
        blocks.append(f"── {query.name.text} ──\n{before}\n\n⇒\n\n{result}\n")
    check_golden("\n".join(blocks), path.with_suffix(".txt"))


def compiled(path: Path) -> Iterator[tuple[str, str]]:
    source = read_source(path)
    for query in parse(source).queries:
        plan = compile_tree(query, gallery(), source).plan
        yield format_tree(plan), explain(plan)


@pytest.mark.parametrize("path", cases_of("plans"), ids=lambda path: path.stem)
def test_a_query_becomes_the_plan_in_the_file(path: Path) -> None:
    trees, texts = zip(*compiled(path), strict=True)
    check_golden("\n\n".join(trees), path.with_suffix(".plan.txt"))
    check_golden("\n\n".join(texts), path.with_suffix(".explain.txt"))
