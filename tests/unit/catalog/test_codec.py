import json

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.canonical import float_text, fnv1a_32, property_id, type_id
from omnigraph.catalog.codec import (
    decode_ir,
    encode_compact,
    encode_ir,
    encode_pretty,
    schema_hash,
)
from omnigraph.catalog.model import Catalog, Range
from omnigraph.errors import SchemaCorrupt
from omnigraph.lang.source import Source

PEOPLE = """
node Person {
    name: String @key
    age: I32? @index
}
node Company {
    name: String @key
}
edge WorksAt: Person -> Company {
    since: Date?
}
"""
COMPACT = (
    '{"ir_version":1,"interfaces":[],"nodes":['
    '{"name":"Company","type_id":48283596,"annotations":[],"implements":[],"properties":['
    '{"name":"name","prop_id":2975594761,"prop_type":{"scalar":"String","nullable":false,'
    '"list":false,"enum_values":null},"annotations":[{"name":"key","value":null}]}'
    '],"constraints":[{"Key":["name"]}]},'
    '{"name":"Person","type_id":3227219152,"annotations":[],"implements":[],"properties":['
    '{"name":"age","prop_id":3446138241,"prop_type":{"scalar":"I32","nullable":true,'
    '"list":false,"enum_values":null},"annotations":[{"name":"index","value":null}]},'
    '{"name":"name","prop_id":1466009789,"prop_type":{"scalar":"String","nullable":false,'
    '"list":false,"enum_values":null},"annotations":[{"name":"key","value":null}]}'
    '],"constraints":[{"Index":["age"]},{"Key":["name"]}]}'
    '],"edges":['
    '{"name":"WorksAt","type_id":2608831225,"from_type":"Person","to_type":"Company",'
    '"cardinality":{"min":0,"max":null},"annotations":[],"properties":['
    '{"name":"since","prop_id":214817305,"prop_type":{"scalar":"Date","nullable":true,'
    '"list":false,"enum_values":null},"annotations":[]}'
    '],"constraints":[]}'
    "]}"
)
HASH = "sha256:1c4bd35e7d492ee26da2b67b07cf64b9e3829d9abf4a4203563469a763bbe40a"


def compiled(text: str) -> Catalog:
    return compile_schema(Source("test.pg", text))


def test_the_worked_example_has_its_bytes_and_its_hash() -> None:
    catalog = compiled(PEOPLE)
    assert encode_compact(catalog) == COMPACT
    assert schema_hash(catalog) == HASH


def test_the_pretty_form_is_what_the_json_library_indents_by_two() -> None:
    catalog = compiled('node A @note("é \\"x\\" \\n") { a: enum(b, a) @note(1, z=2, a=3) }')
    assert encode_pretty(catalog) == json.dumps(encode_ir(catalog), indent=2, ensure_ascii=False)
    assert not encode_pretty(catalog).endswith("\n")


def test_what_a_schema_leaves_open_is_spelled_out() -> None:
    (node,) = json.loads(encode_compact(compiled("node A { a: Vector(3)? }")))["nodes"]
    assert node["properties"][0]["prop_type"] == {
        "scalar": {"Vector": 3},
        "nullable": True,
        "list": False,
        "enum_values": None,
    }


def test_keywords_are_sorted_and_left_out_when_there_are_none() -> None:
    catalog = compiled('node A { a: String @note("x", z=1.50, b=true) @plain }')
    (prop,) = json.loads(encode_compact(catalog))["nodes"][0]["properties"]
    assert json.dumps(prop["annotations"]) == (
        '[{"name": "note", "value": "x", "kwargs": {"b": "true", "z": "1.50"}}, '
        '{"name": "plain", "value": null}]'
    )


def test_annotations_without_a_value_come_before_those_with_one() -> None:
    catalog = compiled('node A @n("b") @n @m("z") @n("") { }')
    values = [(each.name, each.value) for each in catalog.nodes[0].annotations]
    assert values == [("m", "z"), ("n", None), ("n", ""), ("n", "b")]


def test_constraints_are_sorted_by_their_text() -> None:
    catalog = compiled(
        "node A { a: String b: I32 c: String @unique(c, a) @key(b) @index(c) @index(b, a)"
        ' @check(c, "x") @check(a, "y") @range(b, 1..2) @range(b, 0..) @range(b, ..9) }'
    )
    assert json.loads(encode_compact(catalog))["nodes"][0]["constraints"] == [
        {"Check": {"property": "a", "pattern": "y"}},
        {"Check": {"property": "c", "pattern": "x"}},
        {"Index": ["a", "b"]},
        {"Index": ["c"]},
        {"Key": ["b"]},
        {"Range": {"property": "b", "min": None, "max": {"Integer": 9}}},
        {"Range": {"property": "b", "min": {"Integer": 0}, "max": None}},
        {"Range": {"property": "b", "min": {"Integer": 1}, "max": {"Integer": 2}}},
        {"Unique": ["a", "c"]},
    ]


def test_two_ranges_of_a_property_are_ordered_by_the_debug_text_of_rust() -> None:
    written = ["10000000000000000000000.0", "0.0000001", "0.00001", "0.0001", "3"]
    ranges = " ".join(f"@range(a, {low}..)" for low in written)
    catalog = compiled(f"node A {{ a: F64 {ranges} }}")
    lows = [each.low for each in catalog.nodes[0].constraints if isinstance(each, Range)]
    # Float(0.0001), Float(1e-5), Float(1e-7), Float(1e22), Integer(3)
    assert lows == [0.0001, 0.00001, 0.0000001, 1e22, 3]


