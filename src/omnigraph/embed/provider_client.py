"""The HTTP connection to a provider: one request, one of three outcomes."""

from dataclasses import dataclass
from typing import Final

import httpx

from omnigraph.embed.providers import EmbeddingRequest
from omnigraph.jsontext import read_json

_OK: Final = 200
_TOO_MANY: Final = 429
_THEIR_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """HTTP 200. `document` is None if the body is not JSON."""

    document: object


@dataclass(frozen=True, slots=True)
class ProviderRefused:
    """The provider rejects the request; another attempt is useless."""

    status: int
    document: object


@dataclass(frozen=True, slots=True)
class ProviderUnavailable:
    """No usable answer; another attempt may succeed."""

    reason: str
    document: object = None


Reply = ProviderAnswer | ProviderRefused | ProviderUnavailable


class ProviderClient:
    """Safe to share among threads."""

    def __init__(self, transport: httpx.BaseTransport | None = None) -> None:
        self._client = httpx.Client(transport=transport)

    def ask(self, request: EmbeddingRequest, *, timeout_ms: int) -> Reply:
        try:
            answer = self._client.post(
                request.url,
                headers=dict(request.headers),
                json=dict(request.body),
                timeout=timeout_ms / 1000,
            )
        except httpx.TimeoutException:
            return ProviderUnavailable(f"no answer within {timeout_ms} ms")
        except httpx.TransportError as error:
            return ProviderUnavailable(f"it cannot be reached ({error})")
        except httpx.InvalidURL as error:
            return ProviderRefused(0, {"error": f"{request.url} cannot be asked: {error}"})
        document = _json(answer)
        status = answer.status_code
        if status == _OK:
            return ProviderAnswer(document)
        if status == _TOO_MANY or status >= _THEIR_FAULT:
            return ProviderUnavailable(f"HTTP {status}", document)
        return ProviderRefused(status, document)


def _json(answer: httpx.Response) -> object:
    try:
        return read_json(answer.content)
    except ValueError:
        return None
