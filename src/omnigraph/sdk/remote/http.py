"""Asking a server, and asking again when no answer came.

1. Every write carries an idempotency key, so a lost answer is asked for again without doing
   anything twice.
2. What the server says is wrong is raised here as the very error it was there.
3. The token is in no message and no representation.
4. A write is not reported failed if an earlier try of it may have come through.

`AsyncConnection` has the rules; a `Transport` sends. `ServerConnection` is the same connection for
callers that block.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import httpx

from omnigraph.effects import REAL, Effects
from omnigraph.engine.cancellation import check_timeout
from omnigraph.errors import (
    OmnigraphError,
    QueryTimeout,
    ServerAnswerInvalid,
    ServerUnreachable,
    UsageError,
)
from omnigraph.jsontext import read_json
from omnigraph.sdk.remote.blocking import blocking
from omnigraph.sdk.remote.transport import (
    CONNECT_TIMEOUT_S,
    AsyncTransport,
    BlockingTransport,
    Transport,
)
from omnigraph.wire.causes import read_cause
from omnigraph.wire.media import MESSAGE
from omnigraph.wire.problems import Problem

RETRIES_MAX: Final = 4
BACKOFF_MS: Final = 100
GRACE_S: Final = 5.0
"""How much longer than a read may take its answer is waited for."""

KEY: Final = "Idempotency-Key"

UNSURE: Final = 503
_HEADER: Final = re.compile(r"[!-~]+")
_AGAIN: Final = frozenset({429, 502, 504})
"""Answers after which the same request is worth sending again."""


class AsyncConnection:
    """One graph on a server, by a transport."""

    def __init__(self, url: str, transport: Transport, effects: Effects = REAL) -> None:
        self.url = url.rstrip("/")
        self._transport = transport
        self._effects = effects

    def __repr__(self) -> str:
        return f"AsyncConnection({self.url!r})"

    async def close(self) -> None:
        await self._transport.close()

    def new_key(self) -> str:
        return self._effects.new_id()

    async def get(self, path: str, params: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Raises the error the server tells of, ServerUnreachable, ServerAnswerInvalid."""
        return self._read(await self._ask("GET", path, params=_given(params or {})))

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Ask something that takes a body, and changes nothing."""
        return self._read(await self._ask("POST", path, json=_given(body)))

    async def fetch(
        self,
        method: str,
        path: str,
        accept: str,
        *,
        params: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        patience_s: float | None = None,
    ) -> bytes:
        """An answer in another form than JSON, whole.

        Raises QueryTimeout if it does not come in the time that the server was given for it.
        """
        more: dict[str, Any] = {} if body is None else {"json": _given(body)}
        if patience_s is not None:
            patience_s = check_timeout(patience_s)
            more["timeout"] = httpx.Timeout(patience_s + GRACE_S, connect=CONNECT_TIMEOUT_S)
        headers = {"Accept": accept}
        try:
            answer = await self._ask(
                method, path, params=_given(params or {}), headers=headers, **more
            )
        except ServerUnreachable as error:
            if patience_s is not None and isinstance(error.__cause__, httpx.ReadTimeout):
                raise QueryTimeout(patience_s) from error
            raise
        if answer.is_error:
            raise self._problem(answer)
        return answer.content

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object],
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """An answer with its headers; it may say no."""
        return await self._ask(method, path, params=_given(params), headers=dict(headers or {}))

    def problem(self, answer: httpx.Response) -> OmnigraphError:
        """The error that an answer tells of."""
        return self._problem(answer)

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        if_commit: str | None = None,
        message: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        """(1) Change something; if no key is given, one is made up. Raises UsageError."""
        headers = self._headers(key, message)
        if if_commit is not None:
            headers["Omnigraph-If-Graph-Commit"] = _sent(if_commit, "the commit")
        more: dict[str, Any] = {} if body is None else {"json": _given(body)}
        answer = await self._ask(method, path, headers=headers, params=_given(params or {}), **more)
        return self._read(answer)

    async def send(
        self,
        path: str,
        files: Sequence[tuple[str, BinaryIO]],
        *,
        key: str | None = None,
        message: str | None = None,
        params: Mapping[str, object],
    ) -> dict[str, Any]:
        """(1) Change something by files, each with its name."""
        headers = self._headers(key, message)
        parts = [("files", each) for each in files]

        def rewind() -> None:
            for _, file in files:
                file.seek(0)

        answer = await self._ask(
            "POST", path, rewind, headers=headers, params=_given(params), files=parts
        )
        return self._read(answer)

    def _headers(self, key: str | None, message: str | None) -> dict[str, str]:
        headers = {KEY: _sent(key or self.new_key(), "the idempotency key")}
        return headers if message is None else {**headers, MESSAGE: segment(message)}

    async def _ask(
        self, method: str, path: str, prepare: Callable[[], None] | None = None, **more: Any
    ) -> httpx.Response:
        """Once, and again while there is hope.

        (4) Once a request may have been carried out, only an answer that settles it is given.
        """
        unsure: OmnigraphError | None = None
        for retries_left in reversed(range(1 + RETRIES_MAX)):
            if prepare is not None:
                prepare()
            try:
                with _sendable():
                    answer = await self._transport.request(method, self.url + path, **more)
            except httpx.RequestError as error:
                unsure = unsure or self._unreachable(error)
                if "timeout" in more and isinstance(error, httpx.ReadTimeout):
                    raise unsure from error  # its time is over, however often it is asked for
            else:
                is_unsettled = unsure is not None and _is_unsettled(answer)
                if not is_unsettled and not _is_worth_asking_again(answer):
                    return answer
                if answer.status_code == UNSURE:
                    unsure = unsure or self._problem(answer)
                elif not retries_left and not is_unsettled:
                    return answer
            if retries_left:
                await self._transport.pause(BACKOFF_MS << (RETRIES_MAX - retries_left))
        assert unsure is not None, "what is sure was given"
        raise unsure

    def _unreachable(self, error: httpx.RequestError) -> ServerUnreachable:
        unreachable = ServerUnreachable(self.url, reason=str(error) or type(error).__name__)
        unreachable.__cause__ = error
        return unreachable

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        accept: str,
        *,
        params: Mapping[str, object] | None = None,
        json: Mapping[str, object] | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A long answer, in pieces."""
        more: dict[str, Any] = {} if json is None else {"json": _given(json)}
        asked = {"params": _given(params or {}), "headers": {"Accept": accept}, **more}
        transport = self._transport
        try:
            with _sendable():
                answer = await transport.open(method, self.url + path, **asked)
            try:
                if answer.is_error:
                    await transport.read(answer)
                    raise self._problem(answer)
                yield transport.pieces(answer)
            finally:
                await transport.close_answer(answer)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    async def consume(
        self, items: AsyncIterator[bytes], use: Callable[[Iterator[bytes]], None]
    ) -> None:
        """Pass items to a function that blocks, such as one that writes a file."""
        await self._transport.consume(items, use)

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.is_error:
            raise self._problem(answer)
        try:
            document = read_json(answer.content)
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
            reason = answer.text[:200] or answer.reason_phrase
            if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
                return UsageError(f"{self.url} cannot take that: {reason}")
            return self._invalid(answer, reason)
        if told.cause is not None:
            try:
                error = read_cause(
                    told.error, told.cause.code, told.cause.facts, told.merge_conflicts or ()
                )
            except (KeyError, ValueError) as reason:
                return self._invalid(answer, f"{told.error} ({reason})")
            if error is not None:
                return error
        return self._invalid(answer, told.error)

    def _invalid(self, answer: httpx.Response, reason: str) -> ServerAnswerInvalid:
        return ServerAnswerInvalid(self.url, status=answer.status_code, reason=reason)


