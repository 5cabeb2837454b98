"""Random schema changes over random rows, among writes, crashes and maintenance, against a model.

The model knows the rows of every type as dictionaries. After every step the doctor finds nothing,
and the graph shows what the model says.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.opening import create
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.ids import TableKey
from omnigraph.storage.durability import Durability
from omnigraph.testing.faults import Crash, CrashAt, When
from support.breaking import BreakableGraph, open_mortal, stores_at

EXAMPLES = int(os.environ.get("OMNIGRAPH_SCHEMA_EXAMPLES", "4"))
STEPS = int(os.environ.get("OMNIGRAPH_SCHEMA_STEPS", "14"))

TYPES = ("Ant", "Bee", "Cat")
PROPERTIES = ("p", "q", "r")
Rows = dict[str, dict[str, int | None]]


class SchemaMachine(RuleBasedStateMachine):
    """Types with integer properties, and an edge type from each to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "g"
        self.columns: dict[str, list[str]] = {"Ant": ["p"]}
        self.rows: dict[str, Rows] = {"Ant": {}}
        self.edges: dict[str, int] = {"Ant": 0}
        relaxed = Settings(durability=Durability.RELAXED)
        create(str(self.root), spell(self.columns), settings=relaxed)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, fault: CrashAt | None = None) -> BreakableGraph:
        return open_mortal(self.root, fault)

    # writes

    @rule(data=st.data(), value=st.integers(0, 99))
    def write(self, data: st.DataObject, value: int) -> None:
        if not self.columns:
            return
        name = data.draw(st.sampled_from(sorted(self.columns)))
        key = data.draw(st.sampled_from("abcd"))
        row: dict[str, int | None] = dict.fromkeys(self.columns[name], value)
        self.open().write_rows(name, [{"key": key, **row}], existing=Existing.REPLACE)
        self.rows[name][key] = row

    @rule(data=st.data())
    def link(self, data: st.DataObject) -> None:
        filled = sorted(name for name, rows in self.rows.items() if rows)
        if filled:
            name = data.draw(st.sampled_from(filled))
            end = min(self.rows[name])
            edge = {"from": end, "to": end}
            self.open().write_rows(f"{name}Link", [edge], existing=Existing.REFUSE)
            self.edges[name] += 1

    # schema changes

    @rule(data=st.data(), crash=st.integers(0, 40))
    def add_type(self, data: st.DataObject, crash: int) -> None:
        missing = sorted(set(TYPES) - self.columns.keys())
        if missing:
            name = data.draw(st.sampled_from(missing))
            if self.change({**self.columns, name: ["p"]}, crash=crash):
                self.columns[name], self.rows[name], self.edges[name] = ["p"], {}, 0

    @rule(data=st.data(), crash=st.integers(0, 40), hard=st.booleans())
    @precondition(lambda self: len(self.columns) > 1)
    def drop_type(self, data: st.DataObject, crash: int, *, hard: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)))
        left = {each: columns for each, columns in self.columns.items() if each != name}
        if self.change(left, crash=crash, hard=hard):
            del self.columns[name], self.rows[name], self.edges[name]

    @rule(data=st.data(), crash=st.integers(0, 40))
    def rename_type(self, data: st.DataObject, crash: int) -> None:
        missing = sorted(set(TYPES) - self.columns.keys())
        if not missing:
            return
        old = data.draw(st.sampled_from(sorted(self.columns)))
        new = data.draw(st.sampled_from(missing))
        wanted = {new if each == old else each: c for each, c in self.columns.items()}
        if self.change(wanted, crash=crash, renamed={new: old}):
            self.columns[new] = self.columns.pop(old)
            self.rows[new] = self.rows.pop(old)
            self.edges[new] = self.edges.pop(old)

    @rule(data=st.data(), crash=st.integers(0, 40), fill=st.booleans())
    def add_property(self, data: st.DataObject, crash: int, *, fill: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)))
        missing = sorted(set(PROPERTIES) - set(self.columns[name]))
        if missing:
            added = data.draw(st.sampled_from(missing))
            wanted = {**self.columns, name: [*self.columns[name], added]}
            backfill = {f"{name}.{added}": "7"} if fill else {}
            if self.change(wanted, crash=crash, backfill=backfill):
                self.columns[name].append(added)
                for row in self.rows[name].values():
                    row[added] = 7 if fill else None

    @rule(data=st.data(), crash=st.integers(0, 40), hard=st.booleans())
    def drop_property(self, data: st.DataObject, crash: int, *, hard: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)))
        if self.columns[name]:
            gone = data.draw(st.sampled_from(self.columns[name]))
            left = [each for each in self.columns[name] if each != gone]
            if self.change({**self.columns, name: left}, crash=crash, hard=hard):
                self.columns[name] = left
                for row in self.rows[name].values():
                    del row[gone]

    def change(
        self,
        wanted: dict[str, list[str]],
        *,
        crash: int,
        hard: bool = False,
        renamed: dict[str, str] | None = None,
        backfill: dict[str, str] | None = None,
    ) -> bool:
        """Change the schema, perhaps dying on the way. Did it come into force?"""
        text = spell(wanted, renamed or {})
        order = SchemaRequest(text, allow_data_loss=hard, backfill=backfill or {})
        fault = CrashAt(crash, When.BEFORE) if crash else None
        with suppress(Crash):
            self.open(fault).apply_schema(order)
        self.open().refresh()
        return self.open().schema_source == text

    # maintenance

    @rule(keep=st.integers(1, 3), crash=st.integers(0, 20))
    def clean(self, keep: int, crash: int) -> None:
        order = CleanupRequest(RetentionPolicy(keep), is_confirmed=True, debris_age_ms=-60_000)
        with suppress(Crash):
            self.open(CrashAt(crash, When.BEFORE) if crash else None).cleanup(order)

    @rule(crash=st.integers(0, 20))
    def optimize(self, crash: int) -> None:
        with suppress(Crash):
            self.open(CrashAt(crash, When.BEFORE) if crash else None).optimize()
        self.open().refresh()

    # what must hold

    @invariant()
    def all_is_well(self) -> None:
        graph = self.open()
        findings = [str(each) for each in graph.examine(is_deep=True)]
        assert findings == []
        snapshot, tables = graph.snapshot(), stores_at(self.root).tables
        shown: dict[str, Rows] = {}
        for name in self.columns:
            rows = tables.read(graph.open_table(snapshot, TableKey(f"node:{name}"))).to_pylist()
            shown[name] = {
                row["key"]: {each: row[each] for each in self.columns[name]} for row in rows
            }
            assert snapshot.pins[TableKey(f"edge:{name}Link")].row_count == self.edges[name]
        assert shown == self.rows
        assert len(snapshot.pins) == 2 * len(self.columns)


def spell(columns: dict[str, list[str]], renamed: dict[str, str] | None = None) -> str:
    """The schema of these types and properties."""
    lines = []
    for name, properties in sorted(columns.items()):
        old = (renamed or {}).get(name)
        hint = "" if old is None else f' @rename_from("{old}")'
        edge_hint = "" if old is None else f' @rename_from("{old}Link")'
        body = "  ".join(f"{each}: I64?" for each in properties)
        lines.append(f"node {name}{hint} {{ key: String @key  {body} }}")
        lines.append(f"edge {name}Link: {name} -> {name}{edge_hint}")
    return "\n".join(lines) + "\n"


TestSchemaMachine = SchemaMachine.TestCase
TestSchemaMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
