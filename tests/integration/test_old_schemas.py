"""Commits from before a change of the schema are told, compared and exported by their own."""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ChangesRefused, TypeUnknown
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

BEFORE = """
node Person { name: String @key  age: I64?  born: Date? }
node Pet { name: String @key }
edge Owns: Person -> Pet { since: Date? }
"""
AFTER = """
node Person { name: String @key  years: I64? @rename_from("age")  label: String? }
node Shop { name: String @key }
"""


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    """Two writes before the change, and two after."""
    graph = omnigraph.init(tmp_path / "g", BEFORE, durability=Durability.RELAXED)
    graph.insert("Person", [{"name": "ann", "age": 30, "born": "1994-05-01"}])
    graph.insert("Pet", [{"name": "rex"}])
    graph.upsert("Person", [{"name": "ann", "age": 31}])
    graph.insert("Owns", [{"from": "ann", "to": "rex", "since": "2024-01-02"}])
    graph.apply_schema(AFTER)
    graph.upsert("Person", [{"name": "ann", "years": 32, "label": "A"}])
    graph.insert("Shop", [{"name": "acme"}])
    return graph


def commits_of(graph: LocalGraph) -> list[str]:
    """Oldest first."""
    return [each.id for each in reversed(graph.commits())]


def test_two_commits_of_the_old_schema_are_compared_by_it(graph: LocalGraph) -> None:
    start, ann, rex, older, owned, *_ = commits_of(graph)
    (change,) = graph.diff(rex, older).changes()
    assert (change.before, change.after) != (None, None)
    assert change.before is not None
    assert change.before.properties == {"name": "ann", "age": 30, "born": "1994-05-01"}
    assert change.after is not None
    assert change.after.properties == {"name": "ann", "age": 31, "born": None}
    told = list(graph.diff(start, owned).changes())
    assert [(each.type_name, each.id) for each in told][1:] == [("Person", "ann"), ("Pet", "rex")]
    assert told[0].after is not None
    assert told[0].after.properties == {"since": "2024-01-02"}
    assert list(graph.diff(start, ann, types=["Pet"]).changes()) == []
    with pytest.raises(TypeUnknown):
        graph.diff(start, ann, types=["Shop"])


def test_a_commit_of_the_old_schema_tells_what_it_changed(graph: LocalGraph) -> None:
    _, _, rex, older, *_ = commits_of(graph)
    (change,) = graph.commit_changes(older).changes
    assert change.after is not None
    assert change.after.properties["age"] == 31
    (pet,) = graph.commit_changes(rex, types=["Pet"]).changes
    assert pet.type_name == "Pet"


def test_a_type_that_one_side_has_not_is_all_new_or_all_gone(graph: LocalGraph) -> None:
    *_, owned, changed, years, shop = commits_of(graph)
    forth = list(graph.diff(owned, shop, types=["Pet", "Shop", "Owns"]).changes())
    assert [(each.type_name, each.op.value) for each in forth] == [
        ("Owns", "delete"),
        ("Pet", "delete"),
        ("Shop", "insert"),
    ]
    back = list(graph.diff(shop, owned, types=["Pet", "Shop", "Owns"]).changes())
    assert [each.op.value for each in back] == ["insert", "insert", "delete"]
    assert [each.before for each in back] == [each.after for each in forth]
    with pytest.raises(ChangesRefused) as refused:
        graph.diff(owned, years)
    assert (refused.value.reason, refused.value.type_name) == ("schema_boundary", "Person")
    assert len(list(graph.diff(changed, years).changes())) == 1


def test_a_feed_tells_everything_up_to_the_change_and_goes_on_after_it(graph: LocalGraph) -> None:
    *_, changed, _, _ = commits_of(graph)
    page = graph.changes(start="beginning")
    assert [each.type_name for block in page.blocks for each in block.changes] == [
        "Person",
        "Pet",
        "Person",
        "Owns",
    ]
    assert not page.caught_up
    with pytest.raises(ChangesRefused) as refused:
        graph.changes(page.cursor)
    assert refused.value.commit_id == changed
    rest = graph.changes(start=f"after:{changed}")
    assert [each.id for block in rest.blocks for each in block.changes] == ["ann", "acme"]
    assert rest.caught_up
    only = graph.changes(start="beginning", types=["Shop"])
    assert [each.id for block in only.blocks for each in block.changes] == ["acme"]


def test_an_export_has_the_columns_of_its_time(graph: LocalGraph) -> None:
    *_, owned, _, _, shop = commits_of(graph)

    def records(commit: str) -> list[dict[str, object]]:
        lines = b"".join(graph.export_lines(commit=commit)).decode().splitlines()
        return [json.loads(each) for each in lines]

    old, new = records(owned), records(shop)
    assert {str(each.get("type") or each.get("edge")) for each in old} == {"Person", "Pet", "Owns"}
    assert {str(each.get("type") or each.get("edge")) for each in new} == {"Person", "Shop"}
    (ann,) = (each["data"] for each in old if each.get("type") == "Person")
    assert ann == {"id": "ann", "name": "ann", "age": 31, "born": None}
    (ann,) = (each["data"] for each in new if each.get("type") == "Person")
    assert ann == {"id": "ann", "name": "ann", "years": 32, "label": "A"}
