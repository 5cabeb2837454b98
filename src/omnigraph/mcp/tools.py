"""What a tool is: a name, what it takes, and what it does to a graph.

The schema of a tool is what a model sees; arguments that do not fit it are refused here, in words,
before the graph is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from omnigraph.errors import UsageError

Arguments = Mapping[str, Any]
Schema = Mapping[str, Any]

KEY: Final = "idempotency_key"
KEY_SCHEMA: Final[Schema] = {
    "type": "string",
    "description": "Give the same key when you repeat a call, and it is done once.",
}

MAX_ROWS: Final = "max_rows"
ROWS_DEFAULT: Final = 200
"""More rows than a model would read. Whoever wants them says so."""
ROWS_SCHEMA: Final[Schema] = {"type": "integer", "minimum": 0, "default": ROWS_DEFAULT}

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    run: Callable[[Arguments], dict[str, Any]]
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    is_writing: bool = False
    is_destructive: bool = False
    """Does it take something away?"""

    def document(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.properties)}
        if self.required:
            schema["required"] = list(self.required)
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {**schema, "additionalProperties": False},
            "annotations": {
                "readOnlyHint": not self.is_writing,
                "destructiveHint": self.is_destructive,
                "openWorldHint": False,
            },
        }

    def call(self, arguments: object) -> dict[str, Any]:
        """Raises UsageError, and whatever the graph raises."""
        if not isinstance(arguments, dict):
            raise UsageError(f"the arguments of '{self.name}' are an object")
        for each in self.required:
            if each not in arguments:
                raise UsageError(f"'{self.name}' needs '{each}'")
        for name, value in arguments.items():
            self._check(name, value)
        return self.run(arguments)

    def _check(self, name: str, value: object) -> None:
        schema = self.properties.get(name)
        if schema is None:
            known = ", ".join(self.properties) or "nothing"
            raise UsageError(f"'{self.name}' takes no '{name}', only {known}")
        allowed = schema.get("type", list(_TYPES))
        names = [allowed] if isinstance(allowed, str) else list(allowed)
        if not any(_is(value, each) for each in names):
            raise UsageError(f"'{name}' of '{self.name}' is of type {' or '.join(names)}")
        if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
            raise UsageError(f"'{name}' of '{self.name}' is at least {schema['minimum']}")
        if "enum" in schema and value not in schema["enum"]:
            raise UsageError(f"'{name}' of '{self.name}' is {' or '.join(schema['enum'])}")


def _is(value: object, name: str) -> bool:
    # To Python a bool is an int.
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def cut(document: dict[str, Any], rows_max: int) -> dict[str, Any]:
    """A result with so many rows at most; it says if there were more."""
    rows = document["rows"]
    if len(rows) <= rows_max:
        return document
    return {**document, "rows": rows[:rows_max], "truncated": True}


@dataclass(frozen=True, slots=True)
class Resource:
    """A text that a client may read without calling a tool."""

    uri: str
    name: str
    media: str
    read: Callable[[], str]

    def document(self) -> dict[str, Any]:
        return {"uri": self.uri, "name": self.name, "mimeType": self.media}


class Toolbox(Protocol):
    """What a session offers."""

    @property
    def instructions(self) -> str: ...

    def tools(self) -> Sequence[Tool]: ...
    def resources(self) -> Sequence[Resource]: ...
