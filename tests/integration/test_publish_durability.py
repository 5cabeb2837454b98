"""Which files have reached the disk when a publish is acknowledged."""

from dataclasses import replace
from pathlib import Path

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.publish import publish
from omnigraph.ids import MAIN
from omnigraph.storage.lance.swap import SEALED_ROWS
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores, open_tables
from support.publishing import Place, chain, lineage_only


class RecordingDisk:
    """Flushes nothing, and remembers what it was asked to flush."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.folders: set[Path] = set()

    def flush_file(self, path: Path) -> None:
        assert path.exists()
        self.files.add(path)

    def flush_folder(self, path: Path) -> None:
        self.folders.add(path)


def on_disk(place: Place, disk: RecordingDisk) -> Stores:
    stores = place.open()
    return replace(stores, tables=open_tables(stores.root, stores.objects, disk, {}))


def files_of_manifest(place: Place) -> set[Path]:
    """What reading the newest version of the manifest may need."""
    folders = ("data", "_deletions", "_versions")
    found = [each for name in folders for each in (Path(place.uri) / MANIFEST / name).glob("*")]
    return {each for each in found if each.suffix != ".json"}


def test_a_publish_flushes_all_it_stands_on_and_then_only_what_is_new(place: Place) -> None:
    relaxed = place.open()
    strangers = Bases(relaxed)
    for _ in range(3):
        handle = publish(relaxed, strangers, chain(SEALED_ROWS)).base.handle
    before = files_of_manifest(place)
    folder = Path(place.uri) / MANIFEST / "data"
    data = {folder / name for each in relaxed.tables.find_fragments(handle) for name in each.files}
    assert len(data) >= 3

    disk = RecordingDisk()
    stores = on_disk(place, disk)
    bases = Bases(stores)
    publish(stores, bases, lineage_only())
    own = files_of_manifest(place) - before
    assert data <= disk.files, "every fragment others left, and not their flushes, makes it whole"
    assert own <= disk.files
    assert {each.parent for each in own} <= disk.folders

    disk.files.clear()
    already = files_of_manifest(place)
    publish(relaxed, strangers, lineage_only())
    foreign = {each for each in files_of_manifest(place) - already if each.parent.name == "data"}
    publish(stores, bases, lineage_only())
    assert foreign <= disk.files
    assert not data & disk.files, "what is known to be there is not flushed again"

    disk.files.clear()
    already = files_of_manifest(place)
    publish(stores, bases, lineage_only())
    fresh = {each for each in disk.files if each.suffix != ".txn"}
    assert fresh == files_of_manifest(place) - already
    assert bases.current(MAIN).durable is bases.current(MAIN).handle
