"""The file of one table version, as bytes: where it says that inherited files are.

A version of a branch lists *bases*: for each table or branch that it inherits files from, the
absolute path at which that one was when the branch was made. Lance has no call that changes them,
so this module does, in the wire format of protocol buffers. A version file consists of:

1. sections that later parts name by their offset: indices, the transaction;
2. the length of the description, 4 bytes, and the description itself, a message `Manifest`;
3. a footer of 16 bytes: the offset of (2), two format numbers, and `LANC`.

Only the field `base_paths` of the description changes, and of a version that was just forked the
transaction, which ends (1). Their lengths may change with them; no offset does but that in the
footer. `tests/guards/test_lance_beliefs.py` and `test_lance_forks.py` hold Lance to this.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_LENGTH: Final = struct.Struct("<I")
_FOOTER: Final = struct.Struct("<QHH4s")
_MAGIC: Final = b"LANC"

_TRANSACTION_FILE: Final = 12
_BASE_PATHS: Final = 18
_PATH: Final = 4
"""Of a base: its path."""
_TRANSACTION_AT: Final = 23
_CLONE: Final = 113
"""Of a transaction: the operation that makes a branch."""
_CLONE_SOURCE: Final = 4
"""Of that operation: the path of the table it came from."""

_BYTES: Final = 2
"""The wire type of bytes, texts and messages."""
_WIDTHS: Final = {1: 8, 5: 4}
"""The sizes of the wire types of fixed size."""
_VARINT_BITS_MAX: Final = 70


class VersionFileInvalid(Exception):
    """The bytes are not a version file. Never leaves the storage layer."""


class _Field(NamedTuple):
    number: int
    content: bytes
    """Of a field of bytes: the bytes, without their length."""
    raw: bytes
    """The field as it stands in the message."""


def description_of(data: bytes) -> bytes:
    """The description of a version: what Lance takes as a serialized manifest."""
    start, end = _locate(data)
    return data[start:end]


def find_bases(data: bytes) -> list[str]:
    """The recorded paths of inherited files; none for a version of main."""
    bases = (each for each in _fields(description_of(data)) if each.number == _BASE_PATHS)
    return [_text(part) for base in bases for part in _fields(base.content) if part.number == _PATH]


def find_transaction(data: bytes) -> str | None:
    """The name of the file of the transaction that made the version."""
    for each in _fields(description_of(data)):
        if each.number == _TRANSACTION_FILE:
            return _text(each)
    return None


def move_bases(data: bytes, move: Callable[[str], str]) -> bytes:
    """The same version, with every base at the path that `move` returns for its recorded path."""
    start, end = _locate(data)
    moved = _rewrite(data[start:end], (_BASE_PATHS, _PATH), move)
    head = data[: start - _LENGTH.size]
    return head + _LENGTH.pack(len(moved)) + moved + data[end:]


def move_fork(data: bytes, move: Callable[[str], str]) -> bytes:
    """The first version of a branch, with the bases and the source of its transaction moved."""
    start, end = _locate(data)
    at = _transaction_at(data[start:end])
    begin = at + _LENGTH.size
    if begin + _LENGTH.unpack_from(data, at)[0] != start - _LENGTH.size:
        raise VersionFileInvalid("its transaction is not right before its description")
    transaction = move_clone(data[begin : start - _LENGTH.size], move)
    moved = _rewrite(data[start:end], (_BASE_PATHS, _PATH), move)
    head = data[:at] + _LENGTH.pack(len(transaction)) + transaction
    _, major, minor, magic = _FOOTER.unpack_from(data, end)
    footer = _FOOTER.pack(len(head), major, minor, magic)
    return head + _LENGTH.pack(len(moved)) + moved + footer


def move_clone(transaction: bytes, move: Callable[[str], str]) -> bytes:
    """The transaction that made a branch, with the path of its source moved."""
    return _rewrite(transaction, (_CLONE, _CLONE_SOURCE), move)


def _transaction_at(description: bytes) -> int:
    for each in _fields(description):
        if each.number == _TRANSACTION_AT:
            return _read_varint(each.content, 0)[0]
    raise VersionFileInvalid("it holds no transaction")


def _rewrite(message: bytes, place: tuple[int, ...], change: Callable[[str], str]) -> bytes:
    """The message with every text at this path of field numbers changed."""
    number, *inner = place

    def changed(field: _Field) -> bytes:
        if inner:
            return _rewrite(field.content, tuple(inner), change)
        return change(_text(field)).encode()

    return b"".join(
        _encode(number, changed(each)) if each.number == number else each.raw
        for each in _fields(message)
    )


def _locate(data: bytes) -> tuple[int, int]:
    """The start and the end of the description."""
    if len(data) < _FOOTER.size or not data.endswith(_MAGIC):
        raise VersionFileInvalid("it has no footer")
    at, *_ = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
    start = at + _LENGTH.size
    if start > len(data) - _FOOTER.size:
        raise VersionFileInvalid("its footer names a place outside the file")
    end = start + _LENGTH.unpack_from(data, at)[0]
    if end != len(data) - _FOOTER.size:
        raise VersionFileInvalid("something follows the description")
    return start, end


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        begin = at
        tag, at = _read_varint(message, at)
        wire_type = tag & 7
        content = at
        match wire_type:
            case 0:
                _, at = _read_varint(message, at)
            case _ if wire_type == _BYTES:
                length, content = _read_varint(message, at)
                at = content + length
            case _ if wire_type in _WIDTHS:
                at += _WIDTHS[wire_type]
            case _:
                raise VersionFileInvalid(f"wire type {wire_type} is not known")
        if at > len(message):
            raise VersionFileInvalid("a field is longer than its message")
        yield _Field(tag >> 3, message[content:at], message[begin:at])


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise VersionFileInvalid("a number has no end")


def _encode(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _text(field: _Field) -> str:
    try:
        return field.content.decode()
    except UnicodeDecodeError as error:
        raise VersionFileInvalid("a path is not text") from error
