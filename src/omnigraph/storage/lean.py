"""Starting without pandas.

Arrow looks for pandas the first time it builds an array, and importing pandas takes longer than
everything else we import. We never hand it a pandas object. So in processes that are ours alone,
commands and the workers they start, it is told once that there is none. A program that imports us
as a library is left as it is: there Arrow and pandas may be used together.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LEAN: Final = "OMNIGRAPH_LEAN"
"""Set by the command, and inherited by every process it starts."""


class _NoPandas:
    """Finds that there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _is_lean() -> bool:
    return os.environ.get(LEAN) == "1" and "pandas" not in sys.modules


@contextmanager
def without_pandas() -> Iterator[None]:
    """If the process is ours alone, what is imported inside finds no pandas. Whoever imports it
    later still gets it.
    """
    if not _is_lean():
        yield
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def forgo_pandas() -> None:
    """If the process is ours alone, have Arrow look for it now, and remember that there is none."""
    if not _is_lean():
        return
    with without_pandas():
        import pyarrow as pa  # noqa: PLC0415 - only now is it wanted

        pa.array([])
