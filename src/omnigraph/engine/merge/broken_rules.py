"""Rules of the schema that the merged graph would break, resolved by the side that was chosen.

Each branch obeys the schema by itself. So a broken rule holds again once every row that breaks it
is as one branch has it. That can break another rule, so the merged graph is checked again. A row
is decided at most once; breaches that no decision covers remain as conflicts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from omnigraph.engine.merge.check import MergedGraph
from omnigraph.engine.merge.classify import ConflictKind
from omnigraph.engine.merge.conflicts import Conflict, RuleBreach
from omnigraph.engine.merge.plan_rows import amend, show_sides
from omnigraph.engine.merge.rulings import Rulings, Side
from omnigraph.engine.merge.table_plan import PlanDraft, Sides, TablePlan
from omnigraph.ids import TableKey, Version

ROUNDS_MAX: Final = 100
"""How often the merged graph is checked. In a chain of rows that take over each other's unique
value, each row needs one round. Breaches left after the last round are reported as conflicts."""


@dataclass(frozen=True, slots=True)
class BrokenRules:
    merged: MergedGraph
    plans: dict[TableKey, TablePlan]
    """The plans of the merged graph; this class amends them."""
    rulings: Rulings
    sides_of: Callable[[TableKey], Sides]
    decided: dict[TableKey, dict[str, Side]] = field(default_factory=dict)
    """The rows that were set to one side because of a broken rule."""

    @property
    def reads(self) -> dict[TableKey, Version]:
        """Every table of the target that was read, and its version."""
        pins = self.merged.manifest.pins
        return {**self.merged.asked, **{key: pins[key].version for key in self.decided}}

    def resolve(self) -> Iterator[Conflict]:
        """Amend the plans by the chosen sides; return the conflicts that are left."""
        breaches = self.merged.find_breaches()
        for _ in range(ROUNDS_MAX):
            chosen = self._choose(breaches)
            if not chosen:
                break
            for key, rows in chosen.items():
                self._amend(key, rows)
            breaches = self.merged.find_breaches()
        return self._show([each.conflict for each in breaches])

    def _choose(self, breaches: Sequence[RuleBreach]) -> dict[TableKey, dict[str, Side]]:
        """For each undecided row of a breach, the side it shall be set to."""
        chosen: dict[TableKey, dict[str, Side]] = {}
        for breach in breaches:
            side = self.rulings.side_for(breach.conflict)
            if side is None:
                continue
            for key, row_id in breach.rows:
                known = self.decided.setdefault(key, {})
                if row_id not in known and row_id not in self.rulings.rows.get(key, {}):
                    known[row_id] = chosen.setdefault(key, {})[row_id] = side
        return chosen

    def _amend(self, key: TableKey, rows: Mapping[str, Side]) -> None:
        plan = self.plans.get(key) or PlanDraft().plan(self.sides_of(key))
        amended = amend(self.merged.tables, plan, rows)
        self.plans.pop(key, None)
        if not amended.is_empty:
            self.plans[key] = amended

    def _show(self, conflicts: Sequence[Conflict]) -> Iterator[Conflict]:
        by_table: dict[TableKey, list[Conflict]] = {}
        for each in conflicts:
            if each.kind is ConflictKind.CARDINALITY_VIOLATION:
                yield each  # it concerns the edges of a node, not one row
            else:
                by_table.setdefault(each.table, []).append(each)
        for key, some in by_table.items():
            yield from show_sides(self.merged.tables, self.sides_of(key), some)
