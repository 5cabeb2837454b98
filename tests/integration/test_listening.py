"""The socket a server listens on."""

import socket

import pytest

from omnigraph.errors import ConfigInvalid
from omnigraph.server.process.run import listen


def test_answers_do_not_wait_for_the_callers_kernel_to_confirm_the_headers() -> None:
    """Python turns Nagle's algorithm off only for connections that know that they are TCP."""
    with listen("127.0.0.1:0") as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP


def test_an_address_that_is_taken_is_told_with_the_flag_that_names_another() -> None:
    with listen("127.0.0.1:0") as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConfigInvalid, match=r"another program listens there.*--bind"):
            listen(f"127.0.0.1:{port}")
