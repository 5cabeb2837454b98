"""Schema tree → `Catalog`, or every diagnostic at once.

The passes run in the order of the rule letters: D and I (`declare`), A (`annotate`), C
(`constrain`), the values of `@default` (`defaults`), then K and R in this module, over all types.
Every pass runs, whatever the earlier ones found. The catalog is assembled only if no pass found a
fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from omnigraph.catalog.canonical import (
    EntityKind,
    property_id,
    rename_columns,
    sort_annotations,
    sort_constraints,
    type_id,
)
from omnigraph.catalog.model import (
    ENDS,
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    Unique,
    pair_name,
)
from omnigraph.catalog.names import ID, ID_PROPERTY, column_of
from omnigraph.catalog.passes.annotate import annotation_text, check_annotations
from omnigraph.catalog.passes.constrain import check_constraints
from omnigraph.catalog.passes.declare import declare
from omnigraph.catalog.passes.defaults import check_defaults
from omnigraph.catalog.passes.draft import (
    DraftConstraint,
    DraftProperty,
    DraftType,
    Findings,
    SchemaDraft,
)
from omnigraph.catalog.rules import SchemaRule
from omnigraph.errors import SchemaInvalid
from omnigraph.lang.schema import ast
from omnigraph.lang.schema.parser import parse
from omnigraph.lang.source import Source
from omnigraph.lang.syntax import close_match

UNRUNNABLE: Final = frozenset({SchemaRule.C9.value, SchemaRule.C13.value})
"""Patterns that another program may have accepted. Their values cannot be written here."""


def compile_schema(source: Source, *, in_force: bool = False) -> Catalog:
    """The catalog of a `.pg` text. Raises `SchemaInvalid` with every diagnostic.

    An accepted schema may hold patterns that this program cannot run; its graph can be read.
    """
    return build(parse(source), source, in_force=in_force)


def build(schema: ast.Schema, source: Source, *, in_force: bool = False) -> Catalog:
    """The catalog of a parsed schema; `source` is its text."""
    findings = Findings(source)
    declared = declare(schema, findings)
    draft = SchemaDraft(
        declared.interfaces,
        tuple(_check_type(each, findings) for each in declared.nodes),
        tuple(_check_type(each, findings) for each in declared.edges),
    )
    _check_names(draft, findings)
    _check_ends(draft, findings)
    _check_pairs(draft, findings)
    _check_ids(draft, findings)
    tolerated = UNRUNNABLE if in_force else frozenset[str]()
    if found := [each for each in findings.sorted() if each.code not in tolerated]:
        raise SchemaInvalid(found)
    return _assemble(draft)


def _check_type(draft: DraftType, findings: Findings) -> DraftType:
    """Passes A and C over one type, with the constraints that were written as annotations."""
    marks = check_annotations(draft, findings)
    constraints = sorted((*draft.constraints, *marks), key=lambda each: each.span)
    whole = replace(draft, constraints=tuple(constraints))
    check_constraints(whole, findings)
    check_defaults(whole, findings)
    return whole


def _check_names(draft: SchemaDraft, findings: Findings) -> None:
    """Names are unique in their kind; names of edges also if case is ignored."""
    for rule, kind, names in (
        (SchemaRule.R1, "interface", [each.name for each in draft.interfaces]),
        (SchemaRule.K1, "node", [each.name for each in draft.nodes]),
        (SchemaRule.K2, "edge", [each.name for each in draft.edges]),
    ):
        for name in _repeats(names):
            findings.add(rule, f"{kind} {name.text} is declared twice", name.span)
    firsts: dict[str, str] = {}
    for edge in draft.edges:
        first = firsts.setdefault(edge.name.text.lower(), edge.name.text)
        if first != edge.name.text:
            findings.add(
                SchemaRule.K4,
                f"edges {first} and {edge.name.text} differ only in case",
                edge.name.span,
                hint="traversals and loads find edges whatever the case of their name",
            )


def _repeats(names: Sequence[ast.Name]) -> Iterator[ast.Name]:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            yield name
        seen.add(name.text)


def _check_ends(draft: SchemaDraft, findings: Findings) -> None:
    nodes = {each.name.text for each in draft.nodes}
    interfaces = {each.name.text for each in draft.interfaces}
    implemented = {each for names in map(_implemented, draft.nodes) for each in names}
    for edge in draft.edges:
        assert isinstance(edge.written, ast.Edge)
        for ends in (edge.written.sources, edge.written.targets):
            for end in _repeats(ends):
                message = f"edge {edge.name.text} names {end.text} twice at one end"
                findings.add(SchemaRule.K5, message, end.span)
            for end in ends:
                if end.text in nodes or end.text in implemented & interfaces:
                    continue
                known, hint = "is not declared", close_match(end.text, nodes | implemented)
                if end.text in interfaces:
                    known, hint = "is an interface that no node implements", None
                findings.add(
                    SchemaRule.K3,
                    f"edge {edge.name.text} needs a node {end.text}, which {known}",
                    end.span,
                    hint=hint,
                )


def _check_pairs(draft: SchemaDraft, findings: Findings) -> None:
    """Each pair of ends has a table of its own, and `@unique` is checked table by table."""
    for edge in draft.edges:
        assert isinstance(edge.written, ast.Edge)
        ends = list(_pairs(edge, draft.nodes))
        for each in edge.constraints if len(ends) > 1 else ():
            is_unique = isinstance(each.value, Unique)
            if is_unique and not {name.text for name in each.names}.issuperset(ENDS):
                findings.add(
                    SchemaRule.C15,
                    f"@unique of edge {edge.name.text} would compare edges of several pairs of "
                    "ends",
                    each.span,
                    hint="name both ends in it: @unique(src, dst)",
                )


def _implemented(node: DraftType) -> list[str]:
    assert isinstance(node.written, ast.Node)
    return [each.text for each in node.written.implements]


def _check_ids(draft: SchemaDraft, findings: Findings) -> None:
    """The canonical form identifies types and properties by a hash, which may collide."""
    types: dict[int, str] = {}
    for kind, name, properties in _entities(draft):
        first = types.setdefault(type_id(kind, name.text), f"{kind} {name.text}")
        if first != f"{kind} {name.text}":
            findings.add(
                SchemaRule.R3,
                f"{kind} {name.text} has the same 32-bit id as {first}",
                name.span,
                hint="rename one of them",
            )
        ids: dict[int, str] = {}
        for each in properties:
            other = ids.setdefault(property_id(kind, name.text, column_of(each.name)), each.name)
            if other != each.name:
                findings.add(
                    SchemaRule.R4,
                    f"in {kind} {name.text}, '{each.name}' has the same 32-bit id as '{other}'",
                    each.written.name.span,
                    hint="rename one of them",
                )


def _entities(
    draft: SchemaDraft,
) -> Iterator[tuple[EntityKind, ast.Name, tuple[DraftProperty, ...]]]:
    for interface in draft.interfaces:
        yield "interface", interface.name, interface.properties
    for node in draft.nodes:
        yield node.kind, node.name, node.properties
    for edge in draft.edges:
        for name, _, _ in _pairs(edge, draft.nodes):
            yield edge.kind, replace(edge.name, text=name), edge.properties


def _pairs(edge: DraftType, nodes: Sequence[DraftType]) -> Iterator[tuple[str, str, str]]:
    """Name, source and target of each edge type of a declaration: one, or one for each pair.

    An interface at an end is every node that implements it.
    """
    assert isinstance(edge.written, ast.Edge)
    declared = {each.name.text for each in nodes}
    written = edge.written.sources, edge.written.targets
    if all(len(ends) == 1 and ends[0].text in declared for ends in written):
        (source,), (target,) = written
        yield edge.name.text, source.text, target.text
        return
    for source_type, target_type in product(*(_types_at(ends, nodes) for ends in written)):
        yield pair_name(edge.name.text, source_type, target_type), source_type, target_type


def _types_at(ends: Sequence[ast.Name], nodes: Sequence[DraftType]) -> list[str]:
    names = {each.name.text for each in nodes}
    interfaces = {each.text for each in ends} - names
    named = {each.text for each in ends} & names
    return sorted(
        each.name.text
        for each in nodes
        if each.name.text in named or interfaces.intersection(_implemented(each))
    )


def _assemble(draft: SchemaDraft) -> Catalog:
    """The catalog in canonical order."""
    interfaces = (
        InterfaceType(each.name.text, _properties(each.properties)) for each in draft.interfaces
    )
    return Catalog(
        interfaces=tuple(sorted(interfaces, key=lambda each: each.name)),
        nodes=tuple(sorted(map(_node, draft.nodes), key=lambda each: each.name)),
        edges=tuple(
            sorted(
                (
                    _edge(draft_edge, *pair)
                    for draft_edge in draft.edges
                    for pair in _pairs(draft_edge, draft.nodes)
                ),
                key=lambda each: each.name,
            )
        ),
    )


def _node(draft: DraftType) -> NodeType:
    assert isinstance(draft.written, ast.Node)
    return NodeType(
        draft.name.text,
        properties=_properties(draft.properties),
        constraints=_constraints(draft.constraints),
        implements=tuple(sorted({each.text for each in draft.written.implements})),
        annotations=_annotations(draft.written.annotations),
    )


def _edge(draft: DraftType, name: str, source: str, target: str) -> EdgeType:
    return EdgeType(
        name,
        source=source,
        target=target,
        properties=_properties(draft.properties),
        cardinality=draft.cardinality,
        constraints=_constraints(draft.constraints),
        annotations=_annotations(draft.written.annotations),
    )


def _properties(properties: Sequence[DraftProperty]) -> tuple[Property, ...]:
    built = (
        Property(column_of(each.name), each.type, _annotations(each.written.annotations))
        for each in properties
    )
    return tuple(sorted(built, key=lambda each: each.spelling))


def _constraints(written: Sequence[DraftConstraint]) -> tuple[Constraint, ...]:
    """With columns for the names of properties."""
    return sort_constraints([rename_columns(each.value, {ID: ID_PROPERTY}) for each in written])


def _annotations(written: Sequence[ast.Annotation]) -> tuple[Annotation, ...]:
    return sort_annotations(
        [
            Annotation(
                each.name,
                annotation_text(each),
                tuple(sorted((name, value.text) for name, value in each.keywords)),
            )
            for each in written
        ]
    )
