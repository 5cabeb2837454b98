"""The docs are part of the product: every command in them runs, every name in them exists."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import omnigraph
from omnigraph import errors
from omnigraph.errors import Code, OmnigraphError
from support.pages import (
    IN_A_BUCKET,
    NOTEBOOKS,
    ON_SPARK,
    PAGES,
    ROOT,
    STORIES,
    Reader,
    has_language,
    name_of,
)

HERE = [page for page in PAGES if name_of(page) not in ON_SPARK | IN_A_BUCKET]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a copy of the examples, and no configuration."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path


def with_commands() -> list[Path]:
    return [page for page in HERE if page not in STORIES and has_language(page, "sh")]


@pytest.mark.parametrize("page", with_commands(), ids=name_of)
@pytest.mark.usefixtures("folder")
def test_every_documented_command_runs(page: Path) -> None:
    """The commands of one page, in order; the Python of the page is left out."""
    Reader(page, only=["sh"]).follow()


def with_programs() -> list[Path]:
    """Pages for users; those for developers show sketches."""
    users = [page for page in HERE if page.parent.name not in ("dev", "adr", "cookbook")]
    return [page for page in users if has_language(page, "python")]


@pytest.mark.parametrize("page", with_programs(), ids=name_of)
@pytest.mark.usefixtures("folder")
def test_every_documented_program_runs(page: Path) -> None:
    """The Python of one page, in order, as one program; the commands are left out."""
    if "omnigraph.init(" not in page.read_text():
        omnigraph.init("museum.omni", Path("examples/museum/schema.pg"))
        omnigraph.open("museum.omni").insert("Gallery", [{"code": "W1", "title": "West One"}])
    Reader(page, only=["python"]).follow()


@pytest.mark.parametrize("page", [page for page in STORIES if page in HERE], ids=name_of)
@pytest.mark.usefixtures("folder")
def test_every_story_runs(page: Path) -> None:
    """Commands and Python of one page of the cookbook, in the order of the page."""
    Reader(page).follow()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_every_notebook_runs_and_shows_its_results_as_tables(
    notebook: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / notebook.parent.relative_to(ROOT))
    reader = Reader(notebook)
    reader.follow()
    tables = [each._repr_html_() for each in reader.shown if isinstance(each, omnigraph.Result)]
    assert tables
    assert all("<tbody><tr>" in table for table in tables)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_no_notebook_keeps_what_it_printed(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def links_of(page: Path) -> list[tuple[str, str]]:
    """The links of a page to files of this repository: the path, and the heading if it has one."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text)


def headings_of(page: Path) -> set[str]:
    """The headings of a page, as links spell them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for path, heading in links_of(page):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        if heading:
            assert heading in headings_of(target), f"{page.name}: {path}#{heading}"


def test_every_page_is_reached_from_the_index() -> None:
    seen, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [(page.parent / path).resolve() for path, _ in links_of(page) if path]
    pages = {page for page in PAGES if page.parent.name != "adr"}  # a folder, in its order
    assert pages - seen == set()


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda p: p.stem)
def test_every_decision_has_a_problem_a_design_refusals_and_tests(page: Path) -> None:
    sections = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
    wanted = ["Problem", "Design", "Alternatives refused", "How it is tested"]
    assert [each for each in sections if each in wanted] == wanted


def every_error() -> set[type[OmnigraphError]]:
    def below(parent: type[OmnigraphError]) -> set[type[OmnigraphError]]:
        children = set(parent.__subclasses__())
        return children.union(*(below(child) for child in children))

    return below(OmnigraphError)


def test_every_error_has_a_code_of_its_own_and_every_code_an_error() -> None:
    own = {each: each.__dict__["code"] for each in every_error() if "code" in each.__dict__}
    assert len(set(own.values())) == len(own)
    assert set(own.values()) == set(Code)


def test_every_error_code_is_documented() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    missing = [code.value for code in Code if f"`{code.value}`" not in page]
    assert missing == []


def test_every_error_is_drawn_in_the_tree() -> None:
    assert errors.__doc__ is not None
    missing = [each.__name__ for each in every_error() if each.__name__ not in errors.__doc__]
    assert missing == ["ProgramInvalid"] or missing == []


def test_the_demo_runs_and_ends_with_the_history_and_three_commands(tmp_path: Path) -> None:
    environment = {**os.environ, "DEMO": str(tmp_path), "OMNIGRAPH_WARM": "", "SPARK": ""}
    done = subprocess.run(
        [ROOT / "scripts" / "demo"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout, "a pipe gets plain text"
    picture, _, advice = done.stdout.partition("Try next")
    assert "autumn hanging" in picture.rpartition("omnigraph log museum.omni --graph")[2]
    assert len(re.findall(r"^  omnigraph ", advice, re.MULTILINE)) == 3
