"""The floor of a lone write in `fleet.py`: the calls of Lance that it needs, with nothing of ours
around them.

A row is written to a fragment of a table and committed; then the row of a manifest, likewise. A
durable floor flushes what it wrote in the same three waves as we do, and a small file that stands
for the sidecar. There is no look-up of the key, no lease, no check and no recovery.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from fleet_work import PEOPLE, Carry, Mix, Outcome, Write, person, run_threads


def run_floor(
    seconds: float, folder: Path, environment: Mapping[str, str], *, durable: bool
) -> Outcome:
    """One writer, in a process of its own."""
    command = [sys.executable, __file__, str(seconds), str(folder), str(int(durable))]
    env = {**os.environ, **environment}
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
    return Outcome(**json.loads(told))


def _main(seconds: float, folder: Path, *, durable: bool) -> Outcome:
    import lance  # noqa: PLC0415 - in the process that measures
    import pyarrow as pa  # noqa: PLC0415
    from lance.fragment import write_fragments  # noqa: PLC0415

    pool = ThreadPoolExecutor(16)

    class Bare:
        """A table whose rows are appended by plain calls."""

        def __init__(self, name: str, names: list[str]) -> None:
            self.root = folder / name
            columns = {"id": names, "name": names, "age": list(range(len(names)))}
            self.dataset = lance.write_dataset(
                pa.table(columns), str(self.root), data_storage_version="2.2"
            )

        def stage(self, name: str) -> list[lance.FragmentMetadata]:
            row = pa.table({"id": [name], "name": [name], "age": [1]})
            return write_fragments(row, self.dataset, mode="append", data_storage_version="2.2")

        def commit(self, staged: list[lance.FragmentMetadata]) -> None:
            operation = lance.LanceOperation.Append(staged)
            self.dataset = lance.LanceDataset.commit(
                self.dataset, lance.Transaction(self.dataset.version, operation), max_retries=0
            )

        def staged_files(self, staged: list[lance.FragmentMetadata]) -> list[Path]:
            return [self.root / "data" / file.path for each in staged for file in each.files]

        def committed_files(self) -> list[Path]:
            """The version file by its name; the transaction is the newest one of its version."""
            version = self.dataset.version
            made = (self.root / "_transactions").glob(f"{version - 1}-*")
            return [self.root / "_versions" / f"{2**64 - 1 - version}.manifest", *made]

    def flush(files: list[Path]) -> None:
        """One wave: every file, and every folder that names one."""
        if durable:
            wave = [*files, *{each.parent for each in files}]
            list(pool.map(_flush, map(str, wave)))

    table = Bare("table", [person(at) for at in range(PEOPLE)])
    manifest = Bare("manifest", ["first"])
    sidecar = folder / "sidecar.json"

    def connect(_writer: int) -> Carry:
        def carry(write: Write) -> int:
            staged = table.stage(write.name)
            sidecar.write_text(json.dumps({"operation": write.name}))
            flush([sidecar, *table.staged_files(staged)])
            table.commit(staged)
            flush(table.committed_files())
            staged = manifest.stage(write.name)
            manifest.commit(staged)
            flush([*manifest.staged_files(staged), *manifest.committed_files()])
            sidecar.unlink()
            return 0

        return carry

    return Outcome(*run_threads(1, Mix.INSERTS, seconds, connect))


def _flush(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


if __name__ == "__main__" and sys.argv[1:]:  # `make bench` runs every file here without words
    taken, place, is_durable = sys.argv[1:]
    outcome = _main(float(taken), Path(place), durable=is_durable == "1")
    sys.stdout.write(json.dumps(asdict(outcome)))
