"""The graph that a release leaves for its successors, kept in `tests/compat/fixtures`.

    PYTHONPATH=src python tests/support/release_scene.py tests/compat/fixtures/own-NAME

It is run with the sources of the release, so it imports nothing from the tests and takes what the
program of that day can do. The last write dies behind its table commits and before its publish:
the successor finds its sidecar.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import omnigraph

SCHEMA = """
node Person {
  name: String @key  age: I32?  score: F64?  born: Date?  seen: DateTime?
  tags: [String]?  vec: Vector(4)?  photo: Blob?  active: Bool?
}
node Team { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge In: Person -> Team
"""
NEXT = SCHEMA.replace(
    "node Team { name: String @key }", "node Team { name: String @key  motto: String? }"
)

DEATH = 9

UNFINISHED = """
query w() { insert Person { name: "unfinished" } insert Knows { from: "unfinished", to: "p0" } }
"""


def _person(number: int) -> dict[str, object]:
    return {
        "name": f"p{number}",
        "age": number,
        "score": number / 2,
        "born": "2001-02-03",
        "seen": "2024-05-06T07:08:09Z",
        "tags": ["a", "b"],
        "vec": [1.0, 2.0, 3.0, float(number)],
        "photo": "base64:RGVhcg==",
        "active": number % 2 == 0,
    }


def write(root: Path) -> Any:
    graph: Any = omnigraph.init(str(root), SCHEMA)
    graph.insert("Person", [_person(each) for each in range(6)])
    graph.insert("Team", [{"name": "red"}, {"name": "blue"}])
    knows = [{"id": f"k{n}", "from": f"p{n}", "to": f"p{n + 1}", "since": n} for n in range(5)]
    graph.insert("Knows", knows)
    graph.insert("In", [{"id": "i0", "from": "p0", "to": "red"}])
    graph.mutate('query d() { delete Person where name = "p5" }')
    graph.mutate('query u() { update Person set { age: 77 } where name = "p1" }')
    if hasattr(graph, "merge"):
        graph.branches.create("done")
        graph.insert("Person", [{"name": "merged"}], branch="done")
        graph.merge("done")
        graph.branches.delete("done")
    if hasattr(graph, "apply_schema"):
        graph.apply_schema(NEXT)
        graph.insert("Team", [{"name": "green", "motto": "grow"}])
        graph.optimize()
        graph.insert("Person", [{"name": "late"}])
    graph.branches.create("open/one")
    graph.insert("Person", [{"name": "only-here"}], branch="open/one")
    return graph


def tell(graph: Any, folder: Path) -> None:
    """What the release says of its graph, in its own spelling."""
    for branch, name in (("main", "main"), ("open/one", "open")):
        lines = b"".join(graph.export_lines(branch=branch))
        (folder / f"{name}.jsonl").write_bytes(lines)
    told = [str(each.id) for each in graph.commits()]
    (folder / "commits.json").write_text(json.dumps(told, indent=0) + "\n")


def die_before_the_publish(graph: Any) -> None:
    """The manifest is moved by `swap_rows`, whatever class has it that day."""
    for name, module in list(sys.modules.items()):
        for each in list(vars(module).values()) if name.startswith("omnigraph.storage") else ():
            if isinstance(each, type) and "swap_rows" in vars(each):
                each.swap_rows = lambda *_, **__: os._exit(DEATH)  # type: ignore[attr-defined]
    graph.mutate(UNFINISHED)
    raise AssertionError("the writer did not die")


def main() -> None:
    if sys.argv[1] == "--die":
        die_before_the_publish(omnigraph.open(sys.argv[2]))
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "g.omni"
        graph = write(root)
        tell(graph, folder)
        died = subprocess.run([sys.executable, __file__, "--die", str(root)], check=False)
        assert died.returncode == DEATH, "the writer did not die where it should"
        with tarfile.open(folder / "g.tar.gz", "w:gz") as archive:
            archive.add(root, "g.omni")


if __name__ == "__main__":
    main()
