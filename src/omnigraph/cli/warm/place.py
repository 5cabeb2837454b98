"""The private folder of the helper, its socket, and the user at the other end of a connection."""

import os
import sys
import zlib

TYPE_CHECKING = False  # importing it from `typing` would cost the client ten milliseconds
if TYPE_CHECKING:
    import socket

PATH_BYTES_MAX = 100
"""The kernel takes 104 bytes at least, with the end mark."""


def is_supported() -> bool:
    """Can this system pass descriptors between processes, and fork?"""
    return sys.platform in ("linux", "darwin")


def find_socket() -> str:
    """The path of the socket. Every virtual environment has its own."""
    name = f"{zlib.crc32(f'{sys.prefix} {sys.version}'.encode(errors='surrogateescape')):08x}.sock"
    above = os.environ.get("XDG_RUNTIME_DIR", "")
    if not above.startswith("/"):
        above = os.environ.get("XDG_CACHE_HOME", "")
    if not above.startswith("/"):
        above = os.path.expanduser("~/.cache")
    path = f"{above}/omnigraph/warm/{name}"
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        path = f"/tmp/omnigraph-{os.geteuid()}/{name}"  # noqa: S108 - only its owner may open it
    return path


def find_problem(folder: str) -> str | None:
    """Why a folder is not private; None if only its owner can open what is inside."""
    import stat

    try:
        found = os.lstat(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"other users may open {folder}; say `chmod 700 {folder}`"
    return None


def make_folder(folder: str) -> str | None:
    """Create the folder if there is none. Returns why it cannot be used, if it cannot."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return find_problem(folder)


def connect(path: str) -> "socket.socket | None":
    """A connection to the helper of this user; None if there is none, or it cannot be trusted."""
    import socket

    if find_problem(os.path.dirname(path)) is not None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        if is_own(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def is_own(connection: "socket.socket") -> bool:
    """Does the other end belong to this user? The kernel knows."""
    import socket
    import struct

    if sys.platform == "darwin":
        # `struct xucred`: a version, then the user. The level of local sockets is 0.
        found = connection.getsockopt(0, 1, 8)
        user = int(struct.unpack("=II", found)[1])
    else:
        size = struct.calcsize("=iII")
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        user = int(struct.unpack("=iII", found)[1])
    return user == os.geteuid() == os.getuid()
