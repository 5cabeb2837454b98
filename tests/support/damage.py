"""Damaged graphs: one byte flipped, a file cut short or missing, and what a reader is told.

Each damage is examined by a fork of a process that has never opened a table, so a crash of the
reader is a finding and not the end of the run.
"""

import argparse
import json
import pickle
import random  # noqa: TID251 - a run is repeated by its seed
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.errors import OmnigraphError
from support.breaking import (
    PAIR,
    SIDE,
    Content,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.folders import put_back, read_folder
from support.power_cuts import MEMORY, in_child

Damage = tuple[str, str, Callable[[bytes], bytes | None]]
"""The file, what happens to it, and its new content; None if it is gone."""

READ: Final = "right"
TYPED: Final = "typed error"
WRONG: Final = "wrong answer that doctor notices"
UNNOTICED: Final = "wrong answer that doctor does not notice"
UNNAMED: Final = "typed error of a file that doctor does not name"
CRASH: Final = "crash"


def prepare(root: Path) -> None:
    graph = populate(root)
    graph.create_branch(SIDE)
    open_mortal(root).ask(PAIR, SIDE)


def choose(files: Mapping[str, bytes], flips: int, seed: int) -> Iterator[Damage]:
    """Every file missing, empty and halved, and some bytes of each flipped."""
    dice = random.Random(seed)
    for name, data in sorted(files.items()):
        yield name, "missing", lambda _: None
        yield name, "empty", lambda _: b""
        yield name, "halved", lambda data: data[: len(data) // 2]
        for _ in range(min(flips, len(data))):
            at, bit = dice.randrange(len(data)), 1 << dice.randrange(8)
            yield name, f"bit {bit} of byte {at} flipped", _flip(at, bit)


def _flip(at: int, bit: int) -> Callable[[bytes], bytes]:
    def flip(data: bytes) -> bytes:
        return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]

    return flip


def examine(root: Path, content: Content) -> str:
    """What a reader is told. Raises whatever is no error of ours."""
    try:
        return READ if read_content(root) == content else WRONG
    except OmnigraphError:
        return TYPED
    except AssertionError:
        return WRONG  # a count of the manifest tells


def doctor(root: Path) -> str:
    try:
        findings = open_in(stores_at(root), Mode.READ_ONLY).examine(is_deep=True)
    except OmnigraphError as error:
        return str(error)
    return "; ".join(map(str, findings))


def is_named(file: str, what: str, said: str) -> bool:
    """Does doctor say which file of a table is missing, empty or halved?

    A version that is missing is named by its number. The graph cannot be opened without its
    manifest and its schema files, so of these the error names the table, the file or the schema.
    """
    folder, _, name = file.rpartition("/")
    if not file.startswith(("nodes/", "edges/")):
        is_schema = file.startswith(("_schema", "__schema")) and "schema" in said
        return is_schema or file.split("/", maxsplit=1)[0] in said or "flipped" in what
    if what == "missing" and folder.endswith("_versions"):
        return "has no version" in said
    return name in said or "flipped" in what


def run(root: Path, scratch: Path, *, flips: int, seed: int, stride: int) -> dict[str, object]:
    """Damage after damage, each on a graph that is otherwise whole."""
    shown, told = scratch / "shown", scratch / "told"

    def begin() -> None:
        prepare(root)
        shown.write_bytes(pickle.dumps(read_content(root)))

    failure = in_child(begin)
    assert failure is None, failure
    content: Content = pickle.loads(shown.read_bytes())
    files, kinds, found = read_folder(root), Counter[str](), list[dict[str, str]]()
    for name, what, change in islice(choose(files, flips, seed), seed % stride, None, stride):
        changed = change(files[name])
        others = {each: data for each, data in files.items() if each != name}
        put_back(root, others if changed is None else {**others, name: changed})
        crash = in_child(lambda: told.write_text(examine(root, content)))
        kind = told.read_text() if crash is None else CRASH
        if kind in (WRONG, TYPED):
            crash = in_child(lambda: told.write_text(doctor(root)))
            said = told.read_text()
            if kind == WRONG:
                kind = CRASH if crash else WRONG if said else UNNOTICED
            elif crash or not is_named(name, what, said):
                kind = CRASH if crash else UNNAMED
        kinds[kind] += 1
        if kind in (CRASH, UNNOTICED, UNNAMED):
            found.append({"file": name, "what": what, "kind": kind, "said": crash or ""})
    return {"files": len(files), "kinds": dict(kinds), "found": found}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stride", type=int, default=1, help="only every n-th damage")
    given = parser.parse_args(arguments)
    base = MEMORY if MEMORY.is_dir() else None
    with TemporaryDirectory(dir=base) as place, TemporaryDirectory() as scratch:
        report = run(
            Path(place, "graph"),
            Path(scratch),
            flips=given.flips,
            seed=given.seed,
            stride=given.stride,
        )
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
