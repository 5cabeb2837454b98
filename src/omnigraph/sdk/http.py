"""Asking a server, and asking again when no answer came.

1. Every write carries an idempotency key, so a lost answer is asked for again without doing
   anything twice.
2. What the server says is wrong is raised here as the very error it was there.
3. The token is in no message and no representation.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx

from omnigraph.effects import REAL, Effects
from omnigraph.errors import OmnigraphError, ServerAnswerInvalid, ServerUnreachable
from omnigraph.wire.causes import read_cause
from omnigraph.wire.problems import Problem

RETRIES_MAX: Final = 4
BACKOFF_MS: Final = 100
TIMEOUT_S: Final = 600.0
CONNECT_TIMEOUT_S: Final = 10.0

_AGAIN: Final = frozenset({429, 502, 504})
"""Answers after which the same request is worth sending again."""


class Connection:
    """One graph on a server. Safe to share among threads."""

    def __init__(self, url: str, *, token: str | None = None, effects: Effects = REAL) -> None:
        self.url = url.rstrip("/")
        self._effects = effects
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._client = httpx.Client(headers=headers, timeout=timeout)

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def close(self) -> None:
        self._client.close()

    def new_key(self) -> str:
        return self._effects.new_id()

    def get(self, path: str, params: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Raises the error the server tells of, ServerUnreachable, ServerAnswerInvalid."""
        return self._ask("GET", path, params=_given(params or {}))

    def post(
        self, path: str, body: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._ask("POST", path, json=_given(body), headers=dict(headers or {}))

    def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        if_commit: str | None = None,
    ) -> dict[str, Any]:
        """(1) Change something; if no key is given, one is made up."""
        headers = {"Idempotency-Key": key or self.new_key()}
        if if_commit is not None:
            headers["Omnigraph-If-Graph-Commit"] = if_commit
        more = {} if body is None else {"json": _given(body)}
        return self._ask(method, path, headers=headers, **more)

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Once, and again while there is hope."""
        for retries_left in reversed(range(1 + RETRIES_MAX)):
            try:
                answer = self._client.request(method, self.url + path, **more)
            except httpx.TransportError as error:
                if not retries_left:
                    reason = str(error) or type(error).__name__
                    raise ServerUnreachable(self.url, reason=reason) from error
            else:
                if not retries_left or answer.status_code not in _AGAIN:
                    return self._read(answer)
            self._effects.sleep_ms(BACKOFF_MS << (RETRIES_MAX - retries_left))
        raise AssertionError("the last round returns or raises")

    def send(self, path: str, *, params: Mapping[str, object], **more: Any) -> dict[str, Any]:
        """One request that is not sent again, because its body is gone by then."""
        try:
            answer = self._client.post(self.url + path, params=_given(params), **more)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise ServerUnreachable(self.url, reason=reason) from error
        return self._read(answer)

    @contextmanager
    def stream(
        self, path: str, body: Mapping[str, object], accept: str
    ) -> Iterator[Iterator[bytes]]:
        """A long answer, in pieces."""
        try:
            headers = {"Accept": accept}
            with self._client.stream(
                "POST", self.url + path, json=_given(body), headers=headers
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise self._problem(answer)
                yield answer.iter_bytes()
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise ServerUnreachable(self.url, reason=reason) from error

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.is_error:
            raise self._problem(answer)
        try:
            document = answer.json()
        except ValueError as error:
            raise self._invalid(answer, "not JSON") from error
        if not isinstance(document, dict):
            raise self._invalid(answer, "not an object")
        return document

    def _problem(self, answer: httpx.Response) -> OmnigraphError:
        """(2) What the server said is wrong."""
        try:
            told = Problem.model_validate_json(answer.content)
        except ValueError:
            return self._invalid(answer, answer.text[:200] or answer.reason_phrase)
        if told.cause is not None:
            error = read_cause(told.error, told.cause.code, told.cause.facts)
            if error is not None:
                return error
        return self._invalid(answer, told.error)

    def _invalid(self, answer: httpx.Response, reason: str) -> ServerAnswerInvalid:
        return ServerAnswerInvalid(self.url, status=answer.status_code, reason=reason)


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def _given(values: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
