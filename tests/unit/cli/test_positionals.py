"""The graph among the words of a command line: every command, every position."""

from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperArgument

from omnigraph.cli.app import run
from omnigraph.cli.command import GRAPH
from omnigraph.cli.globals import Globals
from omnigraph.cli.positionals import GraphLikeness, PlacedWords, Slot, find_likeness, place_words
from omnigraph.errors import Misaddressed, UsageError
from support.commands import all_commands

Streams = pytest.CaptureFixture[str]

NAME, FILES = Slot("NAME", is_required=True), Slot("DATA", is_required=False, is_list=True)
MAYBE = Slot("NAME", is_required=False)

WORDS = {
    "init": (),
    "serve": (),
    "ui": (),
    "load": ("rows.jsonl", "more.jsonl"),
    "ingest": ("rows.jsonl",),
    "pipeline run": ("load.yaml",),
    "pipeline plan": ("load.yaml",),
    "export": (),
    "query": ("who",),
    "entity": ("Person", "https://example.org/ada"),
    "blob get": ("node", "Photo", "7", "image"),
    "blob stat": ("node", "Photo", "7", "image"),
    "mutate": ("add",),
    "snapshot": (),
    "index": (),
    "branch create": ("review",),
    "branch list": (),
    "branch delete": ("review",),
    "branch merge": ("review",),
    "commit list": (),
    "log": (),
    "commit show": ("01J",),
    "commit changes": ("01J",),
    "diff": ("main", "review"),
    "blame": ("Person", "ada"),
    "describe": (),
    "revert": ("01J", "01K"),
    "cherry-pick": ("01J", "01K"),
    "proposal open": ("work",),
    "proposal list": (),
    "proposal show": ("01M7P6W39QXP06XX81Z849VM7Z",),
    "proposal comment": ("01M7P6W39QXP06XX81Z849VM7Z", "why"),
    "proposal approve": ("01M7P6W39QXP06XX81Z849VM7Z",),
    "proposal check": ("01M7P6W39QXP06XX81Z849VM7Z",),
    "proposal merge": ("01M7P6W39QXP06XX81Z849VM7Z",),
    "proposal close": ("01M7P6W39QXP06XX81Z849VM7Z",),
    "tag create": ("v1",),
    "tag list": (),
    "tag delete": ("v1",),
    "changes poll": (),
    "changes baseline": (),
    "recovery list": (),
    "recovery show": ("01J",),
    "lint": (),
    "explain": ("who",),
    "schema plan": (),
    "schema apply": (),
    "schema show": (),
    "schema get": (),
    "optimize": (),
    "cleanup": (),
    "relocate": (),
    "repair": (),
    "doctor": (),
    "mcp": (),
    "queries validate": (),
    "queries list": (),
}
"""The words of each command that takes a graph, apart from the graph."""
NEEDED = {
    "init": ["--schema", "s.pg"],
    "load": ["--mode", "merge"],
    "proposal open": ["--title", "Why"],
    "lint": ["--query", "q.gq"],
    "explain": ["--query", "q.gq"],
    "schema plan": ["--schema", "s.pg"],
    "schema apply": ["--schema", "s.pg"],
    "queries validate": ["--queries", "q"],
}


def parse(name: str, arguments: list[str], settings: Globals | None = None) -> dict[str, Any]:
    """The parameters that a command would be called with."""
    _, command, group = next(each for each in all_commands() if each[0] == name)
    context = command.make_context(
        name.rsplit(maxsplit=1)[-1], arguments, parent=group, obj=settings or Globals()
    )
    found: dict[str, Any] = context.params
    return found


def test_every_command_that_takes_a_graph_is_tested_here() -> None:
    taking = {
        name
        for name, command, _ in all_commands()
        if any(isinstance(each, TyperArgument) and each.name == GRAPH for each in command.params)
    }
    assert taking == WORDS.keys()


@pytest.mark.parametrize("name", WORDS)
def test_the_graph_may_stand_first_or_last_or_be_named_by_a_flag(name: str) -> None:
    words, needed = list(WORDS[name]), NEEDED.get(name, [])
    first = parse(name, ["g.omni", *words, *needed])
    assert first[GRAPH] == "g.omni"
    assert parse(name, [*words, "g.omni", *needed]) == first
    assert parse(name, [*needed, "g.omni", *words]) == first
    if name != "init":
        named = parse(name, [*words, *needed], Globals(store="g.omni"))
        assert named == {**first, GRAPH: None}


