"""The request and the answer of each provider, and the vectors of the mock."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from omnigraph.embed.settings import EmbedSettings, Provider

_BITS: Final = (1 << 64) - 1
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


class Purpose(StrEnum):
    """What a vector is for. Some models make different vectors for the two."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    url: str
    headers: Mapping[str, str]
    body: Mapping[str, object]


def build_request(
    settings: EmbedSettings, text: str, dimension: int, purpose: Purpose
) -> EmbeddingRequest:
    key = settings.key or ""
    match settings.provider:
        case Provider.OPENAI_COMPATIBLE | Provider.OPENAI:
            return EmbeddingRequest(
                f"{settings.base_url}/embeddings",
                {"Authorization": f"Bearer {key}"},
                {"model": settings.model, "input": [text], "dimensions": dimension},
            )
        case Provider.GEMINI:
            return EmbeddingRequest(
                f"{settings.base_url}/models/{settings.model}:embedContent",
                {"x-goog-api-key": key},
                {
                    "model": f"models/{settings.model}",
                    "content": {"parts": [{"text": text}]},
                    "taskType": f"RETRIEVAL_{purpose.value.upper()}",
                    "outputDimensionality": dimension,
                },
            )
        case Provider.MOCK:
            raise AssertionError("the mock has no request")
        case _:
            assert_never(settings.provider)


def read_vector(provider: Provider, document: object) -> list[float] | None:
    """The vector in an answer; None if there is none."""
    match document:
        case {"data": [{"embedding": [*values]}, *_]} if provider is not Provider.GEMINI:
            pass
        case {"embedding": {"values": [*values]}} if provider is Provider.GEMINI:
            pass
        case _:
            return None
    are_numbers = all(isinstance(each, int | float) for each in values)
    return [float(each) for each in values] if are_numbers else None


def read_error(document: object) -> str | None:
    """The error message in an answer; None if it is not in a known place."""
    match document:
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case [{"error": {"message": str(message)}}, *_]:
            return message
        case _:
            return None


def mock_vector(text: str, dimension: int) -> list[float]:
    """A vector that depends on the text alone and means nothing. Not normalised yet.

    The 64-bit FNV-1a hash of the text seeds a generator (xorshift64: 13, 7, 17), whose numbers are
    mapped to -1 to 1.
    """
    state = _FNV_OFFSET
    for byte in text.encode():
        state = ((state ^ byte) * _FNV_PRIME) & _BITS
    values = []
    for _ in range(dimension):
        state ^= (state << 13) & _BITS
        state ^= state >> 7
        state ^= (state << 17) & _BITS
        values.append(state / _BITS * 2 - 1)
    return values
