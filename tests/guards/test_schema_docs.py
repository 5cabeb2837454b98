"""The schema language is documented: every rule by its code, every example by compiling it."""

import re
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.rules import SchemaRule
from omnigraph.lang.source import Source

DOCUMENT = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")


def test_every_rule_of_a_schema_is_documented_and_nothing_else_is() -> None:
    section = DOCUMENT.split("## Rule codes")[1]
    documented = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", section, re.MULTILINE))
    assert documented == {rule.value: rule.meaning for rule in SchemaRule}


@pytest.mark.parametrize("example", re.findall(r"```pg\n(.*?)```", DOCUMENT, re.DOTALL))
def test_every_example_compiles(example: str) -> None:
    assert compile_schema(Source("schema.md", example)).nodes
