"""Messages between client and helper, the private folder, and what both must have in common."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.warm import messages
from omnigraph.cli.warm.messages import (
    CommandRequest,
    Replies,
    WrongMessage,
    parse_command,
    receive_request,
    send_reply,
    send_request,
)
from omnigraph.cli.warm.place import find_problem, find_socket, is_own, make_folder
from omnigraph.cli.warm.surroundings import _find_files, find_installation, find_limits

REQUEST = CommandRequest(
    arguments=[b"query", b"", b"-e", "«q»\n".encode()],
    environment=[b"A=", b"B=x=y", b"C=\xff"],
    umask=0o027,
    ignored=[1, 2],
    installation=b"code",
    limits=b"limits\nof two lines",
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_command_arrives_as_it_was_sent(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = ends
    folder = os.open(tmp_path, os.O_RDONLY)
    send_request(ours, messages.RUN, REQUEST.fields(), [folder])
    os.close(folder)
    word, fields, descriptors = receive_request(theirs)
    assert word == messages.RUN
    assert vars(parse_command(fields)) == vars(REQUEST)
    assert [os.path.samestat(os.fstat(each), tmp_path.stat()) for each in descriptors] == [True]
    for each in descriptors:
        os.close(each)


@pytest.mark.parametrize(
    "sent", [b"", b"\1", b"\x10\0\0\0omnigraph 1\0run", b"\xff\xff\xff\xff", b"\3\0\0\0abc"]
)
def test_what_is_no_request_is_refused(
    ends: tuple[socket.socket, socket.socket], sent: bytes
) -> None:
    ours, theirs = ends
    ours.sendall(sent)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(WrongMessage):
        receive_request(theirs)


@pytest.mark.parametrize("fields", [[], [b"a"] * 5, [b"", b"", b"x", b"", b"0"]])
def test_fields_that_are_no_command_are_refused(fields: list[bytes]) -> None:
    with pytest.raises(WrongMessage):
        parse_command(fields)


def test_replies_come_one_by_one_and_end_with_the_connection(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    send_reply(theirs, messages.BEGUN, 17)
    send_reply(theirs, messages.STALE)
    theirs.close()
    replies = Replies(ours)
    found = [replies.next(), replies.next(), replies.next()]
    assert found == [(messages.BEGUN, [17]), (messages.STALE, []), None]


def test_only_a_folder_of_the_user_alone_is_private(tmp_path: Path) -> None:
    folder, file = tmp_path / "a" / "b", tmp_path / "file"
    assert find_problem(str(folder)) is not None
    assert make_folder(str(folder)) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert "not a folder" in str(find_problem(str(link)))
    file.touch()
    assert "not a folder" in str(make_folder(str(file)))
    folder.chmod(0o750)
    assert "chmod 700" in str(make_folder(str(folder)))


def test_the_other_end_of_a_pair_is_this_user(ends: tuple[socket.socket, socket.socket]) -> None:
    assert is_own(ends[0])


def test_a_long_path_moves_the_socket_to_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user")
    assert find_socket().startswith("/run/user/omnigraph/warm/")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "long" * 30)
    assert find_socket().startswith(f"/tmp/omnigraph-{os.geteuid()}/")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert find_socket().startswith("/cache/omnigraph/warm/")


def test_every_change_of_a_file_is_another_installation(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    module = tmp_path / "inner" / "a.py"
    module.write_text("a = 1\n")
    texts = [_find_files(str(tmp_path))]
    module.write_text("a = 12\n")
    texts.append(_find_files(str(tmp_path)))
    module.rename(tmp_path / "inner" / "b.py")
    texts.append(_find_files(str(tmp_path)))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "b.pyc").touch()
    assert len(set(texts)) == 3
    assert _find_files(str(tmp_path)) == texts[-1], "bytecode is no change"
    assert find_installation() == find_installation()


def test_variables_that_libraries_read_at_start_count_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = find_limits()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert find_limits() == before
    monkeypatch.setenv("LC_ALL", "C.UTF-8-other")
    assert find_limits() != before


def test_a_request_whose_command_has_ended_already_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client may be paused between its last byte and its next call. It must not run the
    command once more.
    """
    client, helper = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    send = socket.send_fds

    def send_and_pause(connection: socket.socket, parts: Any, descriptors: Any) -> int:
        sent = send(connection, parts, descriptors)
        _, _, received = receive_request(helper)
        for each in received:
            os.close(each)
        helper.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_pause)
    with client:
        send_request(client, messages.RUN, [b"query"], [0])
