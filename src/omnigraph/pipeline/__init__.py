"""The data pipeline: bulk work on Spark, handed back as receipts.

The driver never holds rows and the workers never commit. A worker reads a piece of the input,
checks it, writes files that nothing refers to yet, and returns what is left to say about them. Two
things therefore cannot happen: a task that is retried cannot leave anything but files nobody reads,
and the memory of the driver does not grow with the input.

In reading order: `session` starts Spark, late and once, `lost` notices its end, `equipment` what
its workers lack; `sources` cuts input into splits; `records` reads lines and says exactly what is
wrong with them; `columns` reads many lines at once, and only those that are beyond doubt; `ingest`
is what a worker does with a split, and `answers` what all of them said; `keysets` are the keys that
come in and those that are there, `checks` the questions that span rows, asked of them; `merge` has
rows written that wait aside; `load` puts them together and fulfils `engine.load.bulk`.
`branch_merge` fulfils `engine.merge.workers`.

The other way round, `export` writes what a snapshot shows to files, and `datasource` reads it as a
DataFrame: `shapes` says which columns that has.
"""

from typing import TYPE_CHECKING

from omnigraph.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from omnigraph.pipeline.datasource import register as register

__all__ = ["SparkSettings", "register"]


def __getattr__(name: str) -> object:
    """`register`, which needs Spark, without bringing Spark to whoever wants the rest."""
    if name == "register":
        from omnigraph.pipeline.datasource import register  # noqa: PLC0415 - brings Spark along

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
