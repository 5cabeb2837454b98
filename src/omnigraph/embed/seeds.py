"""Vectors for the records of a file, before it is loaded.

Loads store what they are given. So a file of records is embedded first: for every type that has a
recipe, a text is made of some properties of a record and its vector is put into another. Records
that need nothing done, and all edges, are passed on to the letter.
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
    """Take the vectors out."""


@dataclass(frozen=True, slots=True)
class EmbedRecipe:
    """The vector in `target` is that of `fields`."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recipes:
    dimension: int
    types: Mapping[str, EmbedRecipe]


@dataclass(frozen=True, slots=True)
class Choice:
    """Records of a type, or of any, that have this value; spelled as in JSON unless it is text."""

    type_name: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Which records count. Nothing said: all of them; several choices: any of them."""

    types: frozenset[str] = frozenset()
    choices: tuple[Choice, ...] = ()

    def accepts(self, type_name: str, data: Mapping[str, object]) -> bool:
        if self.types and type_name not in self.types:
            return False
        return not self.choices or any(
            each.type_name in (None, type_name) and spelled(data.get(each.field)) == each.value
            for each in self.choices
        )


@dataclass
class Tally:
    records: int = 0
    selected: int = 0
    embedded: int = 0
    cleaned: int = 0


Embed = Callable[[str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Seeding:
    """One pass over a file."""

    recipes: Recipes
    mode: EmbedMode
    selection: RecordSelection
    embed: Embed
    source: str
    """What the file is called in messages."""

    def run(self, lines: Iterable[str], tally: Tally) -> Iterator[str]:
        """The lines of the new file. Raises FileUnreadable and whatever embedding raises."""
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
        self, type_name: str, data: dict[str, object], recipe: EmbedRecipe, tally: Tally
    ) -> dict[str, object] | None:
        """The data as it will be; None if it stays."""
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
    """What is embedded of a record; None if it has none of these properties."""
    held = [(field, spelled(data[field])) for field in fields if data.get(field) is not None]
    if not held:
        return None
    return "\n".join([f"type: {type_name}", *(f"{field}: {value}" for field, value in held)])


def spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_recipes(document: object, place: str) -> Recipes:
    """`dimension`, and by type a `target` and its `fields`. Raises ConfigInvalid."""
    match document:
        case {"dimension": int(dimension), "types": {**types}} if dimension > 0 and types:
            return Recipes(dimension, {str(name): _recipe(types[name], place) for name in types})
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


def read_choice(text: str) -> Choice | None:
    """`[Type:]field=value`; None if it is not."""
    left, equals, value = text.partition("=")
    type_name, colon, field = left.rpartition(":")
    if not equals or not field or (colon and not type_name):
        return None
    return Choice(type_name or None, field, value)
