"""Runs the blocks of a page of the documentation, as its reader would.

A block of `sh` holds commands, a block of `python` a part of one program. The info string of a
block says the rest:

1. ```` ```pg file=museum.pg ```` is saved under that name before anything later runs.
2. ```` ```text output ```` is what the block above it prints. `…` stands for any text, and alone
   on a line for any lines. Runs of spaces are equal, so that a table may be as wide as it likes.
3. A command that has to fail says `# exits with 1`.

Commands run in this process: a process for each would take minutes. The shell is the part of it
that the pages need: quotes, continued lines, `NAME=$(command | filter)` and `$NAME`.
"""

import ast
import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.cli.app import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STORIES = sorted(page for page in (ROOT / "docs" / "cookbook").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))

# Pages whose loads need Spark: tests/pipeline runs them, in the one process that has a session.
ON_SPARK = {"docs/pipeline.md", "docs/spark.md", "docs/cookbook/nightly-load.md"}

# Pages whose commands need a bucket: tests/integration/test_cli_in_a_bucket.py runs them.
IN_A_BUCKET = {"docs/object-stores.md"}

# Commands of other programs that the docs may show; they are not ours to run here.
FILE_TOOLS = ("cp -r ", "mv ")
"""Commands of the system that pages use on graphs."""
FOREIGN = ("make ", "apt-get ", "cd ", "pip ", "jupyter ")

_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CAPTURE = re.compile(r"([A-Z_]+)=\$\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    line: int
    file: str | None = None
    is_output: bool = False


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, or the code cells of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        return [Block("python", "".join(cell["source"]), 0) for cell in code]
    return [_block(text, found) for found in _FENCE.finditer(text)]


def _block(page: str, found: re.Match[str]) -> Block:
    language, info, text = found.groups()
    options = info.split()
    files = [each.removeprefix("file=") for each in options if each.startswith("file=")]
    line = page.count("\n", 0, found.start()) + 1
    return Block(language, text, line, files[0] if files else None, "output" in options)


def has_language(page: Path, language: str) -> bool:
    return any(block.language == language and not block.file for block in read_blocks(page))


def commands(block: str) -> Iterator[str]:
    """The commands of a block. An open quote or a backslash continues one on the next line."""
    waiting = ""
    for line in block.replace("\\\n", " ").splitlines():
        waiting = f"{waiting}\n{line}" if waiting else line
        if waiting.strip() and _is_whole(waiting):
            yield waiting.strip()
            waiting = ""
    assert not waiting.strip(), f"a quote is never closed: {waiting}"


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class Reader:
    """Follows one page in the current folder. `only` leaves out the blocks of other languages."""

    page: Path
    only: Collection[str] = ("sh", "python")
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "docs"})
    shell: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    shown: list[object] = field(default_factory=list)

    def follow(self) -> None:
        is_followed = False
        for block in read_blocks(self.page):
            if block.file is not None:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.is_output:
                assert not is_followed or self._has_printed(block), self._differs(block)
            elif block.language in ("sh", "python"):
                is_followed = block.language in self.only
                if is_followed:
                    self._run(block)

    def _run(self, block: Block) -> None:
        with _captured() as out:
            if block.language == "python":
                self._run_program(block)
            else:
                for command in commands(block.text):
                    self._run_command(command)
        self.printed = _text(out)

    def _run_program(self, block: Block) -> None:
        """Run the block as a notebook would: the value of a last expression is shown."""
        tree = ast.parse(block.text, name_of(self.page))
        ast.increment_lineno(tree, block.line)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name_of(self.page), "exec"), self.names)
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            self.shown.append(eval(compile(shown, name_of(self.page), "eval"), self.names))

    def _run_command(self, command: str) -> None:
        for name, value in self.shell.items():
            command = re.sub(rf"\${name}\b", value, command)
        if captured := _CAPTURE.fullmatch(command):
            self.shell[captured[1]] = self._capture(captured[2])
        elif command.startswith(FILE_TOOLS):
            subprocess.run(shlex.split(command), check=True)
        elif not command.startswith((*FOREIGN, "#")):
            self._run_ours(command)

    def _capture(self, pipeline: str) -> str:
        ours, *filters = pipeline.split(" | ", 1)
        with _captured() as out:
            self._run_ours(ours)
        if not filters:
            return _text(out).strip()
        done = subprocess.run(
            filters[0], shell=True, input=_text(out), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def _run_ours(self, command: str) -> None:
        words = shlex.split(command, comments=True)
        where = name_of(self.page)
        assert Path(words[0]).name == "omnigraph", f"{where}: do not know how to run: {command}"
        expected = 1 if "# exits with 1" in command else 0
        with contextlib.redirect_stderr(io.StringIO()) as err:
            code = run(words[1:])
        assert code == expected, f"{where}: {command}\nexit code {code}\n{err.getvalue()}"
        if code:
            sys.stdout.write(err.getvalue())  # a terminal shows it too

    def _has_printed(self, block: Block) -> bool:
        return re.fullmatch(_pattern(block.text), _spaced(self.printed)) is not None

    def _differs(self, block: Block) -> str:
        place = f"{name_of(self.page)}:{block.line}"
        return f"{place} shows\n{block.text}\nbut this was printed:\n{self.printed}"


def _captured() -> contextlib.redirect_stdout[io.TextIOWrapper]:
    """Standard output with a buffer of bytes, as an export writes to it."""
    return contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""))


def _text(out: io.TextIOWrapper) -> str:
    out.flush()
    out.seek(0)
    return out.read()


def _spaced(text: str) -> str:
    lines = (re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def _pattern(shown: str) -> str:
    lines = _spaced(shown).splitlines()
    parts = (r"(?:.*\n)*" if line == "…" else f"{_line_pattern(line)}\n" for line in lines)
    return "".join(parts)


def _line_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))
