"""Catalog ⇄ canonical JSON, and the hash by which schemas are compared.

The JSON equals that of the reference byte for byte: keys in a fixed order, every key present except
an empty `kwargs`, floats in Rust's spelling. The file on disk is the indented form. The hash is
over the compact form, so white space and keys of a later version do not change it.

Encoding and decoding keep the order of the catalog; `catalog.build` sorts it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from omnigraph.catalog.canonical import EntityKind, float_text, property_id, type_id
from omnigraph.catalog.document import Field, read_document
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    IndexConstraint,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
    pair_name,
)
from omnigraph.catalog.portability import find_extensions
from omnigraph.catalog.types import VECTOR_DIMENSION_MAX, Scalar, ValueType, Vector
from omnigraph.errors import SchemaCorrupt

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

IR_VERSION: Final = 1
EXTENDED_IR_VERSION: Final = 2
"""Of a schema that the reference does not understand (`catalog.portability`)."""


def schema_hash(catalog: Catalog) -> str:
    """`sha256:` and 64 hex digits: equal exactly if the schemas are equal."""
    return f"sha256:{hashlib.sha256(encode_compact(catalog).encode()).hexdigest()}"


def encode_compact(catalog: Catalog) -> str:
    """The form that is hashed."""
    return _write(encode_ir(catalog), indent=None)


def encode_pretty(catalog: Catalog) -> str:
    """The form of the file: indented by two spaces, no newline at the end."""
    return _write(encode_ir(catalog), indent="\n")


def encode_ir(catalog: Catalog) -> JsonObject:
    return {
        "ir_version": _version_of(catalog),
        "interfaces": [_encode_interface(each) for each in catalog.interfaces],
        "nodes": [_encode_node(each) for each in catalog.nodes],
        "edges": [_encode_edge(each) for each in catalog.edges],
    }


def _encode_interface(interface: InterfaceType) -> JsonObject:
    return {
        "name": interface.name,
        "type_id": type_id("interface", interface.name),
        "properties": _encode_properties("interface", interface.name, interface.properties),
    }


def _encode_node(node: NodeType) -> JsonObject:
    return {
        "name": node.name,
        "type_id": type_id("node", node.name),
        "annotations": [encode_annotation(each) for each in node.annotations],
        "implements": list(node.implements),
        "properties": _encode_properties("node", node.name, node.properties),
        "constraints": [encode_constraint(each) for each in node.constraints],
    }


def _encode_edge(edge: EdgeType) -> JsonObject:
    return {
        "name": edge.name,
        "type_id": type_id("edge", edge.name),
        "from_type": edge.source,
        "to_type": edge.target,
        "cardinality": {"min": edge.cardinality.low, "max": edge.cardinality.high},
        "annotations": [encode_annotation(each) for each in edge.annotations],
        "properties": _encode_properties("edge", edge.name, edge.properties),
        "constraints": [encode_constraint(each) for each in edge.constraints],
    }


def _encode_properties(
    kind: EntityKind, owner: str, properties: Sequence[Property]
) -> list[JsonObject]:
    return [
        {
            "name": each.name,
            "prop_id": property_id(kind, owner, each.name),
            "prop_type": encode_type(each.type),
            "annotations": [encode_annotation(annotation) for annotation in each.annotations],
        }
        for each in properties
    ]


def encode_type(value_type: ValueType) -> JsonObject:
    base = value_type.base
    enum = value_type.enum_values
    return {
        "scalar": {"Vector": base.dimension}
        if isinstance(base, Vector)
        else value_type.scalar.value,
        "nullable": value_type.nullable,
        "list": value_type.is_list,
        "enum_values": None if enum is None else list(enum),
    }


def encode_annotation(annotation: Annotation) -> JsonObject:
    encoded: JsonObject = {"name": annotation.name, "value": annotation.value}
    if annotation.keywords:
        encoded["kwargs"] = dict(annotation.keywords)
    return encoded


def encode_constraint(constraint: Constraint) -> JsonObject:
    match constraint:
        case Key(columns):
            return {"Key": list(columns)}
        case Unique(columns):
            return {"Unique": list(columns)}
        case IndexConstraint(columns):
            return {"Index": list(columns)}
        case Range(name, low, high):
            bounds: JsonObject = {"min": _encode_bound(low), "max": _encode_bound(high)}
            return {"Range": {"property": name, **bounds}}
        case Check(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}
        case _:
            assert_never(constraint)


def _encode_bound(bound: float | None) -> JsonValue:
    if bound is None:
        return None
    return {"Integer": bound} if isinstance(bound, int) else {"Float": bound}


def _write(value: JsonValue, *, indent: str | None) -> str:
    """JSON text. Python's own encoder would spell floats differently.

    `indent` is the line break with the current indentation; None writes one line.
    """
    match value:
        case float():
            return float_text(value)
        case Mapping():
            inner = None if indent is None else f"{indent}  "
            colon = ":" if indent is None else ": "
            items = [
                f"{json.dumps(name, ensure_ascii=False)}{colon}{_write(each, indent=inner)}"
                for name, each in value.items()
            ]
            return _enclose("{", items, "}", indent)
        case list():
            inner = None if indent is None else f"{indent}  "
            return _enclose("[", [_write(each, indent=inner) for each in value], "]", indent)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _enclose(opening: str, items: list[str], closing: str, indent: str | None) -> str:
    if indent is None or not items:
        return f"{opening}{','.join(items)}{closing}"
    lines = f",{indent}  ".join(items)
    return f"{opening}{indent}  {lines}{indent}{closing}"


def decode_ir(text: str) -> Catalog:
    """The catalog in a stored `_schema.ir.json`. Raises `SchemaCorrupt`.

    Unknown keys are skipped. References are checked, such as the ends of an edge and the columns of
    a key, because the users of a catalog rely on them.
    """
    root = read_document(text)
    version = root.key("ir_version").whole_number()
    if version not in (IR_VERSION, EXTENDED_IR_VERSION):
        known = f"{IR_VERSION} or {EXTENDED_IR_VERSION}"
        raise SchemaCorrupt("ir_version", reason=f"version {version} is not {known}")
    catalog = Catalog(
        interfaces=root.key("interfaces").each(_decode_interface),
        nodes=root.key("nodes").each(_decode_node),
        edges=root.key("edges").each(_decode_edge),
    )
    _check_references(catalog)
    if version != _version_of(catalog):
        reason = f"version {version} is not that of its content, {_version_of(catalog)}"
        raise SchemaCorrupt("ir_version", reason=reason)
    return catalog


def _version_of(catalog: Catalog) -> int:
    return EXTENDED_IR_VERSION if find_extensions(catalog) else IR_VERSION


def _decode_interface(field: Field) -> InterfaceType:
    name = field.key("name").text()
    _check_id(field.key("type_id"), type_id("interface", name))
    return InterfaceType(name, _decode_properties("interface", name, field))


def _decode_node(field: Field) -> NodeType:
    name = field.key("name").text()
    _check_id(field.key("type_id"), type_id("node", name))
    return NodeType(
        name,
        properties=_decode_properties("node", name, field),
        constraints=field.key("constraints").each(decode_constraint),
        implements=field.key("implements").each(Field.text),
        annotations=field.key("annotations").each(decode_annotation),
    )


def _decode_edge(field: Field) -> EdgeType:
    name = field.key("name").text()
    _check_id(field.key("type_id"), type_id("edge", name))
    cardinality = field.key("cardinality")
    high = cardinality.key("max")
    return EdgeType(
        name,
        source=field.key("from_type").text(),
        target=field.key("to_type").text(),
        properties=_decode_properties("edge", name, field),
        cardinality=Cardinality(
            cardinality.key("min").whole_number(),
            None if high.is_null() else high.whole_number(),
        ),
        constraints=field.key("constraints").each(decode_constraint),
        annotations=field.key("annotations").each(decode_annotation),
    )


def _decode_properties(kind: EntityKind, owner: str, field: Field) -> tuple[Property, ...]:
    def decode(item: Field) -> Property:
        name = item.key("name").text()
        _check_id(item.key("prop_id"), property_id(kind, owner, name))
        annotations = item.key("annotations").each(decode_annotation)
        return Property(name, decode_type(item.key("prop_type")), annotations)

    return field.key("properties").each(decode)


def decode_type(field: Field) -> ValueType:
    enum = field.key("enum_values")
    return ValueType(
        _decode_scalar(field.key("scalar")),
        nullable=field.key("nullable").truth(),
        is_list=field.key("list").truth(),
        enum_values=None if enum.is_null() else enum.each(Field.text),
    )


def _decode_scalar(field: Field) -> Scalar | Vector:
    if field.is_object():
        tag, inner = field.only_key()
        dimension = inner.whole_number() if tag == "Vector" else 0
        if not 1 <= dimension <= VECTOR_DIMENSION_MAX:
            raise field.wrong("a scalar type")
        return Vector(dimension)
    word = field.text()
    if word not in {each.value for each in Scalar}:
        raise field.wrong("a scalar type")
    return Scalar(word)


def decode_annotation(field: Field) -> Annotation:
    value = field.key("value")
    keywords = field.optional_key("kwargs")
    return Annotation(
        field.key("name").text(),
        None if value.is_null() else value.text(),
        () if keywords is None else keywords.entries(),
    )


def decode_constraint(field: Field) -> Constraint:
    tag, inner = field.only_key()
    match tag:
        case "Key":
            return Key(inner.each(Field.text))
        case "Unique":
            return Unique(inner.each(Field.text))
        case "Index":
            return IndexConstraint(inner.each(Field.text))
        case "Range":
            low, high = _decode_bound(inner.key("min")), _decode_bound(inner.key("max"))
            return Range(inner.key("property").text(), low, high)
        case "Check":
            return Check(inner.key("property").text(), inner.key("pattern").text())
        case _:
            raise field.wrong("a constraint")


def _decode_bound(field: Field) -> int | float | None:
    if field.is_null():
        return None
    tag, inner = field.only_key()
    match tag:
        case "Integer":
            return inner.whole_number()
        case "Float":
            return inner.number()
        case _:
            raise field.wrong("a bound")


def _check_id(field: Field, expected: int) -> None:
    if field.whole_number() != expected:
        raise field.wrong(f"the id {expected}, which follows from the name")


def _check_references(catalog: Catalog) -> None:
    _check_names("interfaces", catalog.interfaces)
    _check_names("nodes", catalog.nodes)
    _check_names("edges", catalog.edges)
    for node in catalog.nodes:
        _check_columns(node, implicit=frozenset())
    for edge in catalog.edges:
        _check_columns(edge, implicit=frozenset({"src", "dst"}))
        for end in (edge.source, edge.target):
            if catalog.node(end) is None:
                raise SchemaCorrupt(edge.table_key, reason=f"there is no node {end}")
        if edge.is_pair and edge.name != pair_name(edge.family, edge.source, edge.target):
            raise SchemaCorrupt(edge.table_key, reason="its name is not that of its ends")
        if edge.is_pair and catalog.edge_named(edge.family) is not None:
            raise SchemaCorrupt(edge.table_key, reason=f"edge {edge.family} is declared besides")


def _check_names(
    place: str, named: Sequence[InterfaceType | NodeType | EdgeType | Property]
) -> None:
    seen: set[str] = set()
    for each in named:
        if each.name in seen:
            raise SchemaCorrupt(place, reason=f"'{each.name}' stands there twice")
        seen.add(each.name)
        if not isinstance(each, Property):
            _check_names(f"{place} {each.name}", each.properties)


def _check_columns(owner: NodeType | EdgeType, *, implicit: frozenset[str]) -> None:
    for constraint in owner.constraints:
        for column in _columns(constraint):
            if column not in implicit and owner.find(column) is None:
                reason = f"a constraint names '{column}', which is not one of its properties"
                raise SchemaCorrupt(owner.table_key, reason=reason)


def _columns(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Key(columns) | Unique(columns) | IndexConstraint(columns):
            return columns
        case Range(name) | Check(name):
            return (name,)
        case _:
            assert_never(constraint)
