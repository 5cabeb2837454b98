"""Prepared reads: checked once, run often with other parameters."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from omnigraph.commit.manifest.snapshot import ManifestSnapshot

Answer_co = TypeVar("Answer_co", covariant=True)
Run = Callable[..., Answer_co]
"""`query` of a graph, for one program."""


@dataclass(frozen=True, slots=True)
class PreparedRead(Generic[Answer_co]):
    """A read that was checked: `statement({"lo": 2})` or `statement(lo=2)` runs it.

    It runs by the schema of the state that it reads; only another schema makes it be checked and
    planned again.
    """

    name: str
    """The name of the query."""
    run: Run[Answer_co]

    def __call__(
        self,
        params: Mapping[str, object] | None = None,
        /,
        *,
        branch: str | None = None,
        commit: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
        **values: object,
    ) -> Answer_co:
        """Run it; where and how is said as for `query`. Raises what `query` raises.

        A parameter that is called like one of the keywords is given in `params`.
        """
        given = {**(params or {}), **values} if values else params
        return self.run(
            given,
            branch=branch,
            commit=commit,
            snapshot=snapshot,
            version=version,
            at=at,
            timeout=timeout,
        )


class AsyncPreparedRead(PreparedRead[Coroutine[Any, Any, Answer_co]]):
    """A read that was checked, on a server: `await statement(lo=2)` runs it."""
