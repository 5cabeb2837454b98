"""Branches of a Lance table: a ref file that makes them exist, and a folder that holds them.

Lance creates the folder before the ref and deletes the ref before the folder. A process that dies
in between leaves a folder without a ref. Lance does not list such a folder, cannot delete it, and
cannot create a branch of that name. `clear_branch` deletes both, in whichever state they are.
"""

from contextlib import suppress
from functools import partial

from omnigraph.errors import ForkExists, ForkInUse, ObjectCorrupt, ObjectNotFound
from omnigraph.jsontext import read_json
from omnigraph.storage import layout
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.lance import fork_files
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables import ForkFiles, TableBranch, TableRef
from omnigraph.storage.translate import branch_error


def find_branches(store: LanceStore, path: str) -> tuple[TableBranch, ...]:
    """Every branch, by name.

    Lance's own listing fails if a branch is deleted while it reads the refs. This listing reads the
    refs one by one and leaves out a branch that was deleted in between.
    """
    names = find_branch_names(store, path)
    found = store.together([partial(find_branch, store, path, name) for name in names])
    return tuple(each for each in found if each is not None)


def find_branch_names(store: LanceStore, path: str) -> tuple[str, ...]:
    """The names alone cost one listing, however many branches there are."""
    refs: list[Listed] = []
    store.together(
        [
            lambda: _check_exists(store, path),
            lambda: refs.extend(store.objects.list(f"{path}/{layout.BRANCH_REFS}")),
        ]
    )
    # A process that was killed while it made a branch may have left a file of another name.
    names = (layout.branch_of_ref_file(each.key.rpartition("/")[2]) for each in refs)
    return tuple(sorted(each for each in names if each is not None))


def _check_exists(store: LanceStore, path: str) -> None:
    """Raises TableNotFound."""
    store.open(TableRef(path))


def find_branch(store: LanceStore, path: str, branch: str) -> TableBranch | None:
    """Lance lists all refs to read one; this reads the file of the ref by its name."""
    key = f"{path}/{layout.branch_ref_file(branch)}"
    try:
        facts = read_json(store.objects.read(key).data)
        return TableBranch(
            name=branch,
            parent=facts["parentBranch"],
            parent_version=facts["parentVersion"],
            identifier=":".join(token for _, token in facts["identifier"]["version_mapping"]),
        )
    except ObjectNotFound:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(key, reason=f"it is not the ref of a branch: {error}") from error


def read_fork(store: LanceStore, source: LanceHandle, branch: str) -> ForkFiles | None:
    return fork_files.read_fork(store, source, branch) if store.is_remote else None


def fork(
    store: LanceStore,
    source: LanceHandle,
    branch: str,
    waves: FlushWaves | None = None,
    files: ForkFiles | None = None,
) -> LanceHandle:
    if store.is_remote or (store.is_flushed and waves is None):
        # On a disk each of these puts is flushed before the next begins. No sidecar names a fork
        # of the manifest, so a power cut must not leave a ref without the version it stands for.
        made = files or fork_files.read_fork(store, source, branch)
        return fork_files.write_fork(store, source, branch, made)
    ref = TableRef(source.ref.path, branch)
    with translating(ref, "fork"):
        try:
            # A dataset of its own: Lance borrows it exclusively, and handles are shared.
            store.reopen(source).create_branch(branch, source.version)
        except (OSError, ValueError) as error:
            ours = branch_error(error, path=ref.path, branch=branch)
            if ours is None and _has_versions(store, ref):
                # The branch was removed and a late commit wrote a version file into its folder:
                # Lance takes that version for the newest and misses the others.
                ours = ForkExists(ref.path, branch=branch)
            if ours is None:
                raise
            raise ours from error
    forked = store.open(ref, source.version)
    if store.is_flushed:
        assert waves is not None, "else its files were put one after the other"
        _flush_fork(store, forked, waves)
    return forked


def _has_versions(store: LanceStore, ref: TableRef) -> bool:
    folder = f"{ref.path}/{layout.branch_folder(ref.branch)}/{layout.VERSIONS}"
    return bool(store.objects.list(folder))


def _flush_fork(store: LanceStore, forked: LanceHandle, waves: FlushWaves) -> None:
    assert forked.ref.branch is not None
    uuid = store.read_transaction(forked).uuid
    table = TableRef(forked.ref.path)
    folder = layout.branch_folder(forked.ref.branch)
    files = (
        f"{folder}/{layout.transaction_file(forked.version, uuid)}",
        f"{folder}/{layout.version_file(forked.version)}",
        layout.branch_ref_file(forked.ref.branch),
    )
    store.add_flushes(waves, table, list(files))


def delete_branch(store: LanceStore, path: str, branch: str) -> None:
    main = store.open(TableRef(path))
    with translating(TableRef(path, branch), "delete"):
        try:
            main.dataset.branches.delete(branch)
        except (OSError, ValueError) as error:
            ours = branch_error(error, path=path, branch=branch)
            if ours is None:
                raise
            raise ours from error


def _find_children(store: LanceStore, path: str, parent: str) -> list[str]:
    """A branch whose ref a power cut tore is the child of nothing: it was never made."""

    def find(name: str) -> TableBranch | None:
        with suppress(ObjectCorrupt):
            return find_branch(store, path, name)
        return None

    found = store.together([partial(find, each) for each in find_branch_names(store, path)])
    return [each.name for each in found if each is not None and each.parent == parent]


def clear_branch(store: LanceStore, path: str, branch: str, *, only: str | None = None) -> None:
    children = _find_children(store, path, branch)
    if children:
        raise ForkInUse(path, branch=branch, children=children)
    if only is not None:
        found = find_branch(store, path, branch)
        if found is None or found.identifier != only:
            return
    # Not by Lance, which reads all refs to delete one, and fails if another one is deleted.
    store.objects.delete(f"{path}/{layout.branch_ref_file(branch)}")
    # Folder by folder: the folder of branch a contains the folder of branch a/b.
    home = f"{path}/{layout.branch_folder(branch)}"
    store.together(
        [partial(store.objects.delete_prefix, f"{home}/{each}") for each in layout.TABLE_FOLDERS]
    )
