"""Which form is answered, by what was accepted."""

import pytest
from hypothesis import given, strategies as st

from omnigraph.server.responses.negotiation import choose_form
from omnigraph.wire.media import ARROW, JSON, NDJSON

FORMS = (JSON, ARROW, NDJSON)


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        # nothing said, or everything
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        # alone
        (JSON, JSON),
        (NDJSON, NDJSON),
        (ARROW, ARROW),
        ("APPLICATION/X-NDJSON", NDJSON),
        (f"{NDJSON}; charset=utf-8", NDJSON),
        (f" {NDJSON} ", NDJSON),
        # of equal weight JSON wins, whatever the order
        (f"{JSON}, {NDJSON}", JSON),
        (f"{NDJSON}, {JSON}", JSON),
        (f"{NDJSON},*/*", JSON),
        (f"{NDJSON};q=0.5, {JSON};q=0.5", JSON),
        (f"{ARROW}, {NDJSON}, {JSON}", JSON),
        (f"{NDJSON}, {ARROW}", ARROW),
        # preferred
        (f"{NDJSON}, {JSON};q=0.9", NDJSON),
        (f"{JSON};q=0.001, {NDJSON};q=0.002", NDJSON),
        (f"{NDJSON}, */*;q=0.1", NDJSON),
        (f"{NDJSON}, application/*;q=0.8", NDJSON),
        (f"{ARROW};q=1.000,{NDJSON};q=0.999", ARROW),
        (f"{NDJSON};Q=0.5;charset=utf-8, {JSON};q=0.6", JSON),
        # what is said most exactly counts, not what is said last
        (f"{JSON};q=0, */*", ARROW),
        (f"*/*;q=1, application/*;q=0.5, {NDJSON};q=0.7", NDJSON),
        (f"{JSON};q=0, {ARROW};q=0, */*;q=0.1", NDJSON),
        (f"{NDJSON};q=0, {JSON};q=0.1", JSON),
        # nothing that can be answered
        ("text/html", JSON),
        (f"{JSON};q=0", JSON),
        ("text/*, image/png;q=0.5", JSON),
        # what cannot be understood was not said
        (f"{NDJSON};q=2", JSON),
        (f"{NDJSON};q=1.5, {ARROW};q=0.1", ARROW),
        (f"{NDJSON};q=", JSON),
        (f"{NDJSON};q=nan", JSON),
        (f"{NDJSON};q=-1", JSON),
        (f"{NDJSON};q=0.1234", JSON),
        ("ndjson", JSON),
        (f",,{NDJSON},;q=1,/", NDJSON),
        (f"not {NDJSON}", JSON),
        (f'text/plain; note="{NDJSON}, {NDJSON}, x"', JSON),
    ],
)
def test_the_form_that_weighs_most_is_answered(accept: str, answered: str) -> None:
    assert choose_form([accept], FORMS) == answered


def test_a_header_that_comes_twice_is_one() -> None:
    assert choose_form([f"{JSON};q=0.1", NDJSON], FORMS) == NDJSON
    assert choose_form([], FORMS) == JSON


@given(st.text(alphabet=st.sampled_from('application/json x-nd,;q=01.*" \\'), max_size=60))
def test_whatever_is_said_something_is_answered(accept: str) -> None:
    assert choose_form([accept], FORMS) in FORMS
