"""Changing a schema under data: what becomes of the rows, and of everybody else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from omnigraph.commit.manifest.schema_files import FILES
from omnigraph.engine.active_schema import SchemaCache, compile_active_schema
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.query.target import Target
from omnigraph.engine.schema.plan import EffectKind, SchemaRequest
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import (
    BackfillInvalid,
    BranchesExist,
    ConflictError,
    ConstraintViolation,
    MigrationUnsupported,
    NotFoundError,
    OmnigraphError,
    SchemaChanged,
    SchemaLocked,
    SchemaOutdated,
    TypeUnknown,
)
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.testing.failpoints import At, Pause, Trigger
from omnigraph.testing.invariants import check_graph
from support.breaking import open_living, stores_at

SCHEMA = """
node Person { name: String @key  age: I64? @index }
node Company { name: String @key }
edge Knows: Person -> Person { since: I64? }
"""
PERSON = TableKey("node:Person")
RELAXED = Settings(durability=Durability.RELAXED)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = create(str(tmp_path / "g"), SCHEMA, settings=RELAXED)
    people: list[dict[str, object]] = [
        {"name": "ann", "age": 30},
        {"name": "bob"},
        {"name": "carl", "age": 50},
    ]
    graph.write_rows("Person", people, existing=Existing.REFUSE)
    graph.write_rows("Knows", [{"from": "ann", "to": "bob"}], existing=Existing.REFUSE)
    graph.remove_rows("Person", ["carl"])
    return tmp_path / "g"


def open_at(root: Path) -> Graph:
    return open_graph(str(root), settings=RELAXED)


def with_person(body: str, *, name: str = "Person") -> str:
    end = name.split(maxsplit=1)[0]
    return (
        f"node {name} {{ {body} }}\nnode Company {{ name: String @key }}\n"
        f"edge Knows: {end} -> {end} {{ since: I64? }}\n"
    )


def rows_of(graph: Graph, key: str) -> list[dict[str, object]]:
    handle = graph.open_table(graph.snapshot(), TableKey(key))
    rows = graph._stores.tables.read(handle).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def check_sound(root: Path) -> None:
    assert check_graph(stores_at(root)) == []


def test_a_nullable_property_is_added_without_writing_rows(root: Path) -> None:
    def data() -> set[str]:
        return {str(each) for each in root.rglob("data/*.lance")}

    before = data()
    wanted = with_person("name: String @key  age: I64? @index  mail: String?  tags: [String]?")
    result = open_at(root).apply_schema(SchemaRequest(wanted, actor="ann"))
    assert [each.effect for each in result.plan.effects] == [EffectKind.RESHAPED]
    assert result.commit is not None
    assert result.commit.actor == "ann"
    grown = {each for each in data() if "__manifest" not in each} - before
    assert not grown, "a data file was written"
    graph = open_at(root)
    assert rows_of(graph, PERSON)[0] == {
        "id": "ann",
        "name": "ann",
        "age": 30,
        "mail": None,
        "tags": None,
    }
    row = {"name": "dora", "mail": "d@x", "tags": ["a", "b"]}
    graph.write_rows("Person", [row], existing=Existing.REFUSE)
    assert rows_of(graph, PERSON)[-1]["tags"] == ["a", "b"]
    check_sound(root)


def test_a_renamed_and_a_dropped_property_keep_every_other_value(root: Path) -> None:
    wanted = with_person('name: String @key  years: I64? @index @rename_from("age")')
    graph = open_at(root)
    before = graph.snapshot()
    graph.apply_schema(SchemaRequest(wanted))
    assert rows_of(graph, PERSON) == [
        {"id": "ann", "name": "ann", "years": 30},
        {"id": "bob", "name": "bob", "years": None},
    ]
    # An older snapshot still answers as it did.
    old = graph._stores.tables.read(graph.open_table(before, PERSON))
    assert "age" in old.column_names
    check_sound(root)


def test_an_index_follows_its_property_and_not_its_name(root: Path) -> None:
    graph = open_at(root)
    graph.ensure_indices()

    def indexes() -> set[tuple[str, str]]:
        handle = graph.open_table(graph.snapshot(), PERSON)
        found = graph._stores.tables.inspect(handle).indices
        return {(each.name, each.column) for each in found}

    assert ("age_idx", "age") in indexes()
    years = 'years: I64? @index @rename_from("age")'
    graph.apply_schema(SchemaRequest(with_person(f"name: String @key  {years}")))
    graph.apply_schema(SchemaRequest(with_person(f"name: String @key  {years}  age: I64? @index")))
    graph.ensure_indices()
    assert {("age_idx", "age"), ("years_idx", "years")} <= indexes()
    assert len({column for _, column in indexes()} & {"age", "years"}) == 2
    check_sound(root)


def test_a_commit_is_read_by_the_schema_it_was_made_under(root: Path) -> None:
    graph = open_at(root)
    before = graph.commits()[0].id
    human = 'Human @rename_from("Person")'
    body = 'name: String @key  years: I64? @index @rename_from("age")  mail: String?'
    graph.apply_schema(SchemaRequest(with_person(body, name=human)))
    after = graph.commits()[0].id
    graph.apply_schema(SchemaRequest("node Company { name: String @key }\n"))

    def ask(text: str, commit: CommitId) -> list[str]:
        source = Source("<q>", f"query q() {{ match {{ {text} }} return {{ $x.name }} }}")
        found = open_at(root).query(source, target=Target(commit_id=commit))
        return sorted(str(row["x.name"]) for row in found.rows())

    assert ask("$x: Person { age: 30 }", before) == ["ann"]
    assert ask("$x: Human", after) == ["ann", "bob"]


def test_a_property_may_be_renamed_dropped_and_added_in_one_change(root: Path) -> None:
    graph = open_at(root)
    first = with_person("name: String @key  age: I64? @index  mail: String?  note: String?")
    graph.apply_schema(SchemaRequest(first))
    second = with_person(
        'name: String @key  age: I64? @index  post: String? @rename_from("mail")  size: F64?'
    )
    result = graph.apply_schema(SchemaRequest(second))
    assert len(result.plan.migration.steps) == 3
    assert rows_of(graph, PERSON)[0].keys() == {"id", "name", "age", "post", "size"}
    check_sound(root)


@pytest.mark.parametrize(
    ("declared", "backfill", "expected"),
    [
        ("level: I32 @default(7)", None, [7, 7]),
        ("level: Bool @default(true)", None, [True, True]),
        ('level: String @default("low")', None, ["low", "low"]),
        ('level: enum(low, high) @default("low")', None, ["low", "low"]),
        ("level: I32", "coalesce(age, -1) + 1", [31, 0]),
        ("level: String", "upper(name)", ["ANN", "BOB"]),
        ("level: F64?", "cast(age as double) / 2.0", [15.0, None]),
    ],
)
def test_old_rows_get_what_the_schema_or_the_caller_says(
    root: Path, declared: str, backfill: str | None, expected: list[object]
) -> None:
    graph = open_at(root)
    wanted = with_person(f"name: String @key  age: I64? @index  {declared}")
    given = {} if backfill is None else {"Person.level": backfill}
    graph.apply_schema(SchemaRequest(wanted, backfill=given))
    assert [row["level"] for row in rows_of(graph, PERSON)] == expected
    check_sound(root)


def test_moments_keep_their_time_of_day(root: Path) -> None:
    graph = open_at(root)
    wanted = with_person(
        "name: String @key  age: I64? @index  "
        'born: Date @default("2001-02-03")  seen: DateTime @default("2024-05-01T08:30:00Z")  '
        "met: DateTime"
    )
    fill = {"Person.met": "timestamp '2024-05-01 09:45:00'"}
    graph.apply_schema(SchemaRequest(wanted, backfill=fill))
    handle = graph.open_table(graph.snapshot(), PERSON)
    rows = graph._stores.tables.read(handle)
    for name, minutes in (("seen", 510), ("met", 585)):
        (stored,) = {each.view(pa.int64())[0].as_py() for each in rows[name].chunks}
        assert stored // 60_000 % 1440 == minutes
    check_sound(root)


@pytest.mark.parametrize(
    ("declared", "backfill", "match"),
    [
        ("level: I32", "age", "2 rows|1 rows"),
        ("level: I32", "no_such_column", "no_such_column"),
        ("level: I32", "name", "I32"),
        ("level: enum(low, high)", "'middle'", "none of"),
    ],
)
def test_what_does_not_fit_the_property_is_refused_and_nothing_changes(
    root: Path, declared: str, backfill: str | None, match: str
) -> None:
    graph = open_at(root)
    before = graph.snapshot()
    wanted = with_person(f"name: String @key  age: I64? @index  {declared}")
    given = {} if backfill is None else {"Person.level": backfill}
    with pytest.raises(BackfillInvalid, match=match):
        graph.apply_schema(SchemaRequest(wanted, backfill=given))
    assert open_at(root).snapshot() == before
    graph.write_rows("Person", [{"name": "dora"}], existing=Existing.REFUSE)
    check_sound(root)


def test_a_required_property_without_a_value_is_refused_with_its_code(root: Path) -> None:
    wanted = with_person("name: String @key  age: I64? @index  level: I32")
    with pytest.raises(MigrationUnsupported) as caught:
        open_at(root).apply_schema(SchemaRequest(wanted))
    assert caught.value.rule == "OG-MF-103"


def test_a_backfill_of_something_that_is_not_added_is_refused(root: Path) -> None:
    with pytest.raises(BackfillInvalid, match="is added"):
        open_at(root).apply_schema(SchemaRequest(SCHEMA, backfill={"Person.age": "1"}))


def test_a_renamed_type_is_the_same_table_under_another_key(root: Path) -> None:
    graph = open_at(root)
    path = graph.snapshot().pins[PERSON].path
    versions = graph.snapshot().pins[PERSON].version
    wanted = with_person("name: String @key  age: I64? @index", name='Human @rename_from("Person")')
    result = graph.apply_schema(SchemaRequest(wanted))
    assert [each.effect for each in result.plan.effects] == [EffectKind.RENAMED]
    pin = graph.snapshot().pins[TableKey("node:Human")]
    assert (pin.path, pin.version) == (path, versions)
    assert PERSON not in graph.snapshot().pins
    graph.write_rows("Human", [{"name": "dora"}], existing=Existing.REFUSE)
    graph.write_rows("Knows", [{"from": "dora", "to": "ann"}], existing=Existing.REFUSE)
    with pytest.raises(TypeUnknown):
        graph.write_rows("Person", [{"name": "x"}], existing=Existing.REFUSE)
    check_sound(root)


def test_names_come_back_after_drops_and_renames_with_rows_of_their_own(root: Path) -> None:
    graph = open_at(root)
    human = with_person("name: String @key  age: I64? @index", name='Human @rename_from("Person")')
    graph.apply_schema(SchemaRequest(human))
    both = human + "node Person { code: String @key }\n"
    graph.apply_schema(SchemaRequest(both))
    assert rows_of(graph, PERSON) == []
    graph.write_rows("Person", [{"code": "p"}], existing=Existing.REFUSE)
    assert len(rows_of(graph, "node:Human")) == 2
    pins = graph.snapshot().pins
    assert pins[PERSON].path != pins[TableKey("node:Human")].path
    for _ in range(2):  # dropped and added again, and again
        graph.apply_schema(SchemaRequest(human))
        assert PERSON not in graph.snapshot().pins
        graph.apply_schema(SchemaRequest(both))
        assert rows_of(graph, PERSON) == []
    check_sound(root)


def test_a_soft_drop_hides_and_a_hard_one_removes(root: Path) -> None:
    graph = open_at(root)
    commit = graph.commits()[0].id
    alone = "node Company { name: String @key }\n"
    graph.apply_schema(SchemaRequest(alone))
    old = graph.snapshot_at_commit(commit)
    assert graph.open_table(old, PERSON).row_count == 2
    graph.apply_schema(SchemaRequest(SCHEMA))
    graph.write_rows("Person", [{"name": "eve", "age": 1}], existing=Existing.REFUSE)
    kept = graph.commits()[0].id
    secret = root / graph.snapshot().pins[PERSON].path
    graph.apply_schema(SchemaRequest(alone, allow_data_loss=True))
    assert not secret.exists()
    with pytest.raises(NotFoundError):
        graph.open_table(graph.snapshot_at_commit(kept), PERSON)
    check_sound(root)


def test_a_hard_drop_of_a_property_leaves_none_of_its_bytes(root: Path) -> None:
    graph = open_at(root)
    graph.apply_schema(
        SchemaRequest(
            with_person("name: String @key  age: I64? @index  code: String"),
            backfill={"Person.code": "concat('SECRET-', name)"},
        )
    )
    result = graph.apply_schema(
        SchemaRequest(with_person("name: String @key  age: I64? @index"), allow_data_loss=True)
    )
    assert [each.effect for each in result.plan.effects] == [EffectKind.REWRITTEN]
    table = root / graph.snapshot().pins[PERSON].path
    assert [f for f in table.rglob("*.lance") if b"SECRET-" in f.read_bytes()] == []
    assert [row["name"] for row in rows_of(graph, PERSON)] == ["ann", "bob"]
    check_sound(root)


def test_a_schema_that_says_the_same_makes_no_commit(root: Path) -> None:
    graph = open_at(root)
    before = graph.snapshot()
    assert not graph.apply_schema(SchemaRequest(SCHEMA + "// a remark\n")).applied
    assert graph.snapshot() == before


def test_a_change_of_metadata_alone_is_a_commit_that_moves_no_table(root: Path) -> None:
    graph = open_at(root)
    pins = graph.snapshot().pins
    wanted = with_person("name: String @key  age: I64? @index", name='Person @description("us")')
    assert graph.apply_schema(SchemaRequest(wanted)).applied
    assert graph.snapshot().pins == pins
    assert "us" in open_at(root).schema_source


def test_it_is_refused_while_there_are_other_branches(root: Path) -> None:
    graph = open_at(root)
    graph.create_branch("side")
    with pytest.raises(BranchesExist) as caught:
        graph.apply_schema(SchemaRequest("node Company { name: String @key }\n"))
    assert caught.value.branches == ("side",)
    graph.delete_branch("side")
    assert graph.apply_schema(SchemaRequest("node Company { name: String @key }\n")).applied


def test_a_long_lived_handle_works_by_the_new_schema_at_once(root: Path) -> None:
    handle, reader = open_at(root), open_graph(str(root), mode=Mode.READ_ONLY)
    assert handle.catalog.node("Pet") is None
    open_at(root).apply_schema(SchemaRequest(SCHEMA + "node Pet { name: String @key }\n"))
    handle.write_rows("Pet", [{"name": "rex"}], existing=Existing.REFUSE)
    assert reader.catalog.node("Pet") is not None
    check_sound(root)


def test_a_write_that_was_read_by_one_schema_is_decided_again_by_another(root: Path) -> None:
    graph = open_at(root)

    class Rows(list[dict[str, object]]):
        """Rows that take their time: others change the schema, and everybody learns of it."""

        def __iter__(self) -> Iterator[dict[str, object]]:
            if graph.catalog.node("Pet") is None:
                open_at(root).apply_schema(SchemaRequest(NEXT.replace("since: I64?", "")))
                assert graph.catalog.node("Pet") is not None
            return super().__iter__()

    with pytest.raises(ConstraintViolation, match="Knows has no property 'since'"):
        graph.write_rows(
            "Knows", Rows([{"from": "bob", "to": "ann", "since": 4}]), existing=Existing.REFUSE
        )
    assert [each["src"] for each in rows_of(graph, "edge:Knows")] == ["ann"]
    check_sound(root)


def test_a_long_lived_handle_merges_by_the_new_schema(root: Path) -> None:
    handle, other = open_at(root), open_at(root)
    assert handle.catalog.node("Pet") is None
    other.apply_schema(SchemaRequest(SCHEMA + "node Pet { name: String @key }\n"))
    other.create_branch("side")
    side = BranchName("side")
    pets: list[dict[str, object]] = [{"name": "rex"}]
    other.write_rows("Pet", pets, existing=Existing.REFUSE, request=WriteRequest(side))
    handle.merge(MergeRequest(side, MAIN))
    assert [each["id"] for each in rows_of(handle, "node:Pet")] == ["rex"]
    check_sound(root)


def test_no_branch_starts_under_a_schema_that_is_no_longer_in_force(root: Path) -> None:
    graph = open_at(root)
    before = graph.commits()[0].id
    graph.apply_schema(SchemaRequest(SCHEMA + "node Pet { name: String @key }\n"))
    with pytest.raises(SchemaOutdated, match=before):
        graph.create_branch("side", commit_id=before)
    assert graph.branches() == (MAIN,)
    graph.create_branch("side", commit_id=graph.commits()[0].id)
    graph.write_rows(
        "Pet", [{"name": "rex"}], existing=Existing.REFUSE, request=WriteRequest(BranchName("side"))
    )


# ── together with others ─────────────────────────────────────────────────────────────────────────

NEXT = SCHEMA + "node Pet { name: String @key }\n"
LATER = compile_active_schema(NEXT, name="next.pg")


def change_schema(graph: Graph) -> None:
    graph.apply_schema(SchemaRequest(NEXT))


def while_paused(
    root: Path,
    at: At,
    meanwhile: Callable[[], None],
    act: Callable[[Graph], object] = change_schema,
) -> OmnigraphError | None:
    """Do something while a change of the schema has got that far; what became of the change."""
    pause, trouble = Pause(), list[OmnigraphError]()
    trigger = Trigger(at, pause)
    graph = open_living(root, trigger, observe=trigger.observe)

    def change() -> None:
        try:
            act(graph)
        except OmnigraphError as failure:
            trouble.append(failure)

    thread = Thread(target=change)
    thread.start()
    try:
        pause.await_arrival()
        meanwhile()
    finally:
        pause.release()
        thread.join()
    return trouble[0] if trouble else None


@pytest.mark.parametrize("step", ["step prepare", "step publish", "step promote"])
def test_writers_are_told_at_once_that_the_schema_is_being_changed(root: Path, step: str) -> None:
    other = open_at(root)

    def write() -> None:
        with pytest.raises(SchemaLocked) as caught:
            other.write_rows("Person", [{"name": "x"}], existing=Existing.REFUSE)
        assert caught.value.owner is not None
        with pytest.raises(SchemaLocked):
            other.create_branch("side")

    assert while_paused(root, At(step), write) is None
    other.write_rows("Person", [{"name": "x"}], existing=Existing.REFUSE)
    other.write_rows("Pet", [{"name": "rex"}], existing=Existing.REFUSE)
    check_sound(root)


def test_a_branch_does_not_start_before_a_change_that_came_and_went_meanwhile(root: Path) -> None:
    other = open_at(root)
    late = while_paused(
        root,
        At("tables.fork"),
        lambda: change_schema(other),
        act=lambda graph: graph.create_branch("side"),
    )
    assert isinstance(late, SchemaOutdated)
    assert other.branches() == (MAIN,)
    check_sound(root)


def test_of_two_changes_at_once_one_wins_and_the_other_is_told(root: Path) -> None:
    other = open_at(root)

    def rival() -> None:
        with pytest.raises(ConflictError) as caught:
            other.apply_schema(SchemaRequest(SCHEMA + "node Car { name: String @key }\n"))
        assert isinstance(caught.value, SchemaLocked | SchemaChanged)

    assert while_paused(root, At("step publish"), rival) is None
    assert other.catalog.node("Pet") is not None
    assert other.catalog.node("Car") is None


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_readers_see_a_whole_schema_while_its_files_are_replaced(root: Path, nth: int) -> None:
    def read() -> None:
        reader = open_graph(str(root), mode=Mode.READ_ONLY)
        assert reader.catalog.node("Pet") is not None
        assert "node:Pet" in reader.snapshot().pins

    assert while_paused(root, At("objects.put_over", nth, since="step promote"), read) is None


@pytest.mark.parametrize("nth", [1, 2, 3, None])
def test_a_schema_that_was_overtaken_since_its_branch_was_read_is_found(
    root: Path, nth: int | None
) -> None:
    """The next schema is in force, or its files are being replaced (`nth`)."""
    graph = open_at(root)
    manifest, cache = graph._bases.current(MAIN).manifest, SchemaCache(graph.objects, LATER)

    def read() -> None:
        assert cache.for_manifest(manifest).catalog.node("Pet") is None

    if nth is None:
        change_schema(graph)
        read()
    else:
        at = At("objects.put_over", nth, since="step promote")
        assert while_paused(root, at, read) is None


def test_files_of_another_schema_than_that_of_the_newest_commit_are_found_by_doctor(
    root: Path,
) -> None:
    graph = open_at(root)
    texts = {each: (root / each).read_bytes() for each in FILES}
    change_schema(graph)
    for name, text in texts.items():
        (root / name).write_bytes(text)
    findings = open_graph(str(root), mode=Mode.READ_ONLY).examine()
    assert [(each.subject, "newest commit" in each.problem) for each in findings] == [
        ("_schema.pg", True)
    ]


def test_a_program_of_others_that_changes_the_schema_is_respected(root: Path) -> None:
    """A lock without our note is not ours to break."""
    graph = open_at(root)
    base = graph._bases.current(MAIN)
    graph._stores.tables.fork(base.handle, "__schema_apply_lock__")
    with pytest.raises(SchemaLocked):
        graph.write_rows("Person", [{"name": "x"}], existing=Existing.REFUSE)
    with pytest.raises(SchemaLocked):
        graph.apply_schema(SchemaRequest(NEXT))
    open_at(root)
    with pytest.raises(SchemaLocked):
        graph.create_branch("side")
