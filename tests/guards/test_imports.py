"""Importing the package is cheap, and programs inside strings import what exists."""

import ast
import subprocess
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import COMMANDS
from omnigraph.cli.lazy import load_command

HEAVY = ("pyspark", "lance", "pyarrow", "numpy", "obstore", "fastapi", "typer", "rich", "lark")


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("library", HEAVY)
def test_importing_omnigraph_does_not_import(library: str) -> None:
    assert library not in loaded_after("import omnigraph")


COMMAND = """
import atexit, sys
from omnigraph.cli.app import main
atexit.register(lambda: print("\\n".join(sys.modules), file=sys.stderr))
main()
"""
QUERY = "query q() { match { $p: P } return { $p.name } }"


NOT_FOR_A_WRITE = frozenset(
    {
        "pandas",
        "pyspark",
        "fastapi",
        "starlette",
        "uvicorn",
        "cedarpy",
        "httpx",
        "yaml",
        "omnigraph.engine.history",
        "omnigraph.engine.load",
        "omnigraph.engine.maintain",
        "omnigraph.engine.merge",
        "omnigraph.mcp",
        "omnigraph.pipeline.load",
        "omnigraph.sdk.remote",
        "omnigraph.sdk.reviewing",
        "omnigraph.server",
        "omnigraph.wire.replies",
        "omnigraph.wire.requests",
    }
)
"""Packages and modules that a small mutation must not load (ADR 35)."""

NOT_FOR_A_READ = NOT_FOR_A_WRITE | {
    "omnigraph.commit.attempt",
    "omnigraph.commit.compat.migrate",
    "omnigraph.commit.manifest.publish",
    "omnigraph.commit.recovery",
    "omnigraph.engine.schema",
    "omnigraph.engine.write",
}
"""What a small read must not load."""


def find_unwanted(loaded: set[str], unwanted: Collection[str]) -> set[str]:
    """The loaded modules that are unwanted, or part of an unwanted package."""
    return {
        each
        for each in loaded
        if any(each == name or each.startswith(f"{name}.") for name in unwanted)
    }


def loaded_by(*arguments: str, program: str = COMMAND) -> set[str]:
    """The modules that a command has loaded by the time it ends."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_a_command_that_needs_no_graph_imports_hardly_anything() -> None:
    loaded = loaded_by("--version")
    assert not loaded & {*HEAVY, "pandas", "pydantic"} - {"typer"}
    assert not {each for each in loaded if each.startswith("omnigraph.cli.commands.")}
    assert len(loaded) < 300


def test_a_small_load_imports_no_spark(tmp_path: Path) -> None:
    omnigraph.init(str(tmp_path / "g"), "node P { name: String @key }")
    records, recipe = tmp_path / "rows.jsonl", tmp_path / "load.yaml"
    records.write_text('{"type": "P", "data": {"name": "ada"}}\n')
    recipe.write_text("mode: merge\ninputs: [{data: rows.jsonl}]\n")
    store = ("--store", str(tmp_path / "g"))
    for command in (
        ("load", *store, "--data", str(records), "--mode", "merge"),
        ("pipeline", "run", str(recipe), *store),
    ):
        loaded = loaded_by(*command)
        assert "lance" in loaded
        assert not {each for each in loaded if each.partition(".")[0] in {"pyspark", "py4j"}}


def test_a_query_imports_what_reads_a_graph_and_no_other_command(tmp_path: Path) -> None:
    omnigraph.init(str(tmp_path / "g"), "node P { name: String @key }")
    loaded = loaded_by("query", "--store", str(tmp_path / "g"), "-e", QUERY)
    assert "lance" in loaded
    assert find_unwanted(loaded, {*NOT_FOR_A_READ, "rich.console"}) == set()
    commands = {each for each in loaded if each.startswith("omnigraph.cli.commands.")}
    assert commands == {"omnigraph.cli.commands.query"}


def test_a_mutation_imports_what_writes_rows_and_nothing_that_merges_or_loads(
    tmp_path: Path,
) -> None:
    omnigraph.init(str(tmp_path / "g"), "node P { name: String @key }")
    insert = 'query a() { insert P { name: "ada" } }'
    loaded = loaded_by("mutate", "--store", str(tmp_path / "g"), "-e", insert)
    assert "omnigraph.engine.write.mutate" in loaded
    assert find_unwanted(loaded, NOT_FOR_A_WRITE) == set()


EMBEDDED_READ = """
import sys, omnigraph
graph = omnigraph.open(sys.argv[1], read_only=True)
assert len(graph.query(sys.argv[2])) == 0
print("\\n".join(sys.modules), file=sys.stderr)
"""


def test_an_embedded_read_imports_what_reads_a_graph(tmp_path: Path) -> None:
    omnigraph.init(str(tmp_path / "g"), "node P { name: String @key }")
    loaded = loaded_by(str(tmp_path / "g"), QUERY, program=EMBEDDED_READ)
    assert "lance" in loaded
    command_line = {"typer", "click", "rich", "omnigraph.cli"}
    assert find_unwanted(loaded, NOT_FOR_A_READ - {"pandas"} | command_line) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_it_is_said_to_be(name: str) -> None:
    command = load_command(name, COMMANDS[name])
    assert command.name == name
    assert command.help, "help has a line for it"


ROOT = Path(__file__).parents[2]
FILES = [each for part in ("src", "tests", "benchmarks") for each in (ROOT / part).rglob("*.py")]


def find_programs() -> list[tuple[str, str]]:
    """The import lines of programs that are kept as text, which no type checker reads."""
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines = [part.strip() for part in node.value.replace(";", "\n").splitlines()]
                found += [
                    (str(path.relative_to(ROOT)), line)
                    for line in lines
                    if line.startswith("from omnigraph") and " import " in line
                ]
    return found


def test_programs_inside_strings_import_names_that_exist() -> None:
    programs = find_programs()
    assert len(programs) > 10
    missing = []
    for path, line in programs:
        tree = ast.parse(line).body[0]
        assert isinstance(tree, ast.ImportFrom)
        assert tree.module is not None
        module = import_module(tree.module)
        missing += [(path, line) for each in tree.names if not hasattr(module, each.name)]
    assert missing == []
