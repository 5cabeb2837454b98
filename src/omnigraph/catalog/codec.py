"""Catalog ⇄ canonical JSON, and the hash that says whether two schemas are the same.

The JSON is the reference's, byte for byte: keys in a fixed order, no key left out but an empty
`kwargs`, floats spelled as Rust spells them. The file on disk is the indented form; the hash is
over the compact one, so that white space and keys from a later version do not count.

A catalog is encoded in the order it has, and decoded in the order it was written. `catalog.build`
is what puts it in canonical order.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, assert_never

from omnigraph.catalog.canonical import EntityKind, float_text, property_id, type_id
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.catalog.types import VECTOR_DIMENSION_MAX, Scalar, ValueType, Vector
from omnigraph.errors import SchemaCorrupt

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

IR_VERSION: Final = 1

T = TypeVar("T")


def schema_hash(catalog: Catalog) -> str:
    """`sha256:` and 64 digits: equal exactly when the schemas say the same."""
    return f"sha256:{hashlib.sha256(encode_compact(catalog).encode()).hexdigest()}"


def encode_compact(catalog: Catalog) -> str:
    """The form that is hashed."""
    return _write(encode_ir(catalog), indent=None)


def encode_pretty(catalog: Catalog) -> str:
    """The form that is kept in a file: two spaces, no newline at the end."""
    return _write(encode_ir(catalog), indent="\n")


def encode_ir(catalog: Catalog) -> JsonObject:
    return {
        "ir_version": IR_VERSION,
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
        "scalar": {"Vector": base.dimension} if isinstance(base, Vector) else base.value,
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
        case Index(columns):
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
    """JSON text. The library's own writer would spell floats as Python does.

    `indent` is the line break in force here, indentation included; None writes one line.
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

    Keys we do not know are skipped. Whether what is said makes sense — an edge whose ends exist,
    a key whose columns exist — is checked too: a reader of the catalog relies on it.
    """
    try:
        # A number of thousands of digits and a hundred thousand brackets are damage like any other.
        root = _Field(json.loads(text), "the root")
    except (ValueError, RecursionError) as failure:
        raise SchemaCorrupt("the root", reason=f"it is not JSON: {failure}") from failure
    version = root.key("ir_version").whole_number()
    if version != IR_VERSION:
        raise SchemaCorrupt("ir_version", reason=f"version {version} is not {IR_VERSION}")
    catalog = Catalog(
        interfaces=root.key("interfaces").each(_decode_interface),
        nodes=root.key("nodes").each(_decode_node),
        edges=root.key("edges").each(_decode_edge),
    )
    _check_references(catalog)
    return catalog


class _Field:
    """A value inside the document, and the path to it for the message if it is not as it should."""

    def __init__(self, value: object, place: str) -> None:
        self._value = value
        self.place = place

    def key(self, name: str) -> "_Field":
        if not isinstance(self._value, dict):
            raise self.wrong("an object")
        if name not in self._value:
            raise SchemaCorrupt(self.place, reason=f"'{name}' is missing")
        prefix = "" if self.place == "the root" else f"{self.place}."
        return _Field(self._value[name], f"{prefix}{name}")

    def optional_key(self, name: str) -> "_Field | None":
        return self.key(name) if isinstance(self._value, dict) and name in self._value else None

    def only_key(self) -> tuple[str, "_Field"]:
        """The one key of an object that stands for a choice."""
        if not isinstance(self._value, dict) or len(self._value) != 1:
            raise self.wrong("an object with one key")
        (name,) = self._value
        return name, self.key(name)

    def each(self, decode: Callable[["_Field"], T]) -> tuple[T, ...]:
        if not isinstance(self._value, list):
            raise self.wrong("a list")
        items = (_Field(each, f"{self.place}[{at}]") for at, each in enumerate(self._value))
        return tuple(decode(each) for each in items)

    def entries(self) -> tuple[tuple[str, str], ...]:
        if not isinstance(self._value, dict):
            raise self.wrong("an object")
        return tuple((name, self.key(name).text()) for name in self._value)

    def text(self) -> str:
        if not isinstance(self._value, str):
            raise self.wrong("a string")
        if any("\ud800" <= each <= "\udfff" for each in self._value):
            raise self.wrong("a string of whole characters")
        return self._value

    def whole_number(self) -> int:
        if not isinstance(self._value, int) or isinstance(self._value, bool):
            raise self.wrong("a whole number")
        return self._value

    def number(self) -> float:
        """A float; JSON may write it without a point."""
        if isinstance(self._value, bool) or not isinstance(self._value, int | float):
            raise self.wrong("a number")
        value = float(self._value) if abs(self._value) < 2**1024 else float("inf")
        if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124  # NaN
            raise self.wrong("a finite number")
        return value

    def truth(self) -> bool:
        if not isinstance(self._value, bool):
            raise self.wrong("true or false")
        return self._value

    def is_null(self) -> bool:
        return self._value is None

    def wrong(self, wanted: str) -> SchemaCorrupt:
        shown = json.dumps(self._value)
        clipped = shown if len(shown) <= 60 else f"{shown[:59]}…"
        return SchemaCorrupt(self.place, reason=f"expected {wanted}, found {clipped}")


def _decode_interface(field: _Field) -> InterfaceType:
    name = field.key("name").text()
    _check_id(field.key("type_id"), type_id("interface", name))
    return InterfaceType(name, _decode_properties("interface", name, field))


def _decode_node(field: _Field) -> NodeType:
    name = field.key("name").text()
    _check_id(field.key("type_id"), type_id("node", name))
    return NodeType(
        name,
        properties=_decode_properties("node", name, field),
        constraints=field.key("constraints").each(_decode_constraint),
        implements=field.key("implements").each(_Field.text),
        annotations=field.key("annotations").each(_decode_annotation),
    )


def _decode_edge(field: _Field) -> EdgeType:
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
        constraints=field.key("constraints").each(_decode_constraint),
        annotations=field.key("annotations").each(_decode_annotation),
    )


def _decode_properties(kind: EntityKind, owner: str, field: _Field) -> tuple[Property, ...]:
    def decode(item: _Field) -> Property:
        name = item.key("name").text()
        _check_id(item.key("prop_id"), property_id(kind, owner, name))
        annotations = item.key("annotations").each(_decode_annotation)
        return Property(name, _decode_type(item.key("prop_type")), annotations)

    return field.key("properties").each(decode)


def _decode_type(field: _Field) -> ValueType:
    enum = field.key("enum_values")
    return ValueType(
        _decode_scalar(field.key("scalar")),
        nullable=field.key("nullable").truth(),
        is_list=field.key("list").truth(),
        enum_values=None if enum.is_null() else enum.each(_Field.text),
    )


def _decode_scalar(field: _Field) -> Scalar | Vector:
    if isinstance(field._value, dict):  # noqa: SLF001  # a scalar is a word, or an object
        tag, inner = field.only_key()
        dimension = inner.whole_number() if tag == "Vector" else 0
        if not 1 <= dimension <= VECTOR_DIMENSION_MAX:
            raise field.wrong("a scalar type")
        return Vector(dimension)
    word = field.text()
    if word not in {each.value for each in Scalar}:
        raise field.wrong("a scalar type")
    return Scalar(word)


def _decode_annotation(field: _Field) -> Annotation:
    value = field.key("value")
    keywords = field.optional_key("kwargs")
    return Annotation(
        field.key("name").text(),
        None if value.is_null() else value.text(),
        () if keywords is None else keywords.entries(),
    )


def _decode_constraint(field: _Field) -> Constraint:
    tag, inner = field.only_key()
    match tag:
        case "Key":
            return Key(inner.each(_Field.text))
        case "Unique":
            return Unique(inner.each(_Field.text))
        case "Index":
            return Index(inner.each(_Field.text))
        case "Range":
            low, high = _decode_bound(inner.key("min")), _decode_bound(inner.key("max"))
            return Range(inner.key("property").text(), low, high)
        case "Check":
            return Check(inner.key("property").text(), inner.key("pattern").text())
        case _:
            raise field.wrong("a constraint")


def _decode_bound(field: _Field) -> int | float | None:
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


def _check_id(field: _Field, expected: int) -> None:
    if field.whole_number() != expected:
        raise field.wrong(f"the id {expected}, which follows from the name")


def _check_references(catalog: Catalog) -> None:
    for edge in catalog.edges:
        for end in (edge.source, edge.target):
            if catalog.node(end) is None:
                raise SchemaCorrupt(f"edge {edge.name}", reason=f"there is no node {end}")
    for owner in (*catalog.nodes, *catalog.edges):
        implicit = {"src", "dst"} if isinstance(owner, EdgeType) else set()
        for constraint in owner.constraints:
            for column in _columns(constraint):
                if column not in implicit and owner.find(column) is None:
                    reason = f"a constraint names '{column}', which is not one of its properties"
                    raise SchemaCorrupt(owner.table_key, reason=reason)


def _columns(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return columns
        case Range(name) | Check(name):
            return (name,)
        case _:
            assert_never(constraint)
