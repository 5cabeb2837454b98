"""Checked access to the JSON of a sidecar, which may be torn or written by another program."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from omnigraph.commit.manifest.records import JsonValue
from omnigraph.errors import SidecarCorrupt
from omnigraph.jsontext import read_json

Wanted = TypeVar("Wanted", str, int, bool)
Member = TypeVar("Member", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object. Every error names the file and the key."""

    file: str
    fields: Mapping[str, JsonValue]

    def take(self, key: str, wanted: type[Wanted]) -> Wanted:
        found = self.optional(key, wanted)
        if found is None:
            raise self.corrupt(f"'{key}' is missing")
        return found

    def optional(self, key: str, wanted: type[Wanted]) -> Wanted | None:
        value = self.fields.get(key)
        if value is None:
            return None
        if type(value) is not wanted:
            raise self.corrupt(f"'{key}' is {value!r}, not a {wanted.__name__}")
        return value

    def value(self, key: str) -> JsonValue:
        return self.fields.get(key)

    def number_text(self, key: str) -> int:
        """A number stored as text."""
        text = self.take(key, str)
        if not text.isdecimal():
            raise self.corrupt(f"'{key}' is {text!r}, not a number")
        return int(text)

    def enum(self, key: str, members: type[Member]) -> Member:
        text = self.take(key, str)
        try:
            return members(text)
        except ValueError:
            raise self.corrupt(f"'{key}' is {text!r}") from None

    def object(self, key: str) -> "Document":
        return self._document(self.fields.get(key), key)

    def objects(self, key: str) -> list["Document"]:
        """The objects of a list; an absent list is empty."""
        return [self._document(each, key) for each in self._items(key)]

    def texts(self, key: str) -> list[str]:
        items = self._items(key)
        if not all(isinstance(each, str) for each in items):
            raise self.corrupt(f"'{key}' holds something other than texts")
        return [str(each) for each in items]

    def numbers(self) -> Mapping[str, int]:
        """The whole object, if all its values are numbers."""
        return {key: self.take(key, int) for key in self.fields}

    def corrupt(self, reason: str) -> SidecarCorrupt:
        return SidecarCorrupt(self.file, reason=reason)

    def _items(self, key: str) -> list[JsonValue]:
        found = self.fields.get(key)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.corrupt(f"'{key}' is not a list")
        return found

    def _document(self, found: JsonValue, key: str) -> "Document":
        if not isinstance(found, dict):
            raise self.corrupt(f"'{key}' is not an object")
        return Document(self.file, found)


def load_document(data: bytes, *, file: str) -> Document:
    """Raises SidecarCorrupt."""
    try:
        found = read_json(data)
    except ValueError as error:
        raise SidecarCorrupt(file, reason=f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SidecarCorrupt(file, reason="not an object")
    return Document(file, found)
