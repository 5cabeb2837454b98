"""A tool: a name, a JSON schema of its arguments, and the function that runs it.

A model sees the schema. `Tool.call` refuses arguments that do not fit the schema, with a message
that names the argument, before the graph is read or written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from omnigraph.errors import OmnigraphError, QueryInvalid, UsageError
from omnigraph.wire.causes import cause_document
from omnigraph.wire.details import find_details

Arguments = Mapping[str, Any]
Schema = Mapping[str, Any]

KEY: Final = "idempotency_key"
KEY_SCHEMA: Final[Schema] = {
    "type": "string",
    "description": "A call repeated with the same key is carried out once.",
}

MAX_ROWS: Final = "max_rows"
ROWS_DEFAULT: Final = 200
"""The most rows in a result, unless the caller sets `max_rows`."""
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
    """May it delete rows, branches or properties?"""

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
        """Raises UsageError, and the errors of the graph."""
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
    # In Python, bool is a subclass of int.
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def failure_document(error: OmnigraphError) -> dict[str, Any]:
    """What a tool answers instead of a result: the facts that HTTP and `--json` give as well."""
    facts = cause_document(error)
    return {"error": str(error), **facts, **find_details(error), "retryable": error.retryable}


def failure_text(error: OmnigraphError) -> str:
    """The same for the model: the message, and the valid program if one is known."""
    text = f"{error.code}: {error}"
    if isinstance(error, QueryInvalid) and error.repair is not None:
        text += f"\n\nThis program is valid:\n{error.repair.program}"
    return text


@dataclass(frozen=True, slots=True)
class Resource:
    """A text that a client reads by its URI, without calling a tool."""

    uri: str
    name: str
    media: str
    read: Callable[[], str]

    def document(self) -> dict[str, Any]:
        return {"uri": self.uri, "name": self.name, "mimeType": self.media}


class Toolbox(Protocol):
    """The tools and resources of one session."""

    @property
    def instructions(self) -> str: ...

    def tools(self) -> Sequence[Tool]: ...
    def resources(self) -> Sequence[Resource]: ...
