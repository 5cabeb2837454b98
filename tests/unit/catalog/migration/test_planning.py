"""The migration planner: which changes become which steps, and which are refused."""

import json

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import JsonObject
from omnigraph.catalog.migration.plan_codec import decode_plan
from omnigraph.catalog.migration.planning import RULES, MigrationPlan, plan_migration
from omnigraph.catalog.migration.steps import DropMode, describe_step, encode_step
from omnigraph.errors import MigrationUnsupported, SchemaCorrupt
from omnigraph.lang.source import Source

BASE = """
interface Dated { made_on: Date? }
node Gallery { code: String @key  title: String @index  floor: I32? }
node Artwork implements Dated {
    ref: String @key
    title: String
    medium: enum(ink, oil)
    note: String?
    vec: Vector(3)? @embed(title)
}
edge Hangs: Artwork -> Gallery @card(0..1) { since: Date? }
"""


def planned(new: str, old: str = BASE, mode: DropMode = DropMode.SOFT) -> MigrationPlan:
    return plan_migration(
        compile_schema(Source("old.pg", old)), compile_schema(Source("new.pg", new)), drop_mode=mode
    )


def changed(before: str, after: str, *, mode: DropMode = DropMode.SOFT) -> list[JsonObject]:
    """The steps when one piece of the base schema is replaced."""
    assert before in BASE
    return [encode_step(each) for each in planned(BASE.replace(before, after), mode=mode).steps]


def refusal(before: str, after: str) -> JsonObject:
    """The one refusal among the steps of a change."""
    (step,) = [each for each in changed(before, after) if each["kind"] == "unsupported_change"]
    return step


def test_a_schema_becomes_itself_by_no_steps() -> None:
    plan = planned(BASE)
    assert plan.steps == ()
    assert plan.supported


def test_reordering_the_source_changes_nothing() -> None:
    reordered = """
    edge Hangs: Artwork -> Gallery @card(0..1) { since: Date? }
    node Artwork implements Dated {
        vec: Vector(3)? @embed(title)
        note: String?
        medium: enum(oil, ink)
        title: String
        ref: String
        @key(ref)
    }
    node Gallery { floor: I32?  title: String  @index(title)  code: String @key }
    interface Dated { made_on: Date? }
    """
    assert planned(reordered).steps == ()


def test_a_new_type_is_one_step_whatever_it_holds() -> None:
    assert changed(
        "edge Hangs", "node Guard { badge: String @key  age: I32  @range(age, 18..) }\nedge Hangs"
    ) == [{"kind": "add_type", "type_kind": "node", "name": "Guard"}]


def test_a_nullable_property_is_added() -> None:
    assert changed("floor: I32?", "floor: I32?  area: F64?") == [
        {
            "kind": "add_property",
            "type_kind": "node",
            "type_name": "Gallery",
            "property_name": "area",
            "property_type": {
                "scalar": "F64",
                "nullable": True,
                "list": False,
                "enum_values": None,
            },
        }
    ]


def test_a_vector_property_is_added_with_its_dimension() -> None:
    (step,) = changed("floor: I32?", "floor: I32?  v: Vector(7)?")
    assert step["property_type"] == {
        "scalar": {"Vector": 7},
        "nullable": True,
        "list": False,
        "enum_values": None,
    }


def test_a_required_property_is_refused_by_code() -> None:
    step = refusal("floor: I32?", "floor: I32?  area: F64")
    assert step["entity"] == "node:Gallery.area"
    assert step["code"] == "OG-MF-103"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("floor: I32?", "floor: I64?"),
        ("floor: I32?", "floor: I32"),
        ("note: String?", "note: [String]?"),
        ("title: String\n", "title: String?\n"),
        ("enum(ink, oil)", "enum(ink)"),
        ("enum(ink, oil)", "enum(ink, oil, print)?"),
        ("enum(ink, oil)", "String"),
        ("note: String?", "note: enum(a, b)?"),
        ("Vector(3)?", "Vector(4)?"),
    ],
)
def test_every_change_of_type_is_refused_by_code(before: str, after: str) -> None:
    assert refusal(before, after)["code"] == "OG-MF-106"


def test_an_enum_may_be_widened() -> None:
    assert changed("enum(ink, oil)", "enum(print, oil, ink, chalk)") == [
        {
            "kind": "extend_enum",
            "type_kind": "node",
            "type_name": "Artwork",
            "property_name": "medium",
            "added_values": ["chalk", "print"],
        }
    ]


def test_a_renamed_node_takes_its_edges_along() -> None:
    new = BASE.replace("node Gallery", 'node Room @rename_from("Gallery")').replace(
        "-> Gallery", "-> Room"
    )
    plan = planned(new)
    assert [encode_step(each) for each in plan.steps] == [
        {"kind": "rename_type", "type_kind": "node", "from": "Gallery", "to": "Room"}
    ]


