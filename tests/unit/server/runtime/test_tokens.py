"""Tokens: who they stand for, and that nothing else tells them."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest

from omnigraph.errors import ConfigInvalid, Unauthorized
from omnigraph.server.runtime.tokens import FILE, INLINE, SINGLE, read_tokens

SECRET = "correct horse"


def test_each_token_stands_for_its_actor(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"ada": " one ", "bo": "two"}))
    tokens = read_tokens({FILE: str(file), SINGLE: "three", INLINE: '{"eve": "four"}'})
    assert tokens.resolve("Bearer one") == "ada"
    assert tokens.resolve("Bearer two ") == "bo"
    assert tokens.resolve("Bearer three") == "default"
    with pytest.raises(Unauthorized, match="invalid bearer token"):
        tokens.resolve("Bearer four")  # the file is used instead


@pytest.mark.parametrize("header", [None, "", "one", "bearer one", "Basic one", "Bearer"])
def test_without_a_bearer_token_nobody_is_known(header: str | None) -> None:
    with pytest.raises(Unauthorized, match="missing bearer token"):
        read_tokens({SINGLE: "one"}).resolve(header)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"ada": "{SECRET}", "ada": "x"}}',
        f'{{"ada": "{SECRET}", "bo": "{SECRET}"}}',
        f'{{"ada": "{SECRET}", "bo": " "}}',
        f'{{"": "{SECRET}"}}',
        f'["{SECRET}"]',
        f'{{"ada": "{SECRET}"',
        f'{{"ada": ["{SECRET}", 7]}}',
        f'{{"ada": ["{SECRET}", "{SECRET}"]}}',
        '{"ada": []}',
        f'{{"ada": {{"token": "{SECRET}"}}}}',
        f'{{"ada": "sha256:{SECRET}"}}',
    ],
)
def test_bad_tokens_are_refused_and_never_repeated(text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read_tokens({INLINE: text})
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_actor_uses_the_new_token_before_the_old_one_is_taken_away() -> None:
    tokens = read_tokens({INLINE: '{"ada": ["new", "old"], "bo": "other"}'})
    assert [tokens.resolve(f"Bearer {each}") for each in ("new", "old")] == ["ada", "ada"]


def test_a_file_may_hold_the_hash_of_a_token() -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    tokens = read_tokens({INLINE: json.dumps({"ada": f"sha256:{digest.upper()}"})})
    assert tokens.resolve(f"Bearer {SECRET}") == "ada"
    for guess in (digest, f"sha256:{digest}"):
        with pytest.raises(Unauthorized):
            tokens.resolve(f"Bearer {guess}")


def test_every_hash_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    compare = hmac.compare_digest

    def watch(given: str, digest: str) -> bool:
        compared.append(digest)
        return compare(given, digest)

    tokens = read_tokens({INLINE: '{"ada": "one", "bo": "two", "eve": "three"}'})
    monkeypatch.setattr(hmac, "compare_digest", watch)
    tokens.resolve("Bearer one")
    assert compared == list(tokens.digests)


def test_nothing_that_is_kept_holds_the_text_of_a_token() -> None:
    tokens = read_tokens({SINGLE: SECRET})
    assert SECRET not in repr(tokens) + str(dict(tokens.digests))
    assert "digests" not in repr(tokens)
