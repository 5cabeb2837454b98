"""Rows of a plan as a DataFrame, and which of its columns belongs to which variable.

Columns have names like `c7`, each used once in a query: Spark tells names apart by letters without
case, and the two sides of a join by their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count

from pyspark.sql import Column, DataFrame, functions as f

from omnigraph.compiler.ir import TYPE_COLUMN
from omnigraph.engine.query.columns.rows import ID

Property = tuple[str, str]
"""A variable and a property of it."""

PLACE = "~place"
SCORE = "~score"
"""What a ranking adds to its variable; no property has such a name."""


@dataclass(slots=True)
class Names:
    """Gives out names of columns."""

    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        return f"c{next(self._numbers)}"

    def many(self, number: int) -> list[str]:
        return [self.fresh() for _ in range(number)]


@dataclass(frozen=True, slots=True)
class SparkRows:
    data: DataFrame
    names: Mapping[Property, str]

    def column(self, variable: str, name: str = ID) -> Column:
        return f.col(self.names[variable, name])

    def has(self, variable: str, name: str) -> bool:
        return (variable, name) in self.names

    def of(self, variables: Sequence[str]) -> dict[Property, str]:
        """The columns of these variables."""
        return {each: name for each, name in self.names.items() if each[0] in variables}

    def where(self, condition: Column | None) -> "SparkRows":
        return self if condition is None else SparkRows(self.data.where(condition), self.names)

    def identity(self, variables: Sequence[str]) -> list[Property]:
        """The columns that tell bindings apart: ids, and of several types the type."""
        typed = [(each, TYPE_COLUMN) for each in variables if self.has(each, TYPE_COLUMN)]
        return [*((each, ID) for each in variables), *typed]

    def distinct(self, variables: Sequence[str]) -> "SparkRows":
        """Each binding of these variables once."""
        kept = self.of(variables)
        same = [self.names[each] for each in self.identity(variables)]
        return SparkRows(self.data.select(*kept.values()).dropDuplicates(same), kept)


def with_type(rows: SparkRows, variable: str, type_name: str, names: Names) -> SparkRows:
    """The rows, with the one type that a variable has in all of them."""
    name = names.fresh()
    data = rows.data.withColumn(name, f.lit(type_name))
    return SparkRows(data, {**rows.names, (variable, TYPE_COLUMN): name})


def of_type(rows: SparkRows, variable: str, type_name: str) -> SparkRows:
    """The rows that bind a variable to this type; all if it has one type only."""
    if not rows.has(variable, TYPE_COLUMN):
        return rows
    return rows.where(rows.column(variable, TYPE_COLUMN) == type_name)


def union(parts: Sequence[SparkRows], names: Names) -> SparkRows:
    """The rows of all parts, with the columns that all have, under fresh names."""
    shared = [each for each in parts[0].names if all(each in part.names for part in parts)]
    fresh = dict(zip(shared, names.many(len(shared)), strict=True))
    whole = [
        part.data.select(*(f.col(part.names[each]).alias(fresh[each]) for each in shared))
        for part in parts
    ]
    return SparkRows(reduce(DataFrame.unionByName, whole), fresh)
