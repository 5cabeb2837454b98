"""The file of a version: its bases are replaced, and nothing else; damage is told from content."""

import struct

import pytest
from hypothesis import given, strategies as st

from omnigraph.storage.lance.version_file import (
    VersionFileInvalid,
    description_of,
    find_bases,
    find_transaction,
    move_bases,
)


def varint(value: int) -> bytes:
    more = value >> 7
    return bytes([value & 0x7F | 0x80]) + varint(more) if more else bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def base(path: str, *, number: int = 0) -> bytes:
    return field(18, b"\x08" + varint(number) + b"\x18\x01" + field(4, path.encode()))


def version(description: bytes, sections: bytes = b"sections") -> bytes:
    length = struct.pack("<I", len(description))
    return sections + length + description + struct.pack("<QHH4s", len(sections), 0, 2, b"LANC")


OTHERS = st.one_of(
    st.builds(lambda value: varint(3 << 3) + varint(value), st.integers(0, 2**64 - 1)),
    st.builds(lambda value: varint(5 << 3 | 1) + value, st.binary(min_size=8, max_size=8)),
    st.builds(lambda value: varint(6 << 3 | 5) + value, st.binary(min_size=4, max_size=4)),
    st.builds(lambda value: field(2, value), st.binary(max_size=300)),
)


@given(st.lists(st.one_of(OTHERS, st.text(max_size=200)), max_size=12), st.binary(max_size=50))
def test_bases_move_and_everything_else_stays(parts: list[bytes | str], sections: bytes) -> None:
    def build(prefix: str) -> bytes:
        fields = (base(prefix + each) if isinstance(each, str) else each for each in parts)
        return version(b"".join(fields), sections)

    paths = [each for each in parts if isinstance(each, str)]
    data = build("/old/")
    assert find_bases(data) == [f"/old/{each}" for each in paths]
    assert move_bases(data, lambda path: path) == data
    moved = move_bases(data, lambda path: "/somewhere/else/" + path.removeprefix("/old/"))
    assert moved == build("/somewhere/else/")


def test_the_transaction_of_a_version_is_found() -> None:
    assert find_transaction(version(field(12, b"3-x.txn") + base("/a"))) == "3-x.txn"
    assert find_transaction(version(base("/a"))) is None


def test_the_description_is_what_stands_between_length_and_footer() -> None:
    assert description_of(version(base("/a"))) == base("/a")


@given(st.binary(max_size=200), st.integers(0, 250))
def test_damage_is_noticed_or_harmless(noise: bytes, cut: int) -> None:
    """Whatever the bytes, no other exception comes out."""
    whole = version(base("/a") + noise)
    for data in (noise, noise + b"LANC", whole, whole[:cut], whole[:cut] + b"LANC", whole[cut:]):
        try:
            move_bases(data, lambda path: path)
        except VersionFileInvalid:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        version(b"\x0b"),  # a group, which the format does not use
        version(field(18, b"\x22\x05ab")),  # longer than the message
        version(b"\x08" + b"\xff" * 11),  # a number without an end
        version(field(18, field(4, b"\xff\xfe"))),  # no text
        version(base("/a"))[:-16] + struct.pack("<QHH4s", 2**40, 0, 2, b"LANC"),
        version(base("/a"))[:-16] + b"more" + version(base("/a"))[-16:],
    ],
)
def test_each_kind_of_damage_is_refused(data: bytes) -> None:
    with pytest.raises(VersionFileInvalid):
        move_bases(data, lambda path: path)
