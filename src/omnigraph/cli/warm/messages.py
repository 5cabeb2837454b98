"""What client and helper say to each other, as bytes.

A request is its length and its fields, separated by zero bytes, which no argument and no variable
can hold. A reply is a line: a word, and sometimes a number.
"""

import os
import socket
import struct

VERSION = b"omnigraph 1"
RUN, DOWN, STATUS = b"run", b"down", b"status"

BEGUN, EXITED, KILLED = b"begun", b"exited", b"killed"
"""What becomes of a command: its process id, its exit code, the signal that ended it."""
STALE, DECLINED, FINE = b"stale", b"declined", b"fine"
"""The helper runs other code; the client has other limits; the answer to `down` and `status`."""

DESCRIPTORS = 4
"""Standard input, output, error, and the folder."""

REQUEST_BYTES_MAX = 16 << 20
"""More than the kernel takes for arguments and environment together."""

_LENGTH = struct.Struct("=I")


class WrongMessage(Exception):
    """The other end does not speak this protocol, or has gone."""


class CommandRequest:
    """A command as its client was started. A plain class, because the client makes one."""

    def __init__(
        self,
        *,
        arguments: list[bytes],
        environment: list[bytes],
        umask: int,
        ignored: list[int],
        installation: bytes,
        limits: bytes,
    ) -> None:
        self.arguments = arguments
        self.environment = environment
        self.umask = umask
        self.ignored = ignored
        self.installation = installation
        self.limits = limits

    def fields(self) -> list[bytes]:
        ignored = " ".join(map(str, self.ignored)).encode()
        count = str(len(self.arguments)).encode()
        facts = [self.installation, self.limits, str(self.umask).encode(), ignored, count]
        return [*facts, *self.arguments, *self.environment]


def parse_command(fields: list[bytes]) -> CommandRequest:
    """Raises WrongMessage."""
    try:
        installation, limits, umask, ignored, count, *rest = fields
        return CommandRequest(
            arguments=rest[: int(count)],
            environment=rest[int(count) :],
            umask=int(umask),
            ignored=[int(each) for each in ignored.split()],
            installation=installation,
            limits=limits,
        )
    except ValueError as error:
        raise WrongMessage(str(error)) from None


def send_request(
    connection: socket.socket, word: bytes, fields: list[bytes], descriptors: list[int]
) -> None:
    """Raises OSError if a part of the request was not sent, so that it cannot be carried out."""
    body = b"\0".join([VERSION, word, *fields])
    message = _LENGTH.pack(len(body)) + body
    sent = socket.send_fds(connection, [message], descriptors) if descriptors else 0
    if rest := message[sent:]:
        # Nothing is sent after the last byte, not even nothing: the command may have ended by then,
        # and the broken pipe would look like a request that never arrived.
        connection.sendall(rest)


def receive_request(connection: socket.socket) -> tuple[bytes, list[bytes], list[int]]:
    """The word, the fields and the descriptors of a request. Raises WrongMessage, OSError."""
    message, descriptors, flags, _ = socket.recv_fds(connection, 1 << 16, DESCRIPTORS)
    try:
        body = _receive_rest(connection, b"" if flags & socket.MSG_CTRUNC else message)
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise
    _, word, *fields = body.split(b"\0")
    return word, fields, descriptors


def _receive_rest(connection: socket.socket, message: bytes) -> bytes:
    """The body of a request of which the first bytes came. Raises WrongMessage, OSError."""
    if len(message) < _LENGTH.size:
        raise WrongMessage("the request is cut off")
    (length,) = _LENGTH.unpack_from(message)
    if length > REQUEST_BYTES_MAX:
        raise WrongMessage(f"a request of {length} bytes")
    parts, missing = [message[_LENGTH.size :]], length + _LENGTH.size - len(message)
    while missing > 0:
        part = connection.recv(min(missing, 1 << 20))
        if not part:
            raise WrongMessage("the request is cut off")
        parts.append(part)
        missing -= len(part)
    body = b"".join(parts)
    if not body.startswith(VERSION + b"\0"):
        raise WrongMessage("another version of the protocol")
    return body


def send_reply(connection: socket.socket, word: bytes, *numbers: int) -> None:
    """Raises OSError."""
    text = " ".join(map(str, numbers)).encode()
    connection.sendall(word + b" " + text + b"\n")


class Replies:
    """The lines that come back on a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def next(self) -> tuple[bytes, list[int]] | None:
        """The next reply; None when the other end has gone."""
        while b"\n" not in self._rest:
            try:
                part = self._connection.recv(4096)
            except ConnectionError:
                return None
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        word, _, numbers = line.partition(b" ")
        return word, [int(each) for each in numbers.split()]
