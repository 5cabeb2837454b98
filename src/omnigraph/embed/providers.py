"""How each provider is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.embed.settings import EmbedSettings, Provider


class Purpose(StrEnum):
    """What a vector is for; some models make different ones."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    url: str
    headers: Mapping[str, str]
    body: Mapping[str, object]


def ask(settings: EmbedSettings, text: str, dimension: int, purpose: Purpose) -> EmbeddingRequest:
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
            raise AssertionError("the mock is not asked")
        case _:
            assert_never(settings.provider)


def read_vector(provider: Provider, document: object) -> list[float] | None:
    """The numbers of an answer; None if it holds none."""
    match document:
        case {"data": [{"embedding": [*values]}, *_]} if provider is not Provider.GEMINI:
            pass
        case {"embedding": {"values": [*values]}} if provider is Provider.GEMINI:
            pass
        case _:
            return None
    are_numbers = all(isinstance(each, int | float) for each in values)
    return [float(each) for each in values] if are_numbers else None


def read_complaint(document: object) -> str | None:
    """What a provider says is wrong, if it says so in the usual place."""
    match document:
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case [{"error": {"message": str(message)}}, *_]:
            return message
        case _:
            return None
