"""The provider, its model and its time limits, read from the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from omnigraph.errors import ConfigInvalid

MOCK: Final = "OMNIGRAPH_EMBEDDINGS_MOCK"
PROVIDER: Final = "OMNIGRAPH_EMBED_PROVIDER"
BASE_URL: Final = "OMNIGRAPH_EMBED_BASE_URL"
MODEL: Final = "OMNIGRAPH_EMBED_MODEL"
DEADLINE: Final = "OMNIGRAPH_EMBED_DEADLINE_MS"
TIMEOUT: Final = "OMNIGRAPH_EMBED_TIMEOUT_MS"
ATTEMPTS: Final = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF: Final = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"

_TRUE: Final = frozenset({"1", "true", "yes", "on"})


class Provider(StrEnum):
    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    MOCK = "mock"


@dataclass(frozen=True, slots=True)
class Preset:
    """The defaults of a provider."""

    base_url: str
    model: str
    keys: tuple[str, ...]
    """Environment variables for its key; the first one that is set is used."""


PRESETS: Final[Mapping[Provider, Preset]] = {
    Provider.OPENAI_COMPATIBLE: Preset(
        "https://openrouter.ai/api/v1",
        "openai/text-embedding-3-large",
        ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
    ),
    Provider.OPENAI: Preset(
        "https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)
    ),
    Provider.GEMINI: Preset(
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-2",
        ("GEMINI_API_KEY",),
    ),
    Provider.MOCK: Preset("", "", ()),
}


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    provider: Provider = Provider.OPENAI_COMPATIBLE
    base_url: str = PRESETS[Provider.OPENAI_COMPATIBLE].base_url
    model: str = PRESETS[Provider.OPENAI_COMPATIBLE].model
    """Empty for the mock, which stands for every model."""
    key: str | None = field(default=None, repr=False)
    deadline_ms: int = 60_000
    """For a whole call, with all attempts; 0 means no limit."""
    timeout_ms: int = 30_000
    """For one attempt."""
    attempts: int = 4
    backoff_ms: int = 200
    """The wait before the second attempt; doubled before each further one."""


def read_settings(environment: Mapping[str, str]) -> EmbedSettings:
    """Raises ConfigInvalid."""
    provider = _provider(environment)
    preset = PRESETS[provider]
    held = (environment.get(name) for name in preset.keys)
    return EmbedSettings(
        provider=provider,
        base_url=_base_url(environment, preset),
        model=environment.get(MODEL) or preset.model,
        key=next((each for each in held if each), None),
        deadline_ms=_whole(environment, DEADLINE, 60_000, low=0),
        timeout_ms=_whole(environment, TIMEOUT, 30_000, low=1),
        attempts=_whole(environment, ATTEMPTS, 4, low=1),
        backoff_ms=_whole(environment, BACKOFF, 200, low=0),
    )


def _provider(environment: Mapping[str, str]) -> Provider:
    if environment.get(MOCK, "").strip().lower() in _TRUE:
        return Provider.MOCK
    given = environment.get(PROVIDER) or Provider.OPENAI_COMPATIBLE
    try:
        return Provider(given.strip().lower())
    except ValueError:
        known = ", ".join(Provider)
        raise ConfigInvalid(PROVIDER, reason=f"'{given}' is none of {known}") from None


def _base_url(environment: Mapping[str, str], preset: Preset) -> str:
    """Raises ConfigInvalid: the key of the provider is sent there."""
    given = environment.get(BASE_URL)
    if not given:
        return preset.base_url
    try:
        found = urlsplit(given)
        is_web = found.scheme in ("http", "https") and bool(found.hostname)
    except ValueError:
        is_web = False
    if not is_web or "@" in found.netloc or found.query or found.fragment:
        reason = "it is no http or https address without a user, a query and a fragment"
        raise ConfigInvalid(BASE_URL, reason=reason)
    return given.rstrip("/")


def _whole(environment: Mapping[str, str], name: str, default: int, *, low: int) -> int:
    given = environment.get(name)
    if not given:
        return default
    if not given.strip().isdigit() or int(given) < low:
        raise ConfigInvalid(name, reason=f"'{given}' is not a whole number of at least {low}")
    return int(given)