@pytest.mark.parametrize("name", [name for name, words in WORDS.items() if len(words) > 1])
def test_the_graph_may_stand_between_the_words(name: str) -> None:
    words, needed = list(WORDS[name]), NEEDED.get(name, [])
    between = [words[0], "g.omni", *words[1:]]
    assert parse(name, [*between, *needed]) == parse(name, ["g.omni", *words, *needed])


@pytest.mark.parametrize(
    ("word", "likeness"),
    [
        ("museum.omni", GraphLikeness.GRAPH),
        ("deep/museum.omni/", GraphLikeness.GRAPH),
        ("s3://bucket/museum.omni", GraphLikeness.GRAPH),
        ("s3://bucket/museum", GraphLikeness.STORAGE),
        ("file:///srv/museum", GraphLikeness.STORAGE),
        ("https://example.org/museum.omni", GraphLikeness.SERVER),
        ("museum", GraphLikeness.NONE),
        ("museum.omnibus", GraphLikeness.NONE),
        ("", GraphLikeness.NONE),
        ("\0", GraphLikeness.NONE),
        ("x" * 10_000, GraphLikeness.NONE),
    ],
)
def test_a_word_looks_more_or_less_like_a_graph(word: str, likeness: GraphLikeness) -> None:
    assert find_likeness(word) is likeness


def test_a_folder_is_a_graph_if_it_holds_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "museum" / "__manifest").mkdir(parents=True)
    (tmp_path / "rows").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_likeness("museum") is GraphLikeness.GRAPH
    assert find_likeness(f"file://{tmp_path}/museum") is GraphLikeness.GRAPH
    assert find_likeness("rows") is GraphLikeness.NONE
    monkeypatch.chdir(tmp_path / "museum")
    assert find_likeness(".") is GraphLikeness.GRAPH


@pytest.mark.parametrize(
    ("words", "slots", "expected"),
    [
        (["s3://b/g", "s3://b/rows"], [FILES], PlacedWords("s3://b/g", ("s3://b/rows",))),
        (["s3://b/rows", "g.omni"], [FILES], PlacedWords("g.omni", ("s3://b/rows",))),
        (
            ["s3://b/g", "https://e.org/ada"],
            [NAME],
            PlacedWords("s3://b/g", ("https://e.org/ada",)),
        ),
        (["https://e.org/ada"], [NAME], PlacedWords(None, ("https://e.org/ada",))),
        (["who"], [MAYBE], PlacedWords(None, ("who",))),
        (["plain"], [], PlacedWords("plain", ())),
        ([], [MAYBE], PlacedWords(None, ())),
    ],
)
def test_the_surest_word_is_the_graph(
    words: list[str], slots: list[Slot], expected: PlacedWords
) -> None:
    assert place_words(words, slots, is_named=False) == expected


@pytest.mark.parametrize("word", ["review.omni", "s3://bucket/rows"])
def test_a_word_is_no_graph_if_a_flag_names_the_graph_and_the_word_is_needed(word: str) -> None:
    assert place_words([word], [NAME], is_named=True) == PlacedWords(None, (word,))


def test_a_word_is_data_if_a_flag_names_the_graph() -> None:
    assert place_words(["s3://b/rows"], [FILES], is_named=True).words == ("s3://b/rows",)


@pytest.mark.parametrize(
    ("words", "slots", "is_named", "message"),
    [
        (["a.omni", "b.omni"], [NAME], False, "'a.omni' and 'b.omni' are graphs.*--store"),
        (["dev", "plain"], [NAME], False, "none of 'dev' 'plain' is a graph"),
        (["dev", "plain"], [NAME], True, "name the graph once"),
    ],
)
def test_a_graph_is_never_guessed(
    words: list[str], slots: list[Slot], message: str, *, is_named: bool
) -> None:
    with pytest.raises(Misaddressed, match=message):
        place_words(words, slots, is_named=is_named)


def test_a_missing_word_is_named_and_the_graph_is_not_taken_for_it() -> None:
    with pytest.raises(UsageError, match=r"'g\.omni' is the graph; NAME is missing"):
        place_words(["g.omni"], [NAME], is_named=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "nowhere", "-e", "query q() {}"], "'nowhere' is no graph"),
        (["load", "nowhere", "rows.jsonl", "--mode", "merge"], "'nowhere' is no graph"),
        (["diff", "a..b", "c"], "'c' is a third side, and no graph"),
        (["load", "g.omni", "--mode", "merge"], "name the data: omnigraph load GRAPH DATA"),
        (["g.omni", "query"], "'g.omni' is a graph; say the command first"),
    ],
)
def test_a_wrong_line_names_the_word(
    arguments: list[str], message: str, capsys: Streams, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    assert run(arguments) in (1, 2)
    assert message in capsys.readouterr().err
