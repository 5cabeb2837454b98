"""The wheel as its users have it: built, installed afresh, used outside the repository."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "omnigraph" / "server" / "page"
VERSIONS = ("3.12", "3.13")
"""Besides the Python that runs the tests."""

FIRST_ROWS = """
import omnigraph

schema = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
graph = omnigraph.init("g.omni", schema)
graph.insert("Person", [{"name": "ada", "age": 36}, {"name": "bob"}])
graph.insert("Knows", [{"from": "ada", "to": "bob"}])
graph.branches.create("side")
graph.mutate('query q() { update Person set { age: 5 } where name = "bob" }', branch="side")
graph.merge("side", into="main")
found = graph.query("query q() { match { $p: Person  $p knows $q } return { $q.age as age } }")
print(found.arrow().to_pylist())
"""
QUERY = "query q() { match { $p: Person } return { $p.name as name } }"


def find_uv() -> str:
    """`make setup` puts one beside the interpreter if the machine has none."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert found is not None, "run `make setup`"
    return found


@dataclass(frozen=True)
class Place:
    """A folder with an environment of its own, outside the repository."""

    folder: Path

    def run(
        self, program: str, *words: str, said: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "OMNIGRAPH"))
        }
        return subprocess.run(
            [str(self.folder / "venv" / "bin" / program), *words],
            cwd=self.folder,
            env=environment,
            input=said,
            capture_output=True,
            text=True,
            check=False,
        )

    def run_well(self, program: str, *words: str, said: str | None = None) -> str:
        done = self.run(program, *words, said=said)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def use(self) -> None:
        """Make a graph, change it, load into it, ask it."""
        assert self.run_well("python", "-c", FIRST_ROWS) == "[{'age': 5}]\n"
        (self.folder / "rows.jsonl").write_text('{"type":"Person","data":{"name":"cyd"}}\n')
        self.run_well("omnigraph", "load", "g.omni", "rows.jsonl", "--mode", "append")
        rows = self.run_well("omnigraph", "query", "--store", "g.omni", "-e", QUERY, "--json")
        assert all(f'"{name}"' in rows for name in ("ada", "bob", "cyd"))
        mistyped = self.run("omnigraph", "qurey", "g.omni")
        assert (mistyped.returncode, "query" in mistyped.stderr) == (2, True), mistyped.stderr


