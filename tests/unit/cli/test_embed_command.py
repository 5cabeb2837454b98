"""A file of records gets its vectors before it is loaded."""

import json
from pathlib import Path

import pytest

from omnigraph.cli.app import run
from omnigraph.embed.record_file import text_of

RECORDS = [
    '{"type":"Doc","data":{"slug":"a","title":"fox","n":1}}',
    '{"type":"Doc","data":{"slug":"b","title":"hare","vec":[9.0,9.0]}}',
    '{"type": "Doc",  "data":{"slug":"c"}}',
    '{"type":"Tag","data":{"name":"x","title":"fox"}}',
    '{"edge":"cites","from":"a","to":"b","data":{"title":"fox"}}',
]
SPEC = {"dimension": 2, "types": {"Doc": {"target": "vec", "fields": ["title", "n"]}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text("\n".join(RECORDS) + "\n\n")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    return tmp_path


def embed(folder: Path, *options: str) -> list[str]:
    words = ["embed", "--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json"]
    assert run([*words, *options]) == 0
    assert sorted(each.name for each in folder.iterdir()) == ["in.jsonl", "out.jsonl", "spec.json"]
    return (folder / "out.jsonl").read_text().splitlines()


def vectors(lines: list[str]) -> list[object]:
    return [json.loads(line).get("data", {}).get("vec") for line in lines]


def test_only_records_without_a_vector_get_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = embed(folder, "--json")
    assert lines[1:] == RECORDS[1:]
    made = json.loads(lines[0])["data"]
    assert list(made) == ["slug", "title", "n", "vec"]
    assert sum(each * each for each in made["vec"]) == pytest.approx(1)
    document = json.loads(capsys.readouterr().out)
    assert document["mode"] == "fill_missing"
    assert (document["rows"], document["selected_rows"], document["embedded_rows"]) == (5, 3, 1)
    assert (document["records"], document["cleaned_records"]) == (5, 0)
    assert document["dimension"] == 2


def test_the_text_is_the_type_and_a_line_for_every_field(folder: Path) -> None:
    assert text_of("Doc", {"n": 1, "title": "fox", "x": 2}, ("title", "n", "gone")) == (
        "type: Doc\ntitle: fox\nn: 1"
    )
    first = vectors(embed(folder))[0]
    (folder / "in.jsonl").write_text('{"type":"Doc","data":{"n":1,"title":"fox"}}\n')
    assert vectors(embed(folder)) == [first]


def test_all_can_be_made_anew_or_taken_out(folder: Path) -> None:
    anew = vectors(embed(folder, "--reembed_all"))
    assert anew[1] not in (None, [9.0, 9.0])
    assert vectors(embed(folder, "--clean")) == [None] * 5


def test_a_selection_is_made_anew_and_nothing_else(folder: Path) -> None:
    chosen = vectors(embed(folder, "--select", "Doc:slug=b"))
    assert chosen[0] is None
    assert chosen[1] not in (None, [9.0, 9.0])
    assert vectors(embed(folder, "--select", "n=1"))[1] == [9.0, 9.0]
    assert vectors(embed(folder, "--type", "Tag")) == [None, [9.0, 9.0], None, None, None]


def test_a_seed_file_says_it_all(folder: Path) -> None:
    types = "types: {Doc: {target: vec, fields: [title]}}"
    (folder / "seed.yaml").write_text(
        f"sources: {{raw_seed: in.jsonl}}\nembeddings:\n  dimension: 3\n  {types}\n"
    )
    assert run(["embed", "--seed", "seed.yaml"]) == 0
    lines = (folder / "build" / "seed.embedded.jsonl").read_text().splitlines()
    assert len(json.loads(lines[0])["data"]["vec"]) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--input", "in.jsonl"], 2, "--seed, or --input"),
        (["--seed", "nope.yaml"], 1, "nope.yaml"),
        (["--seed", "spec.json", "--spec", "spec.json"], 2, "drop --input"),
        (["--seed", "spec.json"], 1, "raw_seed"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_missing_is_said(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["embed", *words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--clean", "--reembed-all"], "choose one"),
        (["--select", "slug"], "field=value"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_options_that_contradict_are_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", "--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json"]
    assert run([*words, *options]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_wrong_leaves_nothing_behind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.jsonl").write_text(f"{RECORDS[0]}\n[1]\n")
    words = ["embed", "--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json"]
    assert run(words) == 1
    assert "line 2 is not an object" in capsys.readouterr().err
    assert sorted(each.name for each in folder.iterdir()) == ["in.jsonl", "spec.json"]
    (folder / "spec.json").write_text('{"dimension": 0, "types": {}}')
    assert run(words) == 1
    assert "dimension" in capsys.readouterr().err


def test_a_spec_that_is_missing_is_not_called_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.exists()
    assert run(["embed", "--input", "in.jsonl", "--output", "out.jsonl", "--spec", "no.json"]) == 1
    told = capsys.readouterr().err
    assert "cannot read no.json" in told
    assert "JSON" not in told
