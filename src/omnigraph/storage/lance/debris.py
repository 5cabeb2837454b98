"""Files of a table that no version refers to: refused and dead writers staged them.

The search reads every version on every branch, so `cleanup` runs it after it has deleted old
versions. A file of a running writer looks the same as debris; only its age differs.
"""

from collections.abc import Iterator

from lance import LanceDataset

from omnigraph.storage import layout
from omnigraph.storage.lance.branches import find_branches
from omnigraph.storage.lance.store import LanceStore, translating
from omnigraph.storage.lance.version_file import find_transaction
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables import TableRef

_FOLDERS = (layout.DATA, layout.DELETIONS, layout.INDICES)


def find_debris(store: LanceStore, path: str) -> tuple[Listed, ...]:
    refs = [TableRef(path), *(TableRef(path, each.name) for each in find_branches(store, path))]
    wanted = {key for ref in refs for key in _find_wanted(store, ref)}
    folders = [
        f"{path}/{layout.branch_folder(ref.branch)}/{folder}".replace("//", "/")
        for ref in refs
        for folder in _FOLDERS
    ]
    listed = [each for folder in folders for each in store.objects.list(folder)]
    unwanted = [each for each in listed if not _is_wanted(each.key, wanted)]
    return (*unwanted, *(each for ref in refs for each in _find_detached(store, ref)))


def _find_detached(store: LanceStore, ref: TableRef) -> Iterator[Listed]:
    """Detached versions: their maker removes them, unless it died."""
    folder = f"{ref.path}/{layout.branch_folder(ref.branch)}".rstrip("/")
    for each in store.objects.list(f"{folder}/{layout.VERSIONS}"):
        if each.key.rpartition("/")[2].startswith("d"):
            yield each


def find_files(store: LanceStore, ref: TableRef, version: int) -> frozenset[str]:
    dataset = store.open(ref, version).dataset
    folder = f"{ref.path}/{layout.branch_folder(ref.branch)}".rstrip("/")
    data = store.objects.read(f"{folder}/{layout.version_file(version)}").data
    with translating(ref, "list the files of", version=version):
        named = set(_name_files(store, ref, dataset))
    transaction = find_transaction(data)
    if transaction is not None:
        named.add(f"{folder}/{layout.TRANSACTIONS}/{transaction}")
    return frozenset(named)


def _is_wanted(key: str, wanted: set[str]) -> bool:
    """A file, or one in the folder of an index or of the blobs of a data file."""
    return key in wanted or key.rpartition("/")[0] in wanted


def _find_wanted(store: LanceStore, ref: TableRef) -> Iterator[str]:
    newest = store.open(ref).dataset
    with translating(ref, "look for debris of"):
        numbers = [int(each["version"]) for each in newest.versions()]
    for number in numbers:
        dataset = store.open(ref, number).dataset
        with translating(ref, "look for debris of", version=number):
            yield from _name_files(store, ref, dataset)


def _name_files(store: LanceStore, ref: TableRef, dataset: LanceDataset) -> Iterator[str]:
    own = f"{ref.path}/{layout.branch_folder(ref.branch)}".rstrip("/")
    root = store.root.uri
    recorded = dataset.base_paths().items()
    bases = {number: layout.relative(base.path, root) for number, base in recorded}

    def home(base_id: int | None) -> str:
        return own if base_id is None else bases[base_id]

    for each in dataset.get_fragments():
        fragment = each.metadata
        for file in fragment.files:
            yield f"{home(file.base_id)}/{layout.data_file(file.path)}"
            yield f"{home(file.base_id)}/{layout.blob_folder(file.path)}"
        if fragment.deletion_file is not None:
            name = fragment.deletion_file.path(fragment.id)
            yield f"{home(fragment.deletion_file.base_id)}/{name}"
    for index in dataset.describe_indices():
        for segment in index.segments:
            yield f"{home(segment.base_id)}/{layout.index_folder(str(segment.uuid))}"
