"""Query texts beside their trees, or beside what is wrong with them."""

from pathlib import Path

import pytest

from omnigraph.errors import QueryInvalid
from omnigraph.lang.query.parser import parse
from omnigraph.lang.query.printer import print_file
from omnigraph.lang.query.rules import SyntaxRule
from omnigraph.lang.source import Source
from support.golden import check_golden, format_tree

CASES = sorted((Path(__file__).parent / "query_syntax").glob("*.gq"))


def _outcome(case: Path) -> tuple[str, str]:
    """The kind of the golden file, and what it should hold."""
    # Not read_text: a carriage return in a case has to reach the parser.
    source = Source(case.name, case.read_bytes().decode())
    try:
        file = parse(source)
    except QueryInvalid as invalid:
        return "diagnostics", str(invalid)
    return "tree", f"{print_file(file)}\n{format_tree(file)}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_text_becomes_the_tree_or_the_diagnostics_beside_it(case: Path) -> None:
    kind, text = _outcome(case)
    check_golden(text, case.with_suffix(f".{kind}.txt"))


def test_every_case_has_exactly_one_golden_file() -> None:
    folder = Path(__file__).parent / "query_syntax"
    assert sorted(path.name.split(".")[0] for path in folder.glob("*.txt")) == [
        case.stem for case in CASES
    ]


def test_every_rule_has_a_golden_case() -> None:
    shown = "\n".join(text for kind, text in map(_outcome, CASES) if kind == "diagnostics")
    assert [rule for rule in SyntaxRule if f"[{rule}]" not in shown] == []