def test_a_rename_hint_is_ignored_once_the_name_is_there() -> None:
    assert changed("node Gallery", 'node Gallery @rename_from("Room")') == []


def test_a_renamed_property_takes_its_constraints_along() -> None:
    assert changed("title: String @index", 'label: String @index @rename_from("title")') == [
        {
            "kind": "rename_property",
            "type_kind": "node",
            "type_name": "Gallery",
            "from": "title",
            "to": "label",
        }
    ]


def test_a_renamed_property_takes_what_is_embedded_from_it_along() -> None:
    new = BASE.replace("title: String\n", 'name: String @rename_from("title")\n').replace(
        "@embed(title)", "@embed(name)"
    )
    assert [each["kind"] for each in map(encode_step, planned(new).steps)] == ["rename_property"]


def test_a_rename_and_a_change_of_type_are_both_reported() -> None:
    steps = changed("note: String?", 'remark: I32? @rename_from("note")')
    assert [each["kind"] for each in steps] == ["rename_property", "unsupported_change"]


def test_renaming_from_nothing_is_refused() -> None:
    step = refusal(
        "node Gallery",
        'node Attic @rename_from("Loft") { code: String @key }\nnode Gallery',
    )
    assert step["entity"] == "node:Attic"
    assert "Loft" in str(step["reason"])


def test_an_accepted_type_is_claimed_once_only() -> None:
    step = refusal(
        "node Gallery", 'node Annex @rename_from("Gallery") { code: String @key }\nnode Gallery'
    )
    assert step["entity"] == "node:Annex"


def test_swapping_two_names_is_not_mistaken_for_two_renames() -> None:
    old = "node A { x: String? }  node B { y: String? }"
    new = 'node A @rename_from("B") { x: String? }  node B @rename_from("A") { y: String? }'
    assert planned(new, old).steps == ()


@pytest.mark.parametrize("mode", DropMode)
def test_drops_come_last_and_carry_their_mode(mode: DropMode) -> None:
    new = BASE.replace("floor: I32?", "").replace(
        "edge Hangs: Artwork -> Gallery @card(0..1) { since: Date? }", ""
    )
    assert [encode_step(each) for each in planned(new, mode=mode).steps] == [
        {
            "kind": "drop_property",
            "type_kind": "node",
            "type_name": "Gallery",
            "property_name": "floor",
            "mode": mode.value,
        },
        {"kind": "drop_type", "type_kind": "edge", "name": "Hangs", "mode": mode.value},
    ]


def test_dropping_an_indexed_property_also_removes_a_constraint() -> None:
    step = refusal("title: String @index  floor", "floor")
    assert "@index(title)" in str(step["reason"])


def test_an_index_may_be_added() -> None:
    assert changed("floor: I32?", "floor: I32? @index") == [
        {
            "kind": "add_constraint",
            "type_kind": "node",
            "type_name": "Gallery",
            "constraint": {"Index": ["floor"]},
        }
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("floor: I32?", "floor: I32?  @range(floor, 0..9)"),
        ("floor: I32?", "floor: I32?  @unique(floor)"),
        ("floor: I32?", 'floor: I32?  @check(code, "^W")'),
        ("title: String @index", "title: String"),
        ("code: String @key", "code: String"),
        ("@card(0..1)", "@card(1..1)"),
        ("Hangs: Artwork -> Gallery", "Hangs: Gallery -> Artwork"),
        ("Artwork implements Dated", "Artwork"),
        ("@embed(title)", '@embed(title, model="m")'),
        ("@embed(title)", ""),
        ("note: String?", "note: String? @mine(3)"),
    ],
)
def test_what_stored_rows_might_violate_is_refused_without_a_code(before: str, after: str) -> None:
    assert "code" not in refusal(before, after)


def test_removing_an_interface_is_refused() -> None:
    old = "interface Dated { made_on: Date? }  node A { x: String? }"
    (step,) = planned("node A { x: String? }", old).steps
    assert encode_step(step)["entity"] == "interface:Dated"


def test_an_interface_hands_its_new_property_to_the_nodes_that_implement_it() -> None:
    steps = changed("made_on: Date?", "made_on: Date?  lost_on: Date?")
    assert [(each["type_kind"], each["type_name"]) for each in steps] == [
        ("interface", "Dated"),
        ("node", "Artwork"),
    ]


def test_descriptions_change_freely() -> None:
    new = BASE.replace("node Gallery", 'node Gallery @description("a room")').replace(
        "since: Date?", 'since: Date? @description("hung on")'
    )
    assert [encode_step(each) for each in planned(new).steps] == [
        {
            "kind": "update_type_metadata",
            "type_kind": "node",
            "name": "Gallery",
            "annotations": [{"name": "description", "value": "a room"}],
        },
        {
            "kind": "update_property_metadata",
            "type_kind": "edge",
            "type_name": "Hangs",
            "property_name": "since",
            "annotations": [{"name": "description", "value": "hung on"}],
        },
    ]


