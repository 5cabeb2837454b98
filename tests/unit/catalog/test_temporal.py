from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from omnigraph.catalog.temporal import (
    DAY_MS,
    TemporalInvalid,
    format_date,
    format_datetime,
    parse_date,
    parse_datetime,
)

FIRST, LAST = parse_date("0000-01-01"), parse_date("9999-12-31")


@given(st.integers(FIRST, LAST))
def test_a_written_date_reads_back(days: int) -> None:
    assert parse_date(format_date(days)) == days


@given(st.integers(FIRST * DAY_MS, (LAST + 1) * DAY_MS - 1))
def test_a_written_instant_reads_back(ms: int) -> None:
    assert parse_datetime(format_datetime(ms)) == ms


@given(st.datetimes(timezones=st.timezones()))
def test_python_agrees_on_instants_with_offsets(instant: datetime) -> None:
    text = instant.isoformat()
    offset = instant.utcoffset()
    if offset is None or offset.seconds % 60:  # local mean times have offsets of seconds
        return
    expected = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // _MS
    assert parse_datetime(text) == expected


_MS = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(-(2**31), 2**31 - 2))
def test_every_stored_date_has_a_text_and_the_next_day_the_next_one(days: int) -> None:
    (year, month, day), following = (
        tuple(map(int, format_date(each).rsplit("-", 2))) for each in (days, days + 1)
    )
    assert following in ((year, month, day + 1), (year, month + 1, 1), (year + 1, 1, 1))
    assert (month, day) <= (12, 31)
    assert abs(year - 1970) <= abs(days) // 365 + 1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2024-05-01", "2024-05-01T00:00:00.000Z"),
        ("2024-05-01T08:00", "2024-05-01T08:00:00.000Z"),
        ("2024-05-01T08:00:00", "2024-05-01T08:00:00.000Z"),
        ("2024-05-01 08:00:00Z", "2024-05-01T08:00:00.000Z"),
        ("2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00.000Z"),
        ("2024-04-30T22:30:00-0930", "2024-05-01T08:00:00.000Z"),
        ("2024-05-01T08:00:00.5Z", "2024-05-01T08:00:00.500Z"),
        ("2024-05-01T08:00:00.123999999", "2024-05-01T08:00:00.123Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_every_spelling_of_an_instant_has_one_canonical_text(text: str, canonical: str) -> None:
    assert format_datetime(parse_datetime(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-5-1",
        "2024-02-30",
        "2023-02-29",
        "2024-13-01",
        "2024-00-10",
        " 2024-05-01",
        "2024-05-01\n",
        "20240501",
        "+2024-05-01",
        "٢٠٢٤-05-01",
        "2024-05-01T08:00:00Z",
    ],
)
def test_what_is_not_a_date_is_refused(text: str) -> None:
    with pytest.raises(TemporalInvalid):
        parse_date(text)


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T",
        "2024-05-01T08",
        "2024-05-01T24:00:00Z",
        "2024-05-01T23:59:60Z",
        "2024-05-01T08:60:00Z",
        "2024-05-01T08:00:00.Z",
        "2024-05-01T08:00:00+24:00",
        "2024-05-01T08:00:00+02",
        "2024-05-01T08:00:00 Z",
        "2024-05-01t08:00:00z",
        "2024-05-01Z",
        "2024-02-30T08:00:00Z",
        "1714550400000",
    ],
)
def test_what_is_not_an_instant_is_refused(text: str) -> None:
    with pytest.raises(TemporalInvalid):
        parse_datetime(text)
