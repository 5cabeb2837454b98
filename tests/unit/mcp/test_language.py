"""The page that teaches the language: it is short, and what it shows is right."""

import re
import textwrap

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.outline import estimate_tokens
from omnigraph.compiler.compile import compile_file
from omnigraph.lang.source import Source
from omnigraph.mcp.graph_tools import read_language

TOKENS_MAX = 1_500
EXAMPLES = 5


def test_the_page_costs_few_tokens() -> None:
    assert estimate_tokens(read_language()) < TOKENS_MAX


def test_its_examples_fit_its_schema() -> None:
    page = read_language()
    schema = "\n".join(re.findall(r"^ {4}((?:node|edge) .*)$", page, re.MULTILINE))
    catalog = compile_schema(Source("page.pg", schema))
    programs = re.findall(r"```gq\n(.*?)```", page, re.DOTALL)
    assert len(programs) == EXAMPLES
    for program in programs:
        (compiled,) = compile_file(Source("page.gq", textwrap.dedent(program)), catalog)
        assert compiled.name
