"""Records that came in one piece."""

import json
import tempfile
from itertools import product
from pathlib import Path

import pytest

from omnigraph.server.spool import one_a_line, spool_text

RECORDS = [
    {"a": 1, "b": [1.5, None, {}]},
    {"text": "a\nb\r\nc \u2028 \x85 \x0b é \\n {"},
    {},
    {"}": "{"},
]


@pytest.mark.parametrize(
    ("indent", "between", "is_ascii"),
    list(product([None, 2], [" ", "", "\n", "\r\n\n", "\t"], [True, False])),
)
def test_records_are_the_same_however_they_were_laid_out(
    *, indent: int | None, between: str, is_ascii: bool
) -> None:
    texts = [json.dumps(each, indent=indent, ensure_ascii=is_ascii) for each in RECORDS]
    lines = one_a_line(between.join(texts)).split("\n")
    assert [json.loads(each) for each in lines if each.strip()] == RECORDS


@pytest.mark.parametrize("text", ['{"a": 1}\n\n{"b": 2}\n', '{"a": 1}\n{"b": }', '{"a": "b\nc"}'])
def test_lines_keep_their_numbers_where_nothing_must_be_done_or_can_be(text: str) -> None:
    assert one_a_line(text) == text


def test_what_cannot_be_kept_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = spool_text("{}")
    assert [each.parent for each in spool.files] == [spool.folder]
    spool.remove()
    with pytest.raises(UnicodeEncodeError):
        spool_text("\ud800")
    assert list(tmp_path.iterdir()) == []
