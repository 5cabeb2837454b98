"""Starting without pandas.

Arrow looks for pandas the first time it builds an array, and importing pandas takes longer than
everything else we import. We never hand it a pandas object. So in processes that are ours alone,
commands and the workers they start, it is told once that there is none. A program that imports us
as a library is left as it is: there Arrow and pandas may be used together.
"""

import os
import sys
from typing import Final

LEAN: Final = "OMNIGRAPH_LEAN"
"""Set by the command, and inherited by every process it starts."""


class _NoPandas:
    """Finds that there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def forgo_pandas() -> None:
    """If the process is ours alone. Whoever imports pandas later still gets it."""
    if os.environ.get(LEAN) != "1" or "pandas" in sys.modules:
        return
    import pyarrow as pa  # noqa: PLC0415 - only now is it wanted

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
