"""A fresh process maps the postings that `optimize` kept, and scores texts as without them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.search import analysis, posting_files
from omnigraph.engine.settings import Settings
from omnigraph.engine.tables.metered import ON_READ, TableRead
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import MAPPED

SCHEMA = """
node Doc { slug: String @key  body: String? @index  title: String  year: I32 }
node Note { slug: String @key  body: String @index }
"""
MORE = SCHEMA.replace("year: I32", "year: I32  more: String?")
RENAMED = MORE.replace("body: String?", 'words: String? @rename_from("body")')
WORDS = ("amber", "basalt", "cedar", "dune", "ember", "fjord", "glade")
ROWS = 300
RELAXED = Settings(durability=Durability.RELAXED)
BM25 = """query q($q: String) { match { $d: Doc }
    return { $d.slug  bm25($d.body, $q) as score } order { bm25($d.body, $q) } limit 400 }"""
FILTERED = """query q($q: String) { match { $d: Doc $d.year < 3 search($d.body, $q) }
    return { $d.slug } order { bm25($d.body, $q) } limit 5 }"""
FUZZY = """query q($q: String) { match { $d: Doc fuzzy($d.body, $q, 1) }
    return { $d.slug } order { $d.slug } }"""
ASKED = ("amber", "basalt fjord", "cedar dune nothing", "glade")


def doc(number: int) -> dict[str, object]:
    """Of uneven lengths, and now and then without a text."""
    words = [WORDS[(number * step) % len(WORDS)] for step in range(1, 2 + number % 5)]
    body = None if number % 11 == 4 else " ".join(words)
    return {"slug": f"d{number:03}", "body": body, "title": f"t{number}", "year": number % 7}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = LocalGraph(create(str(tmp_path / "g"), SCHEMA, settings=RELAXED))
    graph.insert("Doc", [doc(number) for number in range(ROWS)])
    graph.insert("Note", [{"slug": "n", "body": "amber"}])
    graph.optimize()
    return tmp_path / "g"


def fresh(place: Path) -> LocalGraph:
    return LocalGraph(open_graph(str(place), settings=RELAXED))


Rows = list[object]


def ask(graph: LocalGraph, branch: str = "main") -> list[Rows]:
    return [
        list(graph.query(query, {"q": words}, branch=branch))
        for query in (BM25, FILTERED, FUZZY)
        for words in ASKED
    ]


def without_files(place: Path, branch: str = "main") -> list[Rows]:
    aside = place.parent / "aside"
    (place / MAPPED).rename(aside)
    try:
        return ask(fresh(place), branch)
    finally:
        aside.rename(place / MAPPED)


def reads_of(act: Callable[[], object]) -> int:
    """How many bytes of tables are read."""
    seen: list[TableRead] = []
    token = ON_READ.set(seen.append)
    act()
    ON_READ.reset(token)
    return sum(each.nbytes for each in seen)


def score(graph: LocalGraph, words: str = "basalt fjord", branch: str = "main") -> Rows:
    return list(graph.query(BM25, {"q": words}, branch=branch))


def files_of(place: Path) -> list[Path]:
    return sorted((place / MAPPED).rglob("*.blocks"))


def texts_read(place: Path, branch: str = "main") -> int:
    """The bytes that a first `bm25` reads, beside those of the columns that are shown."""
    graph = fresh(place)
    shown = BM25.replace("bm25($d.body, $q) as score", "$d.year").replace(
        "bm25($d.body, $q)", "$d.slug"
    )
    list(graph.query(shown.replace("($q: String)", "()"), {}, branch=branch))
    return reads_of(lambda: score(graph, branch=branch))


def test_a_first_bm25_reads_mapped_files_only(place: Path) -> None:
    assert len(files_of(place)) == 2
    assert texts_read(place) == 0
    assert ask(fresh(place)) == without_files(place)
    shutil.rmtree(place / MAPPED)
    assert texts_read(place) > 1_000


def test_a_write_leaves_the_files_of_other_rows(place: Path) -> None:
    """New rows are read, and deleted ones masked, of whom nothing but places is read."""
    graph = fresh(place)
    graph.upsert("Doc", [{**doc(7), "body": "amber fjord"}, {**doc(900), "body": "fjord fjord"}])
    graph.mutate('query d() { delete Doc where slug = "d008" }')
    assert 0 < texts_read(place) < 1_000 + 8 * ROWS
    assert ask(fresh(place)) == without_files(place)
    found = {str(each["d.slug"]) for each in score(fresh(place))}  # type: ignore[index]
    assert {"d007", "d900"} < found
    assert "d008" not in found
    graph.optimize()
    assert texts_read(place) == 0


def test_rows_of_an_older_commit_are_not_missed(place: Path) -> None:
    """A file was written when rows were gone; a reader of the commit before reads the texts."""
    shutil.rmtree(place / MAPPED)
    graph = fresh(place)
    graph.branches.create("older")
    before = score(graph)
    graph.mutate('query d() { delete Doc where slug = "d008" }')
    graph.optimize()
    assert len(before) == len(score(fresh(place))) + 1
    assert score(fresh(place), branch="older") == before
    graph.optimize(branch="older")
    assert score(fresh(place), branch="older") == before
    assert texts_read(place, "older") == 0
    assert len(score(fresh(place))) == len(before) - 1


def test_a_branch_uses_the_files_of_the_rows_it_shares(place: Path) -> None:
    graph = fresh(place)
    graph.branches.create("side")
    graph.insert("Doc", [{**doc(901), "body": "fjord"}], branch="side")
    assert texts_read(place, "side") < 1_000
    assert ask(fresh(place), "side") == without_files(place, "side")
    assert score(fresh(place), branch="side") != score(fresh(place))


def test_damaged_files_are_passed_over_and_made_again(place: Path) -> None:
    expected = ask(fresh(place))
    for file in files_of(place):
        data = bytearray(file.read_bytes())
        data[300] ^= 255
        file.write_bytes(data)
    assert ask(fresh(place)) == expected
    assert texts_read(place) > 1_000
    fresh(place).optimize()
    assert texts_read(place) == 0
    for file in files_of(place):
        file.write_bytes(file.read_bytes()[:-40])
    assert ask(fresh(place)) == expected


def test_files_of_another_analysis_are_passed_over(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting_files, "ANALYSIS", "another")
    assert analysis.ANALYSIS != "another"
    assert texts_read(place) > 1_000


def test_a_schema_change_makes_files_useless_and_nothing_wrong(place: Path) -> None:
    fresh(place).apply_schema(MORE)
    assert ask(fresh(place)) == without_files(place)
    fresh(place).optimize()
    assert texts_read(place) == 0
    fresh(place).apply_schema(RENAMED)
    assert list(fresh(place).query(BM25.replace("$d.body", "$d.words"), {"q": "fjord"}))
    assert reads_of(lambda: fresh(place).query(BM25.replace("$d.body", "$d.words"), {"q": "x"})) > 0


def test_cleanup_keeps_the_files_of_fragments_that_a_branch_shows(place: Path) -> None:
    graph = fresh(place)
    graph.insert("Doc", [doc(902)])
    graph.cleanup(keep=1, confirm=True)
    assert len(files_of(place)) == 2
    assert texts_read(place) < 1_000
    before = files_of(place)
    graph.mutate("query d() { delete Doc where year >= 0 }")
    graph.insert("Doc", [doc(number) for number in range(ROWS)])
    graph.optimize()
    assert len(files_of(place)) == 3
    graph.cleanup(keep=1, confirm=True)
    assert len(files_of(place)) == 2
    assert files_of(place) != before
    assert texts_read(place) == 0
