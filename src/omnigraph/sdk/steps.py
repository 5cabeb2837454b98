"""The writes of a caller as steps: spelled once for graphs, branches and transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Unpack

from omnigraph.errors import UsageError
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text
from omnigraph.sdk.frames import as_reader, is_table, plain, plain_params

if TYPE_CHECKING:
    from omnigraph.engine.write.steps import WriteStep

R_co = TypeVar("R_co", covariant=True)

Rows = Iterable[Mapping[str, object]] | Any
"""Dicts; or a pandas or polars frame, an Arrow table, or anything with `__arrow_c_stream__`."""


class WriteOptions(TypedDict, total=False):
    """The keywords of every write."""

    branch: str
    """Where to write; main if it is left out."""
    actor: str | None
    """Who is recorded. A server knows by the token, and refuses a name."""
    message: str | None
    """Why; at most 4,096 bytes. The commit keeps it."""
    if_commit: str | None
    """The commit that must be the head of the branch; else HeadMoved."""
    idempotency_key: str | None
    """A repeated call with this key returns the first result and writes nothing."""


class Steps(Protocol[R_co]):
    """`mutate`, `insert`, `upsert` and `delete`. The keywords are those of `WriteOptions`."""

    def _take(self, step: WriteStep, options: WriteOptions) -> R_co: ...

    def mutate(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> R_co:
        """Run the inserts, updates or deletes of a query: one commit, or none if nothing changed.

        `source` is the text of a query file, or its path; `params` are the values of the query's
        parameters; `name` picks a query when the file holds several.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotAMutation, ConstraintViolation,
        ExpectedVersionMismatch, HeadMoved, BranchNotFound, OpenedReadOnly.
        """
        from omnigraph.engine.write.steps import ProgramStep

        text, called = read_text(source, "<query>")
        return self._take(ProgramStep(Source(called, text), name, plain_params(params)), options)

    def insert(self, type_name: str, rows: Rows, **options: Unpack[WriteOptions]) -> R_co:
        """Insert rows of one node or edge type, all or none; edges name their ends `from`, `to`.

        `rows` are dicts, a pandas or polars frame, or an Arrow table. Raises KeyConflict if one
        exists already; TypeUnknown, ConstraintViolation, HeadMoved, BranchNotFound,
        OpenedReadOnly.
        """
        from omnigraph.engine.write.batch import Existing
        from omnigraph.engine.write.steps import RowsStep

        return self._take(RowsStep(type_name, as_rows(rows), Existing.REFUSE), options)

    def upsert(self, type_name: str, rows: Rows, **options: Unpack[WriteOptions]) -> R_co:
        """Insert rows, or replace those that exist: whole, so an omitted property becomes null.

        Raises TypeUnknown, ConstraintViolation, HeadMoved, BranchNotFound, OpenedReadOnly.
        """
        from omnigraph.engine.write.batch import Existing
        from omnigraph.engine.write.steps import RowsStep

        return self._take(RowsStep(type_name, as_rows(rows), Existing.REPLACE), options)

    def delete(self, type_name: str, ids: Collection[str], **options: Unpack[WriteOptions]) -> R_co:
        """Delete rows by id, nodes together with their edges. Ids that do not exist are ignored.

        Raises TypeUnknown, ConstraintViolation, ExpectedVersionMismatch, HeadMoved, BranchNotFound,
        OpenedReadOnly.
        """
        from omnigraph.engine.write.steps import DeleteStep

        return self._take(DeleteStep(type_name, ids), options)


def as_rows(given: Rows) -> Sequence[Mapping[str, object]]:
    """Raises UsageError for anything that is no table and no list of mappings."""
    if isinstance(given, Mapping):
        raise UsageError("rows are a list of mappings or a table, not one mapping")
    if is_table(given):
        return as_reader(given).read_all().to_pylist()
    rows = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise UsageError(
                f"rows are a list of mappings or a table; row {number} is a {type(row).__name__}"
            )
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def parts_of(step: WriteStep) -> list[object]:
    """What a step asks for, as an idempotency key is hashed with it."""
    from omnigraph.engine.write.batch import Existing
    from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep

    match step:
        case ProgramStep():
            return ["mutate", step.source.text, step.name, step.params]
        case RowsStep():
            verb = "insert" if step.existing is Existing.REFUSE else "upsert"
            return [verb, step.type_name, step.rows]
        case DeleteStep():
            return ["delete", step.type_name, sorted(step.ids)]
