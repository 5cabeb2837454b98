"""The programs in the guide to the query language are programs."""

import re
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.compiler.resolve import check_file
from omnigraph.lang.query.parser import parse
from omnigraph.lang.query.printer import print_file
from omnigraph.lang.source import Source

GUIDE = Path(__file__).parents[4] / "docs" / "queries.md"


def _blocks(language: str) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


PROGRAMS = _blocks("gq")


def test_the_guide_shows_programs() -> None:
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.split("(")[0])
def test_a_program_in_the_guide_parses_and_survives_printing(program: str) -> None:
    file = parse(Source("queries.md", program))
    assert file.queries
    assert parse(Source("printed.gq", print_file(file))) == file


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.split("(")[0])
def test_a_program_in_the_guide_fits_the_schema_of_the_guide(program: str) -> None:
    [schema] = _blocks("pg")
    catalog = compile_schema(Source("queries.md", schema))
    source = Source("queries.md", program)
    checked = check_file(parse(source), catalog, source)
    assert [each.diagnostics for each in checked] == [()] * len(checked)
