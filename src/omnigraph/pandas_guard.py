"""Processes of ours start without pandas (ADR 12).

Arrow imports pandas when it builds its first array, to recognise pandas objects. That import takes
a quarter of a second of processor time and more, and a command never passes Arrow a pandas object.
So a command, and every process that it starts, has Arrow look for pandas while pandas is hidden.

1. Only a process that runs a command of ours hides pandas. Importing omnigraph into another
   program changes nothing in that program: no import hook, and Arrow finds pandas as usual.
2. Pandas is hidden for the length of one call. Later imports of pandas succeed.
3. Code of ours that needs pandas in such a process calls `show_pandas` after importing it.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

PANDAS: Final = "pandas"

OWN_PROCESS: Final = "OMNIGRAPH_OWN_PROCESS"
"""Set in the environment of a command, and inherited by the Java and Python processes below it."""


class _NoPandas(MetaPathFinder):
    """Reports that pandas is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        del path, target
        if name == PANDAS:
            raise ModuleNotFoundError(name=name)


def declare_own_process() -> None:
    """Called by the command line before anything imports Arrow."""
    os.environ[OWN_PROCESS] = "1"


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas inside, in a process of ours that has not imported pandas yet."""
    if OWN_PROCESS not in os.environ or PANDAS in sys.modules:
        yield
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def hide_pandas() -> None:
    """Have Arrow look for pandas now and find none, in a process of ours."""
    if OWN_PROCESS not in os.environ or PANDAS in sys.modules:
        return
    with without_pandas():
        import pyarrow as pa  # noqa: PLC0415 - a program that is not ours may not want Arrow yet

        pa.array([])


def show_pandas() -> None:
    """Have Arrow look for pandas again. Raises ImportError if pandas is not installed."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    _ = pa.lib._pandas_api.pd  # noqa: SLF001 - reading the attribute repeats the search
