"""A pipeline file: which data feeds which types, its filters and expressions, and the branch.

    name: nightly                    # only `since` needs one: it says which runs are alike
    mode: merge                      # append, merge or overwrite
    branch: nightly                  # main, if it is left out
    from: main                       # creates the branch, if it is missing
    engine: auto                     # or spark, or local
    storage_options: {region: eu-west-1}   # of the inputs at s3://, over those of the graph
    inputs:
      - name: people
        data: people.csv             # a file, folder or pattern, or a list; beside this file
        type: Person                 # or edge: Knows
        columns: {name: upper(full_name), age: years}
        const: {source: register}    # the same in every row
        patterns: {born: "%d.%m.%Y"} # how dates are spelled, if not as ISO 8601
        header: none                 # or its names, if the first line of a CSV is a row
        skip: 2                      # records in front of the header, or of the first row
        quote: none                  # a quote is a character like any other
        where: country = 'PT'
      - name: acquaintances
        data: knows.csv
        edge: Knows
        from: {Person.email: who}    # the node whose email the column holds
        to: {Person.email: whom}
        join: {people: {who: mail}}  # columns of another input, as people.country
      - name: events
        data: lake/events
        format: delta                # or iceberg, or any format of the Spark session
        options: {version: "7"}      # what its reader is told; `$NAME` stands for a variable
        since: last                  # only what no run has loaded yet
        edge: Knows
      - data: rest.jsonl             # records say what they are

The file is read strictly: every mistake is reported, with its line. A column is the name of a
column or an expression of Spark SQL. Spark reads an input with an expression or a filter, or of a
format that is not ours; our own readers read the others; all of them are one commit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from omnigraph.compiler.spelling import suggest
from omnigraph.engine.load.bulk import LoadEngine, LoadMode
from omnigraph.engine.load.inputs import LAKES, STDIN, Format
from omnigraph.engine.settings import ERRORS_MAX
from omnigraph.errors import FileUnreadable, RecipeInvalid
from omnigraph.ids import MAIN
from omnigraph.jsontext import NestedTooDeeply
from omnigraph.storage.bucket_options import S3

_FIELDS: Final = (
    "name",
    "mode",
    "branch",
    "from",
    "max_errors",
    "engine",
    "storage_options",
    "inputs",
)
_INPUT_FIELDS: Final = (
    "name",
    "data",
    "format",
    "options",
    "reader",
    "since",
    "type",
    "edge",
    "columns",
    "where",
    "from",
    "to",
    "const",
    "patterns",
    "join",
    "header",
    "skip",
    "quote",
    "delimiter",
    "null",
)
_OF_TABLES: Final = ("columns", "const", "patterns", "join", "where")
_OF_CSV: Final = ("header", "skip", "quote", "delimiter", "null")
_ENDS: Final = ("from", "to")
_NONE: Final = "none"
_SPARK: Final = "spark"
_LAST: Final = "last"
_CATALOG: Final = "catalog"
_SPARK_FORMATS: Final = ("orc", "text", "json", "xml", "avro", "jdbc")
"""Those that people mistype; every other name is passed on as well."""
_FORMAT_NAME: Final = re.compile(r"[A-Za-z][\w.]*")


@dataclass(frozen=True, slots=True)
class RecipeInput:
    name: str
    data: tuple[str, ...]
    format: Format | None
    spark_format: str | None
    """The format that Spark reads, instead of ours."""
    options: Mapping[str, str] = field(repr=False)
    """What the reader is told; `$NAME` stands for a variable."""
    is_incremental: bool
    """Load only what no run has loaded yet: `since: last`."""
    type: str | None
    edge: str | None
    columns: Mapping[str, str]
    """The column or the expression that supplies each property."""
    where: str | None
    delimiter: str | None
    null: str
    line: int
    """Where it stands in the file."""
    header: tuple[str, ...] | None = None
    """As in `Input`: None if the first line names the columns."""
    skip: int = 0
    is_quoted: bool = True
    constants: Mapping[str, str] = field(default_factory=dict)
    patterns: Mapping[str, str] = field(default_factory=dict)
    lookups: Mapping[str, str] = field(default_factory=dict)
    joins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the name of another input, which column here equals which column there."""
    is_joined: bool = False
    """Does another input join it? Then it need not feed anything itself."""

    @property
    def is_table(self) -> bool:
        return self.type is not None or self.edge is not None

    @property
    def dialect(self) -> tuple[object, ...]:
        """What is said of the table beyond its columns, as JSON; nothing if nothing is said."""
        said = (self.header, self.skip, self.is_quoted, self.constants, self.patterns)
        whole = (*said, self.lookups, self.joins)
        if whole == (None, 0, True, {}, {}, {}, {}):
            return ()
        return tuple(dict(each) if isinstance(each, Mapping) else each for each in whole)

    @property
    def feeds_nothing(self) -> bool:
        return self.is_joined and not self.is_table