class ServerConnection:
    """One graph on a server, for callers that block. Safe to share among threads."""

    def __init__(self, url: str, *, token: str | None = None, effects: Effects = REAL) -> None:
        """Raises UsageError for an address or a token that cannot be one."""
        transport = BlockingTransport(_headers_of(url, token), effects)
        self._core = AsyncConnection(url, transport, effects)

    def __repr__(self) -> str:
        return f"ServerConnection({self.url!r})"

    @property
    def url(self) -> str:
        return self._core.url

    @property
    def core(self) -> AsyncConnection:
        """The same connection, whose coroutines never wait."""
        return self._core

    close = blocking(AsyncConnection.close)
    get = blocking(AsyncConnection.get)
    post = blocking(AsyncConnection.post)
    write = blocking(AsyncConnection.write)


def connect_async(
    url: str, *, token: str | None = None, effects: Effects = REAL
) -> AsyncConnection:
    """Raises UsageError for an address or a token that cannot be one."""
    return AsyncConnection(url, AsyncTransport(_headers_of(url, token)), effects)


def _headers_of(url: str, token: str | None) -> dict[str, str]:
    _check_address(url)
    return {} if token is None else {"Authorization": f"Bearer {_sent(token, 'the token')}"}


def _check_address(url: str) -> None:
    """Raises UsageError."""
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{url!r} is no address of a server: {error}") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise UsageError(f"{url!r} is no address of a server: that is http://host or https://host")


@contextmanager
def _sendable() -> Iterator[None]:
    """Raises UsageError for half a character: no encoding has one for a server to be told of."""
    try:
        yield
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise UsageError(f"{half} is half a character, which cannot be sent") from None


def _sent(text: str, what: str) -> str:
    """(3) What a header can carry; the text itself is not repeated. Raises UsageError."""
    if not _HEADER.fullmatch(text):
        raise UsageError(f"{what} has to be letters, digits and signs of ASCII, without spaces")
    return text


def _is_worth_asking_again(answer: httpx.Response) -> bool:
    """(1) A write whose outcome the server does not know is settled by asking again."""
    if answer.status_code != UNSURE:
        return answer.status_code in _AGAIN
    return _is_retryable(answer)


def _is_unsettled(answer: httpx.Response) -> bool:
    """(4) Does it say nothing about what became of an earlier try?"""
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return True
    return answer.is_error and (answer.status_code in _AGAIN or _is_retryable(answer))


def _is_retryable(answer: httpx.Response) -> bool:
    try:
        return Problem.model_validate_json(answer.content).retryable is True
    except ValueError:
        return False


async def whole_lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, cut after newlines only; and what comes after the last one."""
    begun: list[bytes] = []  # of a line; put together once, for a line may be long
    async for piece in pieces:
        whole, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield b"".join((*begun, whole, newline))
            begun.clear()
        begun.append(rest)
    if tail := b"".join(begun):
        yield tail


def segment(name: str) -> str:
    """A name as one segment of a path. Raises UsageError."""
    with _sendable():
        return quote(name, safe="")


def _given(values: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
