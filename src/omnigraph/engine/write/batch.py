"""Small writes without a program: rows of one type inserted or replaced, or deleted by id."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.catalog.names import spell_group
from omnigraph.compiler.spelling import suggest
from omnigraph.engine.tables.cells import size_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.coercion import Coerced, coerce_row
from omnigraph.engine.write.mutate import WriteTask
from omnigraph.engine.write.pending import Affected, Pending, affected
from omnigraph.engine.write.statements import delete_found
from omnigraph.engine.write.validate import find_value_violations
from omnigraph.engine.write.violations import Violation, ViolationKind, check_none, clip
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.ids import TableKey


class Existing(Enum):
    """What happens to a row that exists already."""

    REFUSE = "refuse"
    REPLACE = "replace"


def find_type(catalog: Catalog, name: str) -> Type:
    """A node or edge type by its exact name. Raises TypeUnknown."""
    found = catalog.node(name) or catalog.edge(name)
    if found is None:
        names = [each.name for each in catalog.nodes] + [each.name for each in catalog.edges]
        raise TypeUnknown(name, hint=suggest(name, names))
    return found


@dataclass(frozen=True, slots=True)
class WriteRows(WriteTask):
    """Rows of one type, coerced and valid by themselves."""

    type: Type
    rows: Sequence[Coerced]
    existing: Existing

    @property
    def tables(self) -> Collection[TableKey]:
        return (self.type.table_key,)

    @property
    def strict(self) -> Collection[TableKey]:
        return ()

    @property
    def size_bytes(self) -> int:
        return sum(size_of(cell) for each in self.rows for cell in each.row.values())

    def run(self, pending: Pending) -> Affected:
        table = pending.table(self.type)
        write = table.insert if self.existing is Existing.REFUSE else table.write
        for each in self.rows:
            write(each.row, is_new=each.is_new)
        return affected(self.type, len(self.rows))


def read_rows(
    type_: Type,
    given: Sequence[Mapping[str, object]],
    existing: Existing,
    new_id: Callable[[], str],
) -> WriteRows:
    """Coerce rows. Raises ConstraintViolation with every fault, before any table is read."""
    rows: list[Coerced] = []
    for number, each in enumerate(given, start=1):
        if not isinstance(each, Mapping):
            raise UsageError(f"row {number} is a {type(each).__name__}, not a mapping")
        rows.append(coerce_row(type_, each, new_id))
    repeated = _find_repeated(type_, rows)
    if repeated or any(each.violations or each.id is None for each in rows):
        faults = [fault for at, each in enumerate(rows, 1) for fault in _faults(type_, each, at)]
        check_none([*faults, *repeated])
    return WriteRows(type_, rows, existing)


def _faults(type_: Type, coerced: Coerced, number: int) -> list[Violation]:
    """The faults of one row, prefixed with its number."""
    return [
        replace(each, message=f"row {number}: {each.message}")
        for each in find_faults(type_, coerced)
    ]


def find_faults(type_: Type, coerced: Coerced) -> tuple[Violation, ...]:
    """The faults of one row by itself: values that do not fit, and broken rules."""
    faulty = {each.property_name for each in coerced.violations}
    others = (
        each
        for each in find_value_violations(type_, coerced.row)
        # A value that does not fit is not reported as missing too.
        if each.property_name not in faulty
    )
    return (*coerced.violations, *others)


def _find_repeated(type_: Type, rows: Sequence[Coerced]) -> list[Violation]:
    numbers: dict[str, list[int]] = {}
    for number, each in enumerate(rows, start=1):
        if each.id is not None:
            numbers.setdefault(each.id, []).append(number)
    return [
        Violation(
            ViolationKind.KEY,
            type_.name,
            None,
            (identity,),
            identity,
            f"@unique violation on {type_.name}.{_identity_name(type_)}: {clip(identity)} is given "
            f"by rows {' and '.join(map(str, places))}",
        )
        for identity, places in numbers.items()
        if len(places) > 1
    ]


def _identity_name(type_: Type) -> str:
    return spell_group(type_.key) if type_.key else type_.id_name


@dataclass(frozen=True, slots=True)
class DeleteIds(WriteTask):
    """Delete rows of one type by id; missing ids are ignored."""

    type: Type
    ids: Collection[str]
    catalog: Catalog

    @property
    def tables(self) -> Collection[TableKey]:
        if isinstance(self.type, EdgeType):
            return (self.type.table_key,)
        edges = self.catalog.edges_at(self.type.name)
        return (self.type.table_key, *(each.table_key for each in edges))

    @property
    def strict(self) -> Collection[TableKey]:
        return self.tables

    @property
    def size_bytes(self) -> int:
        return sum(map(size_of, self.ids))

    def run(self, pending: Pending) -> Affected:
        columns = ("src",) if isinstance(self.type, EdgeType) else ()
        found = pending.committed.find_by_id(self.type, self.ids, columns)
        return delete_found(self.type, found, self.ids, pending)


def delete_ids(catalog: Catalog, type_: Type, ids: Collection[str]) -> DeleteIds:
    """Raises UsageError."""
    check_ids(ids)
    return DeleteIds(type_, tuple(dict.fromkeys(ids)), catalog)


def check_ids(ids: Collection[str]) -> None:
    """Refuse a single string, which is also a collection of strings. Raises UsageError."""
    if isinstance(ids, str) or not all(isinstance(each, str) for each in ids):
        raise UsageError("ids are a list of strings")
