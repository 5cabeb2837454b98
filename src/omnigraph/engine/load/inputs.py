"""What a load reads: files of records, files of tables, or frames that only the pipeline knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final


class Format(StrEnum):
    RECORDS = "jsonl"
    """JSON lines that each name their type."""
    PARQUET = "parquet"
    CSV = "csv"
    DELTA = "delta"
    """A Delta table, read by the package `deltalake`."""
    ICEBERG = "iceberg"
    """An Iceberg table, read by the package `pyiceberg`."""


LAKES: Final = frozenset({Format.DELTA, Format.ICEBERG})
STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a load: where it is, and, for a table, what its rows are.

    `data` is a file, a folder or a pattern, here or at `s3://`; or a Spark data frame; or what a
    pipeline file has found already. A table feeds one `type` of nodes or one type of edges, `edge`.
    """

    data: object
    type: str | None = None
    edge: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Which column feeds a property, or `id`, `from` and `to`; the rest is fed by namesakes."""
    format: Format | None = None
    """None: the name of each file says it."""
    delimiter: str | None = None
    """Between the cells of a CSV; None is a comma, or a tab if the file is called `.tsv`."""
    null: str = ""
    """What a CSV has where there is nothing, unless it is quoted."""
    header: tuple[str, ...] | None = None
    """The names of the columns of a CSV whose first line is a record already; if there are none,
    columns are called by their position: `1`, `2` and so on. None: the first line names them."""
    skip: int = 0
    """How many records of a CSV to leave out, in front of its header or its first record."""
    is_quoted: bool = True
    """May the cells of a CSV be quoted? If not, a quote is a character like any other."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """What feeds a property in every row, as a cell of a CSV would spell it."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """How the texts of a Date or DateTime are spelled, as `%d.%m.%Y`; ISO 8601 unless given."""
    lookups: Mapping[str, str] = field(default_factory=dict)
    """By which property the node of an end is found: `{"from": "Person.email"}`; by default by its
    id. The column is the one that feeds the end."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the reader of a Delta or Iceberg table is told; it may hold secrets."""
    name: str | None = None
    """What messages call a data frame."""
    are_texts: bool = False
    """The texts of a data frame are cells of a CSV, and spell numbers and dates too."""
    files: tuple[str, ...] = ()
    """The files that the rows of a data frame say they come from."""

    @property
    def is_table(self) -> bool:
        return self.type is not None or self.edge is not None

    @property
    def shape(self) -> list[object]:
        """What is said of a table, as JSON."""
        mapping = dict(sorted(self.mapping.items()))
        shape: list[object] = [
            self.type,
            self.edge,
            mapping,
            self.format,
            self.delimiter,
            self.null,
        ]
        return shape if self.dialect == _PLAIN else [*shape, *self.dialect]

    @property
    def dialect(self) -> tuple[object, ...]:
        """What else is said of a table, as JSON."""
        header = None if self.header is None else list(self.header)
        given = (self.constants, self.patterns, self.lookups)
        return (header, self.skip, self.is_quoted, *(dict(sorted(each.items())) for each in given))


_PLAIN: Final[tuple[object, ...]] = (None, 0, True, {}, {}, {})
"""The dialect of a table of which nothing else is said."""


def as_input(given: Input | str) -> Input:
    return given if isinstance(given, Input) else Input(given)


def find_inputs_in(given: object, table: Input) -> tuple[Input, ...]:
    """What was given alone or in a list, each as `table` says unless it says so itself."""
    listed = given if isinstance(given, list | tuple) else [given]
    return tuple(each if isinstance(each, Input) else replace(table, data=each) for each in listed)
