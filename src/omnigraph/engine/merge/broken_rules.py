"""Rules of the schema that the merged graph would break, and what to do where a side was chosen.

Either branch obeys the rules. So one that is broken holds again once all rows that break it are as
one branch has them. That may break another rule, and the graph is judged anew. A row that was
decided about stays so; where nothing is left to decide, the rest is told.
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
"""How often the merged graph is judged. Of rows that take a value over from each other, one after
the other, each needs a round; what is left then is told as a conflict."""


@dataclass(frozen=True, slots=True)
class BrokenRules:
    merged: MergedGraph
    plans: dict[TableKey, TablePlan]
    """Those of the merged graph; amended here."""
    rulings: Rulings
    sides_of: Callable[[TableKey], Sides]
    decided: dict[TableKey, dict[str, Side]] = field(default_factory=dict)
    """The rows that are as one side has them because of a rule."""

    @property
    def reads(self) -> dict[TableKey, Version]:
        """Every table of the target that was looked at."""
        pins = self.merged.manifest.pins
        return {**self.merged.asked, **{key: pins[key].version for key in self.decided}}

    def resolve(self) -> Iterator[Conflict]:
        """Amend the plans by what was decided; the conflicts that are left."""
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
        """Whose rows are to stand, of those that nobody has decided about yet."""
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
                yield each  # it is about the edges of a node, not about a row
            else:
                by_table.setdefault(each.table, []).append(each)
        for key, some in by_table.items():
            yield from show_sides(self.merged.tables, self.sides_of(key), some)
