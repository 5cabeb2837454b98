"""The input is wrong: the caller corrects it and asks again."""

from collections.abc import Sequence
from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError, first_of
from omnigraph.errors.findings import Breach, Correction, Finding, RecordFault


class InputError(OmnigraphError, ValueError):
    """The input is wrong. Nothing was changed; the same request fails again."""


class ProgramInvalid(InputError):
    """A program was rejected, for every reason in `findings`."""

    findings: Sequence[Finding]

    def _message(self) -> str:
        assert self.findings, "a rejection needs a reason"
        return "\n".join(finding.render() for finding in self.findings)


class SchemaInvalid(ProgramInvalid, code=Code.SCHEMA_INVALID):
    """A .pg program was rejected."""


class QueryInvalid(ProgramInvalid, code=Code.QUERY_INVALID):
    """A .gq program was rejected. `repair` makes it valid, where a way is known."""

    _: KW_ONLY
    repair: Correction | None = None


class QueryNotFound(InputError, code=Code.QUERY_NOT_FOUND):
    """The file has no query of that name; or it has several and the caller named none."""

    name: str | None
    _: KW_ONLY
    available: Sequence[str]

    def _message(self) -> str:
        if not self.available:
            return "the text holds no query"
        listed = ", ".join(self.available)
        if self.name is None:
            return f"the file holds {len(self.available)} queries; name one of: {listed}"
        return f"query '{self.name}' not found; the file holds: {listed}"


class ParameterInvalid(InputError, code=Code.PARAMETER_INVALID):
    template = "parameter '${name}' ({declared}): {reason}"
    name: str
    _: KW_ONLY
    declared: str
    reason: str


class MigrationUnsupported(InputError, code=Code.MIGRATION_UNSUPPORTED):
    entity: str
    _: KW_ONLY
    reason: str
    rule: str | None

    def _message(self) -> str:
        return f"[{self.rule}] {self.reason}" if self.rule else self.reason


class BackfillInvalid(InputError, code=Code.BACKFILL_INVALID):
    template = "{entity} cannot be filled so: {reason}"
    entity: str
    _: KW_ONLY
    reason: str


class KeyInvalid(InputError, code=Code.KEY_INVALID):
    """A value cannot be the key of a node; or one property of a composite key, the `member`."""

    template = "{_subject} is {declared}, and {_clipped} is not a value of it"
    member: str | None
    _: KW_ONLY
    declared: str
    value: object

    @property
    def _subject(self) -> str:
        return "the key" if self.member is None else f"the key {self.member}"

    @property
    def _clipped(self) -> str:
        shown = repr(self.value)
        return shown if len(shown) <= 60 else f"{shown[:59]}…"


class UsageError(InputError, code=Code.USAGE):
    template = "{_text}"
    _text: str


class Misaddressed(InputError, code=Code.MISADDRESSED):
    template = "{_text}"
    _text: str


class RequestInvalid(InputError, code=Code.REQUEST_INVALID):
    template = "{_text}"
    _text: str


class FileUnreadable(InputError, OSError, code=Code.FILE_UNREADABLE):
    """A file that the caller named is missing, forbidden, or not text."""

    template = "cannot read {path}: {reason}"
    path: str
    _: KW_ONLY
    reason: str


class StoreUriInvalid(InputError, code=Code.STORE_URI_INVALID):
    template = "cannot keep a graph at {uri!r}: {reason}"
    uri: str
    _: KW_ONLY
    reason: str


class StoreKeyInvalid(InputError, code=Code.STORE_KEY_INVALID):
    """The name of an object would leave the store, or the store reserves that name."""

    template = "{key!r} cannot name an object: {reason}"
    key: str
    _: KW_ONLY
    reason: str


class BranchNameInvalid(InputError, code=Code.BRANCH_NAME_INVALID):
    template = "{name!r} cannot name a branch: {reason}"
    name: str
    _: KW_ONLY
    reason: str


class ConfigInvalid(InputError, code=Code.CONFIG_INVALID):
    template = "{path}: {reason}"
    path: str
    _: KW_ONLY
    reason: str


class PolicyInvalid(InputError, code=Code.POLICY_INVALID):
    template = "policy {name}: {reason}"
    name: str
    _: KW_ONLY
    reason: str


class KeyReused(InputError, code=Code.KEY_REUSED):
    template = "the idempotency key {key!r} was used for another request before"
    key: str


class NotConfirmed(InputError, code=Code.NOT_CONFIRMED):
    template = "{action} {target}: not confirmed; say --yes to go ahead"
    action: str
    _: KW_ONLY
    target: str


class OpenedReadOnly(InputError, code=Code.OPENED_READ_ONLY):
    template = "{uri} was opened read-only"
    uri: str


class GraphClosed(InputError, code=Code.GRAPH_CLOSED):
    template = "{uri} is closed; open it again"
    uri: str


