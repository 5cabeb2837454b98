"""The steps from one schema to another, planned from two catalogs without data.

A change that may make a stored row invalid becomes a step that refuses. A plan with such a step is
not carried out at all.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.canonical import EntityKind
from omnigraph.catalog.codec import JsonObject
from omnigraph.catalog.migration.diff import (
    AnnotationsChanged,
    CardinalityChanged,
    ConstraintAdded,
    ConstraintRemoved,
    EndpointsChanged,
    ImplementsChanged,
    PropertyAdded,
    PropertyDropped,
    PropertyRenamed,
    PropertyTypeChanged,
    RenameUnmatched,
    SchemaChange,
    TypeAdded,
    TypeDropped,
    TypeRenamed,
    diff,
)
from omnigraph.catalog.migration.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationRule,
    RenameProperty,
    RenameType,
    Step,
    Tier,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    describe_constraint,
    encode_step,
)
from omnigraph.catalog.model import ENDS, Catalog, IndexConstraint, Key, Property
from omnigraph.catalog.names import spelling_of
from omnigraph.errors import MigrationUnsupported

DROP_GRAPH = MigrationRule("OG-DS-101", Tier.DESTRUCTIVE, "drops a graph that holds data")
DROP_NODE = MigrationRule("OG-DS-102", Tier.DESTRUCTIVE, "drops a node type that holds data")
DROP_EDGE = MigrationRule("OG-DS-103", Tier.DESTRUCTIVE, "drops an edge type that holds data")
DROP_PROPERTY = MigrationRule("OG-DS-104", Tier.DESTRUCTIVE, "drops a property that holds data")
DROP_VECTOR = MigrationRule("OG-DS-105", Tier.DESTRUCTIVE, "drops a vector that holds data")
REQUIRED_ADDED = MigrationRule(
    "OG-MF-103", Tier.VALIDATED, "adds a required property without saying what old rows get"
)
BECAME_REQUIRED = MigrationRule("OG-MF-104", Tier.VALIDATED, "makes a nullable property required")
TYPE_CHANGED = MigrationRule("OG-MF-106", Tier.DESTRUCTIVE, "changes the type of a property")

RULES: tuple[MigrationRule, ...] = (
    DROP_GRAPH,
    DROP_NODE,
    DROP_EDGE,
    DROP_PROPERTY,
    DROP_VECTOR,
    REQUIRED_ADDED,
    BECAME_REQUIRED,
    TYPE_CHANGED,
)
"""Every published code. Those a plan can carry today are REQUIRED_ADDED and TYPE_CHANGED; drops
plan as steps, and becoming required counts as a change of type."""

METADATA = frozenset({"description", "instruction", "default"})
"""Annotations that may change freely: the first two are for readers, and the third concerns only
rows that are older than their property."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    steps: tuple[Step, ...]

    @property
    def supported(self) -> bool:
        return not any(isinstance(each, UnsupportedChange) for each in self.steps)

    def check_supported(self) -> None:
        """Raise MigrationUnsupported for the first step that cannot be carried out."""
        for step in self.steps:
            if isinstance(step, UnsupportedChange):
                raise MigrationUnsupported(
                    step.entity, reason=step.reason, rule=step.rule.code if step.rule else None
                )

    def to_json(self) -> JsonObject:
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [encode_step(each) for each in self.steps],
        }


def plan_migration(
    accepted: Catalog,
    desired: Catalog,
    *,
    drop_mode: DropMode = DropMode.SOFT,
    filled: Collection[str] = (),
) -> MigrationPlan:
    """The steps from the accepted catalog to the desired one, refusals among them.

    `filled` names the new properties, as `Type.property`, for which the caller gives the values of
    committed rows. A property with `@default` need not be named.
    """
    changes = diff(accepted, desired)
    steps = [_plan(change, drop_mode, filled) for change in changes]
    added = {
        (each.type_name, each.property_name) for each in steps if isinstance(each, AddProperty)
    }
    checked = (_check_key_added(step, added) for step in steps)
    return MigrationPlan(tuple(_check_key_order(step, desired) for step in checked))


def _check_key_order(step: Step, desired: Catalog) -> Step:
    """(D12) The id of a row lists the members of its key by name, so their order must stay."""
    if not isinstance(step, RenameProperty) or step.type_kind == "interface":
        return step
    is_node = step.type_kind == "node"
    type_ = desired.node(step.type_name) if is_node else desired.edge(step.type_name)
    assert type_ is not None, "a renamed property is in the new schema"
    own = [name for name in type_.key if name not in ENDS]
    if step.new not in own:
        return step
    was = (step.old if name == step.new else name for name in own)
    before = sorted(was, key=spelling_of)
    if [step.new if name == step.old else name for name in before] == own:
        return step
    old, new = spelling_of(step.old), spelling_of(step.new)
    return UnsupportedChange(
        f"{step.type_kind}:{step.type_name}.{new}",
        f"'{old}' cannot be called '{new}': the members of the key would come in another order, "
        "and with it the ids of all rows would change",
    )


