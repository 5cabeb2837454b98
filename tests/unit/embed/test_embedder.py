"""A provider is asked as it wants to be asked, patiently, and no key is ever shown."""

import json
import logging
import math
from collections.abc import Callable

import httpx
import pytest

from omnigraph.effects import Effects
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.providers import Purpose, mock_vector
from omnigraph.embed.settings import EmbedSettings, Provider, read_settings
from omnigraph.errors import (
    ConfigInvalid,
    EmbedderMissing,
    EmbeddingFailed,
    EmbeddingModelMismatch,
)

KEY = "sk-very-secret"
Answer = Callable[[httpx.Request], httpx.Response]


class Clock:
    """Time passes only by waiting."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.waits: list[int] = []

    def sleep_ms(self, duration_ms: int) -> None:
        self.waits.append(duration_ms)
        self.now_ms += duration_ms

    @property
    def effects(self) -> Effects:
        return Effects(
            now_ms=lambda: self.now_ms,
            monotonic_ms=lambda: self.now_ms,
            sleep_ms=self.sleep_ms,
            new_id=lambda: "0" * 26,
        )


def embedder(answer: Answer, clock: Clock | None = None, **environment: str) -> Embedder:
    settings = read_settings({"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY, **environment})
    return Embedder(
        settings, effects=(clock or Clock()).effects, transport=httpx.MockTransport(answer)
    )


def answering(*answers: httpx.Response | Exception) -> tuple[Answer, list[httpx.Request]]:
    asked: list[httpx.Request] = []
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return given

    return answer, asked


def vector(*values: float) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"embedding": list(values)}]})


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def test_without_settings_an_openai_compatible_provider_is_asked() -> None:
    settings = read_settings({"OPENAI_API_KEY": "b", "OPENROUTER_API_KEY": "a"})
    assert settings == EmbedSettings(key="a")
    assert settings.base_url == "https://openrouter.ai/api/v1"
    assert settings.model == "openai/text-embedding-3-large"
    assert (settings.deadline_ms, settings.timeout_ms) == (60_000, 30_000)
    assert (settings.attempts, settings.backoff_ms) == (4, 200)


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_the_mock_may_be_forced(word: str) -> None:
    chosen = {"OMNIGRAPH_EMBEDDINGS_MOCK": word, "OMNIGRAPH_EMBED_PROVIDER": "gemini"}
    assert read_settings(chosen).provider is Provider.MOCK


def test_the_first_key_that_is_set_counts() -> None:
    assert read_settings({"OPENROUTER_API_KEY": "", "OPENAI_API_KEY": "b"}).key == "b"
    assert read_settings({"OMNIGRAPH_EMBED_PROVIDER": "gemini", "OPENAI_API_KEY": "b"}).key is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_EMBED_PROVIDER", "opnai"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "soon"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "0"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "-1"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "1.5"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_settings({name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def test_an_openai_compatible_provider_is_asked_for_the_dimension() -> None:
    answer, asked = answering(vector(3.0, 4.0))
    found = embedder(answer, OMNIGRAPH_EMBED_BASE_URL="https://example.test/v1/").embed("fox", 2)
    assert found == pytest.approx((0.6, 0.8))
    (request,) = asked
    assert str(request.url) == "https://example.test/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(request.content) == {
        "model": "openai/text-embedding-3-large",
        "input": ["fox"],
        "dimensions": 2,
    }


@pytest.mark.parametrize(
    ("purpose", "task"),
    [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
def test_gemini_is_told_what_the_vector_is_for(purpose: Purpose, task: str) -> None:
    answer, asked = answering(httpx.Response(200, json={"embedding": {"values": [0, 2]}}))
    made = embedder(answer, OMNIGRAPH_EMBED_PROVIDER="gemini").embed("fox", 2, purpose=purpose)
    assert made == (0.0, 1.0)
    (request,) = asked
    assert request.url.path == "/v1beta/models/gemini-embedding-2:embedContent"
    assert request.headers["x-goog-api-key"] == KEY
    body = json.loads(request.content)
    assert (body["taskType"], body["outputDimensionality"]) == (task, 2)
    assert body["content"] == {"parts": [{"text": "fox"}]}


def test_the_same_text_is_asked_for_once() -> None:
    answer, asked = answering(vector(1.0, 0.0), vector(0.0, 1.0))
    asking = embedder(answer)
    assert asking.embed("fox", 2) == asking.embed("fox", 2) == (1.0, 0.0)
    assert asking.embed("hare", 2) == (0.0, 1.0)
    assert len(asked) == 2


def test_a_provider_without_a_key_is_not_asked() -> None:
    asking = Embedder(read_settings({}))
    with pytest.raises(EmbedderMissing, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        asking.embed("fox", 2)


def test_vectors_of_two_models_are_not_compared() -> None:
    answer, asked = answering()
    with pytest.raises(EmbeddingModelMismatch) as caught:
        embedder(answer).embed("fox", 2, "other-model")
    assert (caught.value.declared, caught.value.configured) == (
        "other-model",
        "openai/text-embedding-3-large",
    )
    assert asked == []


# ── patience ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.Response(429, json={"error": {"message": "slow down"}}),
        httpx.Response(503, text="<html>"),
        httpx.ReadTimeout("late"),
        httpx.ConnectError("refused"),
    ],
)
def test_passing_trouble_is_waited_out(trouble: httpx.Response | Exception) -> None:
    answer, asked = answering(trouble, trouble, vector(1.0, 0.0))
    clock = Clock()
    assert embedder(answer, clock).embed("fox", 2) == (1.0, 0.0)
    assert clock.waits == [200, 400]
    assert len(asked) == 3


def test_lasting_trouble_is_reported_with_how_often_it_was_tried() -> None:
    trouble = httpx.Response(500, json={"error": "broken"})
    answer, asked = answering(*[trouble] * 9)
    with pytest.raises(EmbeddingFailed, match="HTTP 500: broken") as caught:
        embedder(answer, OMNIGRAPH_EMBED_RETRY_ATTEMPTS="3").embed("fox", 2)
    assert (caught.value.attempts, len(asked)) == (3, 3)


def test_the_deadline_ends_the_waiting() -> None:
    trouble = httpx.Response(429)
    answer, asked = answering(*[trouble] * 9)
    clock = Clock()
    with pytest.raises(EmbeddingFailed, match="deadline of 500 ms"):
        embedder(
            answer,
            clock,
            OMNIGRAPH_EMBED_DEADLINE_MS="500",
            OMNIGRAPH_EMBED_RETRY_ATTEMPTS="9",
        ).embed("fox", 2)
    assert (clock.waits, len(asked)) == ([200], 2)


def test_no_deadline_is_no_deadline() -> None:
    answer, _ = answering(*[httpx.Response(429)] * 3, vector(1.0))
    clock = Clock()
    asking = embedder(
        answer,
        clock,
        OMNIGRAPH_EMBED_DEADLINE_MS="0",
        OMNIGRAPH_EMBED_RETRY_BACKOFF_MS="100000",
    )
    assert asking.embed("fox", 1) == (1.0,)


@pytest.mark.parametrize(
    "address",
    ["x://[", "file:///etc/passwd", "embedder:8080", "https://", "https://ada:pw@example.test/v1"],
)
def test_the_key_is_sent_to_a_web_address_only(address: str) -> None:
    with pytest.raises(ConfigInvalid, match="no http or https address") as refused:
        read_settings({"OPENAI_API_KEY": KEY, "OMNIGRAPH_EMBED_BASE_URL": address})
    assert KEY not in str(refused.value)


def test_a_provider_that_redirects_is_not_followed() -> None:
    away = httpx.Response(307, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
    answer, asked = answering(away)
    with pytest.raises(EmbeddingFailed, match="HTTP 307"):
        embedder(answer).embed("fox", 2)
    assert len(asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_final(status: int) -> None:
    answer, asked = answering(httpx.Response(status, json={"error": {"message": "no"}}))
    with pytest.raises(EmbeddingFailed, match=f"HTTP {status}: no"):
        embedder(answer).embed("fox", 2)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (vector(1.0), "1 numbers instead of 2"),
        (vector(0.0, 0.0), "no direction"),
        (httpx.Response(200, json={"data": []}), "holds no vector"),
        (httpx.Response(200, json={"data": [{"embedding": ["x", "y"]}]}), "holds no vector"),
        (httpx.Response(200, text="hello"), "holds no vector"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(given: httpx.Response, reason: str) -> None:
    answer, _ = answering(given)
    with pytest.raises(EmbeddingFailed, match=reason):
        embedder(answer).embed("fox", 2)


def test_no_key_is_ever_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer, _ = answering(httpx.Response(401, json={"error": {"message": f"bad key {KEY}"}}))
    asking = embedder(answer)
    with pytest.raises(EmbeddingFailed) as caught:
        asking.embed("fox", 2)
    assert "bad key ***" in str(caught.value)
    assert KEY not in f"{caught.value!r} {vars(caught.value)} {asking.settings!r} {caplog.text}"


# ── the mock ─────────────────────────────────────────────────────────────────────────────────────


def test_the_mock_is_the_same_everywhere() -> None:
    made = Embedder(EmbedSettings(Provider.MOCK, "", "")).embed("foobar", 4)
    assert math.isclose(math.hypot(*made), 1.0)
    state = 0x85944171F73967E8  # what the authors of FNV-1a say it makes of "foobar"
    numbers = []
    for _ in range(4):
        state ^= (state << 13) & (2**64 - 1)
        state ^= state >> 7
        state ^= (state << 17) & (2**64 - 1)
        numbers.append(state / (2**64 - 1) * 2 - 1)
    assert mock_vector("foobar", 4) == numbers
    assert made[0] / made[1] == pytest.approx(numbers[0] / numbers[1])


def test_the_mock_passes_for_any_model_unless_it_is_given_one() -> None:
    assert Embedder(EmbedSettings(Provider.MOCK, "", "")).embed("fox", 2, "any")
    with pytest.raises(EmbeddingModelMismatch):
        Embedder(EmbedSettings(Provider.MOCK, "", "one")).embed("fox", 2, "other")
