"""Schemas beside what they become: a tree and canonical JSON, or diagnostics."""

import re
from pathlib import Path

import pytest

from omnigraph.catalog.build import build, compile_schema
from omnigraph.catalog.codec import encode_pretty
from omnigraph.catalog.rules import SchemaRule
from omnigraph.errors import SchemaInvalid
from omnigraph.lang.schema.parser import parse
from omnigraph.lang.schema.printer import print_schema
from omnigraph.lang.source import Source
from support.golden import check_golden, format_tree

FOLDER = Path(__file__).parent / "schema"
CASES = sorted(FOLDER.glob("*.pg"))
REJECTED = [case for case in CASES if re.match(r"[sdiackr]\d+_|many_faults", case.name)]
ACCEPTED = [case for case in CASES if case not in REJECTED]


def read(case: Path) -> Source:
    # One case holds half of a surrogate pair, which UTF-8 proper cannot spell.
    text = case.read_bytes().decode(errors="surrogatepass")
    return Source(case.name, text)


def by_stem(case: Path) -> str:
    return case.stem


@pytest.mark.parametrize("case", ACCEPTED, ids=by_stem)
def test_an_accepted_schema_becomes_its_tree_and_its_canonical_form(case: Path) -> None:
    source = read(case)
    tree = parse(source)
    check_golden(format_tree(tree), case.with_suffix(".tree.txt"))
    check_golden(encode_pretty(build(tree, source)), case.with_suffix(".ir.json"))


@pytest.mark.parametrize("case", ACCEPTED, ids=by_stem)
def test_an_accepted_schema_has_a_canonical_layout(case: Path) -> None:
    printed = print_schema(parse(read(case)))
    check_golden(printed, case.with_suffix(".printed.txt"))


@pytest.mark.parametrize("case", REJECTED, ids=by_stem)
def test_a_rejected_schema_says_every_reason(case: Path) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        compile_schema(read(case))
    check_golden(str(caught.value), case.with_suffix(".diagnostics.txt"))


def codes_in(case: Path) -> set[str]:
    text = case.with_suffix(".diagnostics.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^\S.*\[([A-Z]\d+)\]$", text, re.MULTILINE))


@pytest.mark.parametrize("rule", SchemaRule, ids=lambda rule: rule.value)
def test_every_rule_has_a_case_named_for_it_that_breaks_it(rule: SchemaRule) -> None:
    cases = [case for case in REJECTED if case.name.startswith(f"{rule.value.lower()}_")]
    assert cases, f"no golden case {rule.value.lower()}_*.pg"
    assert all(rule.value in codes_in(case) for case in cases)


def test_every_code_that_is_reported_is_a_rule() -> None:
    reported = set[str]().union(*map(codes_in, REJECTED))
    assert reported == {rule.value for rule in SchemaRule}


def test_the_family_of_a_diagnostic_is_that_of_its_rule() -> None:
    for case in REJECTED:
        text = case.with_suffix(".diagnostics.txt").read_text(encoding="utf-8")
        for family, code in re.findall(r": (\w+ error): .*\[([A-Z]\d+)\]$", text, re.MULTILINE):
            assert family == SchemaRule[code].family
