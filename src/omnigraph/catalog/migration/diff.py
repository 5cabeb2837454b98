"""The differences between two catalogs, entity by entity. `migration` decides which are allowed.

Matching: entities with the same name match. An entity with a new name may claim an accepted entity
of the same kind (for a property, of the same type) by `@rename_from("Old")`. An accepted entity can
be claimed once; an accepted entity that is neither matched nor claimed is dropped. Endpoints of
edges and columns of constraints are compared after the renames, so a rename alone changes nothing
else.

Order: interfaces, nodes, edges, each by desired name; within a type its rename, its interfaces, its
annotations, its properties by name, its constraints; the drops of a kind are last.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.catalog.canonical import EntityKind, rename_columns
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Constraint,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    pair_name,
)
from omnigraph.catalog.names import column_of, spelling_of
from omnigraph.catalog.types import ValueType

AnyType = InterfaceType | NodeType | EdgeType

# The first three are compared as constraints; a rename is an instruction, not a fact.
UNCOMPARED_ANNOTATIONS = frozenset({"key", "unique", "index", "rename_from"})


@dataclass(frozen=True, slots=True)
class TypeAdded:
    kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True)
class TypeRenamed:
    kind: EntityKind
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class TypeDropped:
    kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True)
class ImplementsChanged:
    name: str
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndpointsChanged:
    name: str
    old: tuple[str, str]
    new: tuple[str, str]


@dataclass(frozen=True, slots=True)
class CardinalityChanged:
    name: str
    old: Cardinality
    new: Cardinality


@dataclass(frozen=True, slots=True)
class AnnotationsChanged:
    """Of a type, or of one of its properties. `names` are the annotations that differ."""

    kind: EntityKind
    type_name: str
    property_name: str | None
    names: tuple[str, ...]
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class PropertyAdded:
    kind: EntityKind
    type_name: str
    property: Property


@dataclass(frozen=True, slots=True)
class PropertyRenamed:
    kind: EntityKind
    type_name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PropertyDropped:
    kind: EntityKind
    type_name: str
    name: str


@dataclass(frozen=True, slots=True)
class PropertyTypeChanged:
    kind: EntityKind
    type_name: str
    name: str
    old: ValueType
    new: ValueType


@dataclass(frozen=True, slots=True)
class ConstraintAdded:
    kind: EntityKind
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ConstraintRemoved:
    kind: EntityKind
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class RenameUnmatched:
    """`@rename_from` names an entity that does not exist, or that another entity claims."""

    kind: EntityKind
    type_name: str
    property_name: str | None
    wanted: str
    claimed_by: str | None


SchemaChange = (
    TypeAdded
    | TypeRenamed
    | TypeDropped
    | ImplementsChanged
    | EndpointsChanged
    | CardinalityChanged
    | AnnotationsChanged
    | PropertyAdded
    | PropertyRenamed
    | PropertyDropped
    | PropertyTypeChanged
    | ConstraintAdded
    | ConstraintRemoved
    | RenameUnmatched
)


def diff(accepted: Catalog, desired: Catalog) -> tuple[SchemaChange, ...]:
    """Every difference, in the order above."""
    node_names = _match(_hints(accepted.nodes), _hints(desired.nodes)).renames
    return (
        *_diff_kind("interface", accepted.interfaces, desired.interfaces, node_names),
        *_diff_kind("node", accepted.nodes, desired.nodes, node_names),
        *_diff_kind(
            "edge",
            accepted.edges,
            desired.edges,
            node_names,
            _edge_hints(accepted, desired.edges, node_names),
        ),
    )


# ── matching ─────────────────────────────────────────────────────────────────────────────────────

_Hints = Mapping[str, str | None]
"""Names in order, each with the older name that it claims, if any."""


@dataclass(frozen=True, slots=True)
class _Matching:
    old_names: Mapping[str, str]
    """Desired name to accepted name, for every matched entity."""
    unmatched: Mapping[str, tuple[str, str | None]]
    """Desired name to the name that it claims in vain, and the entity that has that name."""
    dropped: tuple[str, ...]

    @property
    def renames(self) -> Mapping[str, str]:
        """Accepted name to desired name, where they differ."""
        return {old: new for new, old in self.old_names.items() if old != new}


def _match(accepted: _Hints, desired: _Hints) -> _Matching:
    holders = {name: name for name in desired if name in accepted}
    unmatched: dict[str, tuple[str, str | None]] = {}
    for name, hint in desired.items():
        if name in accepted or hint is None:
            continue
        if hint not in accepted or hint in holders:
            unmatched[name] = (hint, holders.get(hint))
        else:
            holders[hint] = name
    return _Matching(
        old_names={new: old for old, new in holders.items()},
        unmatched=unmatched,
        dropped=tuple(name for name in accepted if name not in holders),
    )


def _hint(annotations: Sequence[Annotation]) -> str | None:
    written = (each.value for each in annotations if each.name == "rename_from")
    return next((None if each is None else column_of(each) for each in written), None)


def _hints(entities: Sequence[AnyType] | Sequence[Property]) -> _Hints:
    return {each.name: _hint(getattr(each, "annotations", ())) for each in entities}


def _edge_hints(
    accepted: Catalog, desired: Sequence[EdgeType], node_names: Mapping[str, str]
) -> _Hints:
    """The names of edges follow renames of their ends, and an edge may become a family, or back.

    A pair whose family was renamed is new if the older family did not have it.
    """
    old_nodes = {new: old for old, new in node_names.items()}
    known = {each.family for each in accepted.edges}
    hints: dict[str, str | None] = {}
    for each in desired:
        ends = (old_nodes.get(each.source, each.source), old_nodes.get(each.target, each.target))
        wanted = _hint(each.annotations)
        families = [each.family] if wanted is None else [each.family, wanted]
        claims = [name for one in families for name in (pair_name(one, *ends), one)]
        hints[each.name] = next(
            (
                old.name
                for name in claims
                if (old := accepted.edge(name)) is not None and (old.source, old.target) == ends
            ),
            wanted if not each.is_pair or not known.intersection(families) else None,
        )
    return hints


# ── comparing ────────────────────────────────────────────────────────────────────────────────────


def _diff_kind(
    kind: EntityKind,
    accepted: Sequence[AnyType],
    desired: Sequence[AnyType],
    node_names: Mapping[str, str],
    hints: _Hints | None = None,
) -> Iterator[SchemaChange]:
    old_types = {each.name: each for each in accepted}
    matching = _match(_hints(accepted), _hints(desired) if hints is None else hints)
    for new in desired:
        if new.name in matching.old_names:
            yield from _diff_type(kind, old_types[matching.old_names[new.name]], new, node_names)
        elif new.name in matching.unmatched:
            wanted, holder = matching.unmatched[new.name]
            yield RenameUnmatched(kind, new.name, None, wanted, holder)
        else:
            yield TypeAdded(kind, new.name)
    for name in matching.dropped:
        yield TypeDropped(kind, name)


def _diff_type(
    kind: EntityKind, old: AnyType, new: AnyType, node_names: Mapping[str, str]
) -> Iterator[SchemaChange]:
    if old.name != new.name:
        yield TypeRenamed(kind, old.name, new.name)
    match old, new:
        case NodeType(), NodeType() if old.implements != new.implements:
            yield ImplementsChanged(new.name, old.implements, new.implements)
        case EdgeType(), EdgeType():
            yield from _diff_edge_header(old, new, node_names)
        case _:
            pass
    if not isinstance(old, InterfaceType) and not isinstance(new, InterfaceType):
        yield from _diff_annotations(kind, new.name, None, old=old.annotations, new=new.annotations)
    matching = _match(_hints(old.properties), _hints(new.properties))
    yield from _diff_properties(kind, old, new, matching)
    if not isinstance(old, InterfaceType) and not isinstance(new, InterfaceType):
        renamed = tuple(rename_columns(each, matching.renames) for each in old.constraints)
        for added in (each for each in new.constraints if each not in renamed):
            yield ConstraintAdded(kind, new.name, added)
        for removed in (each for each in renamed if each not in new.constraints):
            yield ConstraintRemoved(kind, new.name, removed)
    for name in matching.dropped:
        yield PropertyDropped(kind, new.name, name)


def _diff_edge_header(
    old: EdgeType, new: EdgeType, node_names: Mapping[str, str]
) -> Iterator[SchemaChange]:
    ends = (node_names.get(old.source, old.source), node_names.get(old.target, old.target))
    if ends != (new.source, new.target):
        yield EndpointsChanged(new.name, ends, (new.source, new.target))
    if old.cardinality != new.cardinality:
        yield CardinalityChanged(new.name, old.cardinality, new.cardinality)


def _diff_properties(
    kind: EntityKind, old: AnyType, new: AnyType, matching: _Matching
) -> Iterator[SchemaChange]:
    old_properties = {each.name: each for each in old.properties}
    for wanted in new.properties:
        if wanted.name in matching.unmatched:
            hint, holder = matching.unmatched[wanted.name]
            yield RenameUnmatched(kind, new.name, wanted.name, hint, holder)
            continue
        if wanted.name not in matching.old_names:
            yield PropertyAdded(kind, new.name, wanted)
            continue
        before = old_properties[matching.old_names[wanted.name]]
        if before.name != wanted.name:
            yield PropertyRenamed(kind, new.name, before.name, wanted.name)
        if before.type != wanted.type:
            yield PropertyTypeChanged(kind, new.name, wanted.name, before.type, wanted.type)
        yield from _diff_annotations(
            kind,
            new.name,
            wanted.name,
            old=_rename_embed(before.annotations, matching.renames),
            new=wanted.annotations,
        )


def _diff_annotations(
    kind: EntityKind,
    type_name: str,
    property_name: str | None,
    *,
    old: tuple[Annotation, ...],
    new: tuple[Annotation, ...],
) -> Iterator[SchemaChange]:
    before = {each for each in old if each.name not in UNCOMPARED_ANNOTATIONS}
    after = {each for each in new if each.name not in UNCOMPARED_ANNOTATIONS}
    if before != after:
        names = tuple(sorted({each.name for each in before ^ after}))
        yield AnnotationsChanged(kind, type_name, property_name, names, new)


def _rename_embed(
    annotations: tuple[Annotation, ...], renames: Mapping[str, str]
) -> tuple[Annotation, ...]:
    """`@embed(title)` follows a rename of `title`."""
    return tuple(
        replace(each, value=spelling_of(renames.get(column_of(each.value), each.value)))
        if each.name == "embed" and each.value is not None
        else each
        for each in annotations
    )
