"""Queries beside what they mean, or beside what is wrong with them."""

import re
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler.resolve import check_file, find_mixed
from omnigraph.compiler.rules import QueryRule
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source
from support.golden import check_golden, format_tree

CASES = Path(__file__).parent / "query"
PROGRAMS = sorted(CASES.glob("*.gq"))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return compile_schema(Source("schema.pg", (CASES / "schema.pg").read_text(encoding="utf-8")))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_query_means_what_its_golden_file_says(program: Path, catalog: Catalog) -> None:
    source = Source(program.name, program.read_text(encoding="utf-8"))
    meanings: list[str] = []
    diagnostics: list[str] = []
    for checked in check_file(parse(source), catalog, source):
        diagnostics += [each.render() for each in checked.diagnostics]
        if checked.resolved is not None:
            diagnostics += [each.render() for each in find_mixed(checked.resolved, source)]
            meanings.append(format_tree(checked.resolved))
    if diagnostics:
        check_golden("\n\n".join(diagnostics), program.with_suffix(".diagnostics.txt"))
    else:
        check_golden("\n\n".join(meanings), program.with_suffix(".ir.txt"))


def test_every_rule_is_broken_by_some_golden_case() -> None:
    texts = (path.read_text(encoding="utf-8") for path in CASES.glob("*.diagnostics.txt"))
    broken = {code for text in texts for code in re.findall(r"\[([A-Z]\d+)\]$", text, re.MULTILINE)}
    assert broken == {rule.value for rule in QueryRule}


def test_no_golden_file_is_left_without_its_program() -> None:
    programs = {path.stem for path in PROGRAMS}
    golden = {path.name.split(".")[0] for path in CASES.glob("*.txt")}
    assert golden == programs
