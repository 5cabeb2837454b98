"""Traces: a span for each request, off by default.

`OMNIGRAPH_TRACING=otel` uses OpenTelemetry as the process configures it. The package is not a
dependency of ours; without it the server refuses to start. Spans name routes, never parameters.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self

from omnigraph.errors import ConfigInvalid

TRACING: Final = "OMNIGRAPH_TRACING"
OTEL: Final = "otel"
CALLER: Final = "traceparent"


class TraceSpan(Protocol):
    def set_attribute(self, name: str, value: str | int) -> None:
        """Set an attribute of the span."""
        ...

    def rename(self, name: str) -> None: ...


class Silent:
    def set_attribute(self, name: str, value: str | int) -> None: ...
    def rename(self, name: str) -> None: ...


Tracer = Callable[[str, Mapping[str, str]], AbstractContextManager[TraceSpan]]
"""Opens a span with a name, as a child of the caller's span in the headers."""


def untraced(name: str, caller: Mapping[str, str]) -> AbstractContextManager[TraceSpan]:  # noqa: ARG001
    return nullcontext(Silent())


def find_tracer(environment: Mapping[str, str]) -> Tracer:
    """Raises ConfigInvalid."""
    backend = environment.get(TRACING, "").lower()
    if backend in ("", "off", "0", "false"):
        return untraced
    if backend != OTEL:
        raise ConfigInvalid(TRACING, reason=f"it is '{OTEL}' or off, not '{backend}'")
    try:
        return _OpenTelemetry()
    except ImportError:
        raise ConfigInvalid(TRACING, reason="the package opentelemetry-api is missing") from None


class _OpenTelemetry:
    def __init__(self) -> None:
        trace: Any = import_module("opentelemetry.trace")
        self._propagate: Any = import_module("opentelemetry.propagate")
        self._tracer = trace.get_tracer("omnigraph")
        self._kind = trace.SpanKind.SERVER

    def __call__(self, name: str, caller: Mapping[str, str]) -> AbstractContextManager[TraceSpan]:
        context = self._propagate.extract(dict(caller))
        return _Opened(self._tracer.start_as_current_span(name, context=context, kind=self._kind))


class _Opened:
    """A span of OpenTelemetry behind `TraceSpan`."""

    def __init__(self, opening: AbstractContextManager[Any]) -> None:
        self._opening = opening
        self._span: Any = None

    def __enter__(self) -> Self:
        self._span = self._opening.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._opening.__exit__(kind, error, trace)

    def set_attribute(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)
