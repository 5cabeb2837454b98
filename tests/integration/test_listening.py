"""The socket a server listens on."""

import socket

from omnigraph.server.run import listen


def test_answers_do_not_wait_for_the_callers_kernel_to_confirm_the_headers() -> None:
    """Python turns Nagle's algorithm off only for connections that know that they are TCP."""
    with listen("127.0.0.1:0") as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP
