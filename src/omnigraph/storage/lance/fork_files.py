"""The files of a new branch, made by Lance in a scratch folder and carried to a remote store (D30).

To make a branch Lance sends nine requests in sequence. Six of them read what the caller knows or
what one wave can read. So this module reads the version that the branch starts from, lets Lance
make the branch of a local copy of that file, and puts what Lance wrote:

1. the transaction and the first version, together: without a ref they are unreachable files;
2. the ref, which makes the branch exist.

The order is that of Lance, so a process that dies in between leaves what Lance would leave. Lance
records the place of the source as an absolute path in two of the files; it is replaced there.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import lance
from lance import LanceDataset

from omnigraph.errors import ForkExists, ObjectExists, ObjectNotFound, TableCorrupt, VersionNotFound
from omnigraph.storage import layout
from omnigraph.storage.lance import version_file
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables import ForkFiles, TableRef

_SCRATCH: Final = "omnigraph-fork-"


def read_fork(store: LanceStore, source: LanceHandle, branch: str) -> ForkFiles:
    """Read what the branch starts from, and make its files. Writes nothing to the store.

    Raises ForkExists if the branch, or versions of a removed one, exist.
    """
    path, parent = source.ref.path, source.ref.branch
    files = [f"{layout.branch_folder(parent)}/{layout.version_file(source.version)}".lstrip("/")]
    if parent is not None:
        files.append(layout.branch_ref_file(parent))
    read: dict[str, bytes] = {}
    left: list[Listed] = []
    is_there: list[bool] = []

    def fetch(file: str) -> None:
        read[file] = store.objects.read(f"{path}/{file}").data

    calls: list[Callable[[], None]] = [partial(fetch, each) for each in files]
    calls += [
        lambda: left.extend(store.objects.list(f"{_folder(path, branch)}/{layout.VERSIONS}")),
        lambda: is_there.append(_has_ref(store, path, branch)),
    ]
    try:
        store.together(calls)
    except ObjectNotFound as gone:
        version = source.version
        raise VersionNotFound(path, branch=parent, version=version, newest=version) from gone
    if left or any(is_there):
        raise ForkExists(path, branch=branch)
    try:
        return _make(store, source, branch, read)
    except version_file.VersionFileInvalid as invalid:
        raise TableCorrupt("fork", subject=path, reason=str(invalid)) from invalid


def _has_ref(store: LanceStore, path: str, branch: str) -> bool:
    with suppress(ObjectNotFound):
        store.objects.read(f"{path}/{layout.branch_ref_file(branch)}")
        return True
    return False


def _folder(path: str, branch: str) -> str:
    return f"{path}/{layout.branch_folder(branch)}"


def _make(
    store: LanceStore, source: LanceHandle, branch: str, files: dict[str, bytes]
) -> ForkFiles:
    """Let Lance make the branch of a copy, and move the copy's path to that of the table."""
    path, version = source.ref.path, source.version
    with TemporaryDirectory(prefix=_SCRATCH) as scratch, translating(source.ref, "fork"):
        for name, data in files.items():
            file = Path(scratch, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        home = Path(scratch, layout.branch_folder(source.ref.branch))
        lance.dataset(str(home), version=version).create_branch(branch, version)
        folder = Path(scratch, layout.branch_folder(branch))
        (transaction,) = Path(folder, layout.TRANSACTIONS).iterdir()
        made = Path(folder, layout.version_file(version)).read_bytes()
        ref = layout.branch_ref_file(branch)
        table = store.root.locate(path)

        def move(recorded: str) -> str:
            inside = recorded.removeprefix(scratch)
            return recorded if inside == recorded else table + inside

        clone = version_file.move_clone(transaction.read_bytes(), move)
        home_key = _folder(path, branch)
        return ForkFiles(
            (f"{home_key}/{layout.TRANSACTIONS}/{transaction.name}", clone),
            (f"{home_key}/{layout.version_file(version)}", version_file.move_fork(made, move)),
            (f"{path}/{ref}", Path(scratch, ref).read_bytes()),
        )


def write_fork(
    store: LanceStore, source: LanceHandle, branch: str, files: ForkFiles
) -> LanceHandle:
    """Put the files. Raises ForkExists."""
    ref = TableRef(source.ref.path, branch)

    def put(file: tuple[str, bytes]) -> None:
        try:
            store.objects.put_new(*file)
        except ObjectExists as taken:
            raise ForkExists(ref.path, branch=branch) from taken

    opened: list[LanceDataset] = []

    def open_version() -> None:
        opened.append(store.open_bytes(ref, source.version, files.version[1]))

    finish: list[Callable[[], None]] = [partial(put, files.ref), open_version]
    store.together([partial(put, files.transaction), partial(put, files.version)])
    store.together(finish)
    return LanceHandle(ref, source.version, opened[0])
