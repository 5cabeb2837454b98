"""Schema changes and maintenance, in a bucket as on a disk."""

import omnigraph
from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Mode
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.ids import TableKey
from support.publishing import Place

NEXT = """
node A { name: String @key  level: I32 @default(3)  note: String? }
node B2 @rename_from("B") { name: String @key }
node D { name: String @key }
"""


def test_a_schema_changes_and_old_versions_go(cloud_place: Place) -> None:
    options = cloud_place.storage_options
    graph = omnigraph.open(cloud_place.uri, storage_options=options)
    for name in ("one", "two", "three"):
        graph.insert("A", [{"name": name}])
    graph.insert("B", [{"name": "b"}])
    assert graph.apply_schema(NEXT, actor="dana").applied
    rows = graph.query("query q() { match { $x: A } return { $x.name, $x.level } }").rows()
    assert [row["x.level"] for row in rows] == [3, 3, 3]
    graph.insert("B2", [{"name": "c"}])
    graph.insert("D", [{"name": "d"}])
    graph.optimize()
    order = CleanupRequest(RetentionPolicy(keep=1), is_confirmed=True, debris_age_ms=-60_000)
    settings = Settings(storage_options=dict(options or {}))
    result = open_graph(cloud_place.uri, settings=settings).cleanup(order)
    assert [each.error for each in result.tables if each.error] == []
    assert sum(each.versions_removed for each in result.tables) > 0
    reader = open_graph(cloud_place.uri, mode=Mode.READ_ONLY, settings=settings)
    assert reader.examine(is_deep=True) == []
    assert reader.snapshot().pins[TableKey("node:B2")].row_count == 2
