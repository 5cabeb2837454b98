"""Rows of a plan as a DataFrame, and which of its columns belongs to which variable.

Columns have names like `c7`, each used once in a query: Spark tells names apart by letters without
case, and the two sides of a join by their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyspark.sql import Column, DataFrame, functions as f

from omnigraph.engine.query.rows import ID

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

    def distinct(self, variables: Sequence[str]) -> "SparkRows":
        """Each binding of these variables once."""
        kept = self.of(variables)
        ids = [self.names[each, ID] for each in variables]
        return SparkRows(self.data.select(*kept.values()).dropDuplicates(ids), kept)
