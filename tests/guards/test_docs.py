"""The docs are part of the product: every command in them runs, every name in them exists."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import omnigraph
from omnigraph import errors
from omnigraph.cli.app import run
from omnigraph.errors import Code, OmnigraphError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Commands of other programs that the docs may show; they are not ours to run here.
FOREIGN = ("make ", "apt-get ", "cd ", "pip ")


def commands() -> list[tuple[str, str]]:
    """Every line of every `sh` block, with the page it stands on."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(str(page.relative_to(ROOT)), line) for line in lines if line.strip()]
    return found


def pages_with_commands() -> list[str]:
    return sorted({page for page, _ in commands()})


@pytest.mark.parametrize("page", pages_with_commands())
def test_every_documented_command_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of one page, in order, in a fresh copy of the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    for of, line in commands():
        if of != page or line.startswith(FOREIGN):
            continue
        words = shlex.split(line, comments=True)
        assert Path(words[0]).name == "omnigraph", f"{page}: do not know how to run: {line}"
        expected = 1 if "# exits with 1" in line else 0
        assert run(words[1:]) == expected, f"{page}: {line}\n{capsys.readouterr().err}"


def pages_with_python() -> list[str]:
    """Pages for users; those for developers show sketches."""
    users = [page for page in PAGES if page.parent.name not in ("dev", "adr")]
    return [str(page.relative_to(ROOT)) for page in users if "```python" in page.read_text()]


@pytest.mark.parametrize("page", pages_with_python())
def test_every_documented_program_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python of one page, in order, as one program."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    program = "\n".join(blocks)
    if "omnigraph.init(" not in program:
        omnigraph.init("museum.omni", Path("examples/museum/schema.pg"))
        omnigraph.open("museum.omni").insert("Gallery", [{"code": "W1", "title": "West One"}])
    exec(compile(program, page, "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


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


def test_the_demo_runs() -> None:
    environment = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / "scripts" / "demo"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