def _check_key_added(step: Step, added: Collection[tuple[str, str]]) -> Step:
    """A key needs properties that the rows have already."""
    if isinstance(step, AddConstraint) and isinstance(step.constraint, Key):
        for name in step.constraint.columns:
            if (step.type_name, name) in added:
                return UnsupportedChange(
                    f"edge:{step.type_name}",
                    f"'{spelling_of(name)}' is new, so it cannot be a member of the key at once; "
                    f"add it first, then {describe_constraint(step.constraint)}",
                )
    return step


def _plan(change: SchemaChange, drop_mode: DropMode, filled: Collection[str]) -> Step:
    match change:
        case TypeAdded(kind, name):
            return AddType(kind, name)
        case TypeRenamed(kind, old, new):
            return RenameType(kind, old, new)
        case TypeDropped("interface", name):
            return UnsupportedChange(
                f"interface:{name}", "an interface cannot be removed or renamed"
            )
        case TypeDropped(kind, name):
            return DropType(kind, name, drop_mode)
        case PropertyAdded(kind, type_name, added):
            return _plan_added_property(kind, type_name, added, filled)
        case PropertyRenamed(kind, type_name, old, new):
            return RenameProperty(kind, type_name, old, new)
        case PropertyDropped(kind, type_name, name):
            return DropProperty(kind, type_name, name, drop_mode)
        case PropertyTypeChanged():
            return _plan_changed_type(change)
        case ConstraintAdded(kind, type_name, IndexConstraint() as index):
            return AddConstraint(kind, type_name, index)
        case ConstraintAdded("edge", type_name, Key() as key):
            # Whether two stored edges share the key is seen when it is applied.
            return AddConstraint("edge", type_name, key)
        case ConstraintAdded(kind, type_name, constraint):
            return UnsupportedChange(
                f"{kind}:{type_name}",
                f"stored rows may violate {describe_constraint(constraint)}, so it cannot be added",
            )
        case ConstraintRemoved(kind, type_name, constraint):
            return UnsupportedChange(
                f"{kind}:{type_name}", f"{describe_constraint(constraint)} cannot be removed"
            )
        case AnnotationsChanged():
            return _plan_annotations(change)
        case ImplementsChanged(name):
            return UnsupportedChange(f"node:{name}", "the interfaces of a node type cannot change")
        case EndpointsChanged(name, old, new):
            return UnsupportedChange(
                f"edge:{name}",
                f"endpoints cannot change from {' -> '.join(old)} to {' -> '.join(new)}",
            )
        case CardinalityChanged(name):
            return UnsupportedChange(f"edge:{name}", "@card of an edge type cannot change")
        case RenameUnmatched():
            return _plan_unmatched_rename(change)
    assert_never(change)


def _plan_added_property(
    kind: EntityKind, type_name: str, added: Property, filled: Collection[str]
) -> Step:
    name, value_type = added.spelling, added.type
    is_filled = added.annotation("default") is not None or f"{type_name}.{name}" in filled
    # An interface has no rows; the types that implement it have their own steps.
    if value_type.nullable or is_filled or kind == "interface":
        return AddProperty(kind, type_name, added.name, value_type)
    return UnsupportedChange(
        f"{kind}:{type_name}.{name}",
        f"property '{name}' of {kind} '{type_name}' is required, and rows that exist have no value "
        f"for it; say what they get, by @default(…) or a backfill, or declare it as "
        f"{value_type.optional()}",
        REQUIRED_ADDED,
    )


def _plan_changed_type(change: PropertyTypeChanged) -> Step:
    name, old, new = spelling_of(change.name), change.old, change.new
    if old.enum_values is not None and new.enum_values is not None:
        kept = set(old.enum_values) <= set(new.enum_values)
        if kept and old.nullable == new.nullable:
            added = tuple(each for each in new.enum_values if each not in old.enum_values)
            return ExtendEnum(change.kind, change.type_name, change.name, added)
    return UnsupportedChange(
        f"{change.kind}:{change.type_name}.{name}",
        f"property '{name}' of {change.kind} '{change.type_name}' cannot change its type "
        f"from {old} to {new}",
        TYPE_CHANGED,
    )


def _plan_annotations(change: AnnotationsChanged) -> Step:
    entity = f"{change.kind}:{change.type_name}"
    if change.property_name is not None:
        entity += f".{spelling_of(change.property_name)}"
    frozen = [f"@{name}" for name in change.names if name not in METADATA]
    if frozen:
        return UnsupportedChange(entity, f"{', '.join(frozen)} of {entity} cannot change")
    if change.property_name is None:
        return UpdateTypeMetadata(change.kind, change.type_name, change.annotations)
    return UpdatePropertyMetadata(
        change.kind, change.type_name, change.property_name, change.annotations
    )


def _plan_unmatched_rename(change: RenameUnmatched) -> Step:
    entity = f"{change.kind}:{change.type_name}"
    if change.property_name is not None:
        entity += f".{spelling_of(change.property_name)}"
    wanted = spelling_of(change.wanted)
    if change.claimed_by is None:
        reason = f'{entity} says @rename_from("{wanted}"), which does not exist'
    else:
        reason = (
            f'{entity} says @rename_from("{wanted}"), '
            f"which '{spelling_of(change.claimed_by)}' is already"
        )
    return UnsupportedChange(entity, reason)
