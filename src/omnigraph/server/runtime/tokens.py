"""Bearer tokens: read once, kept as hashes, compared in constant time.

No object that outlives the reading holds the text of a token, so no log, error or dump can show it.
An actor may have several tokens, so that a new one is used before the old one is taken away. A
token may be written as its hash, so that no file holds a token either.
"""

import hashlib
import hmac
import re
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

HASHED: Final = "sha256:"
"""Before the hexadecimal SHA-256 of a token, where the token itself could stand."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The known tokens: hash → actor."""

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
        for digest, actor in self.digests.items():
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
    names = [str(actor).strip() for actor, _ in document]
    if repeated := next((each for each in names if names.count(each) > 1), None):
        raise ConfigInvalid(origin, reason=f"actor {repeated!r} is there twice")
    return [(str(actor), each) for actor, found in document for each in _read_secrets(found)]


def _read_secrets(found: object) -> list[str]:
    """One token, or several of the same actor; a blank one stands for what is none."""
    listed = found if isinstance(found, list) and found else [found]
    return [each if isinstance(each, str) else "" for each in listed]


def _collect(pairs: list[tuple[str, str]], origin: str) -> Tokens:
    digests: dict[str, str] = {}
    for actor, token in pairs:
        name, secret = actor.strip(), token.strip()
        if not name or not secret:
            raise ConfigInvalid(origin, reason=f"actor {name!r} or its token is blank")
        digest = _read_digest(secret)
        if digest is None:
            reason = f"the token of {name!r} after {HASHED} is no hash of 64 hexadecimal digits"
            raise ConfigInvalid(origin, reason=reason)
        if digest in digests:
            raise ConfigInvalid(origin, reason=f"actor {name!r} has a token that is there twice")
        digests[digest] = name
    return Tokens(digests)


def _read_digest(secret: str) -> str | None:
    if not secret.startswith(HASHED):
        return _digest(secret)
    given = secret.removeprefix(HASHED).lower()
    return given if _HASH.fullmatch(given) else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
