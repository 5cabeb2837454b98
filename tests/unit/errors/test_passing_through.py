"""Code that turns a builtin error into one of ours lets ours pass, though builtins catch them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.cli.inputs import write_whole
from omnigraph.errors import FileUnreadable, QueryTimeout, ServerUnreachable
from omnigraph.sdk.files import write_lines
from omnigraph.storage.inputs import reading
from omnigraph.storage.translate import translating_objects, translating_tables

OURS = [
    FileUnreadable("other.csv", reason="it is a folder"),
    QueryTimeout(1.0),
    ServerUnreachable("http://here", reason="refused"),
]


def failing(error: Exception) -> Iterator[bytes]:
    yield b"x"
    raise error


@pytest.mark.parametrize("error", OURS, ids=lambda each: type(each).__name__)
def test_an_error_of_the_work_is_not_taken_for_one_of_the_disk(
    error: Exception, tmp_path: Path
) -> None:
    with pytest.raises(type(error)) as raised:
        write_whole(tmp_path / "out", failing(error))
    assert raised.value is error
    with pytest.raises(type(error)) as raised:
        write_lines(tmp_path / "out.jsonl", failing(error))
    assert raised.value is error
    with pytest.raises(type(error)) as raised, reading("people.csv"):
        raise error
    assert raised.value is error
    with pytest.raises(type(error)) as raised, translating_objects("read", "key"):
        raise error
    assert raised.value is error
    with pytest.raises(type(error)), translating_tables("open", "nodes/x", branch=None):
        raise error