def test_an_unsupported_plan_says_why_with_its_code_first() -> None:
    plan = planned(BASE.replace("floor: I32?", "floor: I32?  area: F64"))
    assert not plan.supported
    with pytest.raises(MigrationUnsupported, match=r"^\[OG-MF-103\] .*'area'") as caught:
        plan.check_supported()
    assert caught.value.entity == "node:Gallery.area"
    assert caught.value.rule == "OG-MF-103"


def test_a_supported_plan_passes_its_check() -> None:
    planned(BASE.replace("floor: I32?", "floor: I32?  area: F64?")).check_supported()


def test_every_step_has_a_sentence_that_names_its_subject() -> None:
    new = """
    interface Dated { made_on: Date? }
    node Room @rename_from("Gallery") {
        code: String @key
        name: String @rename_from("title") @index
        area: F64?
    }
    node Artwork implements Dated {
        ref: String @key
        title: I32
        medium: enum(ink, oil, wax)
        vec: Vector(3)? @embed(note)
        note: String?
    }
    """
    for step in planned(new).steps:
        subject = next(
            str(value)
            for key, value in encode_step(step).items()
            if key in ("property_name", "name", "to", "entity")
        )
        assert subject in describe_step(step)


def test_codes_are_distinct() -> None:
    assert len({each.code for each in RULES}) == len(RULES)


EVERY_STEP = """
interface Dated { made_on: Date?  seen_on: DateTime? }
node Room @rename_from("Gallery") {
    code: String @key
    label: String @index @rename_from("title")
    floor: I32? @index
    extent: [F64]?
}
node Artwork @description("Things on walls") implements Dated {
    ref: String @key
    title: String @description("As the label says")
    medium: enum(ink, oil, wax)
    vec: Vector(3)? @embed(title)
    price: I64
    @range(price, 0..)
}
node Added { x: I32? }
"""


@pytest.mark.parametrize("mode", list(DropMode))
def test_a_plan_survives_being_written_down(mode: DropMode) -> None:
    plan = planned(EVERY_STEP, mode=mode)
    kinds = {each["kind"] for each in map(encode_step, plan.steps)}
    assert len(kinds) >= 9, kinds
    told = json.loads(json.dumps(plan.to_json()))
    assert decode_plan(told) == plan
    told["steps"][0]["kind"] = "dance"
    with pytest.raises(SchemaCorrupt):
        decode_plan(told)


ENDS = """
node Person { }
node City { }
node Country { }
edge LivesIn: Person -> City { since: I32? }
"""
SEVERAL = ENDS.replace("Person -> City {", "Person -> City | Country {")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            ENDS,
            SEVERAL,
            [
                ("rename_type", "LivesIn", "LivesIn.Person.City"),
                ("add_type", None, "LivesIn.Person.Country"),
            ],
        ),
        (
            SEVERAL,
            ENDS,
            [
                ("rename_type", "LivesIn.Person.City", "LivesIn"),
                ("drop_type", None, "LivesIn.Person.Country"),
            ],
        ),
        (
            SEVERAL,
            SEVERAL.replace("node City {", 'node Town @rename_from("City") {').replace(
                "-> City |", "-> Town |"
            ),
            [
                ("rename_type", "City", "Town"),
                ("rename_type", "LivesIn.Person.City", "LivesIn.Person.Town"),
            ],
        ),
        (
            SEVERAL,
            SEVERAL.replace("LivesIn: Person", "Stays: City | Person").replace(
                "| Country {", '| Country @rename_from("LivesIn") {'
            ),
            [
                ("add_type", None, "Stays.City.City"),
                ("add_type", None, "Stays.City.Country"),
                ("rename_type", "LivesIn.Person.City", "Stays.Person.City"),
                ("rename_type", "LivesIn.Person.Country", "Stays.Person.Country"),
            ],
        ),
    ],
    ids=["an edge gets ends", "ends are dropped", "an end is renamed", "the edge is renamed"],
)
def test_the_tables_of_an_edge_over_several_ends_are_kept(
    before: str, after: str, expected: list[tuple[str, str | None, str]]
) -> None:
    plan = plan_migration(*(compile_schema(Source("s.pg", each)) for each in (before, after)))
    steps = [encode_step(each) for each in plan.steps]
    assert [
        (each["kind"], each.get("from"), each.get("to", each.get("name"))) for each in steps
    ] == expected
    assert plan.supported
    again = after.replace("node Country", "node Other { }\nnode Country").replace(
        "| Country", "| Country | Other"
    )
    if again != after and "|" in again:
        plan = plan_migration(*(compile_schema(Source("s.pg", each)) for each in (after, again)))
        assert plan.supported, "a rename that was done is no hint any more"
