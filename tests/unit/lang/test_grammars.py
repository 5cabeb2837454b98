"""Tables that were kept parse as those that are made on the spot."""

import gc
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from lark import Lark, Token, Tree, UnexpectedInput

from omnigraph.lang.grammars import Grammar, collecting_nothing
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import GRAMMAR as QUERY
from omnigraph.lang.query.printer import print_file
from omnigraph.lang.schema.parser import GRAMMAR as SCHEMA
from support.programs import files

BUILT = QUERY.build()


def keep(grammar: Grammar) -> bytes:
    kept = io.BytesIO()
    grammar.build().save(kept)
    return kept.getvalue()


KEPT = Lark.load(io.BytesIO(keep(QUERY)))


def read(parser: Lark, text: str) -> object:
    """The tree, with the places of everything in it; or where it could not be read."""
    try:
        tree = parser.parse(text)
    except UnexpectedInput as unexpected:
        return type(unexpected), unexpected.pos_in_stream
    return tree, list(find_places(tree))


def find_places(item: Tree[Token] | Token) -> Iterator[tuple[int | None, int | None]]:
    if isinstance(item, Token):
        yield item.start_pos, item.end_pos
        return
    if not item.meta.empty:
        yield item.meta.start_pos, item.meta.end_pos
    for child in item.children:
        yield from find_places(child)


@given(files)
def test_queries_are_read_alike(file: ast.File) -> None:
    text = print_file(file)
    assert read(KEPT, text) == read(BUILT, text)
    assert read(KEPT, text[:-2]) == read(BUILT, text[:-2])


@pytest.mark.parametrize("text", ["", "node A {", "node A { name: String @key }\nedge E: A -> A"])
def test_schemas_are_read_alike(text: str) -> None:
    kept = Lark.load(io.BytesIO(keep(SCHEMA)))
    assert read(kept, text) == read(SCHEMA.build(), text)


def test_tables_are_taken_if_they_are_of_this_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "toy_language"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    toy = Grammar("toy_language", start="start")
    (package / "grammar.lark").write_text('start: "b"')
    of_another = keep(toy)
    (package / "grammar.lark").write_text('start: "a"')
    toy.load().parse("a")
    (package / toy.tables).write_bytes(of_another)
    toy.load().parse("b")
    (package / "grammar.lark").write_text('start: "c"')
    toy.load().parse("c")


TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from omnigraph.lang.query.parser import grammar

begin = Barrier(8)

def load(_):
    begin.wait()
    return grammar()

with ThreadPoolExecutor(8) as pool:
    print(len({id(each) for each in list(pool.map(load, range(8)))}))
"""


def test_threads_that_begin_together_load_one_parser() -> None:
    told = subprocess.run(
        [sys.executable, "-c", TOGETHER], capture_output=True, text=True, check=True
    )
    assert told.stdout == "1\n"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_loading_leaves_the_search_for_garbage_as_it_was(*, is_enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with collecting_nothing():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if before else gc.disable)()