@dataclass(frozen=True, slots=True)
class Recipe:
    path: str
    name: str | None
    mode: LoadMode
    branch: str
    from_branch: str | None
    errors_max: int
    engine: LoadEngine | None
    inputs: tuple[RecipeInput, ...]
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the inputs, over those of the graph; `$NAME` stands for a variable."""


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
        name = self._text(fields.get("name"), "name")
        self._check_since(inputs, name, mode)
        return Recipe(
            path=shown,
            name=name,
            mode=mode,
            branch=self._text(fields.get("branch"), "branch") or MAIN,
            from_branch=self._text(fields.get("from"), "from"),
            errors_max=self._count(fields.get("max_errors")),
            engine=self._engine(fields.get("engine")),
            inputs=inputs,
            storage_options=self._texts(fields.get("storage_options"), "storage_options"),
        )

    # inputs

    def _inputs(self, node: yaml.Node | None, root: yaml.Node) -> tuple[RecipeInput, ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._report(node or root, "inputs must be a list of what to load")
            return ()
        joined = self._joined(node.value)
        found = [self._input(each, number, joined) for number, each in enumerate(node.value)]
        names: dict[str, int] = {}
        for each in found:
            if each.name in names:
                place = names[each.name]
                self.mistakes.append((each.line, f"'{each.name}' is the name of line {place} too"))
            names.setdefault(each.name, each.line)
        for each in found:
            for name in each.joins:
                if name == each.name or name not in names:
                    told = suggest(name, names) or "there is no other input of that name"
                    self.mistakes.append((each.line, f"join names '{name}'; {told}"))
        return tuple(found)

    def _joined(self, nodes: Sequence[yaml.Node]) -> frozenset[str]:
        """The names of inputs that others join."""
        found: set[str] = set()
        for each in nodes:
            if isinstance(each, yaml.MappingNode):
                joins = [value for key, value in each.value if key.value == "join"]
                mappings = [value for value in joins if isinstance(value, yaml.MappingNode)]
                found |= {str(key.value) for value in mappings for key, _ in value.value}
        return frozenset(found)

    def _input(self, node: yaml.Node, number: int, joined: frozenset[str]) -> RecipeInput:
        at = f"inputs[{number}]"
        fields = self._fields(node, at, _INPUT_FIELDS)
        format_ = self._format(fields.get("format"), f"{at}.format")
        options = self._texts(fields.get("options"), f"{at}.options")
        by_spark = self._is(fields.get("reader"), f"{at}.reader", _SPARK)
        is_ours = format_ is None or (format_ in tuple(Format) and not by_spark)
        if by_spark and format_ is None:
            self._report(fields["reader"], f"{at}.reader needs {at}.format: what is Spark to read?")
        columns = self._texts(fields.get("columns"), f"{at}.columns")
        lookups = self._ends(fields, at, columns)
        name = self._text(fields.get("name"), f"{at}.name") or _unnamed(number)
        given = RecipeInput(
            name=name,
            data=self._data(fields.get("data"), node, at, is_optional=not is_ours)
            if _CATALOG not in options
            else self._names(fields.get("data"), f"{at}.data"),
            format=Format(format_) if is_ours and format_ is not None else None,
            spark_format=None if is_ours else format_,
            options=options,
            is_incremental=self._is(fields.get("since"), f"{at}.since", _LAST),
            type=self._text(fields.get("type"), f"{at}.type"),
            edge=self._text(fields.get("edge"), f"{at}.edge"),
            columns=columns,
            where=self._text(fields.get("where"), f"{at}.where"),
            delimiter=self._text(fields.get("delimiter"), f"{at}.delimiter"),
            null=self._text(fields.get("null"), f"{at}.null") or "",
            line=_line(node),
            header=self._header(fields.get("header"), f"{at}.header"),
            skip=self._skip(fields.get("skip"), f"{at}.skip"),
            is_quoted=not self._is(fields.get("quote"), f"{at}.quote", _NONE),
            constants=self._texts(fields.get("const"), f"{at}.const"),
            patterns=self._texts(fields.get("patterns"), f"{at}.patterns"),
            lookups=lookups,
            joins=self._joins(fields.get("join"), f"{at}.join"),
            is_joined=name in joined,
        )
        self._check_input(given, fields, node, at)
        return given

    def _check_input(
        self, given: RecipeInput, fields: Mapping[str, yaml.Node], node: yaml.Node, at: str
    ) -> None:
        if given.type is not None and given.edge is not None:
            self._report(fields["edge"], f"{at} feeds a type or an edge, not both")
        own = _OF_TABLES if given.feeds_nothing else (*_OF_TABLES, *_OF_CSV)
        for name in own:
            if given.feeds_nothing and name == "where":
                continue
            if name in fields and not given.is_table and isinstance(node, yaml.MappingNode):
                self._report(fields[name], f"{at}.{name} is for tables: name their type or edge")
        is_foreign = given.spark_format is not None or given.format in LAKES
        for name in _ENDS:
            if name in fields and given.edge is None:
                self._report(fields[name], f"{at}.{name} is for edges: name their edge")
        if is_foreign and not given.is_table and not given.feeds_nothing:
            self._report(fields["format"], f"{at} is a table: name its type or edge")
        if "options" in fields and not is_foreign:
            self._report(fields["options"], f"{at}.options is for the formats of Spark and lakes")
        if given.is_incremental and not given.data and given.spark_format is not None:
            self._report(fields["since"], f"{at}.since is for files, Delta and Iceberg")

    def _check_since(self, inputs: Sequence[RecipeInput], name: str | None, mode: LoadMode) -> None:
        """What earlier runs loaded is remembered by two names, so neither may be made up."""
        for number, each in enumerate(inputs):
            if not each.is_incremental:
                continue
            if name is None:
                self.mistakes.append((each.line, "since: last needs a name of the pipeline"))
            if each.name == _unnamed(number):
                self.mistakes.append((each.line, "since: last needs a name of the input"))
            if mode is LoadMode.OVERWRITE:
                told = "since: last would overwrite what is there with what is new"
                self.mistakes.append((each.line, told))

    def _ends(
        self, fields: Mapping[str, yaml.Node], at: str, columns: dict[str, str]
    ) -> dict[str, str]:
        """`from: column`, or `from: {Person.email: column}`; the column joins the others."""
        lookups: dict[str, str] = {}
        for name in _ENDS:
            node = fields.get(name)
            if node is None:
                continue
            if name in columns:
                self._report(node, f"{at} gives '{name}' twice: here and in columns")
            if not isinstance(node, yaml.MappingNode):
                text = self._text(node, f"{at}.{name}")
                columns |= {} if text is None else {name: text}
                continue
            pairs = self._texts(node, f"{at}.{name}")
            path = next(iter(pairs), "")
            if len(pairs) != 1 or "." not in path:
                told = "is the name of a column, or {Type.property: column}"
                self._report(node, f"{at}.{name} {told}")
                continue
            lookups[name] = path
            columns[name] = pairs[path]
        return lookups

    def _header(self, node: yaml.Node | None, at: str) -> tuple[str, ...] | None:
        if node is None:
            return None
        if isinstance(node, yaml.SequenceNode) and node.value:
            return self._names(node, at)
        if not isinstance(node, yaml.ScalarNode) or node.value != _NONE:
            self._report(node, f"{at} is none, or a list of names")
        return ()

    def _joins(self, node: yaml.Node | None, at: str) -> dict[str, dict[str, str]]:
        if node is None:
            return {}
        found = {name: self._texts(value, f"{at}.{name}") for name, value in self._pairs(node, at)}
        for name, columns in found.items():
            if not columns:
                self._report(node, f"{at}.{name} is a mapping: column here: column there")
        return found

    def _skip(self, node: yaml.Node | None, at: str) -> int:
        text = self._text(node, at)
        if text is None or text.isdecimal():
            return int(text or 0)
        assert node is not None
        self._report(node, f"{at} is a number of records, not '{text}'")
        return 0

    def _data(
        self, node: yaml.Node | None, above: yaml.Node, at: str, *, is_optional: bool
    ) -> tuple[str, ...]:
        names = self._names(node, f"{at}.data")
        if not names and not is_optional and (node is None or node.value == []):
            self._report(node or above, f"{at}.data is missing: name a file")
        return tuple(self._resolve(each) for each in names)

    def _names(self, node: yaml.Node | None, at: str) -> tuple[str, ...]:
        listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [self._text(each, at) for each in listed]
        return tuple(each for each in texts if each is not None) if None not in texts else ()

    def _resolve(self, name: str) -> str:
        """A relative name is relative to the folder of the recipe."""
        if name == STDIN or name.startswith((S3, "file://")):
            return name
        return str(self.folder / name)

    def _texts(self, node: yaml.Node | None, at: str) -> dict[str, str]:
        if node is None:
            return {}
        found = {key: self._text(value, f"{at}.{key}") for key, value in self._pairs(node, at)}
        return {key: text for key, text in found.items() if text is not None}

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

    def _format(self, node: yaml.Node | None, at: str) -> str | None:
        text = self._text(node, at)
        known = (*Format, *_SPARK_FORMATS)
        if text is None or text in known:
            return text
        assert node is not None
        hint = suggest(text, known)
        if hint is not None or not _FORMAT_NAME.fullmatch(text):
            listed = hint or f"there are {', '.join(known)} and the others of Spark"
            self._report(node, f"{at} is '{text}'; {listed}")
            return None
        return text

    def _is(self, node: yaml.Node | None, at: str, wanted: str) -> bool:
        text = self._text(node, at)
        if text is not None and text != wanted:
            assert node is not None
            self._report(node, f"{at} is {wanted}, or left out; not '{text}'")
        return text == wanted

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


def _unnamed(number: int) -> str:
    return f"input {number + 1}"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
