"""The indexes that a table should have: by the schema, by queries, and because it has them.

The schema wants indexes for `id`, for the ends of edges, for keys and for `@index`, by the type of
the property. A key with a full-text index gets a second index for exact look-ups. Writes look up
`@unique` properties, so each gets an index. Queries with `contains` want an n-gram index.
"""

from collections.abc import Collection, Iterable, Iterator

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Unique, WantedIndexKind, index_kind
from omnigraph.compiler.compile import compile_file
from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Condition,
    EachPath,
    Expand,
    ExpandAny,
    Measured,
    Optionally,
    PropertyOf,
    Read,
    Scan,
    ScanAny,
    Stage,
    Step,
    StringMatch,
    StringTest,
    Where,
    Within,
    Without,
)
from omnigraph.lang.source import Source
from omnigraph.storage import tables as storage
from omnigraph.storage.tables import IndexSpec, TableStats

Property = tuple[str, str]
"""A type and one of its properties."""


def wanted_indexes(
    type_: NodeType | EdgeType, substrings: Collection[str] = (), kept: TableStats | None = None
) -> tuple[IndexSpec, ...]:
    """The indexes by the schema, by `substrings`, and those the table already has."""
    specs = [_spec(column, kind) for column, kind in type_.indexes]
    exact = {column for column, kind in type_.indexes if kind is WantedIndexKind.BTREE}
    looked_up = [*(type_.key if isinstance(type_, NodeType) else ())]
    for constraint in type_.constraints:
        if isinstance(constraint, Unique):
            looked_up += constraint.columns
    for column in dict.fromkeys(looked_up):
        declared = type_.find(column)
        if declared is None or column in exact or index_kind(declared.type) is None:
            continue
        specs.append(IndexSpec(column, storage.IndexKind.BTREE, is_second=True))
    for property_ in type_.properties:
        if not property_.type.is_string:
            continue
        spec = IndexSpec(property_.name, storage.IndexKind.NGRAM, is_second=True)
        is_kept = kept is not None and any(spec.is_built_by(each) for each in kept.indices)
        if property_.name in substrings or is_kept:
            specs.append(spec)
    return tuple(specs)


def _spec(column: str, kind: WantedIndexKind) -> IndexSpec:
    match kind:
        case WantedIndexKind.BTREE:
            return IndexSpec(column, storage.IndexKind.BTREE)
        case WantedIndexKind.FULL_TEXT:
            return IndexSpec(column, storage.IndexKind.INVERTED)
        case WantedIndexKind.VECTOR:
            return IndexSpec(column, storage.IndexKind.IVF_FLAT)


def find_substrings(source: Source, catalog: Catalog) -> frozenset[Property]:
    """The properties in which the queries of a file search for substrings.

    Raises QueryInvalid.
    """
    found: set[Property] = set()
    for query in compile_file(source, catalog):
        for part in query.ir.parts if isinstance(query.ir, Read) else ():
            types: dict[str, tuple[str, ...]] = {}
            for condition in _conditions(part.steps, types):
                if isinstance(condition, StringMatch) and condition.test is StringTest.CONTAINS:
                    subject = condition.subject
                    if isinstance(subject, PropertyOf) and subject.variable in types:
                        found |= {(each, subject.name) for each in types[subject.variable]}
    return frozenset(found)


def _conditions(steps: Iterable[Step], types: dict[str, tuple[str, ...]]) -> Iterator[Condition]:
    """Every atomic condition; `types` collects the type of each variable."""
    for step in steps:
        match step:
            case Scan(variable, type_name, filters):
                types[variable] = (type_name,)
                yield from _parts(filters)
            case ScanAny(variable, of, filters):
                types[variable] = of
                yield from _parts(filters)
            case Expand(target=target, target_type=type_name, filters=filters):
                types[target] = (type_name,)
                if step.edge_variable is not None:
                    types[step.edge_variable] = (step.edge,)
                yield from _parts(filters)
            case ExpandAny(target=target, target_types=of, filters=filters):
                types[target] = of
                if step.edge_variable is not None:
                    types[step.edge_variable] = step.edges
                yield from _parts(filters)
            case Stage(variables=carried):
                types |= {each.variable: each.types for each in carried}
            case EachPath():
                pass  # it asks nothing of a column
            case Where(condition):
                yield from _parts((condition,))
            case Without(inner) | Within(inner) | Measured(inner) | Optionally(inner):
                yield from _conditions(inner, types)


def _parts(conditions: Iterable[Condition]) -> Iterator[Condition]:
    for each in conditions:
        if isinstance(each, AllOf | AnyOf):
            yield from _parts(each.conditions)
        else:
            yield each
