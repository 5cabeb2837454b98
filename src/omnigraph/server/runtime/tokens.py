"""Bearer tokens: read once, kept as hashes, compared in constant time.

No object that outlives the reading holds the text of a token, so no log, error or dump can show it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.errors import ConfigInvalid, Unauthorized
from omnigraph.jsontext import read_json

SINGLE: Final = "OMNIGRAPH_SERVER_BEARER_TOKEN"
FILE: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
INLINE: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
AWS: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"

DEFAULT_ACTOR: Final = "default"
PREFIX: Final = "Bearer "


@dataclass(frozen=True, slots=True)
class Tokens:
    """The known actors, each with the hash of its token."""

    digests: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.digests)

    def resolve(self, header: str | None) -> str:
        """The actor of an `Authorization` header. Raises Unauthorized."""
        if header is None or not header.startswith(PREFIX):
            raise Unauthorized("missing bearer token")
        given = _digest(header.removeprefix(PREFIX).strip())
        found = None
        # All digests are compared, so that the time taken does not depend on which one matches.
        for actor, digest in self.digests.items():
            if hmac.compare_digest(given, digest):
                found = actor
        if found is None:
            raise Unauthorized("invalid bearer token")
        return found


def read_tokens(environment: Mapping[str, str]) -> Tokens:
    """Raises ConfigInvalid for a blank or repeated actor or token."""
    if environment.get(AWS):
        raise ConfigInvalid(AWS, reason="this build does not read tokens from AWS")
    pairs: list[tuple[str, str]] = []
    origin = SINGLE
    if path := environment.get(FILE):
        origin = FILE
        pairs += _read_pairs(_read_file(path), FILE)
    elif inline := environment.get(INLINE):
        origin = INLINE
        pairs += _read_pairs(inline, INLINE)
    if single := environment.get(SINGLE):
        pairs.append((DEFAULT_ACTOR, single))
    return _collect(pairs, origin)


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(FILE, reason=f"cannot read {path}: {error}") from None


def _read_pairs(text: str, origin: str) -> list[tuple[str, str]]:
    try:
        document = read_json(text, object_pairs_hook=list)
    except ValueError:
        # The text may hold tokens, so the message quotes none of it.
        raise ConfigInvalid(origin, reason="it is not JSON") from None
    if not isinstance(document, list) or not all(isinstance(each, tuple) for each in document):
        raise ConfigInvalid(origin, reason="it must be an object of actors and tokens")
    return [(str(actor), token if isinstance(token, str) else "") for actor, token in document]


def _collect(pairs: list[tuple[str, str]], origin: str) -> Tokens:
    digests: dict[str, str] = {}
    for actor, token in pairs:
        name, secret = actor.strip(), token.strip()
        if not name or not secret:
            raise ConfigInvalid(origin, reason=f"actor {name!r} or its token is blank")
        if name in digests:
            raise ConfigInvalid(origin, reason=f"actor {name!r} is there twice")
        digest = _digest(secret)
        if digest in digests.values():
            raise ConfigInvalid(origin, reason=f"actor {name!r} has another actor's token")
        digests[name] = digest
    return Tokens(digests)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
