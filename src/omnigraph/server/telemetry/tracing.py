"""Traces, for whoever collects them: a span for each request, off unless somebody asks for it.

`OMNIGRAPH_TRACING=otel` uses OpenTelemetry as the process has it configured; the package is not one
of ours, and without it the server refuses to start. Spans name routes, never what was asked.
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
    def note(self, name: str, value: str | int) -> None:
        """Say something more about it."""
        ...

    def rename(self, name: str) -> None: ...


class Silent:
    def note(self, name: str, value: str | int) -> None: ...
    def rename(self, name: str) -> None: ...


Tracer = Callable[[str, Mapping[str, str]], AbstractContextManager[TraceSpan]]
"""A span by its name, inside the one that the headers of its caller name."""


def untraced(name: str, caller: Mapping[str, str]) -> AbstractContextManager[TraceSpan]:  # noqa: ARG001
    return nullcontext(Silent())


def find_tracer(environment: Mapping[str, str]) -> Tracer:
    """Raises ConfigInvalid."""
    wanted = environment.get(TRACING, "").lower()
    if wanted in ("", "off", "0", "false"):
        return untraced
    if wanted != OTEL:
        raise ConfigInvalid(TRACING, reason=f"it is '{OTEL}' or off, not '{wanted}'")
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
    """A span of theirs, with our two words for it."""

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

    def note(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)
