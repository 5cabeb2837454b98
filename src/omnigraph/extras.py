"""Optional libraries: a part of the package that needs one says which extra installs it."""

from importlib.util import find_spec

from omnigraph.errors import ExtraMissing


def require(package: str, *, extra: str) -> None:
    """Raises ExtraMissing, before an import would fail with a traceback."""
    if find_spec(package) is None:
        raise ExtraMissing(package, extra=extra)
