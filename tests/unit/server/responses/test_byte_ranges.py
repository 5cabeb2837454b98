"""Ranges and conditions of requests, against slices of bytes."""

import pytest
from hypothesis import given, strategies as st

from omnigraph.errors import BlobChanged, BlobRangeInvalid
from omnigraph.server.responses.byte_ranges import ByteRange, find_span, is_known

TAG = '"abc"'
numbers = st.one_of(st.integers(0, 12), st.integers(0, 10**30))


@given(data=st.binary(max_size=8), first=numbers, last=st.none() | numbers)
def test_a_range_is_the_slice_it_names(data: bytes, first: int, last: int | None) -> None:
    headers = {"range": f"bytes={first}-{'' if last is None else last}"}
    if last is not None and last < first:
        assert find_span(headers, TAG, len(data)) == ByteRange(0, len(data), is_part=False)
        return
    expected = data[first:] if last is None else data[first : last + 1]
    if not expected:
        with pytest.raises(BlobRangeInvalid) as refused:
            find_span(headers, TAG, len(data))
        assert refused.value.length == len(data)
        return
    span = find_span(headers, TAG, len(data))
    assert span == ByteRange(first, first + len(expected), is_part=True)
    assert data[span.start : span.end] == expected


@given(data=st.binary(max_size=8), count=numbers)
def test_a_suffix_is_the_end_of_it(data: bytes, count: int) -> None:
    headers = {"range": f"bytes=-{count}"}
    if not count:
        with pytest.raises(BlobRangeInvalid):
            find_span(headers, TAG, len(data))
        return
    span = find_span(headers, TAG, len(data))
    assert data[span.start : span.end] == data[-count:]
    assert span.is_part == bool(data), "what is empty has no parts"


@given(text=st.text(max_size=20))
def test_whatever_a_range_says_it_is_answered_or_refused(text: str) -> None:
    try:
        span = find_span({"range": text}, TAG, 5)
    except BlobRangeInvalid:
        return
    assert 0 <= span.start <= span.end <= 5


@pytest.mark.parametrize(
    "text", ["bytes=0-1,3-4", "bytes=", "bytes=-", "bytes=a-b", "items=0-1", "0-1", "bytes=1--2"]
)
def test_what_is_no_single_range_is_ignored(text: str) -> None:
    assert find_span({"range": text}, TAG, 5) == ByteRange(0, 5, is_part=False)


@pytest.mark.parametrize(
    ("condition", "is_part"),
    [(TAG, True), ('W/"abc"', False), ('"x"', False), ("Mon, 16 Nov 2026 08:00:00 GMT", False)],
)
def test_a_range_holds_only_for_the_tag_it_was_meant_for(condition: str, *, is_part: bool) -> None:
    span = find_span({"range": "bytes=0-1", "if-range": condition}, TAG, 5)
    assert span.is_part is is_part


@pytest.mark.parametrize("text", [TAG, "*", f'"x", {TAG}', f'"x",{TAG} , "y"'])
def test_a_tag_is_found_among_others(text: str) -> None:
    assert is_known({"if-none-match": text}, TAG)
    assert not is_known({"if-match": text}, TAG)


def test_a_weak_tag_is_known_and_not_insisted_on() -> None:
    assert is_known({"if-none-match": f"W/{TAG}"}, TAG)
    with pytest.raises(BlobChanged):
        is_known({"if-match": f"W/{TAG}"}, TAG)


@pytest.mark.parametrize("text", ['"x"', "abc", '"ab', "", '"x, "abc"y'])
def test_another_tag_is_another_blob(text: str) -> None:
    assert not is_known({"if-none-match": text}, TAG)
    with pytest.raises(BlobChanged) as refused:
        is_known({"if-match": text}, TAG)
    assert (refused.value.expected, refused.value.actual) == (text, TAG)


@pytest.mark.parametrize("text", ["bytes=", '"a"', '"', "W/", '"a" '])
def test_a_long_header_is_read_as_fast_as_it_comes(text: str) -> None:
    """Were it read again from each of its characters, this would take minutes."""
    for padding in (" ", text):
        long = text + padding * 60_000 + "x"
        assert not is_known({"if-none-match": long}, TAG)
        assert not find_span({"range": long}, TAG, 5).is_part


def test_insisting_comes_before_knowing() -> None:
    with pytest.raises(BlobChanged):
        is_known({"if-match": '"x"', "if-none-match": TAG}, TAG)
