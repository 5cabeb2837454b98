"""Running the checks of a rule: queries that must find nothing in the merged graph."""

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.proposals.proposal import ProposalCheck
from omnigraph.engine.query.reading import Reader, ReadView, bind_query
from omnigraph.engine.query.result import ReadTarget
from omnigraph.engine.stages import stage
from omnigraph.errors import InputError, NotFoundError
from omnigraph.ids import CommitId
from omnigraph.lang.source import Source


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of checks, on the merge of two heads."""

    reader: Reader
    catalog: Catalog
    heads: tuple[CommitId, CommitId]
    """Of the source and of the target."""
    now_ms: int

    def run(
        self, checks: Mapping[str, Source | None], merged: ManifestSnapshot
    ) -> tuple[ProposalCheck, ...]:
        """The results in the order of their names. The reader has a cache of its own."""
        view = ReadView(ReadTarget(merged.branch, None), merged, str)
        return tuple(self._run(name, checks[name], view) for name in sorted(checks))

    def _run(self, name: str, source: Source | None, view: ReadView) -> ProposalCheck:
        if source is None:
            return self._result(name, None, f"there is no stored query '{name}' that reads")
        try:
            with stage(f"checking {name}"):
                bound = bind_query(
                    self.reader.queries.of(source, name),
                    self.catalog,
                    view.snapshot,
                    params={},
                    now_ms=self.now_ms,
                    statistics=self.reader.statistics,
                )
                return self._result(name, len(self.reader.execute(bound, self.catalog, view)))
        except (InputError, NotFoundError) as error:
            return self._result(name, None, str(error))

    def _result(self, name: str, count: int | None, reason: str | None = None) -> ProposalCheck:
        return ProposalCheck(name, count, *self.heads, self.now_ms * 1000, reason)