class NotAMutation(InputError, code=Code.NOT_A_MUTATION):
    template = "query '{name}' only reads; run it with query (POST /query)"
    name: str


class NotARead(InputError, code=Code.NOT_A_READ):
    template = "query '{name}' changes the graph; run it with mutate (POST /mutate)"
    name: str


class QueryMemoryExceeded(InputError, code=Code.QUERY_MEMORY_EXCEEDED):
    template = (
        "the query needs {needed:,} bytes at its step '{operator}', and {allowed:,} are allowed; "
        "narrow it down, or raise {setting}"
    )
    operator: str
    _: KW_ONLY
    needed: int
    allowed: int
    setting: str


class QueryTimeout(InputError, TimeoutError, code=Code.QUERY_TIMEOUT):
    template = (
        "the read was stopped after {seconds:g} seconds; narrow it down, or allow more time: "
        "timeout=, --timeout, and limits.query_seconds on a server"
    )
    seconds: float


class PathWeightInvalid(InputError, code=Code.PATH_WEIGHT_INVALID):
    template = (
        "{edge} '{id}' has {property} = {value:g}, and a path is weighed by finite numbers from "
        "zero up; correct the edge, or weigh by another property"
    )
    edge: str
    _: KW_ONLY
    id: str
    property: str
    value: float


class TypeUnknown(InputError, code=Code.TYPE_UNKNOWN):
    template = "there is no type '{name}'{_tail}"
    name: str
    _: KW_ONLY
    hint: str | None = None

    @property
    def _tail(self) -> str:
        return "" if self.hint is None else f"; {self.hint}"


class ConstraintViolation(InputError, code=Code.CONSTRAINT_VIOLATION):
    """Rows break the schema, in every way that `violations` lists. Nothing was written."""

    violations: Sequence[Breach]

    def _message(self) -> str:
        assert self.violations, "a rejection needs a reason"
        return first_of([each.message for each in self.violations], 5, glue="\n")


class LoadRejected(InputError, code=Code.LOAD_REJECTED):
    """Records of a load are wrong. `faults` are the first of `count`; nothing was loaded."""

    faults: Sequence[RecordFault]
    _: KW_ONLY
    count: int

    def _message(self) -> str:
        assert self.faults, "a rejection needs a reason"
        shown = first_of([f.render() for f in self.faults], 10, glue="\n", total=self.count)
        return f"nothing was loaded:\n{shown}"


class RecipeInvalid(InputError, code=Code.RECIPE_INVALID):
    """A pipeline file was rejected, for every reason in `mistakes`: lines and messages."""

    path: str
    mistakes: Sequence[tuple[int, str]]

    def _message(self) -> str:
        assert self.mistakes, "a rejection needs a reason"
        return "\n".join(f"{self.path}:{line}: {text}" for line, text in self.mistakes)


class NotExportable(InputError, code=Code.NOT_EXPORTABLE):
    """A row holds NaN or an infinity. No load and no mutation of ours can have written it."""

    template = (
        "{type_name} '{id}' cannot be exported: its {property_name} holds {value}, "
        "which is no number of JSON"
    )
    type_name: str
    property_name: str
    _: KW_ONLY
    id: str
    value: float


class ResolutionsInvalid(InputError, code=Code.RESOLUTIONS_INVALID):
    template = "these resolutions cannot be used: {reason}"
    reason: str


class CursorInvalid(InputError, code=Code.CURSOR_INVALID):
    template = "this cursor cannot be used: {reason}"
    reason: str


class ChangesRefused(InputError, code=Code.CHANGES_REFUSED):
    """`reason` is `parentless_commit` or `schema_boundary`."""

    template = "what commit {commit_id} changed cannot be told: {_why}"
    reason: str
    _: KW_ONLY
    commit_id: str
    type_name: str | None = None

    @property
    def _why(self) -> str:
        of = "" if self.type_name is None else f" of {self.type_name}"
        return {
            "parentless_commit": "it has no parent to compare it with",
            "schema_boundary": f"the schema{of} was another one before it",
        }[self.reason]


class NotABlob(InputError, code=Code.NOT_A_BLOB):
    template = "{type_name}.{property_name} is {declared}, not a Blob"
    type_name: str
    _: KW_ONLY
    property_name: str
    declared: str


class BlobRangeInvalid(InputError, code=Code.BLOB_RANGE_INVALID):
    """`end` is the last byte that was asked for; None becomes the length of the Blob."""

    _: KW_ONLY
    start: int
    end: int | None
    length: int

    def _message(self) -> str:
        asked = f"from {self.start} on" if self.end is None else f"{self.start} to {self.end}"
        self.end = self.length if self.end is None else self.end
        return f"bytes {asked} lie outside of a Blob of {self.length} bytes"