def test_a_bound_below_which_all_is_allowed_is_a_maximum() -> None:
    catalog = compiled("node A { a: F64 @range(a, ..10.0) }")
    assert '{"property":"a","min":null,"max":{"Float":10.0}}' in encode_compact(catalog)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (0.1, "0.1"),
        (100.0, "100.0"),
        (1e15, "1000000000000000.0"),
        (1234567890123456.0, "1234567890123456.0"),
        (1e16, "1e16"),
        (1e22, "1e22"),
        (1.5e300, "1.5e300"),
        (12345678901234567890.0, "1.2345678901234567e19"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (0.000012345, "0.000012345"),
        (0.000001, "1e-6"),
        (-1.25e-7, "-1.25e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ],
)
def test_floats_are_spelled_as_rust_spells_them(value: float, text: str) -> None:
    assert float_text(value) == text
    assert float(text) == value


def test_ids_are_hashes_of_kind_and_name() -> None:
    assert fnv1a_32("") == 2166136261
    assert type_id("node", "Company") == 48283596
    assert type_id("edge", "WorksAt") == 2608831225
    assert property_id("node", "Person", "name") == 1466009789


def test_white_space_and_unknown_keys_do_not_count() -> None:
    document = json.loads(COMPACT)
    document["later"] = {"a": 1}
    document["nodes"][0]["comment"] = "x"
    decoded = decode_ir(json.dumps(document, indent=7))
    assert schema_hash(decoded) == HASH
    assert decoded == compiled(PEOPLE)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"ir_version":1', '"ir_version":2', "ir_version"),
        ('"ir_version":1', '"ir_version":true', "ir_version"),
        ('"ir_version":1,', "", "the root"),
        ('"interfaces":[]', '"interfaces":{}', "interfaces"),
        ('"name":"Company",', '"name":7,', "nodes[0].name"),
        ('"type_id":48283596', '"type_id":1', "nodes[0].type_id"),
        ('"prop_id":214817305', '"prop_id":"x"', "edges[0].properties[0].prop_id"),
        ('"scalar":"I32"', '"scalar":"I31"', "nodes[1].properties[0].prop_type.scalar"),
        ('"scalar":"I32"', '"scalar":{"Vector":0}', "nodes[1].properties[0].prop_type.scalar"),
        ('"scalar":"I32"', '"scalar":{"Matrix":3}', "nodes[1].properties[0].prop_type.scalar"),
        ('"nullable":true', '"nullable":1', "nodes[1].properties[0].prop_type.nullable"),
        ('"value":null', '"value":{}', "nodes[0].properties[0].annotations[0].value"),
        ('{"Key":["name"]}', '{"Lock":["name"]}', "nodes[0].constraints[0]"),
        ('{"Key":["name"]}', '{"Key":["nome"]}', "node:Company"),
        ('{"Key":["name"]}', "{}", "nodes[0].constraints[0]"),
        ('"to_type":"Company"', '"to_type":"Nobody"', "edge:WorksAt"),
        ('"max":null', '"max":-0.5', "edges[0].cardinality.max"),
    ],
)
def test_damage_is_reported_with_its_place(old: str, new: str, place: str) -> None:
    assert old in COMPACT
    with pytest.raises(SchemaCorrupt) as caught:
        decode_ir(COMPACT.replace(old, new, 1))
    assert caught.value.place == place


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7" * 10_000, "[" * 100_000, '"\\ud800"', "NaN"]
)
def test_what_is_not_a_schema_document_at_all_is_damage(text: str) -> None:
    with pytest.raises(SchemaCorrupt):
        decode_ir(text)


@pytest.mark.parametrize(
    "bound", ['{"Float":1e999}', '{"Float":NaN}', '{"Float":"1"}', '{"Integer":1.0}', '{"Real":1}']
)
def test_bounds_are_whole_numbers_or_finite_floats(bound: str) -> None:
    text = encode_compact(compiled("node A { a: F64 @range(a, 1..) }"))
    damaged = text.replace('{"Integer":1}', bound)
    assert damaged != text
    with pytest.raises(SchemaCorrupt):
        decode_ir(damaged)


def test_a_float_bound_may_be_written_without_a_point_and_stays_a_float() -> None:
    text = encode_compact(compiled("node A { a: F64 @range(a, 1.0..) }"))
    decoded = decode_ir(text.replace('{"Float":1.0}', '{"Float":1}'))
    assert encode_compact(decoded) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Sees.A.B", "Sees.B.A"),
        ("Likes", "SEES"),
    ],
    ids=["other ends", "beside an edge of that name"],
)
def test_a_pair_of_ends_has_the_name_of_its_ends_and_its_family_to_itself(
    old: str, new: str
) -> None:
    text = encode_pretty(
        compiled("node A { } node B { } edge Sees: A -> A | B  edge Likes: A -> B")
    )
    wrong = text.replace(
        f'"{old}",\n      "type_id": {type_id("edge", old)}',
        f'"{new}",\n      "type_id": {type_id("edge", new)}',
    )
    assert wrong != text
    with pytest.raises(SchemaCorrupt) as caught:
        decode_ir(wrong)
    assert caught.value.place.startswith("edge:Sees.")


def test_a_name_that_stands_twice_is_damage() -> None:
    document = json.loads(COMPACT)
    document["nodes"].append(document["nodes"][0])
    with pytest.raises(SchemaCorrupt, match="'Company' stands there twice"):
        decode_ir(json.dumps(document))
