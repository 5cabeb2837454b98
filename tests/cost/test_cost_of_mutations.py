"""What a mutation asks of the store: counts, which do not grow with the table or its history."""

from collections import Counter
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.schema_files import read_schema_files
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import check_schema_files
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.faults import Recorder, watch_stores

SCHEMA = """
node Person { name: String @key  mail: String? @unique  age: I32? }
node Team { name: String @key }
edge Joined: Person -> Team @card(0..3)
"""
INSERT = Source("<q>", "query q($n: String) { insert Person { name: $n, mail: $n } }")
JOIN = Source("<q>", 'query q($n: String) { insert Joined { from: $n, to: "t" } }')
UPDATE = Source("<q>", "query q($n: String) { update Person set { age: 1 } where name = $n }")


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Graph, Recorder]:
    uri = str(tmp_path / "g")
    create(uri, SCHEMA, settings=Settings(durability=Durability.RELAXED))
    recorder = Recorder()
    stores = watch_stores(open_stores(uri, REAL, durability=Durability.RELAXED), recorder)
    found = read_schema_files(stores.objects)
    assert found is not None
    graph = Graph(stores, Bases(stores), check_schema_files(found), Mode.READ_WRITE)
    graph.write_rows("Team", [{"name": "t"}], existing=Existing.REFUSE)
    return graph, recorder


def calls_of(watched: tuple[Graph, Recorder], source: Source, name: str) -> Counter[str]:
    graph, recorder = watched
    recorder.calls.clear()
    assert graph.mutate(source, params={"n": name}).commit is not None
    return Counter(each for each in recorder.calls if each.startswith("tables."))


def test_a_keyed_insert_opens_reads_and_stages_one_table_once(
    watched: tuple[Graph, Recorder],
) -> None:
    calls_of(watched, INSERT, "first")
    calls = calls_of(watched, INSERT, "second")
    assert calls["tables.stage_rows"] == 1
    assert calls["tables.commit_exact"] == 1
    assert calls["tables.open_at"] <= 1
    # One look for the id and the unique value together; the manifest is known already.
    assert calls["tables.read"] == 1
    assert calls["tables.single_step.swap_rows"] == 1


@pytest.mark.parametrize("source", [INSERT, JOIN, UPDATE])
def test_the_calls_of_a_mutation_do_not_depend_on_rows_or_history(
    watched: tuple[Graph, Recorder], source: Source
) -> None:
    graph, _ = watched
    rows = [{"name": f"p{n}"} for n in range(8)]
    graph.write_rows("Person", rows, existing=Existing.REFUSE)
    calls_of(watched, JOIN, "p0")
    before = calls_of(watched, source, "p1")
    more = [{"name": f"q{n}", "mail": f"q{n}"} for n in range(3000)]
    graph.write_rows("Person", more, existing=Existing.REFUSE)
    for n in range(6):
        calls_of(watched, UPDATE, f"q{n}")
        calls_of(watched, JOIN, f"q{n}")
    after = calls_of(watched, source, "p2")
    # The publish now and then folds the manifest, which reads it once more.
    assert after["tables.read"] <= before["tables.read"] + 1
    for each in (after, before):
        del each["tables.read"]
    assert after == before


def test_what_is_refused_stages_nothing(watched: tuple[Graph, Recorder]) -> None:
    graph, recorder = watched
    recorder.calls.clear()
    with pytest.raises(Exception, match="not found in Person"):
        graph.mutate(JOIN, params={"n": "nobody"})
    assert not [each for each in recorder.calls if "stage" in each or "commit" in each]
