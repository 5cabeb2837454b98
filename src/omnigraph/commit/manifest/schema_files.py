"""The three schema files, as text. Their meaning belongs to the engine.

`_schema.pg` is the source as the user wrote it, `_schema.ir.json` its canonical form, and
`__schema_state.json` the hash of that form. The reader checks the hash.
"""

import json
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import ObjectNotFound, SchemaFilesInvalid
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE, past_schema_key
from omnigraph.storage.objects import Objects, Tag

FORMAT_VERSION: Final = 1
IDENTITY_VERSION: Final = 1

FILES: Final = (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)


@dataclass(frozen=True, slots=True)
class SchemaFiles:
    """The content of the three files."""

    source: str
    ir: str
    schema_hash: str

    def encode_state(self) -> str:
        return json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "schema_ir_hash": self.schema_hash,
                "schema_identity_version": IDENTITY_VERSION,
            },
            indent=2,
        )


@dataclass(frozen=True, slots=True)
class SchemaShift:
    """The replacement of one schema by another."""

    before: str
    """The hash of the old schema."""
    files: SchemaFiles
    """The new schema."""


def write_schema_files(objects: Objects, files: SchemaFiles) -> None:
    """Write all three files. Each write is atomic; a repeated call completes the files."""
    objects.put_over(SCHEMA_SOURCE, files.source.encode())
    write_rest(objects, files)


def keep_schema(objects: Objects, source: str, schema_hash: str) -> None:
    """Keep the text of a schema for ever: later reads of its commits need it."""
    objects.put_over(past_schema_key(schema_hash), source.encode())


def find_past_schema(objects: Objects, schema_hash: str) -> str | None:
    """The text of a former schema; None if it was not kept."""
    return _read_text(objects, past_schema_key(schema_hash))


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """The files as found. A graph older than the canonical form has only the source."""

    source: str
    ir: str | None
    schema_hash: str | None


def claim(objects: Objects, files: SchemaFiles) -> Tag:
    """Create the source file. The process that succeeds initialises the graph.

    Raises ObjectExists.
    """
    return objects.put_new(SCHEMA_SOURCE, files.source.encode())


def write_rest(objects: Objects, files: SchemaFiles) -> None:
    objects.put_over(SCHEMA_IR, files.ir.encode())
    objects.put_over(SCHEMA_STATE, files.encode_state().encode())


def read_schema_files(objects: Objects) -> FoundSchema | None:
    """None if the source file does not exist. Raises SchemaFilesInvalid."""
    source = _read_text(objects, SCHEMA_SOURCE)
    if source is None:
        return None
    ir = _read_text(objects, SCHEMA_IR)
    state = _read_text(objects, SCHEMA_STATE)
    if (ir is None) != (state is None):
        missing = SCHEMA_IR if ir is None else SCHEMA_STATE
        raise SchemaFilesInvalid(missing, reason="it is missing, and its companion is not")
    return FoundSchema(source, ir, None if state is None else _decode_state(state))


def _read_text(objects: Objects, key: str) -> str | None:
    try:
        return objects.read(key).data.decode()
    except ObjectNotFound:
        return None
    except UnicodeDecodeError as error:
        raise SchemaFilesInvalid(key, reason="it is not UTF-8 text") from error


def _decode_state(text: str) -> str:
    try:
        document = read_json(text)
    except ValueError as error:
        raise SchemaFilesInvalid(SCHEMA_STATE, reason=f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("schema_ir_hash"), str):
        raise SchemaFilesInvalid(SCHEMA_STATE, reason="it holds no hash")
    if document.get("format_version") != FORMAT_VERSION:
        raise SchemaFilesInvalid(
            SCHEMA_STATE, reason=f"its format is {document.get('format_version')!r}, not 1"
        )
    return str(document["schema_ir_hash"])
