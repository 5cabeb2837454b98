"""Asking a provider, waiting, and asking again.

Worth another attempt are silence, a connection that fails, too many requests (429) and trouble on
the other side (5xx); everything else is final. The deadline covers all attempts and the waits
between them. Vectors are normalised. The last ones are kept, since the same question is often
asked twice.
"""

import math
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from omnigraph.effects import REAL, Effects
from omnigraph.embed.mock import mock_vector
from omnigraph.embed.providers import EmbeddingRequest, Purpose, ask, read_complaint, read_vector
from omnigraph.embed.settings import PRESETS, EmbedSettings, Provider
from omnigraph.errors import EmbedderMissing, EmbeddingFailed, EmbeddingModelMismatch

if TYPE_CHECKING:
    import httpx

    from omnigraph.embed.provider_client import ProviderClient

KEPT_MAX: Final = 256
COMPLAINT_LENGTH_MAX: Final = 200


class Embedder:
    """One provider. Safe to share among threads."""

    def __init__(
        self,
        settings: EmbedSettings,
        *,
        effects: Effects = REAL,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        self.settings = settings
        self._effects = effects
        self._transport = transport
        self._line: ProviderClient | None = None
        self._kept: OrderedDict[tuple[str, int, Purpose], tuple[float, ...]] = OrderedDict()
        self._lock = Lock()

    def embed(
        self,
        text: str,
        dimension: int,
        model: str | None = None,
        purpose: Purpose = Purpose.QUERY,
    ) -> tuple[float, ...]:
        """A vector of length one, by the model that is asked for, if one is.

        Raises EmbeddingModelMismatch, EmbedderMissing, EmbeddingFailed.
        """
        self.check(model)
        key = (text, dimension, purpose)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        values, attempts = self._values(text, dimension, purpose)
        vector = self._normalised(values, dimension, attempts)
        with self._lock:
            self._kept[key] = vector
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return vector

    def check(self, model: str | None) -> None:
        """Could texts be embedded by this model?

        Raises EmbeddingModelMismatch, EmbedderMissing.
        """
        settings = self.settings
        if model is not None and settings.model and model != settings.model:
            raise EmbeddingModelMismatch(declared=model, configured=settings.model)
        if settings.provider is not Provider.MOCK and settings.key is None:
            names = " or ".join(PRESETS[settings.provider].keys)
            raise EmbedderMissing(settings.provider, reason=f"set {names}")

    def _values(self, text: str, dimension: int, purpose: Purpose) -> tuple[list[float], int]:
        """What the provider answers, and how often it was asked."""
        if self.settings.provider is Provider.MOCK:
            return mock_vector(text, dimension), 1
        return self._persist(ask(self.settings, text, dimension, purpose))

    def _normalised(self, values: list[float], dimension: int, attempts: int) -> tuple[float, ...]:
        if len(values) != dimension:
            reason = f"it answered with {len(values)} numbers instead of {dimension}"
            raise self._failure(reason, attempts)
        length = math.sqrt(math.fsum(each * each for each in values))
        if not math.isfinite(length) or length == 0:
            raise self._failure("it answered with a vector that has no direction", attempts)
        return tuple(each / length for each in values)

    # asking

    def _persist(self, request: EmbeddingRequest) -> tuple[list[float], int]:
        settings, effects = self.settings, self._effects
        started_ms = effects.monotonic_ms()
        for attempt in range(1, settings.attempts + 1):
            left_ms = settings.deadline_ms - (effects.monotonic_ms() - started_ms)
            patience_ms = settings.timeout_ms
            if settings.deadline_ms:
                patience_ms = max(1, min(patience_ms, left_ms))
            answer = self._try(request, patience_ms, attempt)
            if not isinstance(answer, str):
                return answer, attempt
            wait_ms = settings.backoff_ms * 2 ** (attempt - 1)
            spent_ms = effects.monotonic_ms() - started_ms
            if settings.deadline_ms and spent_ms + wait_ms >= settings.deadline_ms:
                raise self._failure(
                    f"{answer}; the deadline of {settings.deadline_ms} ms is over", attempt
                )
            if attempt == settings.attempts:
                raise self._failure(answer, attempt)
            effects.sleep_ms(wait_ms)
        raise AssertionError("the last attempt returns or raises")

    def _try(self, request: EmbeddingRequest, patience_ms: int, attempt: int) -> list[float] | str:
        """The numbers, or why it is worth another attempt."""
        from omnigraph.embed import provider_client  # noqa: PLC0415 - most never ask, and it takes a while

        with self._lock:
            if self._line is None:
                self._line = provider_client.ProviderClient(self._transport)
        match self._line.ask(request, timeout_ms=patience_ms):
            case provider_client.Answered(document):
                values = read_vector(self.settings.provider, document)
                if values is None:
                    raise self._failure("its answer holds no vector", attempt)
                return values
            case provider_client.Failed(reason, document):
                complaint = read_complaint(document)
                return self._hidden(reason if complaint is None else f"{reason}: {complaint}")
            case provider_client.ProviderRefused(status, document):
                complaint = read_complaint(document) or "it does not say why"
                raise self._failure(self._hidden(f"HTTP {status}: {complaint}"), attempt)

    def _failure(self, reason: str, attempts: int) -> EmbeddingFailed:
        return EmbeddingFailed(self.settings.provider, reason=reason, attempts=attempts)

    def _hidden(self, text: str) -> str:
        """What a provider said, short, and without our key should it repeat it."""
        key = self.settings.key
        shown = text.replace(key, "***") if key else text
        return shown[:COMPLAINT_LENGTH_MAX]