def install(folder: Path, python: str, *words: str) -> Place:
    uv = find_uv()
    target = folder / "venv"
    environment = {**os.environ, "VIRTUAL_ENV": str(target), "UV_PYTHON_DOWNLOADS": "never"}
    for command in (["venv", "--python", python, str(target)], ["pip", "install", *words]):
        subprocess.run([uv, *command, "--quiet"], check=True, env=environment)
    return Place(folder)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files git knows, as a stranger would have them."""
    tree = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-co",
            "--exclude-standard",
            "src",
            "scripts",
            "ui",
            "*.toml",
            "*.md",
            "LICENSE",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    if PAGE.exists():  # built from these sources, so that this build need not do it again
        shutil.copytree(PAGE, tree / PAGE.relative_to(ROOT))
    return tree


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [find_uv(), "build", "--wheel", "--quiet", "-o", str(out), str(checkout)], check=True
    )
    (made,) = out.glob("*.whl")
    return made


def find_python(version: str) -> str | None:
    """An interpreter that runs; a shim that only complains is none."""
    shelves = [Path.home() / ".pyenv" / "versions", Path("/opt"), Path("/usr/local")]
    candidates = [
        shutil.which(f"python{version}"),
        shutil.which(f"python{version}", path="/usr/bin"),
    ]
    candidates += [str(each) for shelf in shelves for each in shelf.glob(f"{version}*/bin/python")]
    for each in filter(None, candidates):
        done = subprocess.run([each, "-c", ""], capture_output=True, check=False)
        if done.returncode == 0:
            return each
    return None


def test_the_wheel_has_its_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
    extras = re.findall(r"^Provides-Extra: (.*)$", archive.read(name).decode(), re.MULTILINE)
    assert {"spark", "server", "mcp", "all", "java", "pandas", "polars"} <= set(extras)


def test_the_wheel_has_the_grammar_tables_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert sum(name.endswith(".tables") for name in names) == 2
    assert not [name for name in names if "support" in name or name.startswith("tests")]


def test_the_wheel_has_the_built_page(wheel: Path) -> None:
    if not (PAGE / "index.html").exists():
        pytest.skip("the page is not built: scripts/ui says why")
    names = zipfile.ZipFile(wheel).namelist()
    shown = [each.removeprefix("omnigraph/server/page/") for each in names if "/page/" in each]
    assert {"index.html", "index.html.gz"} <= set(shown)
    assert [each for each in shown if each.startswith("assets/index-") and each.endswith(".js")]


def test_pip_builds_the_checkout_as_uv_does(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    place = install(tmp_path, sys.executable, "pip")  # nothing that a build could borrow
    place.run_well("pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(checkout))
    (made,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(made).namelist() == zipfile.ZipFile(wheel).namelist()


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_a_graph_needs_the_base_alone_at_its_lowest_and_newest(
    wheel: Path, tmp_path: Path, resolution: str
) -> None:
    place = install(tmp_path, sys.executable, "--resolution", resolution, str(wheel))
    place.use()
    assert place.run("python", "-c", "import pyspark").returncode != 0, "nobody asked for Spark"
    for words, extra in (
        (["serve", "--graph", "g=g.omni", "--unauthenticated"], "server"),
        (["ui", "g.omni", "--no-browser"], "server"),
        (["load", "g.omni", "--data", "-", "--mode", "append", "--engine", "spark"], "spark"),
        (["spark", "up"], "spark"),
        (["spark", "status"], "spark"),
    ):
        done = place.run("omnigraph", *words)
        assert done.returncode != 0
        assert f"pip install 'omnigraph[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "names.gq").write_text(QUERY)
    assert "q" in place.run_well("omnigraph", "queries", "list", "g.omni", "--queries", "q")
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    answer = place.run_well("omnigraph", "mcp", "g.omni", "--queries", "q", said=f"{asked}\n")
    assert '"name":"q"' in answer.replace(" ", ""), "the agent protocol is part of the base"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_other_pythons_work_where_they_are_there(wheel: Path, tmp_path: Path, version: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    install(tmp_path, python, str(wheel)).use()


@pytest.mark.slow
def test_it_works_beside_what_data_people_have_installed(wheel: Path, tmp_path: Path) -> None:
    company = ["pandas", "polars", "lancedb", "langchain-core", "dagster"]
    place = install(tmp_path, sys.executable, f"omnigraph[all] @ {wheel.as_uri()}", *company)
    place.use()
    place.run_well("python", "-c", "import pandas, polars, lancedb, langchain_core, dagster")
    assert place.run_well("python", "-c", FRAMES) == "['ada', 'bob', 'cyd', 'dee', 'eve']\n"
    place.run_well("python", "-c", SERVE)


FRAMES = """
import pandas, polars
import omnigraph

graph = omnigraph.open("g.omni")
graph.insert("Person", pandas.DataFrame({"name": ["dee"]}))
graph.load(polars.DataFrame({"name": ["eve"]}), type="Person", mode="append")
found = graph.query("query q() { match { $p: Person } return { $p.name as name } order { name } }")
print(found.polars()["name"].to_list())
"""

SERVE = """
import signal, subprocess, sys, os
import httpx

words = ["serve", "--graph", "g=g.omni", "--unauthenticated", "--bind", "127.0.0.1:0"]
command = os.path.join(os.path.dirname(sys.executable), "omnigraph")
with subprocess.Popen([command, *words], stdout=subprocess.PIPE, text=True) as server:
    address = server.stdout.readline().strip().partition("=")[2]
    try:
        query = "query q() { match { $p: Person } return { $p.name } }"
        answer = httpx.post(f"http://{address}/graphs/g/query", json={"query": query}, timeout=60)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["rows"]) == 5, answer.text
    finally:
        server.send_signal(signal.SIGTERM)
"""
