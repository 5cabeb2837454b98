from omnigraph.lang.source import Diagnostic, Source, Span
from omnigraph.lang.syntax import close_match, listed, quoted


def test_phrases_are_listed_as_people_list_them() -> None:
    assert listed(()) == ""
    assert listed(("a",)) == "a"
    assert listed(("a", "b")) == "a or b"
    assert listed(("a", "b", "c")) == "a, b or c"


def test_quoted_text_fits_in_a_line_and_can_be_printed() -> None:
    assert quoted("word") == "'word'"
    assert quoted("a\nb\x07\ud800") == r"'a\nb\u0007\ud800'"
    assert quoted("\x00") == "U+0000"
    assert quoted("x" * 100) == f"'{'x' * 39}…'"


def test_a_guess_is_made_only_when_it_is_close_and_cheap() -> None:
    assert close_match("titel", {"title", "name"}) == "did you mean 'title'?"
    assert close_match("titel", {"name"}) is None
    assert close_match("n1", frozenset(f"n{at}" for at in range(1_000))) is None


def test_an_excerpt_marks_what_cannot_be_shown_and_keeps_tabs() -> None:
    source = Source("x", "\ta\x00\ud800b = c")
    shown = Diagnostic("S1", "parse error", "no", source, Span(4, 5)).render()
    assert shown.splitlines()[1:] == ["  1 | \ta\ufffd\ufffdb = c", "    | \t   ^"]
