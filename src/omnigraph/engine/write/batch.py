"""Small writes without a program: rows of one type inserted or replaced, or deleted by id."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, spell_ends
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
from omnigraph.errors.base import first_of
from omnigraph.ids import TableKey

ENDS_GIVEN: Final = ("from", "to")
"""The ends of an edge, as rows name them."""


class Existing(Enum):
    """What happens to a row that exists already."""

    REFUSE = "refuse"
    REPLACE = "replace"


def find_type(catalog: Catalog, name: str) -> Type:
    """A node or edge type by its exact name. Raises TypeUnknown."""
    found = catalog.node(name) or catalog.edge(name)
    if found is None:
        hint = name_pairs(catalog.pairs(name))
        raise TypeUnknown(name, hint=hint or suggest(name, _names_of(catalog)))
    return found


def find_types(catalog: Catalog, name: str) -> tuple[Type, ...]:
    """The same, or all pairs of an edge that is declared over several. Raises TypeUnknown."""
    return catalog.pairs(name) or (find_type(catalog, name),)


def _names_of(catalog: Catalog) -> list[str]:
    return [*(each.name for each in catalog.nodes), *catalog.edge_names]


def name_pairs(pairs: Sequence[EdgeType]) -> str | None:
    """What to write instead of the name of an edge over several ends, where one pair is meant."""
    if not pairs:
        return None
    names = first_of([each.name for each in pairs], 5, glue=", ")
    return f"its ends have several types; name one pair: {names}"


def pick_pair(
    pairs: Sequence[EdgeType], given: Mapping[str, object]
) -> tuple[EdgeType, Mapping[str, object]] | Violation:
    """The pair that the ends of a row tell, such as `{"from": {"Person": "ada"}}`, and the row.

    Where all pairs have one type at an end, its id alone will do.
    """
    ends: dict[str, object] = {}
    left = list(pairs)
    for name in ENDS_GIVEN:
        ends[name] = end = given.get(name)
        match end:
            case {**typed} if len(typed) == 1:
                ((type_name, ends[name]),) = typed.items()
                left = [
                    each
                    for each in left
                    if type_name == (each.source if name == "from" else each.target)
                ]
            case _:
                pass
    if len(left) == 1:
        return left[0], {**given, **ends}
    family = pairs[0].family
    told = ", ".join(f"'{name}' is {clip(given.get(name))}" for name in ENDS_GIVEN)
    reason = "the types of its ends cannot be told" if left else "it has no such pair of ends"
    example = f'"from": {{"{pairs[0].source}": …}}, "to": {{"{pairs[0].target}": …}}'
    message = f"edge {family} ({spell_ends(pairs)}): {reason}, {told}; write {example}"
    return Violation(ViolationKind.VALUE, family, "from", (), None, message)


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
    types: Sequence[Type],
    given: Sequence[Mapping[str, object]],
    existing: Existing,
    new_id: Callable[[], str],
) -> list[WriteRows]:
    """Coerce rows of one type, or of the pairs of an edge that is declared over several ends.

    Raises ConstraintViolation with every fault, before any table is read.
    """
    rows: dict[Type, dict[int, Coerced]] = {types[0]: {}} if len(types) == 1 else {}
    faults: dict[int, Sequence[Violation]] = {}
    for number, each in enumerate(given, start=1):
        if not isinstance(each, Mapping):
            raise UsageError(f"row {number} is a {type(each).__name__}, not a mapping")
        pairs = [one for one in types if isinstance(one, EdgeType) and one.is_pair]
        picked = pick_pair(pairs, each) if pairs else (types[0], each)
        if isinstance(picked, Violation):
            faults[number] = (picked,)
            continue
        coerced = coerce_row(picked[0], picked[1], new_id)
        rows.setdefault(picked[0], {})[number] = coerced
        if coerced.violations or coerced.id is None:
            faults[number] = find_faults(picked[0], coerced)
    repeated = [fault for type_, some in rows.items() for fault in _find_repeated(type_, some)]
    if faults or repeated:
        numbered = [
            replace(fault, message=f"row {number}: {fault.message}")
            for number, some in faults.items()
            for fault in some
        ]
        check_none([*numbered, *repeated])
    return [WriteRows(type_, list(some.values()), existing) for type_, some in rows.items()]


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


def _find_repeated(type_: Type, rows: Mapping[int, Coerced]) -> list[Violation]:
    numbers: dict[str, list[int]] = {}
    for number, each in rows.items():
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
