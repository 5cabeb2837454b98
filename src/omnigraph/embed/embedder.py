"""Embedding one text: ask the provider, wait, ask again.

A timeout, a failed connection, HTTP 429 and HTTP 5xx are followed by another attempt; every other
failure is final. The deadline covers all attempts and the waits between them. Vectors are
normalised, and the last `KEPT_MAX` are cached.
"""

import math
from threading import Lock
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from omnigraph.effects import REAL, Effects
from omnigraph.embed.providers import (
    EmbeddingRequest,
    Purpose,
    build_request,
    mock_vector,
    read_error,
    read_vector,
)
from omnigraph.embed.settings import PRESETS, EmbedSettings, Provider
from omnigraph.errors import EmbedderMissing, EmbeddingFailed, EmbeddingModelMismatch

if TYPE_CHECKING:
    import httpx

    from omnigraph.embed.provider_client import ProviderClient

KEPT_MAX: Final = 256
MESSAGE_LENGTH_MAX: Final = 200


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
        self._client: ProviderClient | None = None
        self._cache: LRUCache[tuple[str, int, Purpose], tuple[float, ...]] = LRUCache(KEPT_MAX)
        self._lock = Lock()

    def embed(
        self,
        text: str,
        dimension: int,
        model: str | None = None,
        purpose: Purpose = Purpose.QUERY,
    ) -> tuple[float, ...]:
        """A vector of length one. `model` is the model that the schema declares, if any.

        Raises EmbeddingModelMismatch, EmbedderMissing, EmbeddingFailed.
        """
        self.check(model)
        key = (text, dimension, purpose)
        with self._lock:
            cached = self._cache.get(key)
        if cached is not None:
            return cached
        values, attempts = self._values(text, dimension, purpose)
        vector = self._normalised(values, dimension, attempts)
        with self._lock:
            self._cache[key] = vector
        return vector

    def check(self, model: str | None) -> None:
        """Check that this embedder can use the model.

        Raises EmbeddingModelMismatch, EmbedderMissing.
        """
        settings = self.settings
        if model is not None and settings.model and model != settings.model:
            raise EmbeddingModelMismatch(declared=model, configured=settings.model)
        if settings.provider is not Provider.MOCK and settings.key is None:
            names = " or ".join(PRESETS[settings.provider].keys)
            raise EmbedderMissing(settings.provider, reason=f"set {names}")

    def _values(self, text: str, dimension: int, purpose: Purpose) -> tuple[list[float], int]:
        """The vector of the provider, and the number of attempts."""
        if self.settings.provider is Provider.MOCK:
            return mock_vector(text, dimension), 1
        return self._ask_with_retries(build_request(self.settings, text, dimension, purpose))

    def _normalised(self, values: list[float], dimension: int, attempts: int) -> tuple[float, ...]:
        if len(values) != dimension:
            reason = f"it answered with {len(values)} numbers instead of {dimension}"
            raise self._failure(reason, attempts)
        length = math.sqrt(math.fsum(each * each for each in values))
        if not math.isfinite(length) or length == 0:
            raise self._failure("it answered with a vector that has no direction", attempts)
        return tuple(each / length for each in values)

    def _ask_with_retries(self, request: EmbeddingRequest) -> tuple[list[float], int]:
        settings, effects = self.settings, self._effects
        started_ms = effects.monotonic_ms()
        for attempt in range(1, settings.attempts + 1):
            left_ms = settings.deadline_ms - (effects.monotonic_ms() - started_ms)
            timeout_ms = settings.timeout_ms
            if settings.deadline_ms:
                timeout_ms = max(1, min(timeout_ms, left_ms))
            answer = self._try(request, timeout_ms, attempt)
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

    def _try(self, request: EmbeddingRequest, timeout_ms: int, attempt: int) -> list[float] | str:
        """The vector, or the reason for another attempt."""
        from omnigraph.embed import provider_client  # noqa: PLC0415 - most never ask, and it takes a while

        with self._lock:
            if self._client is None:
                self._client = provider_client.ProviderClient(self._transport)
        match self._client.ask(request, timeout_ms=timeout_ms):
            case provider_client.ProviderAnswer(document):
                values = read_vector(self.settings.provider, document)
                if values is None:
                    raise self._failure("its answer holds no vector", attempt)
                return values
            case provider_client.ProviderUnavailable(reason, document):
                said = read_error(document)
                return self._hidden(reason if said is None else f"{reason}: {said}")
            case provider_client.ProviderRefused(status, document):
                said = read_error(document) or "it does not say why"
                raise self._failure(self._hidden(f"HTTP {status}: {said}"), attempt)

    def _failure(self, reason: str, attempts: int) -> EmbeddingFailed:
        return EmbeddingFailed(self.settings.provider, reason=reason, attempts=attempts)

    def _hidden(self, text: str) -> str:
        """A message of the provider, shortened, with the key replaced if the message repeats it."""
        key = self.settings.key
        shown = text.replace(key, "***") if key else text
        return shown[:MESSAGE_LENGTH_MAX]
