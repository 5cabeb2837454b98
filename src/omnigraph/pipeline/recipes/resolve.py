"""Resolving a recipe: which files its inputs are, and which properties their columns supply.

Only names, headers and footers of files are read. An input with a filter or an expression becomes a
query of Spark SQL, which is analysed here and runs when the inputs are loaded. All mistakes of the
recipe are reported at once, with their lines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, family_of
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.load.recipe_plan import PlannedColumn, PlannedInput
from omnigraph.engine.write.base_rows import Type
from omnigraph.errors import RecipeInvalid, TypeUnknown, UsageError
from omnigraph.extras import require
from omnigraph.ids import TableKey
from omnigraph.pipeline.recipes.recipe import Recipe, RecipeInput
from omnigraph.pipeline.recipes.since import NewData, Remembered, find_new
from omnigraph.pipeline.settings import SparkSettings, read_settings
from omnigraph.pipeline.sources.lake import LakeListing
from omnigraph.pipeline.sources.mappings import ENDS, ColumnMapping, find_table_type, targets_of
from omnigraph.pipeline.stage.input_plan import InputSurvey, Item, RecordFile, Table
from omnigraph.storage.bucket_options import expand_variables
from omnigraph.storage.inputs import InputFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Sessions = Callable[[], "SparkSession"]
"""Starts Spark or finds it; called only if a recipe computes something."""


def open_session(settings: SparkSettings | None) -> "SparkSession":
    """Raises JavaMissing, SparkUnusable."""
    from omnigraph.pipeline.spark.session import find_session  # noqa: PLC0415 - imports pyspark

    return find_session(settings or read_settings())


@dataclass(frozen=True, slots=True)
class PreparedRecipe:
    """A recipe, ready to be loaded."""

    inputs: tuple[Input, ...]
    planned: tuple[PlannedInput, ...]
    records: Mapping[str, JsonObject] = field(default_factory=dict)
    """How far each input with `since: last` is loaded when this is."""


def prepare(
    recipe: Recipe,
    catalog: Catalog,
    options: Mapping[str, str],
    sessions: Sessions,
    before: Mapping[str, Remembered] | None = None,
) -> PreparedRecipe:
    """`before` is what earlier runs loaded.

    Raises RecipeInvalid, FileUnreadable, ExtraMissing, SparkPackageMissing, and what starting Spark
    raises.
    """
    resolver = _Resolver(catalog, options, sessions, before or {})
    inputs: list[Input] = []
    planned: list[PlannedInput] = []
    resolver.others = {each.name: each for each in recipe.inputs if each.is_joined}
    for each in recipe.inputs:
        if each.feeds_nothing:
            planned.append(describe(each, []))
            continue
        try:
            some, items = resolver.follow(each)
        except (UsageError, TypeUnknown) as error:
            resolver.report(each, str(error))
            continue
        inputs += some
        planned.append(resolver.describe(each, items))
    if resolver.mistakes:
        raise RecipeInvalid(recipe.path, sorted(resolver.mistakes, key=lambda each: each[0]))
    records = {name: each.record for name, each in resolver.new.items()}
    return PreparedRecipe(tuple(inputs), tuple(planned), records)


class _Resolver:
    def __init__(
        self,
        catalog: Catalog,
        options: Mapping[str, str],
        sessions: Sessions,
        before: Mapping[str, Remembered],
    ) -> None:
        self.before = before
        self.new: dict[str, NewData] = {}
        self.catalog = catalog
        self.options = options
        self.sessions = sessions
        self.survey = InputSurvey(catalog, options)
        self.mistakes: list[tuple[int, str]] = []
        self.others: Mapping[str, RecipeInput] = {}
        """The inputs that others join, by name."""

    def report(self, about: RecipeInput, message: str) -> None:
        self.mistakes.append((about.line, f"{about.name}: {message}"))

    def follow(self, recipe: RecipeInput) -> tuple[list[Input], list[Item]]:
        given = _as_input(recipe)
        reading = given.options
        data = self._find_data(recipe, reading)
        if recipe.is_incremental and not data:
            return [], []
        if recipe.spark_format is not None:
            return self._follow_spark(recipe, recipe.spark_format, data, given)
        inputs = [replace(given, data=each) for each in data]
        items = self.survey.look(inputs) if inputs else []
        return self._follow_tables(recipe, inputs, items)

    def _find_data(self, recipe: RecipeInput, options: Mapping[str, str]) -> tuple[object, ...]:
        if not recipe.is_incremental:
            return recipe.data
        before = self.before.get(recipe.name, Remembered())
        found = self.new[recipe.name] = find_new(recipe, options, self.options, before)
        return found.data

    def _follow_tables(
        self, recipe: RecipeInput, inputs: list[Input], items: list[Item]
    ) -> tuple[list[Input], list[Item]]:
        tables = [each for each in items if isinstance(each, Table)]
        if recipe.is_table and (len(tables) < len(items) or not tables):
            self.report(recipe, "JSON lines say themselves what they are: leave out type and edge")
        if not tables or _is_plain(recipe, tables):
            return _pinned(inputs, tables), items
        if any(each.schema != tables[0].schema for each in tables):
            self.report(recipe, "its files do not have the same columns")
            return [], items
        frame = self._query(recipe, tables)
        if frame is None:
            return [], items
        from omnigraph.pipeline.recipes.spark_sql import name_files  # noqa: PLC0415 - as in _query

        computed = replace(
            inputs[0],
            data=frame,
            mapping={name: name for name in recipe.columns},
            name=recipe.name,
            are_texts=tables[0].footer is None and tables[0].lake is None,
            files=name_files(tables),
        )
        return [computed], self.survey.look([computed])

    def _follow_spark(
        self, recipe: RecipeInput, format_: str, data: Sequence[object], given: Input
    ) -> tuple[list[Input], list[Item]]:
        """An input that Spark reads itself. Its rows know no file and no line."""
        require("pyspark", extra="spark")
        from omnigraph.pipeline.recipes.spark_source import open_source  # noqa: PLC0415
        from omnigraph.pipeline.stage.frames import frame_schema  # noqa: PLC0415

        paths = [each.path if isinstance(each, InputFile) else str(each) for each in data]
        raw = open_source(self.sessions(), format_, paths, given.options)
        source = replace(given, data=raw, format=None, options={}, name=recipe.name)
        is_computed = recipe.where is not None or any(
            text not in raw.columns for text in recipe.columns.values()
        )
        if is_computed or recipe.joins:
            type_ = find_table_type(self.catalog, source)
            namesakes = _namesakes(type_, recipe, frame_schema(raw.schema))
            frame = self._select(recipe, raw, namesakes, type_)
            if frame is None:
                return [], []
            source = replace(source, data=frame, mapping={name: name for name in recipe.columns})
        return [source], self.survey.look([source])

    def _query(self, recipe: RecipeInput, tables: Sequence[Table]) -> "DataFrame | None":
        # It imports pyspark, and most recipes only name columns.
        require("pyspark", extra="spark")
        from omnigraph.pipeline.recipes.spark_sql import open_frame  # noqa: PLC0415

        type_ = find_table_type(self.catalog, tables[0].source)
        namesakes = _namesakes(type_, recipe, tables[0].schema)
        where = [] if recipe.where is None else [recipe.where]
        here = [column for each in recipe.joins.values() for column in each]
        texts = [*recipe.columns.values(), *where, *namesakes, *here]
        raw = open_frame(self.sessions(), tables, texts, self.options)
        return self._select(recipe, raw, namesakes, type_)

    def _select(
        self, recipe: RecipeInput, raw: "DataFrame", namesakes: Sequence[str], type_: Type
    ) -> "DataFrame | None":
        """The joins, the filter and the expressions over some rows; None if they have mistakes."""
        from omnigraph.pipeline.recipes.spark_sql import (  # noqa: PLC0415 - as in _query
            JoinedRows,
            find_problem,
            select,
        )

        rows = JoinedRows(raw, recipe.name)
        for name, columns in recipe.joins.items():
            other = self._open_other(recipe, self.others[name], type_, columns.values())
            mistake = "it could not be read" if other is None else rows.join(name, other, columns)
            if mistake is not None:
                self.report(recipe, f"join of '{name}': {mistake}")
                return None
        where = [] if recipe.where is None else [recipe.where]
        for at, text in [*recipe.columns.items(), *(("where", each) for each in where)]:
            if at == "where" or text not in raw.columns:
                problem = find_problem(rows.frame, text, is_condition=at == "where")
                if problem is not None:
                    place = at if at == "where" else f"'{at}' of columns"
                    self.report(recipe, f"{place}: {problem}")
        if any(line == recipe.line for line, _ in self.mistakes):
            return None
        return select(rows, recipe.columns, namesakes, recipe.where)

    def _open_other(
        self, recipe: RecipeInput, other: RecipeInput, type_: Type, columns: Iterable[str]
    ) -> "DataFrame | None":
        """The rows of an input that another joins, as they are.

        Its filter counts if it feeds nothing itself; else the filter is about what it feeds.
        """
        from omnigraph.pipeline.recipes.spark_source import open_source  # noqa: PLC0415
        from omnigraph.pipeline.recipes.spark_sql import (  # noqa: PLC0415 - as in _query
            find_problem,
            open_frame,
            without_places,
        )

        given = _as_input(other)
        if other.spark_format is not None:
            raw = open_source(self.sessions(), other.spark_format, other.data, given.options)
        else:
            # Its rows feed nothing here, so it does not matter what they are.
            shaped = replace(
                given,
                type=type_.name if isinstance(type_, NodeType) else None,
                edge=type_.name if isinstance(type_, EdgeType) else None,
                mapping={},
                constants={},
                patterns={},
                lookups={},
            )
            items = self.survey.look([replace(shaped, data=each) for each in other.data])
            tables = [each for each in items if isinstance(each, Table)]
            if len(tables) < len(items) or any(each.schema != tables[0].schema for each in tables):
                return None
            where = [] if recipe.where is None else [recipe.where]
            texts = [*recipe.columns.values(), *where, *columns, other.where or ""]
            raw = without_places(open_frame(self.sessions(), tables, texts, self.options))
        if other.where is None or not other.feeds_nothing:
            return raw
        problem = find_problem(raw, other.where, is_condition=True)
        if problem is not None:
            self.report(other, f"where: {problem}")
            return None
        return raw.where(other.where)

    def describe(self, recipe: RecipeInput, items: Sequence[Item]) -> PlannedInput:
        """The plan of one input."""
        new = self.new.get(recipe.name)
        if new is None:
            return describe(recipe, items)
        type_ = None
        if recipe.is_table:
            type_ = find_table_type(self.catalog, Input(None, type=recipe.type, edge=recipe.edge))
        return replace(
            describe(recipe, items),
            type_name=None if type_ is None else type_.name,
            table_key=None if type_ is None else type_.table_key,
            files=tuple(name for each in items for name in _files_of(each)),
            since=new.shown,
        )


def _as_input(recipe: RecipeInput) -> Input:
    """What is said of an input, without its data."""
    return Input(
        None,
        type=recipe.type,
        edge=recipe.edge,
        mapping=recipe.columns,
        format=recipe.format,
        delimiter=recipe.delimiter,
        null=recipe.null,
        options=expand_variables(recipe.options),
        header=recipe.header,
        skip=recipe.skip,
        is_quoted=recipe.is_quoted,
        constants=recipe.constants,
        patterns=recipe.patterns,
        lookups=recipe.lookups,
    )


def _pinned(inputs: list[Input], tables: Sequence[Table]) -> list[Input]:
    """Inputs whose lake tables stay at the version that was looked at."""
    lakes = [replace(each.source, data=each.lake) for each in tables if each.lake is not None]
    return lakes or inputs


def _is_plain(recipe: RecipeInput, tables: Sequence[Table]) -> bool:
    """Does the input only name columns?"""
    return (
        not recipe.joins
        and recipe.where is None
        and all(text in table.schema.names for table in tables for text in recipe.columns.values())
    )


def _namesakes(type_: Type, recipe: RecipeInput, schema: pa.Schema) -> list[str]:
    """Columns that supply the property of the same name."""
    taken = {*recipe.columns, *recipe.columns.values(), *recipe.constants}
    names = {*targets_of(type_), *(ENDS.values() if isinstance(type_, EdgeType) else ())}
    return [name for name in schema.names if name in names - taken]


# ── describing ───────────────────────────────────────────────────────────────────────────────────


def describe(recipe: RecipeInput, items: Sequence[Item]) -> PlannedInput:
    """The plan of one input."""
    tables = [each for each in items if isinstance(each, Table)]
    files = [name for each in items for name in _files_of(each)]
    counts = [sum(each.footer.row_counts) for each in tables if each.footer is not None]
    counts += [each.lake.row_count for each in tables if each.lake is not None]
    is_counted = bool(tables) and len(counts) == len(tables)
    type_name, table_key = _table_of(tables[0].fitting.mapping) if tables else (None, None)
    return PlannedInput(
        name=recipe.name,
        type_name=type_name,
        table_key=table_key,
        files=tuple(files) or recipe.data,
        row_count=sum(counts) if is_counted else None,
        where=recipe.where,
        columns=_columns_of(recipe, tables[0]) if tables else (),
        unused=tables[0].fitting.unused if tables else (),
        problems=tuple(fault.render() for table in tables for fault in table.fitting.faults),
    )


def _table_of(mapping: ColumnMapping) -> tuple[str, TableKey | None]:
    """What its rows are, and their table if all have the same."""
    if mapping.pairs:
        return family_of(mapping.type.name), None
    return mapping.type.name, mapping.type.table_key


def _files_of(item: Item) -> Sequence[str]:
    if isinstance(item, RecordFile):
        return [item.file.shown]
    if isinstance(item.source.data, LakeListing):
        return [each.path for each in item.source.data.files]
    return item.source.files or [item.shown]


def _columns_of(recipe: RecipeInput, table: Table) -> tuple[PlannedColumn, ...]:
    mapping = table.fitting.mapping
    return tuple(
        PlannedColumn(
            target,
            recipe.columns.get(target, column),
            str(table.schema.field(column).type),
            str(targets_of(mapping.type)[target]),
        )
        for target, column in mapping.columns.items()
        # A name that several columns have is a problem of the table, which the plan tells.
        if table.schema.names.count(column) == 1
    )
