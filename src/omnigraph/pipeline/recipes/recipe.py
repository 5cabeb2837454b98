"""A pipeline file: which data feeds which types, its filters and expressions, and the branch.

    mode: merge                      # append, merge or overwrite
    branch: nightly                  # main, if it is left out
    from: main                       # creates the branch, if it is missing
    engine: auto                     # or spark, or local
    inputs:
      - name: people
        data: people.csv             # a file, folder or pattern, or a list; beside this file
        type: Person                 # or edge: Knows
        columns: {name: upper(full_name), age: years}
        where: country = 'PT'
      - data: rest.jsonl             # records say what they are

The file is read strictly: every mistake is reported, with its line. A column is the name of a
column or an expression of Spark SQL. Spark reads an input with an expression or a filter, our own
readers read the others; all of them are one commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from omnigraph.compiler.spelling import suggest
from omnigraph.engine.load.bulk import ERRORS_MAX, LoadEngine, LoadMode
from omnigraph.engine.load.inputs import STDIN, Format
from omnigraph.errors import FileUnreadable, RecipeInvalid
from omnigraph.ids import MAIN
from omnigraph.jsontext import NestedTooDeeply
from omnigraph.storage.inputs import S3

_FIELDS: Final = ("mode", "branch", "from", "max_errors", "engine", "inputs")
_INPUT_FIELDS: Final = (
    "name",
    "data",
    "format",
    "type",
    "edge",
    "columns",
    "where",
    "delimiter",
    "null",
)


@dataclass(frozen=True, slots=True)
class RecipeInput:
    name: str
    data: tuple[str, ...]
    format: Format | None
    type: str | None
    edge: str | None
    columns: Mapping[str, str]
    """The column or the expression that supplies each property."""
    where: str | None
    delimiter: str | None
    null: str
    line: int
    """Where it stands in the file."""

    @property
    def is_table(self) -> bool:
        return self.type is not None or self.edge is not None


@dataclass(frozen=True, slots=True)
class Recipe:
    path: str
    mode: LoadMode
    branch: str
    from_branch: str | None
    errors_max: int
    engine: LoadEngine | None
    inputs: tuple[RecipeInput, ...]


def read_recipe(path: str | Path) -> Recipe:
    """Raises FileUnreadable, RecipeInvalid with every mistake."""
    shown = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(shown, reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(shown, reason=f"not UTF-8 text: {error.reason}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise RecipeInvalid(shown, [(line, f"it is not YAML: {error.problem}")]) from error
    except yaml.YAMLError as error:
        raise RecipeInvalid(shown, [(1, f"it is not YAML: {error}")]) from error
    except RecursionError:
        raise RecipeInvalid(shown, [(1, str(NestedTooDeeply()))]) from None
    reading = _Reading(Path(path).parent)
    recipe = reading.recipe(root, shown)
    if reading.mistakes or recipe is None:
        raise RecipeInvalid(shown, sorted(reading.mistakes, key=lambda each: each[0]))
    return recipe


class _Reading:
    """Reads nodes of YAML, which know their lines, and collects mistakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mistakes: list[tuple[int, str]] = []

    def recipe(self, root: yaml.Node | None, shown: str) -> Recipe | None:
        if root is None:
            self.mistakes.append((1, "the file is empty"))
            return None
        fields = self._fields(root, "the file", _FIELDS)
        mode = self._mode(fields.get("mode"), root)
        inputs = self._inputs(fields.get("inputs"), root)
        return Recipe(
            path=shown,
            mode=mode,
            branch=self._text(fields.get("branch"), "branch") or MAIN,
            from_branch=self._text(fields.get("from"), "from"),
            errors_max=self._count(fields.get("max_errors")),
            engine=self._engine(fields.get("engine")),
            inputs=inputs,
        )

    # inputs

    def _inputs(self, node: yaml.Node | None, root: yaml.Node) -> tuple[RecipeInput, ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._report(node or root, "inputs must be a list of what to load")
            return ()
        found = [self._input(each, number) for number, each in enumerate(node.value)]
        names: dict[str, int] = {}
        for each in found:
            if each.name in names:
                place = names[each.name]
                self.mistakes.append((each.line, f"'{each.name}' is the name of line {place} too"))
            names.setdefault(each.name, each.line)
        return tuple(found)

    def _input(self, node: yaml.Node, number: int) -> RecipeInput:
        at = f"inputs[{number}]"
        fields = self._fields(node, at, _INPUT_FIELDS)
        given = RecipeInput(
            name=self._text(fields.get("name"), f"{at}.name") or f"input {number + 1}",
            data=self._data(fields.get("data"), node, at),
            format=self._format(fields.get("format"), f"{at}.format"),
            type=self._text(fields.get("type"), f"{at}.type"),
            edge=self._text(fields.get("edge"), f"{at}.edge"),
            columns=self._columns(fields.get("columns"), f"{at}.columns"),
            where=self._text(fields.get("where"), f"{at}.where"),
            delimiter=self._text(fields.get("delimiter"), f"{at}.delimiter"),
            null=self._text(fields.get("null"), f"{at}.null") or "",
            line=_line(node),
        )
        if given.type is not None and given.edge is not None:
            self._report(fields["edge"], f"{at} feeds a type or an edge, not both")
        for name in ("columns", "where", "delimiter", "null"):
            if name in fields and not given.is_table and isinstance(node, yaml.MappingNode):
                self._report(fields[name], f"{at}.{name} is for tables: name their type or edge")
        return given

    def _data(self, node: yaml.Node | None, above: yaml.Node, at: str) -> tuple[str, ...]:
        listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [self._text(each, f"{at}.data") for each in listed]
        if not texts or None in texts:
            if node is None or not texts:
                self._report(node or above, f"{at}.data is missing: name a file")
            return ()
        return tuple(self._resolve(each) for each in texts if each is not None)

    def _resolve(self, name: str) -> str:
        """A relative name is relative to the folder of the recipe."""
        if name == STDIN or name.startswith((S3, "file://")):
            return name
        return str(self.folder / name)

    def _columns(self, node: yaml.Node | None, at: str) -> dict[str, str]:
        if node is None:
            return {}
        columns: dict[str, str] = {}
        for key, value in self._pairs(node, at):
            text = self._text(value, f"{at}.{key}")
            if text is not None:
                columns[key] = text
        return columns

    # fields

    def _fields(self, node: yaml.Node, at: str, known: Sequence[str]) -> dict[str, yaml.Node]:
        fields: dict[str, yaml.Node] = {}
        for name, value in self._pairs(node, at):
            if name in known:
                fields[name] = value
            else:
                hint = suggest(name, known) or f"there are {', '.join(known)}"
                self._report(value, f"{at} has an unknown field '{name}'; {hint}")
        return fields

    def _pairs(self, node: yaml.Node, at: str) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._report(node, f"{at} must be a mapping")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                self._report(key, f"{at} gives '{name}' twice")
            seen.add(name)
            yield name, value

    def _text(self, node: yaml.Node | None, at: str) -> str | None:
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            self._report(node, f"{at} must be text")
            return None
        return str(node.value)

    def _mode(self, node: yaml.Node | None, root: yaml.Node) -> LoadMode:
        text = self._text(node, "mode")
        if text is not None and text in tuple(LoadMode):
            return LoadMode(text)
        if node is None or text is not None:
            self._report(node or root, "mode is append, merge or overwrite")
        return LoadMode.APPEND

    def _engine(self, node: yaml.Node | None) -> LoadEngine | None:
        text = self._text(node, "engine")
        if text is None or text in tuple(LoadEngine):
            return None if text is None else LoadEngine(text)
        assert node is not None
        self._report(node, f"engine is auto, spark or local, not '{text}'")
        return None

    def _format(self, node: yaml.Node | None, at: str) -> Format | None:
        text = self._text(node, at)
        if text is None:
            return None
        if text not in tuple(Format):
            assert node is not None
            self._report(node, f"{at} is jsonl, parquet or csv, not '{text}'")
            return None
        return Format(text)

    def _count(self, node: yaml.Node | None) -> int:
        text = self._text(node, "max_errors")
        if text is None:
            return ERRORS_MAX
        if not text.isdecimal() or int(text) < 1:
            assert node is not None
            self._report(node, f"max_errors is a positive number, not '{text}'")
            return ERRORS_MAX
        return int(text)

    def _report(self, node: yaml.Node, message: str) -> None:
        self.mistakes.append((_line(node), message))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
