"""Starting without pandas.

Arrow looks for pandas the first time it builds an array, and importing pandas takes longer than
everything else we import; we never hand it a pandas object. So Arrow is told that there is none.
Whoever imports pandas later has both: Arrow is told again, as soon as pandas is there.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PANDAS = "pandas"


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        del path, target
        if name == PANDAS:
            raise ModuleNotFoundError(name=name)


class _Watch(MetaPathFinder):
    """Finds pandas where it is, and has Arrow told when it was imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != PANDAS:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = _Telling(found.loader)
                return found
        return None


class _Telling(Loader):
    """Loads as the loader does that it stands for, and tells Arrow."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on nobody need know that we were there.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        import pyarrow as pa  # noqa: PLC0415 - it was imported long ago

        _ = pa.lib._pandas_api.pd  # noqa: SLF001 - asking for it makes Arrow look again


@contextmanager
def without_pandas() -> Iterator[None]:
    """What is imported inside finds no pandas, unless it is there already."""
    if PANDAS in sys.modules:
        yield
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def guard_pandas() -> None:
    """Have Arrow look for it now, and find none, until somebody imports it."""
    if PANDAS in sys.modules:
        return
    with without_pandas():
        import pyarrow as pa  # noqa: PLC0415 - only now is it wanted

        pa.array([])
    sys.meta_path.insert(0, _Watch())
