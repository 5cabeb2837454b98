"""The rules of the query language are documented, code by code and word for word."""

import re
from pathlib import Path

from omnigraph.compiler.rules import QueryRule
from omnigraph.lang.query import rules as syntax

DOCUMENT = Path(__file__).parents[2] / "docs" / "queries.md"


def test_every_rule_of_a_query_is_documented_and_nothing_else_is() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Rule codes")[1]
    documented = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", section, re.MULTILINE))
    meanings = {rule.value: rule.meaning for rule in QueryRule}
    meanings |= {rule.value: rule.meaning for rule in syntax.SyntaxRule}
    assert documented == meanings


def test_no_code_stands_for_two_rules() -> None:
    assert not {rule.value for rule in QueryRule} & {rule.value for rule in syntax.SyntaxRule}
