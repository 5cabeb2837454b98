"""Decisions about conflicts, made before the merge: granularity, winning side, single rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from omnigraph.commit.manifest.records import JsonValue
from omnigraph.engine.merge.conflicts import Conflict, ConflictFile, Place, Value
from omnigraph.errors import UsageError
from omnigraph.ids import TableKey, split_table_key


class Detect(StrEnum):
    """What counts as changed by both branches."""

    ROW = "row"
    """Two branches that changed the same row are in conflict."""
    PROPERTY = "property"
    """Two branches that changed the same property of a row are in conflict."""


class Side(StrEnum):
    OURS = "ours"
    """As the target has it."""
    THEIRS = "theirs"
    """As the source has it."""


Choice = Side | Value

EVERY_TYPE: Final = ""


@dataclass(slots=True)
class RowRuling:
    """The decision about one row."""

    whole: Choice | None = None
    properties: dict[str, Choice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rulings:
    detect: Detect = Detect.ROW
    strategies: Mapping[str, Side] = field(default_factory=dict)
    """By type name; `EVERY_TYPE` holds for every type that is not named."""
    rows: Mapping[TableKey, Mapping[str, RowRuling]] = field(default_factory=dict)
    broken: Mapping[Place, Side] = field(default_factory=dict)
    """The side for each rule that several rows break together."""

    def side_for(self, conflict: Conflict) -> Side | None:
        """The side whose rows win where a rule of the schema is broken."""
        by_type = self.strategy_for(split_table_key(conflict.table)[1])
        return self.broken.get(conflict.place, by_type)

    def strategy_for(self, type_name: str) -> Side | None:
        return self.strategies.get(type_name, self.strategies.get(EVERY_TYPE))


def read_strategies(given: "str | Mapping[str, str] | None") -> dict[str, Side]:
    """`ours` or `theirs`, for everything or by type name. Raises UsageError."""
    if given is None:
        return {}
    by_type = {EVERY_TYPE: given} if isinstance(given, str) else given
    return {name: _side(side) for name, side in by_type.items()}


def _side(text: str) -> Side:
    try:
        return Side(text)
    except ValueError:
        raise UsageError(f"a conflict is resolved as 'ours' or 'theirs', not '{text}'") from None


def read_detect(text: str) -> Detect:
    """Raises UsageError."""
    try:
        return Detect(text)
    except ValueError:
        raise UsageError(f"conflicts are detected by 'row' or 'property', not '{text}'") from None


def rows_of(resolved: ConflictFile) -> dict[TableKey, dict[str, RowRuling]]:
    """The decision of a conflict file about each row."""
    rows: dict[TableKey, dict[str, RowRuling]] = {}
    for each in resolved.resolutions:
        if each.broken is not None:
            continue
        ruling = rows.setdefault(each.table, {}).setdefault(each.row_id, RowRuling())
        choice = Side(each.choice) if isinstance(each.choice, str) else each.choice
        if each.property_name is None:
            ruling.whole = choice
        else:
            ruling.properties[each.property_name] = choice
    return rows


def broken_of(resolved: ConflictFile) -> dict[Place, Side]:
    """The decision of a conflict file about each broken rule."""
    return {
        each.broken: Side(str(each.choice))
        for each in resolved.resolutions
        if each.broken is not None
    }


def given_value(choice: Choice) -> JsonValue:
    assert isinstance(choice, Value)
    return choice.value
