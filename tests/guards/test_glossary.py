"""The glossary holds for the code: one noun names one class, and a banned word names nothing."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "omnigraph"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

# One noun of a language has one class in each of these stages: its tree, its meaning, its plan.
STAGES = {"lang/schema/ast.py", "lang/query/ast.py", "catalog/model.py"}
STAGES |= {"compiler/ir.py", "compiler/plan.py"}

# Ratchets: how often these words still occur in prose. Lower them, never raise them.
VAGUE = r"\b(whoever|somebody|nobody)\b"
VAGUE_IN_SRC_MAX = 16
VAGUE_IN_DOCS_MAX = 3


def _section(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, as stripped cells."""
    text = GLOSSARY.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]


NOUNS = _section("Nouns")
BANNED = _section("Banned words")
MODULES = sorted(SRC.rglob("*.py"))


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def _words(identifier: str) -> list[str]:
    """`_readSome_URLsNow` is read, some, URLs, now."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    return [word.lower() for word in words]


def _classes() -> dict[str, list[str]]:
    """Every public class by its name, with the modules that define it; stages count once."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        path = module.relative_to(SRC).as_posix()
        home = "a stage of a language" if path in STAGES else path
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(home)
    return {name: sorted(homes) for name, homes in found.items()}


def _identifiers() -> Counter[str]:
    found: Counter[str] = Counter()
    for module in MODULES:
        text = io.StringIO(module.read_text(encoding="utf-8"))
        tokens = tokenize.generate_tokens(text.readline)
        found.update(token.string for token in tokens if token.type == tokenize.NAME)
    return found


CLASSES = _classes()
IDENTIFIERS = _identifiers()


def test_the_glossary_is_in_order_and_names_no_noun_twice() -> None:
    nouns = [noun.lower() for noun, *_ in NOUNS]
    assert nouns == sorted(set(nouns))


@pytest.mark.parametrize("row", NOUNS, ids=lambda row: row[0])
def test_a_noun_names_one_class(row: list[str]) -> None:
    noun, named, _ = row
    for name in _names(named):
        assert len(CLASSES.get(name, [])) == 1, f"{noun}: {name} is {CLASSES.get(name)}"
    derived = "".join(word.capitalize() for word in re.split(r"[ -]", noun))
    assert len(CLASSES.get(derived, [])) <= 1, f"{noun}: {CLASSES[derived]}"


def test_no_class_name_stands_for_two_things() -> None:
    assert {name: homes for name, homes in CLASSES.items() if len(homes) > 1} == {}


@pytest.mark.parametrize("row", BANNED, ids=lambda row: row[0])
def test_a_banned_word_is_part_of_no_identifier(row: list[str]) -> None:
    banned, use, exceptions = row
    allowed = set(_names(exceptions))
    assert bool(exceptions) == (":" in exceptions), "an exception needs its reason"
    for word in _names(banned):
        uses = {name: n for name, n in IDENTIFIERS.items() if word in _words(name)}
        left = {name: n for name, n in uses.items() if name not in allowed}
        assert not left, f"say {use} for {sorted(left)}"
    assert allowed <= set(IDENTIFIERS), "an exception that nothing needs"


def _vague(paths: list[Path]) -> int:
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return sum(len(re.findall(VAGUE, text, re.IGNORECASE)) for text in texts)


def test_prose_names_who_acts() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    pages.remove(ROOT / "docs" / "glossary.md")
    assert _vague(MODULES) <= VAGUE_IN_SRC_MAX
    assert _vague(pages) <= VAGUE_IN_DOCS_MAX
