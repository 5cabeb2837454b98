"""What a recipe would do, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.load.bulk import LoadMode
from omnigraph.ids import TableKey


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """What feeds one property."""

    target: str
    source: str
    """A column, or an expression."""
    source_type: str
    target_type: str


@dataclass(frozen=True, slots=True)
class PlannedInput:
    name: str
    type_name: str | None
    """None for records, which say themselves what they are."""
    table_key: TableKey | None
    files: tuple[str, ...]
    row_count: int | None
    """Before the filter; None where it is not known without reading all."""
    where: str | None
    columns: tuple[PlannedColumn, ...]
    unused: tuple[str, ...]
    problems: tuple[str, ...]
    """Why it cannot be loaded as it is."""
    since: Mapping[str, int] | None = None
    """How much earlier runs loaded and how much is new, for an input with `since: last`."""


@dataclass(frozen=True, slots=True)
class RecipePlan:
    path: str
    mode: LoadMode
    branch: str
    from_branch: str | None
    inputs: tuple[PlannedInput, ...]

    @property
    def is_sound(self) -> bool:
        return not any(each.problems for each in self.inputs)
