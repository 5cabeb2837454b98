"""Decoding a stored JSON document that may be damaged. Errors carry the path in the document."""

import json
from collections.abc import Callable
from math import isfinite
from typing import TypeVar

from omnigraph.errors import SchemaCorrupt
from omnigraph.jsontext import read_json

T = TypeVar("T")

ROOT = "the root"


def read_document(text: str) -> "Field":
    """The root of a JSON text. Raises `SchemaCorrupt`."""
    try:
        return Field(read_json(text), ROOT)
    # Numbers of thousands of digits and deep nesting count as damage too.
    except ValueError as failure:
        raise SchemaCorrupt(ROOT, reason=f"it is not JSON: {failure}") from failure


class Field:
    """A value inside the document, and its path for messages."""

    def __init__(self, value: object, place: str) -> None:
        self._value = value
        self.place = place

    def key(self, name: str) -> "Field":
        if not isinstance(self._value, dict):
            raise self.wrong("an object")
        if name not in self._value:
            raise SchemaCorrupt(self.place, reason=f"'{name}' is missing")
        prefix = "" if self.place == ROOT else f"{self.place}."
        return Field(self._value[name], f"{prefix}{name}")

    def optional_key(self, name: str) -> "Field | None":
        return self.key(name) if isinstance(self._value, dict) and name in self._value else None

    def only_key(self) -> tuple[str, "Field"]:
        """The only key of an object that encodes an alternative."""
        if not isinstance(self._value, dict) or len(self._value) != 1:
            raise self.wrong("an object with one key")
        (name,) = self._value
        return name, self.key(name)

    def each(self, decode: Callable[["Field"], T]) -> tuple[T, ...]:
        if not isinstance(self._value, list):
            raise self.wrong("a list")
        items = (Field(each, f"{self.place}[{at}]") for at, each in enumerate(self._value))
        return tuple(decode(each) for each in items)

    def entries(self) -> tuple[tuple[str, str], ...]:
        if not isinstance(self._value, dict):
            raise self.wrong("an object")
        return tuple((name, self.key(name).text()) for name in self._value)

    def text(self) -> str:
        if not isinstance(self._value, str):
            raise self.wrong("a string")
        if any("\ud800" <= each <= "\udfff" for each in self._value):
            raise self.wrong("a string of whole characters")
        return self._value

    def whole_number(self) -> int:
        if not isinstance(self._value, int) or isinstance(self._value, bool):
            raise self.wrong("a whole number")
        return self._value

    def number(self) -> float:
        """A float; JSON may write it without a point."""
        if isinstance(self._value, bool) or not isinstance(self._value, int | float):
            raise self.wrong("a number")
        try:
            value = float(self._value)
        except OverflowError as failure:
            raise self.wrong("a 64-bit float") from failure
        if not isfinite(value):
            raise self.wrong("a finite number")
        return value

    def truth(self) -> bool:
        if not isinstance(self._value, bool):
            raise self.wrong("true or false")
        return self._value

    def is_null(self) -> bool:
        return self._value is None

    def is_object(self) -> bool:
        return isinstance(self._value, dict)

    def wrong(self, wanted: str) -> SchemaCorrupt:
        shown = json.dumps(self._value)
        clipped = shown if len(shown) <= 60 else f"{shown[:59]}…"
        return SchemaCorrupt(self.place, reason=f"expected {wanted}, found {clipped}")
