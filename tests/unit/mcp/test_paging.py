import pytest
from hypothesis import given, strategies as st

from omnigraph.errors import CursorInvalid
from omnigraph.mcp.paging import PageCursor, cut_page, read_cursor


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(1, 60), st.integers(1, 9))
def test_pages_together_are_the_whole(entries: list[str], budget: int, entries_max: int) -> None:
    found: list[str] = []
    given_arguments: dict[str, object] = {"budget": budget}
    for _ in range(len(entries) + 1):
        cursor = read_cursor(given_arguments)
        page = cut_page({"rows": entries}, "rows", given_arguments, cursor, entries_max)
        found += page["rows"]
        if "cursor" not in page:
            break
        assert page["truncated"]
        assert page["rows"], "every page goes on"
        given_arguments["cursor"] = page["cursor"]
    assert found == entries


@pytest.mark.parametrize("text", ["", "x", "bm8", "WzEsMl0", "Wy0xLG51bGxd", "é"])
def test_a_foreign_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorInvalid):
        read_cursor({"cursor": text})


def test_a_cursor_keeps_its_commit() -> None:
    assert read_cursor({"cursor": PageCursor(7, "01X").encode()}) == PageCursor(7, "01X")
