"""Broken programs of the kinds that language models write, and the edits that mend them."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler.compile import compile_query
from omnigraph.errors import QueryInvalid
from omnigraph.lang.source import Source

HERE = Path(__file__).parent / "repair"
REPAIRED_MIN = 0.9


@dataclass(frozen=True)
class Case:
    name: str
    broken: str
    meant: str | None


def read_cases() -> list[Case]:
    text = (HERE / "cases.txt").read_text()
    cases = []
    for mark, name, body in re.findall(
        r"^(===|!!!) (.*)\n((?:(?!^(?:===|!!!) ).*\n?)*)", text, re.MULTILINE
    ):
        broken, _, meant = body.partition("\n---\n")
        cases.append(Case(name, broken.strip("\n"), meant.strip("\n") if mark == "===" else None))
    return cases


CASES = read_cases()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return compile_schema(Source("schema.pg", (HERE / "schema.pg").read_text()))


def refuse(text: str, catalog: Catalog) -> QueryInvalid:
    with pytest.raises(QueryInvalid) as refused:
        compile_query(Source("<query>", text), catalog)
    return refused.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_repair_means_what_the_program_meant(case: Case, catalog: Catalog) -> None:
    repair = refuse(case.broken, catalog).repair
    if case.meant is None:
        assert repair is None
        return
    assert repair is not None
    repaired = compile_query(Source("<query>", repair.program), catalog)
    meant = compile_query(Source("<query>", case.meant), catalog)
    assert repaired.ir == meant.ir


def test_the_edits_make_the_program(catalog: Catalog) -> None:
    for case in CASES:
        repair = refuse(case.broken, catalog).repair
        text = case.broken
        for edit in reversed(repair.edits if repair is not None else ()):
            text = text[: edit.start] + edit.replacement + text[edit.end :]
        assert text == (case.broken if repair is None else repair.program)


def test_nine_of_ten_broken_programs_are_repaired(catalog: Catalog) -> None:
    mended = [case for case in CASES if refuse(case.broken, catalog).repair is not None]
    assert len(CASES) >= 60
    assert len(mended) / len(CASES) >= REPAIRED_MIN
