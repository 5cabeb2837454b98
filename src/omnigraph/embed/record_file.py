"""Vectors for the records of a file, before the file is loaded.

A load stores the vectors of its input and computes none. So `omnigraph embed` embeds a file of
records first: for every type with a recipe, some properties of a record become a text, and the
vector of the text becomes another property. All other lines, edges included, are copied unchanged.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.errors import ConfigInvalid, FileUnreadable
from omnigraph.jsontext import read_json


class EmbedMode(StrEnum):
    FILL_MISSING = "fill_missing"
    """Records that have no vector yet."""
    REEMBED_ALL = "reembed_all"
    """Every record that is selected."""
    CLEAN = "clean"
    """Remove the vectors."""


@dataclass(frozen=True, slots=True)
class EmbedRecipe:
    """The property `target` holds the vector of the properties `fields`."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedRecipes:
    dimension: int
    types: Mapping[str, EmbedRecipe]


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """Matches records of one type, or of any, by a value in JSON spelling; text has no quotes."""

    type_name: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Selects records: all of them, or those that match any of the choices."""

    types: frozenset[str] = frozenset()
    choices: tuple[FieldMatch, ...] = ()

    def accepts(self, type_name: str, data: Mapping[str, object]) -> bool:
        if self.types and type_name not in self.types:
            return False
        return not self.choices or any(
            each.type_name in (None, type_name) and spelled(data.get(each.field)) == each.value
            for each in self.choices
        )


@dataclass
class EmbedCounts:
    records: int = 0
    selected: int = 0
    embedded: int = 0
    cleaned: int = 0


Embed = Callable[[str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class EmbedRun:
    """One pass over a file."""

    recipes: EmbedRecipes
    mode: EmbedMode
    selection: RecordSelection
    embed: Embed
    source: str
    """The name of the file in messages."""

    def run(self, lines: Iterable[str], tally: EmbedCounts) -> Iterator[str]:
        """The lines of the new file. Raises FileUnreadable and the errors of `Embedder.embed`."""
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            tally.records += 1
            record = self._read(line, number)
            type_name, data = record.get("type"), record.get("data")
            recipe = self.recipes.types.get(str(type_name))
            if (
                recipe is None
                or not isinstance(data, dict)
                or not self.selection.accepts(str(type_name), data)
            ):
                yield line.rstrip("\r\n")
                continue
            tally.selected += 1
            changed = self._change(str(type_name), data, recipe, tally)
            if changed is None:
                yield line.rstrip("\r\n")
            else:
                yield json.dumps({**record, "data": changed}, ensure_ascii=False)

    def _read(self, line: str, number: int) -> dict[str, object]:
        try:
            record = read_json(line)
        except ValueError as error:
            raise FileUnreadable(self.source, reason=f"line {number}: {error}") from error
        if not isinstance(record, dict):
            raise FileUnreadable(self.source, reason=f"line {number} is not an object")
        return record

    def _change(
        self, type_name: str, data: dict[str, object], recipe: EmbedRecipe, tally: EmbedCounts
    ) -> dict[str, object] | None:
        """The changed data; None if it does not change."""
        has_vector = data.get(recipe.target) is not None
        match self.mode:
            case EmbedMode.CLEAN:
                if recipe.target not in data:
                    return None
                tally.cleaned += 1
                return {name: value for name, value in data.items() if name != recipe.target}
            case EmbedMode.FILL_MISSING if has_vector:
                return None
            case EmbedMode.FILL_MISSING | EmbedMode.REEMBED_ALL:
                text = text_of(type_name, data, recipe.fields)
                if text is None:
                    return None
                tally.embedded += 1
                return {**data, recipe.target: list(self.embed(text))}
            case _:
                assert_never(self.mode)


def text_of(type_name: str, data: Mapping[str, object], fields: Sequence[str]) -> str | None:
    """The text of a record to embed; None if the record has none of these properties."""
    held = [(field, spelled(data[field])) for field in fields if data.get(field) is not None]
    if not held:
        return None
    return "\n".join([f"type: {type_name}", *(f"{field}: {value}" for field, value in held)])


def spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_recipes(document: object, place: str) -> EmbedRecipes:
    """Decode `dimension`, and for each type `target` and `fields`. Raises ConfigInvalid."""
    match document:
        case {"dimension": int(dimension), "types": {**types}} if dimension > 0 and types:
            return EmbedRecipes(
                dimension, {str(name): _recipe(types[name], place) for name in types}
            )
        case _:
            raise ConfigInvalid(place, reason="it needs a positive `dimension`, and `types`")


def _recipe(found: object, place: str) -> EmbedRecipe:
    match found:
        case {"target": str(target), "fields": [*fields]} if fields:
            if all(isinstance(each, str) for each in fields):
                return EmbedRecipe(target, tuple(map(str, fields)))
        case _:
            pass
    raise ConfigInvalid(place, reason="every type needs a `target` and a list of `fields`")


def parse_field_match(text: str) -> FieldMatch | None:
    """Parse `[Type:]field=value`; None if the text has another form."""
    left, equals, value = text.partition("=")
    type_name, colon, field = left.rpartition(":")
    if not equals or not field or (colon and not type_name):
        return None
    return FieldMatch(type_name or None, field, value)
