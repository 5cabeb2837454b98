"""The totals of texts that are written down with a table: counted once, and carried along.

A score needs to know how many texts a column has and how many terms they hold (`query.texts`). That
is kept for each fragment, by its identity, which never changes. Compaction changes no row, so what
it puts together holds what it held: of a group of fragments that became one, the sum is the answer.
If they became several, all but the largest are counted and the largest has the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.engine.search.postings import NONE, Totals
from omnigraph.engine.search.texts import (
    KeptTexts,
    TextColumn,
    read_totals,
    spell_totals,
    totals_key,
)
from omnigraph.engine.tables.metered import Metered
from omnigraph.storage.tables import (
    Handle,
    Mark,
    Staged,
    StagedCompaction,
    Tables,
    TableSettings,
    TableStats,
)


def find_uncounted(columns: Iterable[str], handle: Handle, anatomy: TableStats) -> tuple[str, ...]:
    """Those of the columns whose totals are not written down for all of the table."""
    identities = {each.identity for each in anatomy.fragments}
    return tuple(
        each for each in columns if not identities <= read_totals(handle.config, each).keys()
    )


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a fragment holds: what some held together, without what others hold of that now."""

    whole: Totals
    others: tuple[str, ...]

    def find(self, known: Mapping[str, Totals]) -> Totals:
        rest = self.whole
        for each in self.others:
            rest = Totals(rest.texts - known[each].texts, rest.terms - known[each].terms)
        return rest


Place = tuple[str, str]
"""The path of a table, and a column."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Totals of fragments of several tables, as they become known in the course of one run."""

    tables: Tables
    counted: dict[Place, dict[str, Totals]] = field(default_factory=dict)
    rests: dict[Place, dict[str, _Rest]] = field(default_factory=dict)
    """Of fragments that a compaction made."""

    def count(self, handle: Handle, anatomy: TableStats, columns: Iterable[str]) -> None:
        """Read the texts of fragments that nobody counted yet. Holds whoever writes meanwhile."""
        for column in columns:
            known = self._known(handle, column)
            missing = [each for each in anatomy.fragments if each.identity not in known]
            known.update(self._texts(handle, column).count(missing))

    def carry_over(
        self,
        handle: Handle,
        anatomy: TableStats,
        columns: Iterable[str],
        compaction: StagedCompaction,
    ) -> None:
        """Told of a compaction of `handle`, before it is committed."""
        identities = {each.fragment_id: each.identity for each in anatomy.fragments}
        for column in columns:
            known = self._known(handle, column)
            rests = self.rests.setdefault((handle.ref.path, column), {})
            for group in compaction.groups:
                before = [identities[each] for each in group.before]
                if group.after and all(each in known for each in before):
                    whole = sum((known[each] for each in before), NONE)
                    rests[group.after[-1]] = _Rest(whole, group.after[:-1])

    def stage(self, columns: tuple[str, ...], handle: Handle, mark: Mark) -> Staged:
        """Write the totals of all fragments down. Only what is not known is counted."""
        fragments = self.tables.inspect(handle).fragments
        config: dict[str, str | None] = {}
        for column in columns:
            known = self._known(handle, column)
            rests = self.rests.get((handle.ref.path, column), {})
            unknown = [each for each in fragments if each.identity not in known]
            missing = [each for each in unknown if each.identity not in rests]
            known.update(self._texts(handle, column).count(missing))
            for each in unknown:
                if each.identity in rests:
                    known[each.identity] = rests[each.identity].find(known)
            kept = {each.identity: known[each.identity] for each in fragments}
            config[totals_key(column)] = spell_totals(kept)
        return self.tables.stage_settings(handle, TableSettings(config=config), mark)

    def _known(self, handle: Handle, column: str) -> dict[str, Totals]:
        known = self.counted.setdefault((handle.ref.path, column), {})
        known.update(read_totals(handle.config, column))
        return known

    def _texts(self, handle: Handle, column: str) -> TextColumn:
        """Of a table that may be large: nothing of it is kept."""
        return TextColumn(Metered(self.tables, handle), column, kept=KeptTexts(0))
