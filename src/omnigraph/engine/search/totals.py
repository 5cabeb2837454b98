"""Text totals that a table stores with its indexes: counted once, and carried over compactions.

A BM25 score needs the number of texts of a column and the number of their terms (`texts`). The
table config stores both per fragment, under the identity of the fragment. Compaction changes no
row: if a group of fragments became one, its totals are the sum. If the group became several
fragments, all but the last are counted and the last has the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.postings import NONE, Totals
from omnigraph.engine.search.texts import (
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


def find_uncounted(columns: Iterable[str], handle: Handle, stats: TableStats) -> tuple[str, ...]:
    """The columns for which the table does not store the totals of every fragment."""
    identities = {each.identity for each in stats.fragments}
    return tuple(
        each for each in columns if not identities <= read_totals(handle.config, each).keys()
    )


@dataclass(frozen=True, slots=True)
class _Rest:
    """The totals of a fragment: those of a compacted group, minus those of its other fragments."""

    whole: Totals
    others: tuple[str, ...]

    def find(self, known: Mapping[str, Totals]) -> Totals:
        rest = self.whole
        for each in self.others:
            rest = Totals(rest.texts - known[each].texts, rest.terms - known[each].terms)
        return rest


Place = tuple[str, str]
"""The path of a table, and the name of a column."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Collects the totals of fragments of several tables during one run."""

    tables: Tables
    counted: dict[Place, dict[str, Totals]] = field(default_factory=dict)
    rests: dict[Place, dict[str, _Rest]] = field(default_factory=dict)
    """The totals of fragments that a compaction created."""

    def count(self, handle: Handle, stats: TableStats, columns: Iterable[str]) -> None:
        """Count the texts of fragments without totals. A concurrent write does not change them."""
        for column in columns:
            known = self._known(handle, column)
            missing = [each for each in stats.fragments if each.identity not in known]
            known.update(self._texts(handle, column).count(missing))

    def carry_over(
        self,
        handle: Handle,
        stats: TableStats,
        columns: Iterable[str],
        compaction: StagedCompaction,
    ) -> None:
        """Carry totals over a compaction of `handle` that is not committed yet."""
        identities = {each.fragment_id: each.identity for each in stats.fragments}
        for column in columns:
            known = self._known(handle, column)
            rests = self.rests.setdefault((handle.ref.path, column), {})
            for group in compaction.groups:
                before = [identities[each] for each in group.before]
                if group.after and all(each in known for each in before):
                    whole = sum((known[each] for each in before), NONE)
                    rests[group.after[-1]] = _Rest(whole, group.after[:-1])

    def stage(self, columns: tuple[str, ...], handle: Handle, mark: Mark) -> Staged:
        """Stage the totals of all fragments; only fragments without totals are counted."""
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
        """The texts of a table that may be large, so no postings are cached."""
        return TextColumn(Metered(self.tables, handle), column, kept=KeptTexts(0))
