"""Every error OmniGraph raises, grouped by what a caller would do about it.

::

    OmnigraphError
    ├── InputError            your input is wrong; fix it and ask again
    │   ├── SchemaInvalid         a .pg program was rejected; `findings` holds every reason
    │   ├── QueryInvalid          a .gq program was rejected; `findings` holds every reason
    │   ├── QueryNotFound         no query of that name; or several, and none was named
    │   ├── ParameterInvalid      a parameter is missing, or its value does not fit its type
    │   ├── MigrationUnsupported  the new schema cannot be reached from the old one
    │   └── UsageError            a command was called the wrong way

The class says the remedy, `code` says the cause, and the facts are fields: nobody reads a message
with a regular expression. Codes are append-only; a code once published keeps its meaning.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Protocol


class Code(StrEnum):
    """Stable names of causes. Append, never rename or reuse."""

    SCHEMA_INVALID = "schema_invalid"
    QUERY_INVALID = "query_invalid"
    QUERY_NOT_FOUND = "query_not_found"
    PARAMETER_INVALID = "parameter_invalid"
    MIGRATION_UNSUPPORTED = "migration_unsupported"
    USAGE = "usage"


class Finding(Protocol):
    """One reason a program was rejected. `lang.source.Diagnostic` is the implementation."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def column(self) -> int | None: ...
    def render(self) -> str: ...


class OmnigraphError(Exception):
    """The root. Catch it to catch everything we raise on purpose."""

    code: ClassVar[Code]


class InputError(OmnigraphError):
    """The input is wrong. Nothing was changed; asking again unchanged cannot help."""


class ProgramInvalid(InputError):
    """A program was rejected, for every reason in `findings`."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        assert findings, "a rejection needs a reason"
        self.findings = tuple(findings)
        super().__init__("\n".join(finding.render() for finding in self.findings))


class SchemaInvalid(ProgramInvalid):
    """A .pg program was rejected."""

    code = Code.SCHEMA_INVALID


class QueryInvalid(ProgramInvalid):
    """A .gq program was rejected."""

    code = Code.QUERY_INVALID


class QueryNotFound(InputError):
    """The file holds no query of that name; or it holds several and none was named."""

    code = Code.QUERY_NOT_FOUND

    def __init__(self, name: str | None, *, available: Sequence[str]) -> None:
        self.name = name
        self.available = tuple(available)
        listed = ", ".join(self.available) or "none"
        if name is None:
            super().__init__(f"the file holds {len(available)} queries; name one of: {listed}")
        else:
            super().__init__(f"query '{name}' not found; the file holds: {listed}")


class ParameterInvalid(InputError):
    """A parameter is missing, or its value does not fit the declared type."""

    code = Code.PARAMETER_INVALID

    def __init__(self, name: str, *, declared: str, reason: str) -> None:
        self.name = name
        self.declared = declared
        self.reason = reason
        super().__init__(f"parameter '${name}' ({declared}): {reason}")


class MigrationUnsupported(InputError):
    """The desired schema cannot be reached from the accepted one."""

    code = Code.MIGRATION_UNSUPPORTED

    def __init__(self, entity: str, *, reason: str, rule: str | None) -> None:
        self.entity = entity
        self.reason = reason
        self.rule = rule
        super().__init__(f"[{rule}] {reason}" if rule else reason)


class UsageError(InputError):
    """A command or call was made the wrong way."""

    code = Code.USAGE
